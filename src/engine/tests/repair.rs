//! What a check finds, and what a repair mends and leaves.

use std::time::Duration;

use lvm2::name::dm_uuid;
use lvm2::tables::{DevNo, Target};

use super::*;
use crate::engine::{Defect, Repair};
use crate::host::sim::{CallKind, Fault};
use crate::host::{DmDevice, Exposure, HostResult, LockMode, SuspendMode};

/// A machine with the active LV `one` of 8 MiB, made by us or by somebody else.
fn with_lv(ours: bool) -> (SimHost, Engine, DevNo) {
    let sim = machine();
    let engine = engine(sim.host());
    let mut create = create("one", 8);
    if !ours {
        create.tags.clear();
    }
    let dev = run(&engine, Request::Create(create)).unwrap().dev.unwrap();
    assert_eq!(engine.check(&vg()).unwrap(), []);
    assert_eq!(engine.check_machine().unwrap(), []);
    (sim, engine, dev)
}

fn codes(engine: &Engine) -> Vec<&'static str> {
    let found = engine.check(&vg()).unwrap();
    found.iter().map(|finding| finding.defect.code()).collect()
}

fn codes_of(repair: &Repair) -> (Vec<&'static str>, Vec<&'static str>) {
    let codes = |mended: &[crate::engine::Mended]| {
        mended
            .iter()
            .map(|mended| mended.finding.defect.code())
            .collect()
    };
    (codes(&repair.done), codes(&repair.left))
}

fn device(engine: &Engine) -> DmDevice {
    engine.vg(&vg()).unwrap().lvs[0].device.clone().unwrap()
}

fn table(engine: &Engine, dev: DevNo) -> Vec<Target> {
    engine.host().dm.table(dev, false).unwrap()
}

/// Makes `lines` the live table of `data-one`.
fn swap(engine: &Engine, dev: DevNo, lines: &[Target]) {
    let dm = &engine.host().dm;
    dm.load(dev, lines, false).unwrap();
    dm.resume(dev, "data-one", Some(("data", "one")), Exposure::Visible)
        .unwrap();
}

/// The whole check: a dry run changes nothing, the repair mends all of `codes`.
fn mends(engine: &Engine, expected: &[&'static str]) -> Repair {
    assert_eq!(codes(engine), expected);
    let dry = engine.repair(&vg(), true).unwrap();
    assert_eq!(codes_of(&dry), (expected.to_vec(), vec![]), "{dry:?}");
    assert_eq!(codes(engine), expected, "a dry run has mended");
    let repair = engine.repair(&vg(), false).unwrap();
    assert_eq!(codes_of(&repair), (expected.to_vec(), vec![]), "{repair:?}");
    assert_eq!(engine.check(&vg()).unwrap(), []);
    assert_eq!(engine.repair(&vg(), false).unwrap(), Repair::default());
    repair
}

/// The repair leaves all of `codes` and says why.
fn leaves(engine: &Engine, expected: &[&'static str]) -> String {
    assert_eq!(codes(engine), expected);
    let calls = engine.repair(&vg(), false).unwrap();
    assert_eq!(codes_of(&calls), (vec![], expected.to_vec()), "{calls:?}");
    assert_eq!(codes(engine), expected, "it was to be left");
    calls.left.into_iter().map(|left| left.what).collect()
}

#[test]
fn a_suspended_volume_of_ours_is_resumed() {
    let (_, engine, dev) = with_lv(true);
    engine
        .host()
        .dm
        .suspend(dev, SuspendMode::default())
        .unwrap();
    mends(&engine, &["suspended"]);
    assert!(!device(&engine).suspended);
}

#[test]
fn a_stale_inactive_table_is_dropped_and_never_made_live() {
    let (_, engine, dev) = with_lv(true);
    let right = table(&engine, dev);
    let mut stale = right.clone();
    stale[0].params = "8:16 2048".to_owned();
    engine.host().dm.load(dev, &stale, false).unwrap();
    mends(&engine, &["inactive-table"]);
    assert_eq!(table(&engine, dev), right);
    let dm = &engine.host().dm;
    dm.load(dev, &stale, false).unwrap();
    dm.suspend(dev, SuspendMode::default()).unwrap();
    mends(&engine, &["inactive-table", "suspended"]);
    assert_eq!(table(&engine, dev), right);
}

#[test]
fn a_table_that_ends_early_is_refreshed_whoever_made_the_lv() {
    for ours in [true, false] {
        let (_, engine, dev) = with_lv(ours);
        let right = table(&engine, dev);
        let mut short = right.clone();
        short[0].len = Sectors(8192);
        swap(&engine, dev, &short);
        mends(&engine, &["table-short"]);
        assert_eq!(table(&engine, dev), right);
    }
}

#[test]
fn a_wrong_table_is_left_to_a_person() {
    let (_, engine, dev) = with_lv(true);
    let mut wrong = table(&engine, dev);
    wrong[0].params = "8:16 2048".to_owned();
    swap(&engine, dev, &wrong);
    engine
        .host()
        .dm
        .suspend(dev, SuspendMode::default())
        .unwrap();
    let why = leaves(&engine, &["table-differs", "suspended"]);
    assert!(why.contains("not what the metadata asks for"), "{why}");
    assert_eq!(table(&engine, dev), wrong);
}

#[test]
fn volumes_of_others_are_left_alone() {
    let (_, engine, dev) = with_lv(false);
    let dm = &engine.host().dm;
    let right = table(&engine, dev);
    dm.load(dev, &right, false).unwrap();
    dm.suspend(dev, SuspendMode::default()).unwrap();
    let why = leaves(&engine, &["inactive-table", "suspended"]);
    assert!(why.contains("not made by the driver"), "{why}");
    assert!(device(&engine).suspended && device(&engine).inactive_table);
}

#[test]
fn a_device_without_lv_is_removed_once_it_is_closed() {
    let (sim, engine, _) = with_lv(true);
    let id = engine.vg(&vg()).unwrap().vg.id();
    let orphan = |name: &str, vg: &lvm2::id::VgId, seed: u8| -> HostResult<DevNo> {
        let lv = lvm2::id::LvId::from_random([seed; 32]);
        let dm = &engine.host().dm;
        let dev = dm.create(name, &dm_uuid(vg, &lv, None))?;
        let zero = Target {
            start: Sectors(0),
            len: Sectors(8),
            kind: "zero".to_owned(),
            params: String::new(),
        };
        dm.load(dev, &[zero], false)?;
        dm.resume(dev, name, None, Exposure::Visible)?;
        Ok(dev)
    };
    orphan("data-gone", &id, 1).unwrap();
    let foreign = lvm2::id::VgId::from_random([9; 32]);
    orphan("other-lv", &foreign, 2).unwrap();
    mends(&engine, &["orphan-device"]);
    let names = || -> Vec<String> {
        let list = engine.host().dm.list().unwrap();
        list.into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(names(), ["data-one", "other-lv"]);

    let dev = orphan("data-open", &id, 3).unwrap();
    let other = sim.host();
    let open = other.block.open_path(&other.dm.node(dev).unwrap()).unwrap();
    let why = leaves(&engine, &["orphan-device"]);
    assert!(why.contains("still in use"), "{why}");
    drop(open);
    mends(&engine, &["orphan-device"]);
}

#[test]
fn nothing_is_mended_in_a_vg_that_must_not_be_changed() {
    let (sim, engine, dev) = with_lv(true);
    engine
        .host()
        .dm
        .suspend(dev, SuspendMode::default())
        .unwrap();
    sim.detach("/dev/sdb");
    let why = leaves(&engine, &["pv-missing", "suspended"]);
    assert!(why.contains("is missing"), "{why}");
    assert!(device(&engine).suspended);
    sim.attach("/dev/sdb");
    mends(&engine, &["suspended"]);
}

#[test]
fn an_older_copy_is_written_anew() {
    let (sim, engine, _) = with_lv(true);
    sim.on(CallKind::Write, 3, Fault::Eio);
    run(&engine, Request::Create(create("two", 4))).unwrap();
    let before = engine.vg(&vg()).unwrap().vg.seqno();
    mends(&engine, &["metadata-old"]);
    let after = engine.vg(&vg()).unwrap().vg;
    assert_eq!(after.seqno(), before + 1);
    let text = "Write from lvcsi check --repair data.";
    assert_eq!(after.description(), Some(text));
    assert_eq!(sound_lvs(&sim), ["one", "two"]);
}

#[test]
fn an_lv_is_incomplete_only_if_nobody_is_at_it() {
    let (sim, engine, _) = with_lv(true);
    let maker = super::engine(sim.host());
    sim.clear_calls();
    sim.on(CallKind::Zero, 0, Fault::Hang);
    let ticket = maker.submit(&vg(), Request::Create(create_block("slow", 16)));
    while !sim.calls().iter().any(|call| call.kind == CallKind::Zero) {
        std::thread::yield_now();
    }
    assert_eq!(engine.check(&vg()).unwrap(), []);
    assert_eq!(engine.repair(&vg(), false).unwrap(), Repair::default());
    sim.kill();
    assert!(ticket.wait().is_err());
    let engine = super::engine(sim.host());
    let claims = engine.check_machine().unwrap();
    assert!(
        matches!(claims.as_slice(), [claim] if claim.defect == Defect::StaleClaim),
        "{claims:?}"
    );
    mends(&engine, &["incomplete"]);
    assert_eq!(sound_lvs(&sim), ["one"]);
    assert_eq!(
        engine.check_machine().unwrap(),
        [],
        "the claim went with the LV"
    );
}

#[test]
fn lock_files_of_the_dead_are_removed() {
    let sim = machine();
    let dead = sim.host();
    let guard = dead
        .locks
        .lock("lvcsi_x", LockMode::Exclusive, Duration::ZERO)
        .unwrap();
    let engine = engine(sim.host());
    assert_eq!(engine.check_machine().unwrap(), []);
    std::mem::forget(guard);
    sim.kill();
    let engine = super::engine({
        drop(engine);
        sim.host()
    });
    let found = engine.check_machine().unwrap();
    assert_eq!(
        (found[0].object.as_str(), &found[0].defect),
        ("lvcsi_x", &Defect::StaleClaim)
    );
    assert_eq!(engine.repair_machine(true).unwrap().done.len(), 1);
    assert_eq!(engine.check_machine().unwrap().len(), 1);
    assert_eq!(engine.repair_machine(false).unwrap().done.len(), 1);
    assert_eq!(engine.check_machine().unwrap(), []);
}

#[test]
fn names_links_and_devices_without_table() {
    let (sim, engine, dev) = with_lv(true);
    sim.unlink(dev);
    mends(&engine, &["link", "link"]);
    let dm = &engine.host().dm;
    dm.rename(dev, "data-one", "data-old", None, None, Exposure::Visible)
        .unwrap();
    mends(&engine, &["device-name"]);
    assert_eq!(device(&engine).name, "data-one");
    let uuid = device(&engine).uuid;
    run(&engine, Request::Deactivate { name: lv("one") }).unwrap();
    dm.create("data-one", &uuid).unwrap();
    mends(&engine, &["device-empty"]);
    assert!(dm.list().unwrap().is_empty());
}

#[test]
fn what_is_only_passing_is_not_found() {
    let (sim, engine, dev) = with_lv(true);
    let other = sim.host();
    let hold = || {
        let lock = other
            .locks
            .lock("V_data", LockMode::Exclusive, Duration::ZERO);
        other.dm.suspend(dev, SuspendMode::default()).unwrap();
        lock.unwrap()
    };
    let guard = hold();
    sim.clear_calls();
    let checking = {
        let engine = engine.clone();
        std::thread::spawn(move || engine.check(&vg()).unwrap())
    };
    while !sim.calls().iter().any(|call| call.kind == CallKind::Lock) {
        std::thread::yield_now();
    }
    let name = Some(("data", "one"));
    other
        .dm
        .resume(dev, "data-one", name, Exposure::Visible)
        .unwrap();
    drop(guard);
    assert_eq!(checking.join().unwrap(), []);

    let _guard = hold();
    let config = EngineConfig {
        lock_deadline: Duration::from_millis(20),
        ..EngineConfig::default()
    };
    let hasty = Engine::start(sim.host(), config).unwrap();
    assert_eq!(codes(&hasty), ["suspended", "unlocked"]);
    let error = hasty.repair(&vg(), false).unwrap_err();
    assert_eq!(
        error.kind(),
        crate::error::Kind::DeadlineExceeded,
        "{error}"
    );
}

#[test]
fn an_mkfs_that_was_cut_short_is_named() {
    let (_, engine, _) = with_lv(true);
    let mkfs = Request::Tags {
        name: lv("one"),
        add: vec![tag("lvcsi.mkfs=ext4")],
        remove: vec![],
    };
    run(&engine, mkfs).unwrap();
    let why = leaves(&engine, &["mkfs-unfinished"]);
    assert!(why.contains("publish"), "{why}");
    let node = engine.host().dm.node(device(&engine).dev).unwrap();
    let open = engine.host().block.open_path(&node).unwrap();
    assert_eq!(engine.check(&vg()).unwrap(), [], "mkfs is at it");
    drop(open);
}

#[test]
fn a_bound_node_whose_device_is_gone_is_named() {
    let (_, engine, dev) = with_lv(true);
    let fs = &engine.host().fs;
    let node = engine.host().dm.node(dev).unwrap();
    let target = std::path::Path::new("/pod/volume");
    fs.make_file(target).unwrap();
    fs.bind(&node, target, false).unwrap();
    assert_eq!(engine.check_machine().unwrap(), []);
    run(&engine, remove("one")).unwrap();
    let repair = engine.repair_machine(false).unwrap();
    assert_eq!(codes_of(&repair), (vec![], vec!["stale-mount"]));
    assert_eq!(repair.left[0].finding.object, "/pod/volume");
}
