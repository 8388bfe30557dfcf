//! Death at every call: of the process, and of the machine.

use super::stories::{Story, stories};
use super::*;
use crate::host::sim::{CrashPolicy, Fault};

/// Number of calls that a story makes when nothing goes wrong.
fn length(story: &Story) -> u64 {
    let sim = machine();
    let engine = engine(sim.host());
    (story.before)(&engine);
    sim.clear_calls();
    run(&engine, (story.request)()).unwrap();
    sim.calls().len() as u64
}

/// Runs a story up to call `stop`, lets `disaster` strike, and recovers.
fn interrupted(story: &Story, stop: u64, disaster: impl Fn(&SimHost)) {
    let sim = machine();
    // What a former tenant left, at both ends of where the LV will lie.
    for block in [0, 8 * MIB - 4096] {
        sim.disk(DISKS[0]).write(MIB + block, &[0xa5; 4096]);
    }
    let first = engine(sim.host());
    (story.before)(&first);
    sim.clear_calls();
    sim.fail_at(stop, Fault::Crash);
    let outcome = run(&first, (story.request)());
    disaster(&sim);
    sim.clear_faults();
    let second = engine(sim.host());
    let recovery = second.recover();
    assert_eq!(recovery.problems, [], "{} at {stop}", story.name);
    let lvs = sound_lvs(&sim);
    if !lvs.is_empty() {
        for block in [0, 8 * MIB - 4096] {
            let content = sim.disk(DISKS[0]).read(MIB + block, 4096);
            let clean = content.iter().all(|byte| *byte == 0);
            assert!(clean, "{} at {stop}: old content at {block}", story.name);
        }
    }
    let lvs: Vec<&str> = lvs.iter().map(String::as_str).collect();
    if outcome.is_ok() {
        assert_eq!(
            lvs, story.outcomes[1],
            "{} at {stop} was acknowledged",
            story.name
        );
    } else {
        assert!(
            story.outcomes.contains(&lvs.as_slice()),
            "{} at {stop}: {lvs:?}",
            story.name
        );
    }
    // The caller asks again: a rename that happened finds no old name.
    let again = run(&second, (story.request)());
    match again {
        Ok(_) => {}
        Err(EngineError::NoSuchLv { .. }) if lvs == ["two"] => {}
        Err(error) => panic!("{} at {stop}, again: {error}", story.name),
    }
    let lvs = sound_lvs(&sim);
    assert_eq!(lvs, story.outcomes[1], "{} at {stop}, again", story.name);
    let found = second.check(&vg()).unwrap();
    let tables = found
        .iter()
        .filter(|finding| finding.defect.code().starts_with("table"));
    assert_eq!(tables.count(), 0, "{} at {stop}: {found:?}", story.name);
    // A copy that the death left behind is refreshed by the next commit.
    run(&second, Request::Create(create("next", 4))).unwrap();
    assert_eq!(second.check(&vg()).unwrap(), [], "{} at {stop}", story.name);
}

#[test]
fn pitfall_35_a_process_that_dies_at_any_call_leaves_nothing_that_a_repeat_does_not_mend() {
    let mut points = 0;
    for story in stories() {
        for stop in 0..length(&story) {
            interrupted(&story, stop, SimHost::kill);
            points += 1;
        }
    }
    assert!(points > 100, "only {points} points");
}

#[test]
fn a_power_cut_at_any_call_leaves_the_old_vg_or_the_new_one() {
    let mut points = 0;
    for story in stories() {
        for stop in 0..length(&story) {
            for seed in 0..4 {
                interrupted(&story, stop, |sim| sim.crash(CrashPolicy::Subset { seed }));
                points += 1;
            }
            interrupted(&story, stop, |sim| sim.crash(CrashPolicy::Drop));
            interrupted(&story, stop, |sim| sim.crash(CrashPolicy::Keep));
            points += 2;
        }
    }
    assert!(points > 500, "only {points} points");
}

#[test]
fn an_lv_that_another_process_is_zeroing_is_not_taken_for_a_leftover() {
    let sim = machine();
    let maker = engine(sim.host());
    sim.on(crate::host::sim::CallKind::Zero, 0, Fault::Hang);
    let ticket = maker.submit(&vg(), Request::Create(create_block("slow", 16)));
    let calls = || sim.calls();
    while !calls()
        .iter()
        .any(|call| call.kind == crate::host::sim::CallKind::Zero)
    {
        std::thread::yield_now();
    }
    let other = engine(sim.host());
    assert_eq!(other.recover(), crate::engine::Recovery::default());
    let error = other.submit(&vg(), extend("slow", 32)).wait().unwrap_err();
    assert!(matches!(error, EngineError::Incomplete { .. }), "{error}");
    sim.unhang();
    assert!(ticket.wait().is_ok());
}
