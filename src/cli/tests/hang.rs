//! Devices that do not answer: every command ends, shows them as such, and
//! everything else as it is.

use std::time::Duration;

use super::*;
use crate::host::LockMode;
use crate::host::sim::{CallKind, Fault};

/// `vg` hangs on its first disk, `well` does not.
fn half_dead() -> SimHost {
    let sim = machine();
    sim.add_disk("/dev/sdc", 64 * MIB, 512);
    let extents = ExtentSize::new(Sectors(8192)).unwrap();
    sim.add_vg("well", &["/dev/sdc"], extents).unwrap();
    sim.always(Some(CallKind::Read), "/dev/sda", Fault::Hang);
    sim
}

fn impatiently(sim: &SimHost, line: &str) -> Done {
    let short = Duration::from_millis(200);
    let config = EngineConfig {
        lock_deadline: short,
        probe_timeout: short,
        io_timeout: short,
        ..EngineConfig::default()
    };
    run_with_config(sim.host(), config, line, None)
}

#[test]
fn lists_show_a_hung_pv_and_all_others() {
    let sim = half_dead();
    let vgs = impatiently(&sim, "vgs");
    assert_eq!(vgs.status, 0, "{}", vgs.err);
    assert!(
        vgs.out.contains("well") && vgs.out.contains("vg "),
        "{}",
        vgs.out
    );
    assert!(vgs.err.contains("/dev/sda: did not answer"), "{}", vgs.err);
    let pvs = impatiently(&sim, "pvs -a");
    assert_eq!(pvs.status, 0, "{}", pvs.err);
    let line = pvs
        .out
        .lines()
        .find(|line| line.contains("/dev/sda"))
        .unwrap();
    assert!(line.contains("did not answer within"), "{line}");
    assert!(pvs.out.contains("/dev/sdb") && pvs.out.contains("/dev/sdc"));
    sim.unhang();
}

#[test]
fn a_hung_pv_is_a_finding_and_forbids_changes_of_its_vg_only() {
    let sim = half_dead();
    let check = impatiently(&sim, "check");
    assert_eq!(check.status, 5, "{}", check.err);
    assert!(check.out.contains("/dev/sda"), "{}", check.out);
    let refused = impatiently(&sim, "lv create vg -n x -L 4m");
    assert_eq!(refused.status, 7, "{}", refused.err);
    assert!(refused.err.contains("/dev/sda"), "{}", refused.err);
    let made = impatiently(&sim, "lv create well -n x -L 4m");
    assert_eq!(made.status, 0, "{}", made.err);
    let inspect = impatiently(&sim, "inspect /dev/sda");
    assert_eq!(inspect.status, 7, "{}", inspect.err);
    sim.clear_faults();
    sim.unhang();
    assert_eq!(impatiently(&sim, "lv create vg -n x -L 4m").status, 0);
}

#[test]
fn a_change_that_hangs_ends_the_command_and_names_what_it_leaves() {
    let sim = machine();
    sim.on(CallKind::Write, 0, Fault::Hang);
    let hung = impatiently(&sim, "lv create vg -n x -L 4m");
    assert_eq!(hung.status, 7, "{}", hung.err);
    assert!(
        hung.err.contains("left behind in VG vg: write /dev/sda"),
        "{}",
        hung.err
    );
    sim.unhang();
}

#[test]
fn a_lock_that_is_kept_is_a_finding() {
    let sim = machine();
    let other = sim.host();
    let patience = Duration::from_secs(1);
    let lock = other
        .locks
        .lock("V_vg", LockMode::Exclusive, patience)
        .unwrap();
    let check = impatiently(&sim, "check vg");
    assert_eq!(check.status, 5, "{}", check.err);
    assert!(check.out.contains("lock V_vg is held by"), "{}", check.out);
    drop(lock);
    assert_eq!(impatiently(&sim, "check vg").status, 0);
}
