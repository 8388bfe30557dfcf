use std::path::Path;

use super::super::block::tests::loop_device;
use super::super::discover::device_at;
use super::*;

#[test]
fn events_as_lvm2_sends_them() {
    let flags = |udev, exposure| event(udev, exposure) >> 16;
    assert_eq!(flags(true, Exposure::Visible), 0x60);
    assert_eq!(flags(true, Exposure::VisibleUnwiped), 0x160);
    assert_eq!(flags(true, Exposure::Hidden), 0x6e);
    assert_eq!(flags(false, Exposure::Visible), 0x43);
    assert_eq!(flags(false, Exposure::VisibleUnwiped), 0x143);
    assert_eq!(flags(false, Exposure::Hidden), 0x4f);
    assert_eq!(event(true, Exposure::Visible) & 0xffff, 0, "no cookie");
}

const MIB: u64 = 2048;

fn linear(disk: &lvcsi_sys::loopdev::LoopDevice, sectors: u64) -> Vec<Target> {
    vec![Target {
        start: Sectors(0),
        len: Sectors(sectors),
        kind: "linear".to_owned(),
        params: format!("{} {}", disk.devno(), MIB),
    }]
}

/// Names that no other run uses.
fn names(test: &str) -> (String, String, String) {
    let vg = format!("lvcsi{}{test}", std::process::id());
    let uuid = format!("LVM-{:0>64}", format!("{}{test}", std::process::id()));
    (format!("{vg}-lv"), uuid, vg)
}

/// Waits until udev or we have made (or removed) a path.
fn appears(path: &Path, there: bool) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while path.exists() != there && Instant::now() < until {
        pause(Duration::from_millis(5));
    }
    path.exists() == there
}

/// One device from creation to removal.
fn life(udev: bool) {
    let Some((disk, _file)) = loop_device(512, 32 << 20) else {
        return;
    };
    let private = tempfile::tempdir().unwrap();
    let nodes = Nodes::new("/dev".into(), private.path().join("dev"));
    let dm = LinuxDeviceMapper::new(udev, nodes);
    let (name, uuid, vg) = names(if udev { "u" } else { "n" });
    let lv = Some((vg.as_str(), "lv"));

    let dev = dm.create(&name, &uuid).unwrap();
    assert_eq!(
        dm.create(&name, "LVM-other").unwrap_err().raw_os_error(),
        Some(libc::EBUSY)
    );
    assert_eq!(
        dm.create("lvcsi-other", &uuid).unwrap_err().raw_os_error(),
        Some(libc::EBUSY)
    );
    dm.load(dev, &linear(&disk, 8 * MIB), false).unwrap();
    assert_eq!(dm.table(dev, true).unwrap(), linear(&disk, 8 * MIB));
    dm.discard(dev, Exposure::Visible).unwrap();
    assert_eq!(dm.table(dev, true).unwrap(), []);
    dm.load(dev, &linear(&disk, 8 * MIB), false).unwrap();
    dm.resume(dev, &name, lv, Exposure::VisibleUnwiped).unwrap();
    let found = dm.by_uuid(&uuid).unwrap().unwrap();
    assert_eq!(
        (found.dev, found.name.as_str(), found.uuid.as_str()),
        (dev, name.as_str(), uuid.as_str())
    );
    assert!(found.active_table && !found.inactive_table && !found.suspended && !found.read_only);
    assert!(dm.list().unwrap().contains(&DmEntry {
        dev,
        name: name.clone(),
        uuid: uuid.clone()
    }));
    assert_eq!(dm.table(dev, false).unwrap(), linear(&disk, 8 * MIB));
    assert_eq!(
        device_at(&dm.node(dev).unwrap()),
        Some(dev),
        "usable at once"
    );

    let (mapper, link) = (
        Path::new("/dev/mapper").join(&name),
        Path::new("/dev").join(&vg).join("lv"),
    );
    assert!(
        appears(&mapper, true) && appears(&link, true),
        "links by {}",
        if udev { "udev" } else { "us" }
    );
    assert_eq!(
        (device_at(&mapper), device_at(&link)),
        (Some(dev), Some(dev))
    );

    dm.load(dev, &linear(&disk, 16 * MIB), true).unwrap();
    dm.suspend(dev, SuspendMode::default()).unwrap();
    let found = dm.by_uuid(&uuid).unwrap().unwrap();
    assert!(found.suspended && found.inactive_table);
    dm.resume(dev, &name, lv, Exposure::Visible).unwrap();
    assert!(dm.by_uuid(&uuid).unwrap().unwrap().read_only);

    // Discarded before a rename: a table cleared here would have the kernel free
    // memory twice below.
    dm.load(dev, &linear(&disk, 24 * MIB), true).unwrap();
    dm.discard(dev, Exposure::Visible).unwrap();
    let found = dm.by_uuid(&uuid).unwrap().unwrap();
    assert!(found.read_only && !found.inactive_table && !found.suspended);
    assert_eq!(dm.table(dev, false).unwrap(), linear(&disk, 16 * MIB));
    dm.load(dev, &linear(&disk, 24 * MIB), true).unwrap();
    dm.suspend(dev, SuspendMode::default()).unwrap();
    dm.discard(dev, Exposure::Visible).unwrap();
    assert!(dm.by_uuid(&uuid).unwrap().unwrap().suspended);
    dm.resume(dev, &name, lv, Exposure::Visible).unwrap();
    assert_eq!(dm.table(dev, false).unwrap(), linear(&disk, 16 * MIB));

    let to = format!("{vg}-lw");
    let new = Some((vg.as_str(), "lw"));
    dm.rename(dev, &name, &to, lv, new, Exposure::Visible)
        .unwrap();
    let error = dm
        .rename(dev, &name, &to, lv, new, Exposure::Visible)
        .unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
    let new_link = link.with_file_name("lw");
    assert!(appears(&new_link, true) && appears(&link, false) && appears(&mapper, false));

    let held = std::fs::File::open(dm.node(dev).unwrap()).unwrap();
    let start = Instant::now();
    match dm.remove(dev, &to, new) {
        Err(HostError::Busy { device, open_count }) => {
            assert_eq!(device, to);
            assert!(open_count >= 1);
        }
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() >= REMOVE_PATIENCE);
    // Let go of while the removal is being tried: what udev does.
    let waker = std::thread::spawn(move || {
        pause(Duration::from_millis(300));
        drop(held);
    });
    dm.remove(dev, &to, new).unwrap();
    waker.join().unwrap();
    dm.remove(dev, &to, new).unwrap();
    assert_eq!(dm.by_uuid(&uuid).unwrap(), None);
    assert!(appears(&new_link, false) && appears(&Path::new("/dev/mapper").join(&to), false));
    assert!(
        appears(new_link.parent().unwrap(), false),
        "the VG's empty directory"
    );
}

#[test]
#[ignore = "needs device-mapper"]
fn life_of_a_device_with_nodes_of_our_own() {
    if Path::new("/run/udev/control").exists() {
        eprintln!("skipped: udev runs here and would make nodes too");
        return;
    }
    life(false);
}

#[test]
#[ignore = "needs device-mapper"]
fn life_of_a_device_with_udev() {
    if !Path::new("/run/udev/control").exists() {
        eprintln!("skipped: no udev here");
        return;
    }
    life(true);
}

/// udev probes each device when it appears; removal has to cope with that.
#[test]
#[ignore = "needs device-mapper"]
fn creates_and_removes_at_full_speed() {
    let Some((disk, _file)) = loop_device(512, 32 << 20) else {
        return;
    };
    let private = tempfile::tempdir().unwrap();
    let udev = Path::new("/run/udev/control").exists();
    let dm = LinuxDeviceMapper::new(udev, Nodes::new("/dev".into(), private.path().join("dev")));
    let (name, uuid, vg) = names("s");
    let lv = Some((vg.as_str(), "lv"));
    for round in 0..50 {
        let dev = dm.create(&name, &uuid).unwrap();
        dm.load(dev, &linear(&disk, 8 * MIB), false).unwrap();
        dm.resume(dev, &name, lv, Exposure::Visible).unwrap();
        // A writer that closes: udev's `watch` makes it probe the device again.
        drop(
            std::fs::OpenOptions::new()
                .write(true)
                .open(dm.node(dev).unwrap())
                .unwrap(),
        );
        dm.remove(dev, &name, lv)
            .unwrap_or_else(|error| panic!("{round}: {error}"));
    }
    assert!(appears(&Path::new("/dev").join(&vg), false));
    assert!(appears(&Path::new("/dev/mapper").join(&name), false));
}

/// LVs come and go without a rediscovery; other devices do not.
#[test]
#[ignore = "needs device-mapper"]
fn lvs_do_not_count_as_new_devices() {
    let Some((disk, _file)) = loop_device(512, 32 << 20) else {
        return;
    };
    let private = tempfile::tempdir().unwrap();
    let dm = LinuxDeviceMapper::new(true, Nodes::new("/dev".into(), private.path().join("dev")));
    let events =
        super::super::events::Events::new(super::super::sysfs::Sysfs::new("/sys".into()), true);
    assert!(events.listening());
    // Events of the loop device itself may still come from udev.
    let mut before = events.generation();
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        pause(Duration::from_millis(50));
        before = events.generation();
    }
    let (name, uuid, vg) = names("e");
    let make = |name: &str, uuid: &str| {
        let dev = dm.create(name, uuid).unwrap();
        dm.load(dev, &linear(&disk, 8 * MIB), false).unwrap();
        dm.resume(dev, name, Some((&vg, "lv")), Exposure::Visible)
            .unwrap();
        dev
    };
    let dev = make(&name, &uuid);
    assert_eq!(events.generation(), before);
    dm.remove(dev, &name, None).unwrap();
    assert_eq!(events.generation(), before);
    let dev = make("lvcsi-test-other", "TEST-other");
    assert_ne!(events.generation(), before);
    dm.remove(dev, "lvcsi-test-other", None).unwrap();
}
