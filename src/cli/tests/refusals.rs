//! VGs to which nothing may be written, from the command line.

use super::{fails, ok, run};
use crate::host::sim::SimHost;
use crate::host::sim::trouble::{self, LV, Trouble, VG};

/// Statuses: of a change that the state of a VG forbids.
const FORBIDDEN: u8 = 5;

#[test]
fn pitfall_30_each_command_that_changes_is_refused_with_the_rule_and_the_cure() {
    for state in trouble::ALL {
        let sim = (state.make)();
        let before = trouble::heads(&sim);
        for line in [
            format!("lv create {VG} -n new -L 4m"),
            format!("lv create {VG} -n new -L 4m --wipe zero --inactive"),
            format!("lv create {VG} -n new -L 4m --dry-run"),
            format!("lv extend {VG}/{LV} -L +4m"),
            format!("lv rename {VG}/{LV} other"),
            format!("lv remove {VG}/{LV} --yes"),
            format!("lv remove {VG}/{LV} --dry-run"),
        ] {
            let error = fails(sim.host(), &line, FORBIDDEN);
            for part in [VG, state.rule, state.cure] {
                assert!(error.contains(part), "{}: {line}: {error}", state.name);
            }
            assert!(
                trouble::heads(&sim) == before,
                "{}: {line} wrote",
                state.name
            );
        }
        activation(&sim, state);
        reading(&sim, state);
        assert!(trouble::heads(&sim) == before, "{}: written", state.name);
    }
}

fn activation(sim: &SimHost, state: &Trouble) {
    let line = format!("lv activate {VG}/{LV}");
    if state.activates {
        ok(sim.host(), &line);
        ok(sim.host(), &format!("lv deactivate {VG}/{LV}"));
    } else {
        let error = fails(sim.host(), &line, FORBIDDEN);
        assert!(error.contains(state.rule), "{}: {error}", state.name);
    }
}

/// Reports end well and warn, `check` finds, `inspect` shows.
fn reading(sim: &SimHost, state: &Trouble) {
    for line in ["pvs -a", "vgs", "lvs", "vgs -o json", "lvs -a -o yaml"] {
        let done = run(sim.host(), line);
        assert_eq!(done.status, 0, "{}: {line}: {}", state.name, done.err);
        assert!(
            done.err.contains("warning"),
            "{}: {line}: {}",
            state.name,
            done.err
        );
        assert!(
            done.err.contains(state.rule),
            "{}: {line}: {}",
            state.name,
            done.err
        );
        let shown = state.found || line.starts_with("pvs");
        assert_eq!(
            done.out.contains(VG) || done.out.contains("/dev/loop1"),
            shown,
            "{line}"
        );
    }
    for line in ["check", &format!("check {VG}")] {
        let done = run(sim.host(), line);
        assert_eq!(
            done.status, FORBIDDEN,
            "{}: {line}: {}",
            state.name, done.err
        );
        assert!(
            done.out.contains(state.rule),
            "{}: {line}: {}",
            state.name,
            done.out
        );
        assert!(
            done.out.contains(state.cure),
            "{}: {line}: {}",
            state.name,
            done.out
        );
    }
    let shown = ok(sim.host(), "inspect /dev/loop0");
    assert!(shown.contains("metadata area"), "{}: {shown}", state.name);
}
