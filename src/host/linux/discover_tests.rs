use std::os::unix::fs::symlink;

use lvcsi_sys::loopdev::{LoopDevice, LoopOptions};

use super::super::block::tests::loop_device;
use super::super::sysfs::fake::FakeSysfs;
use super::*;

const AFTER: Duration = Duration::from_secs(10);

fn real(conf: &str) -> (tempfile::TempDir, LinuxBlockDevices) {
    with_sysfs(conf, Sysfs::new("/sys".into()))
}

fn with_sysfs(conf: &str, sysfs: Sysfs) -> (tempfile::TempDir, LinuxBlockDevices) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("lvm.conf"), conf).unwrap();
    let conf = LvmConf::read(dir.path()).unwrap();
    let devices = LinuxBlockDevices::new(&conf, sysfs, "/dev".into(), AFTER).unwrap();
    (dir, devices)
}

#[test]
fn finds_loop_devices_with_their_shape_and_notices_new_ones() {
    let Some((small, _file)) = loop_device(512, 1 << 20) else {
        return;
    };
    let (_dir, devices) = real("");
    let before = devices.generation();
    let Some((large, _file2)) = loop_device(4096, 16 << 20) else {
        return;
    };
    if std::fs::exists("/run/udev/control").unwrap() || devices.events.listening() {
        assert_ne!(devices.generation(), before, "a device appeared");
    }
    let (usable, skipped) = devices.discover().unwrap();
    let found = usable.iter().find(|d| d.path == large.path()).unwrap();
    assert_eq!((found.size, found.block_size), (16 << 20, 4096));
    assert!(skipped.contains(&Skipped {
        path: small.path().to_owned(),
        reason: SkipReason::TooSmall
    }));
    assert!(usable.is_sorted_by_key(|device| device.devno));
    let quiet = devices.generation();
    assert_eq!(devices.generation(), quiet, "nothing happened");
    let handle = devices.open(found, true).unwrap();
    handle.write_at(5, b"hello").unwrap();
    assert_eq!(devices.open_path(large.path()).unwrap().info(), found);

    // An md superblock of format 1.2 makes it a member.
    let mut superblock = [0; 4096];
    superblock[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    superblock[144] = 8;
    handle.write_at(4096, &superblock).unwrap();
    let (usable, skipped) = devices.discover().unwrap();
    assert!(!usable.iter().any(|d| d.path == large.path()));
    let member = Skipped {
        path: large.path().to_owned(),
        reason: SkipReason::MdComponent,
    };
    assert!(skipped.contains(&member));
    let (_dir, careless) = real("devices { md_component_detection = 0 }");
    assert!(
        careless
            .discover()
            .unwrap()
            .0
            .iter()
            .any(|d| d.path == large.path())
    );
}

#[test]
fn filters_see_aliases_and_the_devices_file_replaces_filter() {
    let Some((one, _f1)) = loop_device(512, 4 << 20) else {
        return;
    };
    let Some((two, _f2)) = loop_device(512, 4 << 20) else {
        return;
    };
    let has = |devices: &LinuxBlockDevices| {
        let (usable, skipped) = devices.discover().unwrap();
        let skip = |path: &Path| {
            skipped
                .iter()
                .find(|s| s.path == path)
                .map(|s| s.reason.clone())
        };
        assert_eq!(
            usable.iter().any(|d| d.path == one.path()),
            skip(one.path()).is_none()
        );
        (skip(one.path()), skip(two.path()))
    };
    let name = one.path().display();
    let (_dir, by_name) = real(&format!(
        "devices {{ filter = [ \"a|^{name}$|\", \"r|.*|\" ] }}"
    ));
    assert_eq!(has(&by_name), (None, Some(SkipReason::Filtered)));

    let links = Path::new("/dev/disk/by-lvcsi-test");
    std::fs::create_dir_all(links).unwrap();
    let link = links.join(std::process::id().to_string());
    symlink(two.path(), &link).unwrap();
    let (_dir, by_alias) =
        real("devices { global_filter = [ \"a|^/dev/disk/by-lvcsi-test/|\", \"r|.*|\" ] }");
    let seen = has(&by_alias);
    std::fs::remove_file(&link).unwrap();
    // Fails if a test in another process uses it, too.
    let _ = std::fs::remove_dir(links);
    assert_eq!(seen, (Some(SkipReason::Filtered), None));

    let (dir, listed) = real("devices { filter = \"r|.*|\" }");
    std::fs::create_dir(dir.path().join("devices")).unwrap();
    let text = format!("VERSION=1.1.1\nIDTYPE=devname IDNAME={name} DEVNAME={name} PVID=.\n");
    std::fs::write(dir.path().join("devices/system.devices"), text).unwrap();
    assert_eq!(has(&listed), (None, Some(SkipReason::NotInDevicesFile)));
}

#[test]
fn what_cannot_be_opened_is_left_out_with_the_reason() {
    let sysfs = FakeSysfs::new();
    sysfs.add("lvcsi-no-such-disk", 100, &[]);
    sysfs.add("lvcsi-md", 100, &[]);
    let (_dir, devices) = with_sysfs("", Sysfs::new(sysfs.root()));
    let (usable, skipped) = devices.discover().unwrap();
    assert!(usable.is_empty());
    assert!(
        skipped
            .iter()
            .all(|s| matches!(&s.reason, SkipReason::Unreadable(why)
        if why.contains("lvcsi-")))
    );
    assert_eq!(skipped.len(), 2);
}

#[test]
fn loop_devices_that_show_an_lv_are_not_looked_at() {
    // The one stands for an LV, the other is attached to it as by the kubelet.
    let Some((lv, _file)) = loop_device(512, 8 << 20) else {
        return;
    };
    let Some((plain, _file2)) = loop_device(512, 8 << 20) else {
        return;
    };
    let node = std::fs::File::open(lv.path()).unwrap();
    let options = LoopOptions {
        read_only: true,
        ..LoopOptions::default()
    };
    let shows = LoopDevice::attach(&node, options).unwrap();
    let sysfs = FakeSysfs::new();
    let devno = |device: &LoopDevice| number(device.devno());
    let name = |device: &LoopDevice| device.path().file_name().unwrap().to_owned();
    let add = |device: &LoopDevice| {
        sysfs.add_at(name(device).to_str().unwrap(), devno(device), 8, &[]);
    };
    let uuid = "LVM-0123456789012345678901234567890101234567890123456789012345678901";
    let attributes = [("dm/name", "vg-lv"), ("dm/uuid", uuid)];
    sysfs.add_at("dm-0", devno(&lv), 8, &attributes);
    add(&plain);
    add(&shows);

    let usable = |conf: &str| {
        let (_dir, devices) = with_sysfs(conf, Sysfs::new(sysfs.root()));
        let (usable, skipped) = devices.discover().unwrap();
        let reason = skipped.into_iter().find(|s| s.path == shows.path());
        let unfit = devices.examine(shows.path()).unwrap().unfit;
        let paths: Vec<_> = usable.into_iter().map(|device| device.path).collect();
        (paths, reason.map(|s| s.reason), unfit)
    };
    let (paths, reason, unfit) = usable("");
    assert_eq!(paths, [plain.path()]);
    assert_eq!(reason, Some(SkipReason::LogicalVolume));
    assert_eq!(
        unfit,
        [crate::host::Unfit::Skipped(SkipReason::LogicalVolume)]
    );
    let (paths, reason, _) = usable("devices { scan_lvs = 1 }");
    assert!(paths.iter().any(|path| path == shows.path()), "{reason:?}");
}

#[test]
fn partitions_of_loop_devices_are_known_as_such() {
    let sysfs = FakeSysfs::new();
    sysfs.add("loop7", 8, &[]);
    sysfs.add_partition("loop7", 1, 4);
    sysfs.add("sda", 8, &[]);
    sysfs.add("loop-control", 8, &[]);
    let (_dir, devices) = with_sysfs("", Sysfs::new(sysfs.root()));
    let all = devices.sysfs.devices().unwrap();
    let looks = devices.looks(&all, false);
    let loops = [&all["loop7"], &all["loop71"]].map(|device| device.devno);
    assert_eq!(looks.loops, loops.into());
}
