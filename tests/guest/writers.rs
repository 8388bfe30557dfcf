//! Two writers in one VG at the same time.

use std::sync::mpsc;

use lvcsi_kit::{LoopVg, VgSpec};

use crate::common::Native;
use crate::support::{Tidy, all_well};

/// lvm2 takes about a second per lvcreate in an emulated guest.
fn creates() -> usize {
    if std::env::var_os("LVCSI_FULL").is_some_and(|v| v == "1") {
        200
    } else {
        40
    }
}

#[test]
fn lvm2_and_we_create_at_the_same_time() {
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
