//! Each kind of request, alone.

use super::*;
use crate::engine::wipe::ENDS;

#[test]
fn a_new_lv_is_active_zeroed_at_its_ends_and_committed_once() {
    let sim = machine();
    let dirty = vec![0xa5; 4 * MIB_LEN];
    for part in 1..64 {
        sim.disk("/dev/sda").write(part * 4 * MIB - 3 * MIB, &dirty);
    }
    let engine = engine(sim.host());
    let before = engine.vg(&vg()).unwrap().vg.seqno();
    let made = run(&engine, Request::Create(create("one", 100))).unwrap();
    assert!(made.changed);
    assert_eq!(made.size, Bytes(100 * MIB));
    let report = engine.vg(&vg()).unwrap();
    assert_eq!(report.vg.seqno(), before + 1);
    let device = report.lvs[0].device.as_ref().unwrap();
    assert_eq!(device.name, "data-one");
    let node = engine
        .host()
        .block
        .open_path(made.node.as_deref().unwrap())
        .unwrap();
    let mut end = vec![1; usize::try_from(ENDS).unwrap()];
    for offset in [0, 100 * MIB - ENDS] {
        node.read_at(offset, &mut end).unwrap();
        assert!(end.iter().all(|byte| *byte == 0), "at {offset}");
    }
}

#[test]
fn a_raw_volume_is_zero_from_end_to_end_and_so_is_its_growth() {
    let sim = machine_with(&["/dev/sda"]);
    for part in 1..255 {
        sim.disk("/dev/sda").write(part * MIB, &vec![0x5a; MIB_LEN]);
    }
    let engine = engine(sim.host());
    let made = run(&engine, Request::Create(create_block("raw", 32))).unwrap();
    assert!(!made.tags.iter().any(|tag| tag == tags::INCOMPLETE));
    let other = run(&engine, Request::Create(create("wall", 4))).unwrap();
    assert_eq!(other.size, Bytes(4 * MIB));
    let grown = run(&engine, extend("raw", 64)).unwrap();
    assert_eq!(grown.size, Bytes(64 * MIB));
    let node = engine
        .host()
        .block
        .open_path(grown.node.as_deref().unwrap())
        .unwrap();
    assert_eq!(node.info().size, 64 * MIB);
    let mut content = vec![1; 64 * MIB_LEN];
    node.read_at(0, &mut content).unwrap();
    assert!(content.iter().all(|byte| *byte == 0));
    drop(node);
    assert_eq!(sound_lvs(&sim), ["raw", "wall"]);
}

#[test]
fn growing_keeps_the_content_and_the_device() {
    let sim = machine();
    let engine = engine(sim.host());
    let made = run(&engine, Request::Create(create("db", 8))).unwrap();
    let open = engine
        .host()
        .block
        .open_path(made.node.as_deref().unwrap())
        .unwrap();
    let device = engine.host().block.open(open.info(), true).unwrap();
    device.write_at(5 * MIB, b"kept").unwrap();
    device.flush().unwrap();
    let grown = run(&engine, extend("db", 300)).unwrap();
    assert_eq!((grown.size, grown.dev), (Bytes(300 * MIB), made.dev));
    let mut kept = [0; 4];
    device.read_at(5 * MIB, &mut kept).unwrap();
    assert_eq!(&kept, b"kept");
    let again = run(&engine, extend("db", 200)).unwrap();
    assert_eq!((again.size, again.changed), (Bytes(300 * MIB), false));
}

#[test]
fn removal_takes_the_device_and_the_extents_and_can_be_repeated() {
    let sim = machine();
    let engine = engine(sim.host());
    let free = engine.vg(&vg()).unwrap().vg.free_extents();
    run(&engine, Request::Create(create("gone", 40))).unwrap();
    assert!(run(&engine, remove("gone")).unwrap().changed);
    assert!(!run(&engine, remove("gone")).unwrap().changed);
    assert_eq!(engine.vg(&vg()).unwrap().vg.free_extents(), free);
    assert!(sound_lvs(&sim).is_empty());
    assert!(engine.host().dm.list().unwrap().is_empty());
    let strict = Request::Remove {
        name: lv("gone"),
        must_exist: true,
        require_tag: None,
    };
    assert!(matches!(
        run(&engine, strict),
        Err(EngineError::NoSuchLv { .. })
    ));
}

#[test]
fn an_open_lv_stays() {
    let sim = machine();
    let engine = engine(sim.host());
    let made = run(&engine, Request::Create(create("used", 8))).unwrap();
    let open = engine
        .host()
        .block
        .open_path(made.node.as_deref().unwrap())
        .unwrap();
    let error = run(&engine, remove("used")).unwrap_err();
    assert!(matches!(error, EngineError::InUse { .. }), "{error}");
    assert_eq!(sound_lvs(&sim), ["used"]);
    drop(open);
    run(&engine, remove("used")).unwrap();
}

#[test]
fn a_new_name_reaches_the_device() {
    let sim = machine();
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("old", 8))).unwrap();
    run(
        &engine,
        Request::Rename {
            name: lv("old"),
            to: lv("new"),
        },
    )
    .unwrap();
    let names: Vec<_> = engine
        .host()
        .dm
        .list()
        .unwrap()
        .into_iter()
        .map(|device| device.name)
        .collect();
    assert_eq!(names, ["data-new"]);
    assert_eq!(sound_lvs(&sim), ["new"]);
}

#[test]
fn deactivation_and_activation_leave_the_metadata_alone() {
    let sim = machine();
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("off", 8))).unwrap();
    let seqno = engine.vg(&vg()).unwrap().vg.seqno();
    for _ in 0..2 {
        run(&engine, Request::Deactivate { name: lv("off") }).unwrap();
        assert!(engine.host().dm.list().unwrap().is_empty());
    }
    let first = run(&engine, Request::Activate { name: lv("off") }).unwrap();
    let second = run(&engine, Request::Activate { name: lv("off") }).unwrap();
    assert!(first.changed && !second.changed);
    assert_eq!(first.dev, second.dev);
    assert_eq!(engine.vg(&vg()).unwrap().vg.seqno(), seqno);
}

#[test]
fn tags_that_are_as_wanted_cost_no_commit() {
    let sim = machine();
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("tagged", 8))).unwrap();
    let change = |add: &[&str], remove: &[&str]| Request::Tags {
        name: lv("tagged"),
        add: add.iter().map(|text| tag(text)).collect(),
        remove: remove.iter().map(|text| tag(text)).collect(),
    };
    let state = run(&engine, change(&["lvcsi.fs=ext4"], &["none"])).unwrap();
    assert!(state.changed && state.tags.iter().any(|tag| tag == "lvcsi.fs=ext4"));
    let seqno = engine.vg(&vg()).unwrap().vg.seqno();
    assert!(
        !run(&engine, change(&["lvcsi.fs=ext4"], &["none"]))
            .unwrap()
            .changed
    );
    assert_eq!(engine.vg(&vg()).unwrap().vg.seqno(), seqno);
}

#[test]
fn the_same_creation_again_is_the_same_lv_and_another_is_refused() {
    let sim = machine();
    let engine = engine(sim.host());
    let first = run(&engine, Request::Create(create("same", 8))).unwrap();
    let again = run(&engine, Request::Create(create("same", 8))).unwrap();
    assert_eq!((first.id, again.changed), (again.id, false));
    let error = run(&engine, Request::Create(create("same", 12))).unwrap_err();
    assert!(matches!(error, EngineError::Exists { .. }), "{error}");
}

#[test]
fn a_plan_shows_the_difference_and_changes_nothing() {
    let sim = machine();
    let engine = engine(sim.host());
    let before = sim.disk("/dev/sda").read(0, MIB_LEN);
    let plan = engine
        .plan(&vg(), &Request::Create(create("dry", 8)))
        .unwrap();
    assert!(plan.diff.contains("+dry {"), "{}", plan.diff);
    assert!(plan.diff.contains("-seqno = 1"), "{}", plan.diff);
    assert!(
        plan.steps.iter().any(|step| step.contains("data-dry")),
        "{:?}",
        plan.steps
    );
    assert_eq!(sim.disk("/dev/sda").read(0, MIB_LEN), before);
    assert!(engine.host().dm.list().unwrap().is_empty());
}

#[test]
fn shutdown_ends_what_is_queued_and_takes_no_more() {
    let sim = machine();
    let engine = engine(sim.host());
    let ticket = engine.submit(&vg(), Request::Create(create_block("late", 16)));
    engine.shutdown();
    assert!(ticket.wait().is_ok());
    let error = run(&engine, remove("late")).unwrap_err();
    assert!(matches!(error, EngineError::Closed { .. }));
}

#[test]
fn an_engine_that_is_dropped_closes_its_devices() {
    let sim = machine();
    let host = sim.host();
    let disk = host.block.discover().unwrap().0[0].devno;
    let idle = sim.open_count(disk);
    let engine = engine(host);
    run(&engine, Request::Create(create("one", 8))).unwrap();
    run(&engine, Request::Deactivate { name: lv("one") }).unwrap();
    assert!(sim.open_count(disk) > idle);
    drop(engine);
    assert_eq!(sim.open_count(disk), idle);
}
