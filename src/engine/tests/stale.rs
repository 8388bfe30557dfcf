//! PVs that go away and come back with what they held then.

use super::*;
use crate::host::sim::{Call, CallKind, DiskImage, Fault};

/// Everything on a disk that may hold metadata.
fn head(sim: &SimHost, disk: &str) -> Vec<u8> {
    sim.disk(disk).read(0, MIB_LEN)
}

/// Puts the metadata of `image` on the disk of that name, without any event.
fn replace_head(sim: &SimHost, image: &DiskImage) {
    let path = image.info().path.display().to_string();
    sim.disk(&path).write(0, &image.read(0, MIB_LEN));
}

/// Other commits to the VG of this machine, by somebody who sees both disks.
fn elsewhere(sim: &SimHost, change: impl FnOnce(&Engine)) -> SimHost {
    let other = SimHost::with_seed(99);
    for disk in DISKS {
        other.add_image(&sim.disk(disk).image().unwrap());
    }
    let theirs = engine(other.host());
    change(&theirs);
    drop(theirs);
    other
}

#[test]
fn a_pv_that_goes_during_a_commit_comes_back_stale_and_the_next_commit_heals_it() {
    let sim = machine();
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("old", 4))).unwrap();
    // Two texts, then two headers: the disk goes before its header.
    sim.on(CallKind::Write, 3, Fault::Eio);
    run(&engine, Request::Create(create("new", 4))).unwrap();
    sim.detach("/dev/sdb");
    let seqno = engine.vg(&vg()).unwrap().vg.seqno();
    let first = head(&sim, "/dev/sda");
    let error = run(&engine, remove("old")).unwrap_err();
    assert!(matches!(error, EngineError::Hazard { .. }), "{error}");
    assert_eq!(
        head(&sim, "/dev/sda"),
        first,
        "a VG with a missing PV is left alone"
    );
    let stale = head(&sim, "/dev/sdb");
    sim.attach("/dev/sdb");

    assert_eq!(sound_lvs(&sim), ["old", "new"], "the newest copy counts");
    assert_eq!(head(&sim, "/dev/sdb"), stale, "reading writes nothing");
    let problems = engine.check(&vg()).unwrap();
    assert!(
        problems
            .iter()
            .any(|problem| problem.defect.to_string().contains("/dev/sdb")),
        "{problems:?}"
    );
    run(&engine, remove("old")).unwrap();
    let report = engine.check(&vg()).unwrap();
    assert_eq!(report, []);
    assert_eq!(engine.vg(&vg()).unwrap().vg.seqno(), seqno + 1);
    assert_eq!(sound_lvs(&sim), ["new"]);
}

#[test]
fn a_pv_that_missed_commits_of_others_does_not_win() {
    for event in [true, false] {
        let sim = machine();
        let engine = engine(sim.host());
        run(&engine, Request::Create(create("old", 4))).unwrap();
        run(&engine, Request::Deactivate { name: lv("old") }).unwrap();
        let other = elsewhere(&sim, |theirs| {
            run(theirs, remove("old")).unwrap();
            run(theirs, Request::Create(create("theirs", 8))).unwrap();
        });
        if event {
            sim.detach("/dev/sdb");
        }
        // Their commits are on one disk; the other one slept.
        replace_head(&sim, &other.disk("/dev/sda").image().unwrap());
        if event {
            sim.attach("/dev/sdb");
        }
        let stale = head(&sim, "/dev/sdb");
        assert_eq!(sound_lvs(&sim), ["theirs"]);
        let names = |engine: &Engine| {
            let report = engine.vg(&vg()).unwrap();
            let names = report.vg.lvs().iter().map(|lv| lv.name.to_string());
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            names(&engine),
            ["theirs"],
            "by an engine that knew the old VG"
        );
        assert_eq!(head(&sim, "/dev/sdb"), stale, "reading writes nothing");
        let seqno = engine.vg(&vg()).unwrap().vg.seqno();
        run(&engine, Request::Create(create("ours", 4))).unwrap();
        assert_eq!(engine.vg(&vg()).unwrap().vg.seqno(), seqno + 1);
        assert_eq!(engine.check(&vg()).unwrap(), []);
        assert_eq!(sound_lvs(&sim), ["theirs", "ours"]);
    }
}

#[test]
fn two_texts_of_one_number_are_left_alone() {
    let sim = machine();
    let other = elsewhere(&sim, |theirs| {
        run(theirs, Request::Create(create("theirs", 8))).unwrap();
    });
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("ours", 4))).unwrap();
    run(&engine, Request::Deactivate { name: lv("ours") }).unwrap();
    replace_head(&sim, &other.disk("/dev/sdb").image().unwrap());
    let before = DISKS.map(|disk| head(&sim, disk));
    let error = run(&engine, Request::Create(create("more", 4))).unwrap_err();
    assert!(
        error.to_string().contains("vgck --updatemetadata"),
        "{error}"
    );
    assert_eq!(DISKS.map(|disk| head(&sim, disk)), before);
}

#[test]
fn a_device_that_became_another_pv_is_not_written_over() {
    let sim = machine();
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("one", 4))).unwrap();
    // pvcreate on the same device: no event has reached us.
    let other = SimHost::with_seed(5);
    other.add_disk("/dev/sdb", 256 * MIB, 512);
    other.add_pv("/dev/sdb").unwrap();
    let orphan = other.disk("/dev/sdb").image().unwrap();
    sim.disk("/dev/sdb").write(0, &vec![0; MIB_LEN]);
    replace_head(&sim, &orphan);
    let before = DISKS.map(|disk| head(&sim, disk));
    let error = run(&engine, Request::Create(create("two", 4))).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    assert_eq!(DISKS.map(|disk| head(&sim, disk)), before);
}

#[test]
fn a_commit_whose_only_taker_died_is_not_granted() {
    let prepare = || {
        let sim = machine();
        let engine = engine(sim.host());
        run(&engine, Request::Create(create("one", 8))).unwrap();
        sim.clear_calls();
        (sim, engine)
    };
    let (sim, engine) = prepare();
    run(&engine, extend("one", 16)).unwrap();
    let is_header = |call: &Call, disk: &str| {
        call.kind == CallKind::Write && call.offset == 4096 && call.object == disk
    };
    let header = |disk: &str| {
        let calls = sim.calls();
        let number = calls.iter().position(|call| is_header(call, disk));
        u64::try_from(number.unwrap()).unwrap()
    };
    let (first, second) = (header("/dev/sda"), header("/dev/sdb"));
    assert!(first < second);

    // The first disk takes no header; the second takes it, and can never be
    // read again.
    let (sim, engine) = prepare();
    sim.fail_at(first, Fault::Eio);
    sim.fail_from(second, CallKind::Read, Some("/dev/sdb"), Fault::Eio);
    run(&engine, extend("one", 16)).unwrap_err();
    sim.detach("/dev/sdb");
    sim.clear_faults();
    let report = engine.vg(&vg()).unwrap();
    let device = report.lvs[0].device.clone().unwrap();
    assert!(!device.inactive_table && !device.suspended);
    let table = engine.host().dm.table(device.dev, false).unwrap();
    let live: u64 = table.iter().map(|target| target.len.bytes().0).sum();
    assert_eq!(live, 8 * MIB, "as long as the VG on the disk that is left");
}
