//! `pv create|resize|remove` and `vg create|extend|reduce|remove`.

use super::{MIB, fails, machine, ok, run};
use crate::host::Unfit;
use crate::host::sim::SimHost;

/// Two empty disks of 256 MiB.
fn blank() -> SimHost {
    let sim = SimHost::new();
    sim.add_disk("/dev/sda", 256 * MIB, 512);
    sim.add_disk("/dev/sdb", 256 * MIB, 512);
    sim
}

#[test]
fn a_vg_lives_and_dies() {
    let sim = blank();
    let out = ok(sim.host(), "pv create /dev/sda");
    assert_eq!(out, "PV /dev/sda created (256.00m, data from 16.00m on)\n");
    let out = ok(sim.host(), "vg create data /dev/sda --tag fast");
    assert_eq!(
        out,
        "PV /dev/sda added (256.00m, data from 16.00m on)\n\
         VG data created (1 PV(s), 240.00m, extents of 4.00m)\n"
    );
    let out = ok(sim.host(), "vg extend data /dev/sdb --metadata-size 1m");
    assert!(
        out.contains("PV /dev/sdb added (256.00m, data from 2.00m on)"),
        "{out}"
    );
    assert!(ok(sim.host(), "vgs").contains("data   2"));
    ok(sim.host(), "lv create data -n one -L 8m");
    let error = fails(sim.host(), "vg remove data", 5);
    assert!(error.contains("1 LV(s), one first"), "{error}");
    let out = ok(sim.host(), "vg reduce data /dev/sdb");
    assert!(out.contains("VG data reduced (1 PV(s), 240.00m"), "{out}");
    ok(sim.host(), "lv remove data/one --yes");
    let out = ok(sim.host(), "vg remove data");
    assert!(out.contains("VG data removed"), "{out}");
    ok(sim.host(), "pv remove /dev/sda /dev/sdb");
    assert_eq!(ok(sim.host(), "pvs"), "");
}

#[test]
fn a_pv_is_resized() {
    let sim = machine();
    sim.resize_disk("/dev/sda", 128 * MIB);
    let out = ok(sim.host(), "pv resize /dev/sda");
    assert_eq!(
        out,
        "PV /dev/sda resized (128.00m, data from 1.00m on)\n\
         VG vg now (2 PV(s), 184.00m, extents of 4.00m)\n"
    );
    let error = fails(sim.host(), "pv resize /dev/sda --size 1g", 2);
    assert!(error.contains("does not fit"), "{error}");
}

#[test]
fn json_has_lvm2s_names_and_what_was_wiped() {
    let sim = blank();
    sim.disk("/dev/sda").write(4086, b"SWAPSPACE2");
    let error = fails(sim.host(), "vg create data /dev/sda", 5);
    assert!(
        error.contains("/dev/sda holds swap at byte 4086") && error.contains("--yes"),
        "{error}"
    );
    let out = ok(sim.host(), "vg create data /dev/sda --yes -s 1m -o json");
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["vg"]["vg_name"], "data");
    assert_eq!(value["vg"]["vg_extent_count"], 240);
    assert_eq!(value["pvs"][0]["pe_start"], 16 * MIB);
    assert_eq!(value["pvs"][0]["wiped"][0]["type"], "swap");
    assert_eq!(value["pvs"][0]["wiped"][0]["offset"], 4086);
}

#[test]
fn a_dry_run_prints_text_and_steps() {
    let sim = blank();
    let out = ok(sim.host(), "vg create data /dev/sda --dry-run");
    for words in [
        "+data {",
        "take the lock P_global exclusively",
        "invalidate lvm2's hints",
        "/dev/sda: zero bytes 0..2048 (the sectors of labels)",
        "take the lock V_data exclusively",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert_eq!(ok(sim.host(), "vgs"), "");
}

#[test]
fn refusals_have_the_documented_status() {
    let sim = machine();
    sim.add_disk("/dev/sdc", 64 * MIB, 512);
    sim.add_disk("/dev/sdd", 64 * MIB, 512);
    sim.make_unfit("/dev/sdd", Unfit::Mounted("/srv".into()));
    for (line, status, words) in [
        ("pv create /dev/none", 3, "/dev/none"),
        ("pv create /dev/sda --yes", 5, "lvcsi vg reduce vg /dev/sda"),
        ("pv create /dev/sdd --yes", 5, "mounted at /srv"),
        (
            "pv create /dev/sdc --metadata-size 1k",
            2,
            "smaller than the least",
        ),
        ("pv create /dev/sdc --metadata-size x", 2, "not a size"),
        ("pv create", 2, "DEVICE"),
        ("pv remove /dev/sdc", 3, "no PV"),
        ("pv remove /dev/sda", 5, "PV of VG vg"),
        ("vg create vg /dev/sdc", 4, "a VG vg already"),
        ("vg create sdc /dev/sdc", 4, "/dev/sdc exists"),
        ("vg create a/b /dev/sdc", 2, "a/b"),
        ("vg create new /dev/sdc -s 3k", 2, "extent size"),
        ("vg create new /dev/sdc --tag a@b", 2, "a@b"),
        ("vg extend nobody /dev/sdc", 3, "nobody"),
        ("vg reduce vg /dev/sdc", 3, "no PV of VG vg"),
        ("vg remove nobody", 3, "nobody"),
    ] {
        let error = fails(sim.host(), line, status);
        assert!(error.contains(words), "{line}: {error}");
    }
    let reduced = run(sim.host(), "vg reduce vg /dev/sda");
    assert_eq!(reduced.status, 0, "{}", reduced.err);
    let last = fails(sim.host(), "vg reduce vg /dev/sdb", 5);
    assert!(last.contains("remove the VG instead"), "{last}");
}
