//! PVs and VGs that are made, changed and removed.

use std::path::PathBuf;
use std::time::Duration;

use lvm2::ondisk::geometry::{Topology, Wish};
use lvm2::ondisk::label;

use super::disks_refused::{refused, refused_disk};
use super::*;
use crate::engine::{DiskError, DiskOutcome, DiskRequest};
use crate::error::Kind;
use crate::host::LockMode;
use crate::host::sim::CallKind;

/// A machine with empty disks of 256 MiB.
pub(super) fn blank(disks: &[&str]) -> SimHost {
    let sim = SimHost::new();
    for disk in disks {
        sim.add_disk(disk, 256 * MIB, 512);
    }
    sim
}

pub(super) fn paths(devices: &[&str]) -> Vec<PathBuf> {
    devices.iter().map(PathBuf::from).collect()
}

pub(super) fn create_pv(devices: &[&str]) -> DiskRequest {
    DiskRequest::CreatePv {
        devices: paths(devices),
        wish: Wish::default(),
    }
}

pub(super) fn create_vg(name: &str, devices: &[&str]) -> DiskRequest {
    DiskRequest::CreateVg {
        vg: VgName::new(name).unwrap(),
        devices: paths(devices),
        wish: Wish::default(),
        extent_size: ExtentSize::new(Sectors(8192)).unwrap(),
        tags: Vec::new(),
    }
}

pub(super) fn extend_vg(devices: &[&str]) -> DiskRequest {
    DiskRequest::ExtendVg {
        vg: vg(),
        devices: paths(devices),
        wish: Wish::default(),
    }
}

pub(super) fn reduce_vg(devices: &[&str]) -> DiskRequest {
    DiskRequest::ReduceVg {
        vg: vg(),
        devices: paths(devices),
    }
}

pub(super) fn remove_vg() -> DiskRequest {
    DiskRequest::RemoveVg { vg: vg() }
}

pub(super) fn resize_pv(device: &str) -> DiskRequest {
    DiskRequest::ResizePv {
        device: device.into(),
        size: None,
    }
}

pub(super) fn ok(sim: &SimHost, request: &DiskRequest) -> DiskOutcome {
    engine(sim.host())
        .change_disks(request, false)
        .unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

pub(super) fn label_on(sim: &SimHost, disk: &str) -> Option<label::PvHeader> {
    let head = sim.disk(disk).read(0, label::SEARCHED_BYTES);
    label::find(&head).unwrap().map(|found| found.header)
}

#[test]
fn a_pv_becomes_a_vg_that_grows_shrinks_and_goes() {
    let sim = blank(&["/dev/sda", "/dev/sdb", "/dev/sdc"]);
    sim.make_hints();
    let made = ok(&sim, &create_pv(&["/dev/sda"]));
    assert_eq!(made.pvs.len(), 1);
    assert_eq!(made.pvs[0].data_start, Bytes(16 * MIB));
    assert_eq!(made.pvs[0].metadata_size, Bytes(16 * MIB - 4096));
    assert!(!sim.has_hints());
    let header = label_on(&sim, "/dev/sda").unwrap();
    assert!(!header.in_use());
    let report = engine(sim.host()).report().unwrap();
    assert_eq!(report.orphans.len(), 1);
    assert_eq!(report.orphans[0].id, header.id);

    // The PV is taken as it is, the blank disk becomes one on the way.
    sim.make_hints();
    let made = ok(&sim, &create_vg("data", &["/dev/sda", "/dev/sdb"]));
    let state = made.vg.unwrap();
    assert_eq!((state.seqno, state.pvs, state.extents.0), (1, 2, 120));
    assert_eq!(made.pvs[0].id, header.id);
    assert!(!sim.has_hints());
    let engine = engine(sim.host());
    let report = engine.vg(&vg()).unwrap();
    assert_eq!(check::check(&report.vg), []);
    assert_eq!(report.metadata.used_areas, 2, "metadata on both PVs");
    assert!(report.metadata.max_text.0 > 8_000_000);
    for disk in ["/dev/sda", "/dev/sdb"] {
        assert!(label_on(&sim, disk).unwrap().in_use(), "{disk}");
    }
    run(&engine, Request::Create(create("one", 200))).unwrap();

    // The running engine learns of each change.
    engine
        .change_disks(&extend_vg(&["/dev/sdc"]), false)
        .unwrap();
    assert_eq!(engine.vg(&vg()).unwrap().vg.pvs().len(), 3);
    run(&engine, Request::Create(create("two", 300))).unwrap();
    let error = engine
        .change_disks(&reduce_vg(&["/dev/sdc"]), false)
        .unwrap_err();
    assert!(error.to_string().contains("pvmove"), "{error}");
    run(&engine, remove("two")).unwrap();
    engine
        .change_disks(&reduce_vg(&["/dev/sdc"]), false)
        .unwrap();
    assert_eq!(engine.vg(&vg()).unwrap().vg.pvs().len(), 2);
    assert!(!label_on(&sim, "/dev/sdc").unwrap().in_use());
    let error = engine.change_disks(&remove_vg(), false).unwrap_err();
    assert!(error.to_string().contains("one"), "{error}");
    run(&engine, remove("one")).unwrap();
    engine.change_disks(&remove_vg(), false).unwrap();
    let error = run(&engine, Request::Create(create("late", 4))).unwrap_err();
    assert!(matches!(error, EngineError::NoSuchVg { .. }), "{error}");
    assert_eq!(engine.report().unwrap().orphans.len(), 3);
    let all = ["/dev/sda", "/dev/sdb", "/dev/sdc"];
    let remove = DiskRequest::RemovePv {
        devices: paths(&all),
    };
    engine.change_disks(&remove, false).unwrap();
    assert!(all.iter().all(|disk| label_on(&sim, disk).is_none()));
    // The name is free again, for a VG that has nothing to do with the first.
    let again = engine
        .change_disks(&create_vg("data", &all), false)
        .unwrap();
    assert_ne!(again.vg.unwrap().id, state.id);
    run(&engine, Request::Create(create("one", 8))).unwrap();
}

/// Pitfalls 2 and 22: what is written to labels and areas is written under
/// `P_global`, which comes before the lock of the VG, and behind the hints.
#[test]
fn pitfall_02_and_22_locks_come_in_lvm2s_order_and_before_every_write() {
    let requests: Vec<(DiskRequest, &[&str])> = vec![
        (create_pv(&["/dev/sda"]), &["P_global"]),
        (
            create_vg("data", &["/dev/sda", "/dev/sdb"]),
            &["P_global", "V_data"],
        ),
        (extend_vg(&["/dev/sdc"]), &["P_global", "V_data"]),
        (resize_pv("/dev/sda"), &["P_global", "V_data"]),
        (reduce_vg(&["/dev/sdc"]), &["P_global", "V_data"]),
        (remove_vg(), &["P_global", "V_data"]),
        (
            DiskRequest::RemovePv {
                devices: paths(&["/dev/sda"]),
            },
            &["P_global"],
        ),
    ];
    let sim = blank(&["/dev/sda", "/dev/sdb", "/dev/sdc"]);
    sim.use_devices_file(&[]);
    for (request, locks) in requests {
        if matches!(request, DiskRequest::ResizePv { .. }) {
            sim.resize_disk("/dev/sda", 512 * MIB);
        }
        sim.clear_calls();
        ok(&sim, &request);
        let calls = sim.calls();
        let at = |wanted: &dyn Fn(&crate::host::sim::Call) -> bool| calls.iter().position(wanted);
        let taken: Vec<_> = calls
            .iter()
            .filter(|call| call.kind == CallKind::Lock)
            .map(|call| call.object.as_str())
            .collect();
        assert_eq!(taken, locks, "{request:?}");
        let write = at(&|call| matches!(call.kind, CallKind::Write | CallKind::Zero)).unwrap();
        let hints = at(&|call| call.kind == CallKind::Hints);
        if !matches!(request, DiskRequest::ResizePv { .. }) {
            assert!(hints.unwrap() < write, "{request:?}");
        }
        let last_lock = calls.iter().rposition(|call| call.kind == CallKind::Lock);
        assert!(last_lock.unwrap() < write, "{request:?}");
        if let Some(file) = at(&|call| call.kind == CallKind::DevicesFile) {
            let global = at(&|call| call.object == "P_global").unwrap();
            assert!(global < file, "{request:?}");
        }
    }
}

#[test]
fn a_lock_that_somebody_holds_ends_in_an_error_that_names_the_holder() {
    let sim = blank(&["/dev/sda"]);
    let other = sim.host();
    let config = EngineConfig {
        lock_deadline: Duration::from_millis(50),
        ..EngineConfig::default()
    };
    for (lock, request) in [
        ("P_global", create_pv(&["/dev/sda"])),
        ("V_data", create_vg("data", &["/dev/sda"])),
    ] {
        let _held = other
            .locks
            .lock(lock, LockMode::Shared, Duration::from_secs(1))
            .unwrap();
        let engine = Engine::start(sim.host(), config.clone()).unwrap();
        let error = engine.change_disks(&request, false).unwrap_err();
        assert_eq!(error.kind(), Kind::DeadlineExceeded, "{error}");
        assert!(error.to_string().contains(lock), "{error}");
        assert_eq!(label_on(&sim, "/dev/sda"), None);
    }
}

/// Pitfall 26: where a devices file is in use, new PVs are entered, and only
/// once nothing is refused any more.
#[test]
fn pitfall_26_the_devices_file_lists_what_becomes_a_pv() {
    let sim = blank(&["/dev/sda", "/dev/sdb", "/dev/sdc"]);
    sim.use_devices_file(&[]);
    let pv = ok(&sim, &create_pv(&["/dev/sda"])).pvs.remove(0);
    assert_eq!(
        sim.devices_file_entries(),
        [("/dev/sda".into(), Some(pv.id))]
    );
    ok(&sim, &create_vg("data", &["/dev/sda", "/dev/sdb"]));
    ok(&sim, &extend_vg(&["/dev/sdc"]));
    let entries = sim.devices_file_entries();
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().all(|(_, pv)| pv.is_some()));
    ok(&sim, &reduce_vg(&["/dev/sdc"]));
    assert_eq!(sim.devices_file_entries(), entries);
    ok(
        &sim,
        &DiskRequest::RemovePv {
            devices: paths(&["/dev/sdc"]),
        },
    );
    assert_eq!(sim.devices_file_entries()[2], ("/dev/sdc".into(), None));
    sim.add_disk("/dev/sdd", 256 * MIB, 4096);
    let error = refused_disk(&sim, &extend_vg(&["/dev/sdd"]));
    assert!(matches!(error, DiskError::BlockSizes { .. }), "{error}");
    assert_eq!(sim.devices_file_entries().len(), 3);
}

#[test]
fn what_is_on_a_device_is_listed_and_wiped_only_with_consent() {
    let sim = blank(&["/dev/sda"]);
    sim.disk("/dev/sda").write(4086, b"SWAPSPACE2");
    sim.disk("/dev/sda").write(512, b"EFI PART");
    sim.disk("/dev/sda").write(65536 + 64, b"_BHRfS_M");
    sim.disk("/dev/sda").write(100 * MIB, b"left alone");
    let error = refused(&sim, &create_pv(&["/dev/sda"]), false);
    assert_eq!(error.kind(), Kind::FailedPrecondition);
    let text = error.to_string();
    for words in [
        "swap at byte 4086",
        "gpt at byte 512",
        "btrfs at byte 65600",
        "--yes",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let plan = engine(sim.host())
        .plan_disks(&create_pv(&["/dev/sda"]))
        .unwrap();
    assert!(
        plan.steps
            .iter()
            .any(|step| step.contains("zero bytes 4086..4096 (swap")),
        "{plan:?}"
    );
    assert_eq!(sim.disk("/dev/sda").read(4086, 10), b"SWAPSPACE2");
    let made = engine(sim.host())
        .change_disks(&create_pv(&["/dev/sda"]), true)
        .unwrap();
    assert_eq!(made.pvs[0].wiped.len(), 3);
    let info = sim.host().block.examine("/dev/sda".as_ref()).unwrap().info;
    let left = sim.host().block.signatures(&info).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].kind, "LVM2_member");
    assert_eq!(sim.disk("/dev/sda").read(100 * MIB, 10), b"left alone");
    // A PV of no VG is something, too.
    let error = refused(&sim, &create_pv(&["/dev/sda"]), false);
    assert!(error.to_string().contains("LVM2_member"), "{error}");
    let before = label_on(&sim, "/dev/sda").unwrap().id;
    engine(sim.host())
        .change_disks(&create_pv(&["/dev/sda"]), true)
        .unwrap();
    assert_ne!(label_on(&sim, "/dev/sda").unwrap().id, before);
}

#[test]
fn the_last_area_with_metadata_stays_and_the_newest_text_never_leaves_alone() {
    let sim = machine();
    let engine = engine(sim.host());
    // One area is older: the commit reached the other one only.
    sim.on(CallKind::Write, 2, crate::host::sim::Fault::Eio);
    let _ = run(&engine, Request::Create(create("one", 4)));
    sim.clear_faults();
    run(&engine, remove("one")).unwrap();
    let old = sim.disk("/dev/sda").read(4096, 512);
    run(&engine, Request::Create(create("two", 4))).unwrap();
    run(&engine, remove("two")).unwrap();
    sim.disk("/dev/sda").write(4096, &old);
    let seqno = engine.vg(&vg()).unwrap().vg.seqno();
    engine
        .change_disks(&reduce_vg(&["/dev/sdb"]), false)
        .unwrap();
    let report = engine.vg(&vg()).unwrap();
    assert_eq!(
        report.vg.seqno(),
        seqno + 2,
        "the other area was refreshed first"
    );
    assert_eq!(report.vg.pvs().len(), 1);
}

#[test]
fn a_pv_follows_its_device_and_shrinks_no_further_than_its_lvs() {
    let sim = machine();
    sim.add_disk("/dev/sdc", 256 * MIB, 512);
    ok(&sim, &create_pv(&["/dev/sdc"]));
    let size = |disk: &str| label_on(&sim, disk).unwrap().device_size;
    sim.resize_disk("/dev/sdc", 512 * MIB);
    sim.resize_disk("/dev/sda", 512 * MIB);
    ok(&sim, &resize_pv("/dev/sdc"));
    assert_eq!(size("/dev/sdc"), Bytes(512 * MIB));
    let engine = engine(sim.host());
    let before = engine.vg(&vg()).unwrap().vg.extents_total().0;
    let grown = engine.change_disks(&resize_pv("/dev/sda"), false).unwrap();
    assert_eq!(grown.vg.unwrap().extents.0, before + 64);
    assert_eq!(size("/dev/sda"), Bytes(512 * MIB));
    // Active LVs are no reason against it.
    run(&engine, Request::Create(create("one", 400))).unwrap();
    let seqno = engine.vg(&vg()).unwrap().vg.seqno();
    let same = engine.change_disks(&resize_pv("/dev/sda"), false).unwrap();
    assert_eq!(
        same.vg.unwrap().seqno,
        seqno,
        "nothing to do, nothing written"
    );
    let to = |mib: u64| DiskRequest::ResizePv {
        device: "/dev/sda".into(),
        size: Some(Bytes(mib * MIB)),
    };
    let error = refused(&sim, &to(300), true);
    assert!(error.to_string().contains("pvmove"), "{error}");
    let error = refused_disk(&sim, &to(600));
    assert!(
        matches!(error, DiskError::LargerThanDevice { .. }),
        "{error}"
    );
    engine.change_disks(&to(450), false).unwrap();
    assert_eq!(size("/dev/sda"), Bytes(450 * MIB));
    assert_eq!(check::check(&engine.vg(&vg()).unwrap().vg), []);
}

#[test]
fn the_topology_of_a_disk_is_obeyed() {
    let sim = blank(&["/dev/sda"]);
    let topology = Topology {
        minimum_io: Bytes(4096),
        optimal_io: Bytes(3 * MIB / 2),
        alignment_offset: Bytes(3584),
        stripe: Bytes::ZERO,
    };
    sim.set_topology("/dev/sda", topology);
    let made = ok(&sim, &create_pv(&["/dev/sda"]));
    assert_eq!(made.pvs[0].data_start, Bytes(33 * MIB / 2 + 3584));
    ok(&sim, &create_vg("data", &["/dev/sda"]));
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("one", 32))).unwrap();
    assert_eq!(sound_lvs(&sim), ["one"]);
}

#[test]
fn a_dry_run_tells_every_write_and_makes_none() {
    let sim = blank(&["/dev/sda", "/dev/sdb"]);
    sim.make_hints();
    let request = create_vg("data", &["/dev/sda", "/dev/sdb"]);
    sim.clear_calls();
    let plan = engine(sim.host()).plan_disks(&request).unwrap();
    assert!(
        sim.calls()
            .iter()
            .all(|call| !call.kind.changes() && call.kind != CallKind::Lock)
    );
    assert!(sim.has_hints());
    assert!(
        plan.diff.contains("+data {") && plan.diff.contains("+pe_count = 60"),
        "{}",
        plan.diff
    );
    sim.clear_calls();
    ok(&sim, &request);
    let writes = sim
        .calls()
        .iter()
        .filter(|call| matches!(call.kind, CallKind::Write | CallKind::Zero))
        .count();
    let told = plan
        .steps
        .iter()
        .filter(|step| step.contains(": zero bytes") || step.contains(": write the sector"))
        .count();
    // A commit is one step and four writes: text and header of both areas.
    assert_eq!(told + 4, writes, "{:#?}", plan.steps);
    let plan = engine(sim.host()).plan_disks(&remove_vg()).unwrap();
    assert!(plan.diff.contains("-data {"), "{}", plan.diff);
}
