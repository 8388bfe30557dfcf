//! Many calls at once through the socket.

use std::sync::Barrier;

use lvcsi_kit::{Driver, LoopVg, VgSpec};

use crate::common::Native;
use crate::support::{MIB, Tidy, all_well};

const VOLUMES: usize = 64;

#[test]
fn sixty_four_volumes_at_once() {
    let _tidy = Tidy::new();
    let vg = LoopVg::with(&VgSpec::disks(2, 1024));
    let native = Native::open(&vg);
    let driver = Driver::start(vg.dir());
    let csi = driver.csi();
    let before = vg.decode().seqno;
    let gate = Barrier::new(VOLUMES);
    std::thread::scope(|scope| {
        for n in 0..VOLUMES {
            let (csi, gate, vg) = (csi.clone(), &gate, &vg);
            scope.spawn(move || {
                gate.wait();
                let name = format!("pvc-{n}");
                let volume = csi.create(&vg.name, &name, 8 * MIB, "ext4");
                let volume = volume.unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(volume.capacity_bytes, 8 * MIB);
                assert_eq!(volume.volume_id, name);
            });
        }
    });
    let after = vg.decode();
    assert_eq!(after.lvs.len(), VOLUMES);
    let commits = after.seqno - before;
    println!("{VOLUMES} volumes in {commits} commits");
    assert!(
        commits < VOLUMES as i64,
        "{commits} commits: nothing was shared"
    );
    all_well(&vg, &native);

    std::thread::scope(|scope| {
        for n in 0..VOLUMES {
            let csi = csi.clone();
            scope.spawn(move || {
                csi.delete(&format!("pvc-{n}"))
                    .unwrap_or_else(|e| panic!("pvc-{n}: {e}"));
            });
        }
    });
    assert!(vg.decode().lvs.is_empty(), "volumes are left");
    all_well(&vg, &native);
}

/// The same name from many callers: one LV, and every caller gets it or is
/// told to ask again.
#[test]
fn one_volume_asked_for_many_times_at_once() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let driver = Driver::start(vg.dir());
    let csi = driver.csi();
    let gate = Barrier::new(16);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            let (csi, gate, vg) = (csi.clone(), &gate, &vg);
            scope.spawn(move || {
                gate.wait();
                match csi.create(&vg.name, "same", 8 * MIB, "") {
                    Ok(volume) => assert_eq!(volume.volume_id, "same"),
                    Err(status) => assert_eq!(status.code(), tonic::Code::Aborted, "{status}"),
                }
            });
        }
    });
    csi.create(&vg.name, "same", 8 * MIB, "")
        .expect("the last one finds it");
    assert_eq!(vg.decode().names(), ["same"]);
    csi.delete("same").expect("DeleteVolume");
    vg.assert_clean();
}
