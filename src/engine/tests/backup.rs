//! Copies of the metadata as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lvm2::model::Vg;

use super::*;
use crate::engine::BackupConfig;
use crate::host::LockMode;
use crate::host::sim::{CallKind, Fault};

const DIR: &str = "/var/lib/lvcsi/backup/data";
const LVM2_FILE: &str = "/etc/lvm/backup/data";

fn keeping(host: Host, change: impl FnOnce(&mut BackupConfig)) -> Engine {
    let mut backup = BackupConfig::default();
    change(&mut backup);
    let config = EngineConfig {
        backup: Some(backup),
        ..EngineConfig::default()
    };
    Engine::start(host, config).unwrap()
}

/// Sequence numbers of the copies, ascending; each is read.
fn copies(sim: &SimHost) -> Vec<u32> {
    let host = sim.host();
    let files = host.copies.list(Path::new(DIR)).unwrap();
    let mut seqnos: Vec<u32> = files
        .iter()
        .map(|file| seqno_in(sim, &Path::new(DIR).join(&file.name)).unwrap())
        .collect();
    seqnos.sort_unstable();
    seqnos
}

fn seqno_in(sim: &SimHost, path: &Path) -> Option<u32> {
    let content = sim.host().copies.read(path).unwrap()?;
    Some(Vg::parse(&content).unwrap().seqno())
}

fn on_disk(sim: &SimHost) -> u32 {
    engine(sim.host()).vg(&vg()).unwrap().vg.seqno()
}

/// Waits for something that another thread does.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn the_last_commit_of_a_burst_lands_and_few_others() {
    let sim = machine();
    let engine = keeping(sim.host(), |_| {});
    for round in 0..5 {
        let tickets: Vec<_> = (0..10)
            .map(|n| {
                let request = Request::Create(create(&format!("lv{round}-{n}"), 4));
                engine.submit(&vg(), request)
            })
            .collect();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
    }
    engine.shutdown();
    let written = copies(&sim);
    assert_eq!(written.last(), Some(&on_disk(&sim)));
    let stats = engine.backup_stats();
    assert_eq!(stats.written, written.len() as u64, "{stats:?}");
    assert_eq!((stats.failed, stats.behind.len()), (0, 0), "{stats:?}");
    let commits = u64::from(on_disk(&sim) - 1);
    assert_eq!(stats.written + stats.coalesced, commits, "{stats:?}");
}

#[test]
fn a_disk_that_is_full_or_hangs_delays_and_fails_nothing() {
    let sim = machine();
    let engine = keeping(sim.host(), |_| {});
    sim.on(CallKind::CopyStage, 0, Fault::Hang);
    run(&engine, Request::Create(create("one", 4))).unwrap();
    let hangs = || {
        sim.calls()
            .iter()
            .any(|call| call.kind == CallKind::CopyStage)
    };
    until("the copy hangs", hangs);
    run(&engine, Request::Create(create("two", 4))).unwrap();
    let behind = engine.backup_stats().behind;
    assert_eq!(behind.get(&vg()), Some(&None), "{behind:?}");
    sim.always(Some(CallKind::CopyStage), DIR, Fault::Enospc);
    sim.unhang();
    until("the disk is full", || engine.backup_stats().failed > 0);
    run(&engine, Request::Create(create("three", 4))).unwrap();
    sim.clear_faults();
    engine.shutdown();
    assert_eq!(
        copies(&sim).last(),
        Some(&on_disk(&sim)),
        "there is room again"
    );
    assert!(engine.backup_stats().behind.is_empty());
}

#[test]
fn every_step_may_fail_and_nothing_half_is_left() {
    for kind in [
        CallKind::CopyStage,
        CallKind::CopyPublish,
        CallKind::CopySync,
        CallKind::CopyList,
        CallKind::CopyRemove,
    ] {
        let sim = machine();
        let engine = keeping(sim.host(), |backup| {
            backup.wait = true;
            backup.count = 1;
        });
        run(&engine, Request::Create(create("one", 4))).unwrap();
        sim.on(kind, 0, Fault::Eio);
        run(&engine, Request::Create(create("two", 4))).unwrap();
        let stats = engine.backup_stats();
        assert_eq!((stats.written, stats.failed), (1, 1), "{kind:?}");
        let reason = stats.behind.get(&vg()).unwrap().as_deref().unwrap();
        assert!(reason.contains("copy of metadata in"), "{reason}");
        assert!(!copies(&sim).is_empty(), "{kind:?}");
        run(&engine, Request::Create(create("three", 4))).unwrap();
        assert_eq!(copies(&sim), [on_disk(&sim)], "{kind:?}");
        assert!(engine.backup_stats().behind.is_empty(), "{kind:?}");
    }
}

#[test]
fn answers_wait_for_the_copy_if_asked_to() {
    let sim = machine();
    let engine = keeping(sim.host(), |backup| backup.wait = true);
    for n in 2..6 {
        run(&engine, Request::Create(create(&format!("lv{n}"), 4))).unwrap();
        assert_eq!(copies(&sim).last(), Some(&n));
    }
    assert_eq!(copies(&sim), [2, 3, 4, 5]);
}

#[test]
fn the_number_and_the_age_of_copies_are_bounded() {
    let sim = machine();
    let host = sim.host();
    let engine = keeping(sim.host(), |backup| {
        backup.wait = true;
        backup.count = 20;
        backup.age = Duration::from_secs(1000);
    });
    let stale = Path::new(DIR);
    let stale = host.copies.stage(stale, true, b"half").unwrap();
    for n in 0..25 {
        run(&engine, Request::Create(create(&format!("lv{n}"), 4))).unwrap();
    }
    let kept: Vec<u32> = (7..27).collect();
    let others = |host: &Host| host.copies.list(Path::new(DIR)).unwrap().len() - 20;
    assert_eq!(others(&host), 1, "somebody may still be writing it");
    host.copies.remove(&stale).unwrap();
    assert_eq!(copies(&sim), kept);
    host.copies.stage(Path::new(DIR), true, b"half").unwrap();
    host.clock.pause(Duration::from_secs(5000));
    run(&engine, remove("lv0")).unwrap();
    let kept: Vec<u32> = (18..28).collect();
    assert_eq!(
        copies(&sim),
        kept,
        "the newest ten stay; the half of a copy is gone"
    );
}

#[test]
fn pitfall_57_the_backup_file_of_lvm2_is_never_stale() {
    let sim = machine();
    sim.add_lvm2_dir();
    let engine = keeping(sim.host(), |backup| backup.wait = true);
    let lvm2 = || seqno_in(&sim, Path::new(LVM2_FILE));
    for request in [
        Request::Create(create("one", 4)),
        extend("one", 12),
        Request::Rename {
            name: lv("one"),
            to: lv("two"),
        },
        remove("two"),
    ] {
        run(&engine, request).unwrap();
        assert_eq!(lvm2(), Some(on_disk(&sim)));
    }
    let off = keeping(sim.host(), |backup| {
        backup.wait = true;
        backup.lvm2 = false;
    });
    run(&off, Request::Create(create("x", 4))).unwrap();
    assert_eq!(lvm2(), Some(on_disk(&sim) - 1), "it was not to be written");
    assert_eq!(copies(&sim).last(), Some(&on_disk(&sim)));
}

#[test]
fn an_older_copy_never_replaces_what_another_writer_left() {
    let sim = machine();
    sim.add_lvm2_dir();
    let slow = keeping(sim.host(), |_| {});
    sim.always(Some(CallKind::CopyStage), "/etc/lvm/backup", Fault::Hang);
    run(&slow, Request::Create(create("one", 4))).unwrap();
    let staging = || {
        sim.calls()
            .iter()
            .any(|call| call.kind == CallKind::CopyStage && call.object == "/etc/lvm/backup")
    };
    until("the copy is under way", staging);
    // Somebody else commits and writes the file, as lvm2 does under the lock.
    let other = engine(sim.host());
    run(&other, Request::Create(create("two", 4))).unwrap();
    let newest: Arc<Vg> = other.vg(&vg()).unwrap().vg;
    let host = sim.host();
    sim.clear_faults();
    let text = lvm2::backup::file(&newest);
    let dir: PathBuf = "/etc/lvm/backup".into();
    let staged = host.copies.stage(&dir, false, text.as_bytes()).unwrap();
    host.copies.publish(&staged, "data").unwrap();
    sim.unhang();
    slow.shutdown();
    assert_eq!(seqno_in(&sim, Path::new(LVM2_FILE)), Some(newest.seqno()));
    assert_eq!(
        host.copies.list(&dir).unwrap().len(),
        1,
        "nothing is left over"
    );
    assert_eq!(copies(&sim), [2], "the copy of its own commit is kept");
}

#[test]
fn a_copy_gives_up_the_lock_of_a_vg_that_hangs() {
    let sim = machine();
    sim.add_lvm2_dir();
    let config = EngineConfig {
        backup: Some(BackupConfig::default()),
        // More than a disk takes on a busy machine that does not hang.
        io_timeout: Duration::from_secs(2),
        ..EngineConfig::default()
    };
    let engine = Engine::start(sim.host(), config).unwrap();
    sim.always(Some(CallKind::CopyStage), "/etc/lvm/backup", Fault::Hang);
    run(&engine, Request::Create(create("one", 4))).unwrap();
    let staging = || {
        sim.calls()
            .iter()
            .any(|call| call.kind == CallKind::CopyStage && call.object == "/etc/lvm/backup")
    };
    until("the copy is under way", staging);
    // From now on the disks hang, not the file.
    sim.clear_faults();
    for disk in DISKS {
        sim.always(Some(CallKind::Read), disk, Fault::Hang);
    }
    sim.unhang();
    until("it gives up", || engine.backup_stats().failed > 0);
    let stats = engine.backup_stats();
    let reason = stats.behind.get(&vg()).unwrap().as_deref().unwrap();
    assert!(
        reason.contains("read") && reason.contains("waiting"),
        "{reason}"
    );
    let lock = sim
        .host()
        .locks
        .lock("V_data", LockMode::Exclusive, Duration::ZERO);
    drop(lock.expect("nobody holds it"));
    assert_eq!(seqno_in(&sim, Path::new(LVM2_FILE)), None);
    sim.clear_faults();
    sim.unhang();
    run(&engine, Request::Create(create("two", 4))).unwrap();
    engine.shutdown();
    assert_eq!(seqno_in(&sim, Path::new(LVM2_FILE)), Some(on_disk(&sim)));
}

#[test]
fn a_check_finds_copies_that_are_behind_and_writes_them() {
    let sim = machine();
    sim.add_lvm2_dir();
    let engine = keeping(sim.host(), |backup| backup.wait = true);
    sim.always(Some(CallKind::CopyStage), DIR, Fault::Enospc);
    sim.always(Some(CallKind::CopyStage), "/etc/lvm/backup", Fault::Enospc);
    run(&engine, Request::Create(create("one", 4))).unwrap();
    let codes = || -> Vec<&'static str> {
        let found = engine.check(&vg()).unwrap();
        found.iter().map(|finding| finding.defect.code()).collect()
    };
    assert!(codes().is_empty(), "the copy may be under way");
    sim.host().clock.pause(Duration::from_secs(60));
    assert_eq!(codes(), ["backup-behind", "lvm2-backup-behind"]);
    let left = engine.repair(&vg(), false).unwrap().left;
    assert!(
        left.iter().all(|left| left.what.contains("os error 28")),
        "{left:?}"
    );
    sim.clear_faults();
    let repair = engine.repair(&vg(), false).unwrap();
    assert_eq!((repair.done.len(), repair.left.len()), (2, 0), "{repair:?}");
    assert!(codes().is_empty());
    assert_eq!(seqno_in(&sim, Path::new(LVM2_FILE)), Some(on_disk(&sim)));
}
