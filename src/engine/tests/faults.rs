//! Calls that fail: nothing is lost, and a sequence number is never used twice.

use super::*;
use crate::engine::Recovery;
use crate::host::sim::{CallKind, Fault};

fn header_text(sim: &SimHost, disk: &str) -> Vec<u8> {
    sim.disk(disk).read(4096, 512)
}

#[test]
fn a_failed_text_write_changes_nothing() {
    let sim = machine();
    let engine = engine(sim.host());
    let headers = DISKS.map(|disk| header_text(&sim, disk));
    for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
        for nth in 0..2 {
            sim.on(CallKind::Write, nth, fault);
            let error = run(&engine, Request::Create(create("x", 4))).unwrap_err();
            assert!(matches!(error, EngineError::Commit { .. }), "{error}");
            assert_eq!(DISKS.map(|disk| header_text(&sim, disk)), headers);
        }
    }
    assert!(sound_lvs(&sim).is_empty());
    run(&engine, Request::Create(create("x", 4))).unwrap();
}

#[test]
fn a_commit_that_reaches_one_disk_stands_and_the_next_one_heals_the_other() {
    let sim = machine();
    let engine = engine(sim.host());
    // Two texts, then two headers: the second header fails.
    sim.on(CallKind::Write, 3, Fault::Eio);
    run(&engine, Request::Create(create("x", 4))).unwrap();
    assert_eq!(sound_lvs(&sim), ["x"]);
    let problems = engine.check(&vg()).unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    run(&engine, Request::Create(create("y", 4))).unwrap();
    assert_eq!(engine.check(&vg()).unwrap(), []);
    assert_eq!(sound_lvs(&sim), ["x", "y"]);
}

#[test]
fn a_start_brings_older_copies_up_to_date() {
    let sim = machine();
    let first = engine(sim.host());
    sim.on(CallKind::Write, 3, Fault::Eio);
    run(&first, Request::Create(create("x", 4))).unwrap();
    first.shutdown();

    let second = engine(sim.host());
    assert_eq!(second.check(&vg()).unwrap().len(), 1);
    let recovery = second.recover();
    assert_eq!(recovery.renewed, [vg().to_string()]);
    assert_eq!(second.check(&vg()).unwrap(), []);
    assert_eq!(sound_lvs(&sim), ["x"]);
    assert_eq!(
        second.recover(),
        Recovery::default(),
        "nothing is left to do"
    );
}

#[test]
fn what_changes_nothing_does_not_fail_because_an_older_copy_stays() {
    let sim = machine();
    let engine = engine(sim.host());
    sim.on(CallKind::Write, 3, Fault::Eio);
    run(&engine, Request::Create(create("x", 4))).unwrap();
    for disk in DISKS {
        sim.always(Some(CallKind::Write), disk, Fault::Eio);
    }
    run(&engine, Request::Activate { name: lv("x") }).unwrap();
    assert_eq!(engine.check(&vg()).unwrap().len(), 1);
}

#[test]
fn a_commit_that_reaches_no_disk_is_an_error_and_its_number_is_not_used_again() {
    let sim = machine_with(&["/dev/sda"]);
    let engine = engine(sim.host());
    let seqno = engine.vg(&vg()).unwrap().vg.seqno();
    sim.on(CallKind::Write, 1, Fault::Eio);
    let error = run(&engine, Request::Create(create("x", 4))).unwrap_err();
    assert!(matches!(error, EngineError::Commit { .. }), "{error}");
    run(&engine, Request::Create(create("y", 4))).unwrap();
    assert_eq!(engine.vg(&vg()).unwrap().vg.seqno(), seqno + 2);
    assert_eq!(sound_lvs(&sim), ["y"]);
}

#[test]
fn a_kernel_that_refuses_the_table_leaves_no_lv_and_no_device() {
    for kind in [CallKind::DmCreate, CallKind::DmLoad, CallKind::DmResume] {
        let sim = machine();
        let engine = engine(sim.host());
        sim.on(kind, 0, Fault::Eio);
        run(&engine, Request::Create(create("x", 4))).unwrap_err();
        assert!(sound_lvs(&sim).is_empty(), "{kind:?}");
        run(&engine, Request::Create(create("x", 4))).unwrap();
    }
}

#[test]
fn a_growth_that_the_kernel_refuses_changes_nothing() {
    let sim = machine();
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("x", 4))).unwrap();
    let headers = DISKS.map(|disk| header_text(&sim, disk));
    sim.on(CallKind::DmLoad, 0, Fault::Eio);
    run(&engine, extend("x", 8)).unwrap_err();
    assert_eq!(DISKS.map(|disk| header_text(&sim, disk)), headers);
    // The commit fails: the loaded table goes again.
    sim.on(CallKind::Write, 0, Fault::Eio);
    run(&engine, extend("x", 8)).unwrap_err();
    let device = engine.vg(&vg()).unwrap().lvs[0].device.clone().unwrap();
    assert!(!device.inactive_table && !device.suspended);
    run(&engine, extend("x", 8)).unwrap();
}

#[test]
fn a_zeroing_that_fails_leaves_no_lv() {
    let sim = machine();
    let engine = engine(sim.host());
    sim.on(CallKind::Zero, 0, Fault::Eio);
    let error = run(&engine, Request::Create(create_block("raw", 8))).unwrap_err();
    assert!(matches!(error, EngineError::Host { .. }), "{error}");
    assert!(sound_lvs(&sim).is_empty());
    assert!(engine.host().dm.list().unwrap().is_empty());
}

#[test]
fn a_lock_that_somebody_keeps_costs_the_deadline_only() {
    let sim = machine();
    let config = EngineConfig {
        lock_deadline: std::time::Duration::from_millis(50),
        ..EngineConfig::default()
    };
    let engine = Engine::start(sim.host(), config).unwrap();
    let other = sim.host();
    let lock = other
        .locks
        .lock(
            "V_data",
            crate::host::LockMode::Exclusive,
            std::time::Duration::ZERO,
        )
        .unwrap();
    let error = run(&engine, Request::Create(create("x", 4))).unwrap_err();
    assert_eq!(
        error.kind(),
        crate::error::Kind::DeadlineExceeded,
        "{error}"
    );
    drop(lock);
    run(&engine, Request::Create(create("x", 4))).unwrap();
}
