//! Volumes as their users see them: mounted or as block devices.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use lvcsi_kit::csi::v1::Volume;
use lvcsi_kit::{Csi, Driver, LoopVg, VgSpec};

use crate::common::Native;
use crate::support::{MIB, Tidy, all_well, check_pattern, device_size, write_pattern};

/// One line of the mount table.
fn mounted(target: &Path) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let target = target.to_str().unwrap();
    table
        .lines()
        .find(|line| line.split(' ').nth(4) == Some(target))
        .map(str::to_owned)
}

fn life_of_a_mount(fs: &str, first_mib: i64, then_mib: i64) {
    let _tidy = Tidy::new();
    let vg = LoopVg::with(&VgSpec::disks(2, 1024));
    let native = Native::open(&vg);
    let driver = Driver::start(vg.dir());
    let csi = driver.csi();
    let volume = csi
        .create(&vg.name, "pvc-m", first_mib * MIB, fs)
        .expect("CreateVolume");
    let target = vg.dir().join("pods/a/mount");
    for _ in 0..2 {
        csi.publish(&volume, &target, fs)
            .expect("NodePublishVolume, repeated");
    }
    let line = mounted(&target).expect("a mount");
    assert!(line.contains(&format!(" {fs} ")), "{line}");
    all_well(&vg, &native);
    let lv = vg.decode().lv("pvc-m").cloned().expect("the LV");
    assert!(lv.tags.contains(&format!("lvcsi.fs={fs}")), "{lv:?}");

    let file = target.join("data");
    write_pattern(&file, 8, 3);
    let before = csi.stats("pvc-m", &target).expect("stats").usage;
    let open = fs::File::open(&file).expect("a file that stays open");
    assert_eq!(
        csi.expand("pvc-m", then_mib * MIB).expect("expand"),
        then_mib * MIB
    );
    for _ in 0..2 {
        csi.node_expand("pvc-m", &target, then_mib * MIB)
            .expect("NodeExpandVolume, repeated");
    }
    drop(open);
    check_pattern(&file, 8, 3);
    let after = csi.stats("pvc-m", &target).expect("stats").usage;
    let bytes = |usage: &[lvcsi_kit::csi::v1::VolumeUsage]| {
        usage.iter().find(|u| u.unit == 1).unwrap().total
    };
    assert!(bytes(&after) > bytes(&before), "{before:?} -> {after:?}");
    assert!(
        bytes(&after) > then_mib * MIB * 8 / 10,
        "the file system is as large as its LV"
    );
    all_well(&vg, &native);

    // In use: neither the LV nor the volume can go.
    let code = csi.delete("pvc-m").expect_err("mounted").code();
    assert_eq!(code, tonic::Code::FailedPrecondition);
    check_pattern(&file, 8, 3);

    for _ in 0..2 {
        csi.unpublish("pvc-m", &target)
            .expect("NodeUnpublishVolume, repeated");
    }
    assert!(mounted(&target).is_none() && !target.exists());
    csi.publish(&volume, &target, fs)
        .expect("NodePublishVolume, later");
    check_pattern(&file, 8, 3);
    csi.unpublish("pvc-m", &target)
        .expect("NodeUnpublishVolume");
    for _ in 0..2 {
        csi.delete("pvc-m").expect("DeleteVolume, repeated");
    }
    assert!(vg.decode().lvs.is_empty());
    all_well(&vg, &native);
}

#[test]
fn ext4_from_creation_to_deletion() {
    life_of_a_mount("ext4", 64, 160);
}

#[test]
fn xfs_from_creation_to_deletion() {
    life_of_a_mount("xfs", 320, 512);
}

#[test]
fn btrfs_from_creation_to_deletion() {
    life_of_a_mount("btrfs", 256, 384);
}

#[test]
fn block_from_creation_to_deletion() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(512);
    let native = Native::open(&vg);
    let driver = Driver::start(vg.dir());
    let csi = driver.csi();
    let volume = csi
        .create(&vg.name, "pvc-b", 32 * MIB, "")
        .expect("CreateVolume");
    let target = vg.dir().join("pods/b/device");
    for _ in 0..2 {
        csi.publish(&volume, &target, "")
            .expect("NodePublishVolume, repeated");
    }
    let meta = fs::metadata(&target).expect("the device");
    assert!(meta.file_type().is_block_device());
    let dm = fs::metadata(vg.device("pvc-b")).map(|m| m.rdev());
    if let Ok(dm) = dm {
        assert_eq!(meta.rdev(), dm, "another device");
    }
    assert_eq!(device_size(&target), 32 << 20);
    write_pattern(&target, 32, 9);

    assert_eq!(csi.expand("pvc-b", 96 * MIB).expect("expand"), 96 * MIB);
    csi.node_expand("pvc-b", &target, 96 * MIB)
        .expect("NodeExpandVolume");
    assert_eq!(device_size(&target), 96 << 20);
    check_pattern(&target, 32, 9);
    let stats = csi.stats("pvc-b", &target).expect("stats").usage;
    assert_eq!((stats[0].unit, stats[0].total), (1, 96 * MIB));
    all_well(&vg, &native);

    csi.unpublish("pvc-b", &target)
        .expect("NodeUnpublishVolume");
    assert!(!target.exists());
    csi.publish(&volume, &target, "")
        .expect("NodePublishVolume, later");
    check_pattern(&target, 32, 9);
    csi.unpublish("pvc-b", &target)
        .expect("NodeUnpublishVolume");
    csi.delete("pvc-b").expect("DeleteVolume");
    all_well(&vg, &native);
}

/// Publishes to `target`, restarts the driver, and goes on.
#[test]
fn a_restart_of_the_driver_disturbs_nobody() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(512);
    let mut driver = Driver::start(vg.dir());
    let csi = driver.csi();
    let volume = csi
        .create(&vg.name, "pvc-r", 64 * MIB, "ext4")
        .expect("CreateVolume");
    let target: PathBuf = vg.dir().join("mnt");
    csi.publish(&volume, &target, "ext4")
        .expect("NodePublishVolume");
    write_pattern(&target.join("data"), 4, 7);
    driver.kill();
    check_pattern(&target.join("data"), 4, 7);
    driver.spawn();
    go_on(&driver.csi(), &volume, &target);
    vg.assert_clean();
}

fn go_on(csi: &Csi, volume: &Volume, target: &Path) {
    let id = &volume.volume_id;
    csi.publish(volume, target, "ext4")
        .expect("still published");
    csi.expand(id, 128 * MIB).expect("ControllerExpandVolume");
    csi.node_expand(id, target, 128 * MIB)
        .expect("NodeExpandVolume");
    check_pattern(&target.join("data"), 4, 7);
    csi.unpublish(id, target).expect("NodeUnpublishVolume");
    csi.delete(id).expect("DeleteVolume");
}
