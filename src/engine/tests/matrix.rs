//! Every host call of every operation fails in every way, on one device and on
//! all: nothing is lost, nothing is left over, and a repeat succeeds.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use super::stories::{Story, stories};
use super::texts::one_text_for_each_number;
use super::*;
use crate::host::sim::{Call, CallKind, Fault};

/// How much fails.
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// This call alone.
    One,
    /// And all later ones of its kind, on every device, until it is mended.
    All,
}

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn faults(kind: CallKind) -> Vec<Fault> {
    let mut faults = vec![Fault::Eio, Fault::Enospc, Fault::Hang];
    if kind == CallKind::Write {
        faults.extend([Fault::ShortWrite, Fault::LostAnswer]);
    }
    faults
}

/// The calls of a story when nothing goes wrong.
fn calls(story: &Story) -> Vec<Call> {
    let sim = machine();
    let engine = engine(sim.host());
    (story.before)(&engine);
    sim.clear_calls();
    run(&engine, (story.request)()).unwrap();
    sim.calls()
}

/// Waits for the answer, and lets every call that hangs go on.
fn patiently(sim: &SimHost, engine: &Engine, request: Request) -> Result<LvState, EngineError> {
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| run(engine, request));
        while !answer.is_finished() {
            if sim.hanging() > 0 {
                sim.unhang();
            }
            std::thread::yield_now();
        }
        answer.join().unwrap()
    })
}

/// Waits for what threads do after their answer.
fn eventually(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

struct Trial<'a> {
    story: &'a Story,
    what: String,
    sim: SimHost,
    engine: Engine,
}

impl Trial<'_> {
    fn run(&self, number: u64, kind: CallKind, fault: Fault, reach: Reach) {
        (self.story.before)(&self.engine);
        self.sim.record();
        self.sim.clear_calls();
        match reach {
            Reach::One => self.sim.fail_at(number, fault),
            Reach::All => self.sim.fail_from(number, kind, None, fault),
        }
        let answer = patiently(&self.sim, &self.engine, (self.story.request)());
        self.sim.clear_faults();
        let lvs = self.nothing_lost(&answer);
        self.nothing_left_over();
        self.again(&lvs);
        self.end();
    }

    /// The VG is as before or as asked for, and the answer agrees.
    fn nothing_lost(&self, answer: &Result<LvState, EngineError>) -> Vec<String> {
        let what = &self.what;
        let mut lvs = sound_lvs(&self.sim);
        // A reserve of extents that could not be taken back: the repeat does.
        lvs.retain(|lv| !lv.starts_with("lvcsi_grow_"));
        let names: Vec<&str> = lvs.iter().map(String::as_str).collect();
        match answer {
            Ok(_) => assert_eq!(names, self.story.outcomes[1], "{what}: was granted"),
            Err(error) => {
                let known = self.story.outcomes.contains(&names.as_slice());
                assert!(known, "{what}: {names:?} after {error}");
                let text = error.to_string();
                let named = ["data", "one", "two", "/dev/sd", "/sys/block", "253:"];
                assert!(
                    named.iter().any(|name| text.contains(name)),
                    "{what}: names no object: {text}"
                );
            }
        }
        lvs
    }

    /// No device waits, none holds a table for later.
    fn nothing_left_over(&self) {
        let what = &self.what;
        for entry in self.engine.host().dm.list().unwrap() {
            let device = self.engine.host().dm.by_uuid(&entry.uuid).unwrap().unwrap();
            assert!(!device.suspended, "{what}: {} is suspended", device.name);
            assert!(
                !device.inactive_table,
                "{what}: a stale table waits in {}",
                device.name
            );
            assert!(device.active_table, "{what}: {} is empty", device.name);
        }
    }

    /// The fault is gone: the request is granted, and all copies are written.
    fn again(&self, lvs: &[String]) {
        let what = &self.what;
        match run(&self.engine, (self.story.request)()) {
            Ok(_) => {}
            // A rename that happened finds no old name.
            Err(EngineError::NoSuchLv { .. }) if lvs == ["two"] => {
                run(&self.engine, Request::Activate { name: lv("two") }).unwrap();
            }
            Err(error) => panic!("{what}, again: {error}"),
        }
        assert_eq!(
            sound_lvs(&self.sim),
            self.story.outcomes[1],
            "{what}, again"
        );
        run(&self.engine, Request::Create(create("next", 4))).unwrap();
        let report = self.engine.check(&vg()).unwrap();
        assert_eq!(report, [], "{what}");
        for entry in self.engine.host().dm.list().unwrap() {
            let name = lvm2::name::split_dm_name(&entry.name).map(|(_, lv, _)| lv);
            let name = name.unwrap_or_default();
            assert!(
                sound_lvs(&self.sim).contains(&name),
                "{what}: device {} has an old name",
                entry.name
            );
        }
    }

    /// Locks and files are given back, and no number was used twice.
    fn end(&self) {
        let what = &self.what;
        self.engine.shutdown();
        let sim = &self.sim;
        eventually(&format!("{what}: locks {:?}", sim.held_locks()), || {
            sim.held_locks().is_empty()
        });
        let numbers = one_text_for_each_number(&sim.recorded(), what);
        assert!(!numbers.is_empty(), "{what}: no commit");
    }
}

/// Fails every call of the stories in turn, and tells all that went wrong.
fn every_call(reach: Reach) {
    let mut trials = 0;
    let mut failed = Vec::new();
    for story in stories() {
        for (number, call) in (0_u64..).zip(calls(&story)) {
            for fault in faults(call.kind) {
                trials += 1;
                let trial = || one_trial(&story, number, &call, fault, reach);
                if let Err(panic) = catch_unwind(trial) {
                    failed.push(panic.downcast_ref::<String>().cloned().unwrap_or_default());
                }
            }
        }
    }
    let all = failed.join("\n");
    assert!(failed.is_empty(), "{} of {trials}:\n{all}", failed.len());
    assert!(trials > 500, "only {trials} trials");
}

fn one_trial(story: &Story, number: u64, call: &Call, fault: Fault, reach: Reach) {
    let sim = machine();
    let what = format!(
        "{}: {fault:?} at call {number} ({:?} {}), {reach:?}",
        story.name, call.kind, call.object
    );
    let trial = Trial {
        story,
        what,
        engine: engine(sim.host()),
        sim,
    };
    trial.run(number, call.kind, fault, reach);
    let Trial {
        sim, engine, what, ..
    } = trial;
    let disk = engine.host().block.discover().unwrap().0[0].devno;
    run_down(&sim, engine, disk, &what);
}

/// The engine goes: its files are closed.
fn run_down(sim: &SimHost, engine: Engine, disk: lvm2::tables::DevNo, what: &str) {
    for entry in engine.host().dm.list().unwrap() {
        let dm = &engine.host().dm;
        dm.remove(entry.dev, &entry.name, None).unwrap();
    }
    drop(engine);
    eventually(&format!("{what}: a disk stays open"), || {
        sim.open_count(disk) == 0
    });
}

#[test]
fn one_call_that_fails_in_any_way_loses_nothing() {
    every_call(Reach::One);
}

#[test]
fn a_kind_of_call_that_fails_on_every_device_loses_nothing() {
    every_call(Reach::All);
}
