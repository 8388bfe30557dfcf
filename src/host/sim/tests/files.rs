//! File systems, locks, time, and VGs put on disk.

use std::path::Path;
use std::time::Duration;

use lvm2::units::{ExtentSize, Sectors};

use super::{MIB, machine, mapped, target};
use crate::host::sim::SimHost;
use crate::host::{Exposure, FsKind, Host, HostError, LockMode, Probe};

#[test]
fn locks_exclude_threads_and_processes_and_end_with_their_process() {
    let (sim, host) = machine();
    let other = sim.host();
    let now = Duration::ZERO;
    let first = host.locks.lock("V_vg", LockMode::Shared, now).unwrap();
    let second = other.locks.lock("V_vg", LockMode::Shared, now).unwrap();
    let refused = other
        .locks
        .lock("V_vg", LockMode::Exclusive, now)
        .err()
        .unwrap();
    assert!(matches!(refused, HostError::LockTimeout { holder, .. } if holder.len() == 2));
    other
        .locks
        .lock("V_other", LockMode::Exclusive, now)
        .unwrap();
    drop((first, second));
    let held = host.locks.lock("V_vg", LockMode::Exclusive, now).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            other
                .locks
                .lock("V_vg", LockMode::Exclusive, Duration::from_secs(60))
                .is_ok()
        });
        host.clock.pause(Duration::from_millis(1));
        assert!(!waiting.is_finished());
        drop(held);
        assert!(waiting.join().unwrap());
    });
    let kept = host.locks.lock("V_vg", LockMode::Exclusive, now).unwrap();
    let restarted = sim.restart();
    restarted
        .locks
        .lock("V_vg", LockMode::Exclusive, now)
        .unwrap();
    drop(kept);
}

#[test]
fn a_file_system_is_made_mounted_grown_and_keeps_its_device_busy() {
    let (_sim, host) = machine();
    let dev = mapped(&host, "lv", &[target(0, 65536, "linear", "8:0 0")]);
    let (node, target_dir) = (host.dm.node(dev).unwrap(), Path::new("/mnt/a"));
    let fs = &host.fs;
    assert_eq!(fs.probe(&node).unwrap(), Probe::NoSignature);
    fs.make(&node, FsKind::Ext4, &[]).unwrap();
    assert_eq!(
        fs.probe(&node).unwrap(),
        Probe::Signature("ext4".to_owned())
    );
    assert!(
        fs.make(&node, FsKind::Ext4, &[]).is_err(),
        "mkfs over a file system"
    );
    let options = ["noatime".to_owned(), "discard".to_owned()];
    assert!(
        fs.mount(&node, target_dir, FsKind::Ext4, &options).is_err(),
        "no directory"
    );
    fs.make_dir(target_dir).unwrap();
    assert!(
        fs.mount(&node, target_dir, FsKind::Xfs, &options).is_err(),
        "another type"
    );
    fs.check(&node, FsKind::Ext4).unwrap();
    fs.mount(&node, target_dir, FsKind::Ext4, &options).unwrap();
    let entry = fs.mounts().unwrap().pop().unwrap();
    assert_eq!(
        (entry.dev, entry.options),
        (dev, vec!["rw".to_owned(), "noatime".to_owned()])
    );
    assert!(
        fs.check(&node, FsKind::Ext4).is_err(),
        "fsck of a mounted file system"
    );
    assert!(matches!(
        host.dm.remove(dev, "lv", None),
        Err(HostError::Busy { open_count: 1, .. })
    ));
    assert_eq!(fs.usage(target_dir).unwrap().total_bytes, 32 * MIB);
    host.dm
        .load(dev, &[target(0, 98304, "linear", "8:0 0")], false)
        .unwrap();
    host.dm.resume(dev, "lv", None, Exposure::Visible).unwrap();
    assert_eq!(fs.grow(&node, target_dir, FsKind::Ext4).unwrap(), 48 * MIB);
    let usage = fs.usage(target_dir).unwrap();
    assert_eq!(usage.total_bytes, 48 * MIB);
    assert_eq!(usage.used_bytes + usage.available_bytes, usage.total_bytes);
    assert_eq!(
        fs.remove_path(target_dir).unwrap_err().raw_os_error(),
        Some(16)
    );
    fs.unmount(target_dir).unwrap();
    fs.unmount(target_dir).unwrap();
    fs.remove_path(target_dir).unwrap();
    host.dm.remove(dev, "lv", None).unwrap();
}

#[test]
fn a_bound_node_leads_to_the_device_and_does_not_open_it() {
    let (sim, host) = machine();
    let dev = mapped(&host, "lv", &[target(0, 4096, "linear", "8:0 0")]);
    let file = Path::new("/pods/1/vol");
    assert!(
        host.fs.bind(Path::new("/dev/dm-0"), file, false).is_err(),
        "no file"
    );
    host.fs.make_file(file).unwrap();
    assert_eq!(host.fs.kind_of(file).unwrap(), Some(false));
    assert_eq!(host.fs.kind_of(Path::new("/pods")).unwrap(), Some(true));
    assert_eq!(
        host.fs.kind_of(Path::new("/dev/vg/lv")).unwrap(),
        Some(false)
    );
    host.fs.bind(Path::new("/dev/dm-0"), file, true).unwrap();
    let entry = host.fs.mounts().unwrap().pop().unwrap();
    assert_eq!(
        (entry.fs_type.as_str(), entry.root.as_path()),
        ("devtmpfs", Path::new("/dm-0"))
    );
    assert_eq!(entry.options, ["ro"]);
    assert_eq!(host.fs.probe(file).unwrap(), Probe::NoSignature);
    assert_eq!(sim.open_count(dev), 0);
    assert_eq!(
        host.fs
            .remove_path(Path::new("/pods"))
            .unwrap_err()
            .raw_os_error(),
        Some(39)
    );
}

#[test]
fn time_is_simulated_and_randomness_repeats() {
    let hosts = [SimHost::new().host(), SimHost::new().host()];
    let draw = |host: &Host| {
        let mut buf = [0; 40];
        host.clock.random(&mut buf);
        buf
    };
    let first = draw(&hosts[0]);
    assert_eq!(first, draw(&hosts[1]));
    assert_ne!(first, draw(&hosts[0]));
    let (before, wall) = (hosts[0].clock.monotonic(), hosts[0].clock.unix_seconds());
    hosts[0].clock.pause(Duration::from_secs(3600));
    assert_eq!(
        hosts[0].clock.monotonic() - before,
        Duration::from_secs(3600)
    );
    assert_eq!(hosts[0].clock.unix_seconds() - wall, 3600);
}

#[test]
fn a_vg_lies_on_its_disks_as_lvm2_leaves_it() {
    let (sim, _host) = machine();
    sim.add_vg(
        "vg",
        &["/dev/sda", "/dev/sdb"],
        ExtentSize::new(Sectors(8192)).unwrap(),
    )
    .unwrap();
    let disk = sim.disk("/dev/sdb");
    assert_eq!(disk.read(512, 8), b"LABELONE");
    assert_eq!(&disk.read(4096, 20)[4..], b" LVM2 x[5A%r0N*>");
    let text = String::from_utf8(disk.read(4608, 4096)).unwrap();
    assert!(text.starts_with("vg {\nid = \""), "{text}");
    assert!(
        text.contains("dev_size = 131072\npe_start = 2048\npe_count = 15\n}\n}\n"),
        "{text}"
    );
    assert_eq!(disk.read(4608, 4096), sim.disk("/dev/sda").read(4608, 4096));
    let extents = ExtentSize::new(Sectors(1 << 20)).unwrap();
    assert!(sim.add_vg("big", &["/dev/sda"], extents).is_err());
    assert!(sim.add_vg("vg", &["/dev/sdz"], extents).is_err());
}
