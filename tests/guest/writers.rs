//! Two writers in one VG at the same time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lvcsi::host::LockMode;
use lvcsi_kit::{LoopVg, VgSpec, proof};

use crate::common::{Native, machine};
use crate::support::{Tidy, all_well};

/// lvm2 takes some seconds for one in an emulated guest, and the storm goes on for
/// longer by day too.
fn creates() -> usize {
    if proof::nightly() { 200 } else { 15 }
}

#[test]
fn pitfall_01_lvm2_and_we_create_at_the_same_time() {
    let _tidy = Tidy::new();
    let creates = creates();
    let vg = LoopVg::with(&VgSpec::disks(2, 2048));
    let native = Native::open(&vg);
    let before = vg.decode().seqno;
    // Each lvcreate starts together with one creation of ours.
    let (start, started) = mpsc::channel();
    std::thread::scope(|scope| {
        let vg = &vg;
        scope.spawn(move || {
            for n in 0..creates {
                start.send(()).expect("we are there");
                let name = format!("theirs{n}");
                let args = ["lvcreate", "-y", "-Zn", "-Wn", "-l1", "-n", &name, &vg.name];
                vg.lvm.clean(&args);
            }
        });
        for (n, ()) in started.iter().enumerate() {
            native.create(&format!("ours{n}"), 4);
        }
    });
    let after = vg.decode();
    let commits = usize::try_from(after.seqno - before).unwrap();
    assert_eq!(after.lvs.len(), 2 * creates, "an LV was lost");
    assert_eq!(
        commits,
        2 * creates,
        "every commit is one step of seqno, and none was lost"
    );
    all_well(&vg, &native);

    std::thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            let names: Vec<String> = (0..creates).map(|n| vg.lv(&format!("ours{n}"))).collect();
            let mut args = vec!["lvremove", "-q", "-y"];
            args.extend(names.iter().map(String::as_str));
            vg.lvm.clean(&args);
        });
        for n in 0..creates {
            native.remove(&format!("theirs{n}"));
        }
        theirs.join().expect("lvm2");
    });
    assert!(vg.decode().lvs.is_empty());
    all_well(&vg, &native);
}

/// Readers of ours that come and go without a gap would keep a writer of lvm2
/// waiting for ever if they did not queue behind it, as lvm2's own do.
#[test]
fn pitfall_21_our_readers_do_not_starve_lvm2() {
    const READERS: usize = 20;
    const DEADLINE: Duration = Duration::from_secs(60);
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    let locks = machine(&vg).locks;
    let resource = format!("V_{}", vg.name);
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let guard = locks.lock(&resource, LockMode::Shared, DEADLINE);
                    drop(guard.expect("the lock"));
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let start = Instant::now();
        let args = [
            "lvcreate", "-y", "-Zn", "-Wn", "-l1", "-n", "theirs", &vg.name,
        ];
        vg.lvm.clean(&args);
        let took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        println!("lvcreate took {took:?} beside {reads:?} reads");
        assert!(took < DEADLINE, "lvm2 waited {took:?}");
    });
    assert!(reads.into_inner() > 0, "no reader came in between");
    native.remove("theirs");
    all_well(&vg, &native);
}
