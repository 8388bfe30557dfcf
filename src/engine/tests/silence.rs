//! Devices that do not answer: who is told what, and who keeps which lock.

use std::time::{Duration, Instant};

use super::*;
use crate::error::Kind;
use crate::host::sim::{CallKind, Fault};
use crate::host::{HostError, LockMode};

const PATIENCE: Duration = Duration::from_secs(120);

fn impatient(sim: &SimHost) -> Engine {
    let config = EngineConfig {
        lock_deadline: Duration::from_millis(100),
        probe_timeout: Duration::from_millis(100),
        io_timeout: Duration::from_millis(100),
        ..EngineConfig::default()
    };
    Engine::start(sim.host(), config).unwrap()
}

fn wait_until(mut happens: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happens() {
        assert!(start.elapsed() < PATIENCE, "it does not happen");
        std::thread::yield_now();
    }
}

/// A metadata write that hangs may land at any later time: nobody else may
/// commit anything before it has.
#[test]
fn the_lock_is_kept_until_a_hung_write_has_landed() {
    let sim = machine();
    let engine = impatient(&sim);
    let seqno = engine.vg(&vg()).unwrap().vg.seqno();
    // The first header.
    sim.on(CallKind::Write, 2, Fault::Hang);
    let error = run(&engine, Request::Create(create("x", 4))).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), Kind::DeadlineExceeded, "{text}");
    assert!(
        text.contains("write /dev/sda has been waiting")
            && text.contains("lock V_data has been held"),
        "{text}"
    );
    let second = sim.host();
    let refused = second
        .locks
        .lock("V_data", LockMode::Exclusive, Duration::from_millis(50));
    assert!(matches!(refused, Err(HostError::LockTimeout { .. })));
    // The VG is listed as it was, and says what is wrong with it.
    let outline = engine.outline(&vg()).unwrap();
    assert_eq!(outline.vg.seqno(), seqno);
    assert!(outline.hazards[0].is_silence(), "{:?}", outline.hazards);
    // The name is taken: its creation is under way.
    let found = engine.find(&lv("x")).unwrap_err();
    assert!(matches!(found, EngineError::Stuck { .. }), "{found}");
    assert!(engine.find(&lv("y")).unwrap().is_empty());
    sim.unhang();
    wait_until(|| {
        engine
            .outline(&vg())
            .is_ok_and(|o| o.hazards.is_empty() && o.vg.lv("x").is_some())
    });
    assert_eq!(
        engine.vg(&vg()).unwrap().vg.seqno(),
        seqno + 1,
        "one commit, the hung one"
    );
    assert_eq!(sound_lvs(&sim), ["x"]);
    assert!(
        second
            .locks
            .lock("V_data", LockMode::Exclusive, PATIENCE)
            .is_ok()
    );
}

/// Ending does not wait for a dead device, and says what is left.
#[test]
fn shutdown_leaves_a_hung_worker_behind_and_names_it() {
    let sim = machine();
    let engine = impatient(&sim);
    sim.on(CallKind::Flush, 0, Fault::Hang);
    let _ = run(&engine, Request::Create(create("x", 4))).unwrap_err();
    let left = engine.shutdown();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].0, vg());
    assert!(left[0].1.to_string().contains("flush /dev/sd"), "{left:?}");
    drop(engine);
    assert_eq!(sim.held_locks(), ["V_data"], "its write may still land");
    sim.unhang();
    wait_until(|| sim.held_locks().is_empty());
    assert_eq!(sound_lvs(&sim), ["x"], "what was begun is finished");
}

/// A PV that hangs is not gone: its VG stays known, and is used again when the
/// device answers. The other VG is not held up.
#[test]
fn a_pv_that_stops_answering_keeps_its_vg_known() {
    let sim = machine_with(&["/dev/sda"]);
    sim.add_disk("/dev/sdc", 256 * MIB, 512);
    let extent = ExtentSize::new(Sectors(8192)).unwrap();
    sim.add_vg("other", &["/dev/sdc"], extent).unwrap();
    let engine = impatient(&sim);
    run(&engine, Request::Create(create("x", 4))).unwrap();
    sim.always(Some(CallKind::Read), "/dev/sda", Fault::Hang);
    // A device comes: everything is looked at again.
    sim.add_disk("/dev/sdd", 64 * MIB, 512);
    let report = engine.report().unwrap();
    assert_eq!(report.vgs.len(), 2, "the VG is still shown");
    assert!(
        report.problems.iter().any(|p| p.object == "data"),
        "{:?}",
        report.problems
    );
    assert_eq!(engine.find(&lv("x")).unwrap().len(), 1, "not deleted");
    let error = run(&engine, Request::Create(create("y", 4))).unwrap_err();
    assert_eq!(error.kind(), Kind::DeadlineExceeded, "{error}");
    let other = VgName::new("other").unwrap();
    engine
        .submit(&other, Request::Create(create("z", 4)))
        .wait()
        .unwrap();
    engine.submit(&other, remove("z")).wait().unwrap();
    // A process that starts now cannot know what is there, and says so.
    let fresh = impatient(&sim);
    let error = fresh.outline(&vg()).unwrap_err();
    assert!(matches!(error, EngineError::Unseen { .. }), "{error}");
    assert!(error.to_string().contains("/dev/sda"), "{error}");
    assert_eq!(fresh.silent(), [std::path::PathBuf::from("/dev/sda")]);

    sim.clear_faults();
    sim.unhang();
    wait_until(|| run(&engine, Request::Create(create("y", 4))).is_ok());
    wait_until(|| {
        fresh
            .outline(&vg())
            .is_ok_and(|outline| outline.hazards.is_empty())
    });
    assert_eq!(sound_lvs(&sim), ["x", "y"]);
}

/// A request about an LV whose zeroing hangs is not waited for; one about
/// another LV of the same VG is carried out.
#[test]
fn zeroing_that_hangs_holds_up_its_own_lv_only() {
    let sim = machine();
    let engine = impatient(&sim);
    sim.on(CallKind::Zero, 0, Fault::Hang);
    let error = run(&engine, Request::Create(create_block("raw", 8))).unwrap_err();
    assert!(matches!(error, EngineError::Stuck { .. }), "{error}");
    wait_until(|| run(&engine, Request::Create(create("x", 4))).is_ok());
    assert!(engine.find(&lv("raw")).is_err(), "it is being made");
    let left = engine.shutdown();
    assert_eq!(left.len(), 1, "{left:?}");
    sim.unhang();
    drop(engine);
    wait_until(|| sim.held_locks().is_empty());
    assert_eq!(sound_lvs(&sim), ["raw", "x"]);
}

/// Killed between suspending and resuming a new device: the next start lets it
/// go on.
#[test]
fn a_device_that_a_killed_driver_left_suspended_is_resumed() {
    let sim = machine();
    let engine = impatient(&sim);
    // The first resume makes the hidden device live, the second shows it.
    sim.on(CallKind::DmResume, 1, Fault::Crash);
    let _ = run(&engine, Request::Create(create_block("raw", 8))).unwrap_err();
    let next = impatient(&sim);
    let suspended = |engine: &Engine| {
        let report = engine.vg(&vg()).unwrap();
        report.lvs[0].device.as_ref().unwrap().suspended
    };
    assert!(suspended(&next));
    let recovery = next.recover();
    assert_eq!(recovery.resumed, ["data/raw"], "{recovery:?}");
    assert!(!suspended(&next));
}
