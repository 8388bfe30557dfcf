//! Disks and device-mapper.

use std::path::Path;
use std::time::Duration;

use super::{DISK, MIB, machine, mapped, open, read, target};
use crate::host::{Exposure, HostError, SkipReason, SuspendMode};

#[test]
fn discovery_lists_disks_and_says_why_not_others() {
    let (sim, host) = machine();
    sim.add_disk("/dev/sdc", MIB, 512);
    let before = host.block.generation();
    sim.detach("/dev/sdb");
    assert_ne!(host.block.generation(), before);
    mapped(&host, "lv", &[target(0, 8192, "linear", "8:0 2048")]);
    let (found, skipped) = host.block.discover().unwrap();
    let paths: Vec<_> = found
        .iter()
        .map(|info| info.path.to_str().unwrap())
        .collect();
    assert_eq!(paths, ["/dev/sda"]);
    let reasons: Vec<_> = skipped.into_iter().map(|skipped| skipped.reason).collect();
    assert_eq!(reasons, [SkipReason::TooSmall, SkipReason::LogicalVolume]);
    sim.attach("/dev/sdb");
    assert_eq!(host.block.discover().unwrap().0.len(), 2);
}

#[test]
fn a_device_keeps_what_is_written_and_refuses_what_is_beyond_it() {
    let (sim, host) = machine();
    let device = open(&host, DISK, true);
    device.write_at(1000, b"data").unwrap();
    assert_eq!(read(device.as_ref(), 999, 6), b"\0data\0");
    assert_eq!(sim.disk("/dev/sda").read(1000, 4), b"data");
    assert!(device.write_at(64 * MIB - 1, b"xx").is_err());
    assert!(device.read_at(64 * MIB, &mut [0]).is_err());
    device.discard(1000, 4).unwrap();
    assert_eq!(
        read(device.as_ref(), 1000, 4),
        b"data",
        "a discard promises nothing"
    );
    device.zero(1000, 4).unwrap();
    assert_eq!(read(device.as_ref(), 1000, 4), [0; 4]);
    let reader = open(&host, DISK, false);
    assert_eq!(
        reader.write_at(0, b"x").unwrap_err().raw_os_error(),
        Some(9)
    );
    sim.detach("/dev/sda");
    assert!(device.read_at(0, &mut [0]).is_err());
}

#[test]
fn linear_and_striped_tables_lead_to_the_right_bytes() {
    let (sim, host) = machine();
    let table = [
        target(0, 16, "linear", "8:0 2048"),
        target(16, 32, "striped", "2 8 8:0 4096 /dev/sdb 2048"),
        target(48, 8, "zero", ""),
        target(56, 8, "error", ""),
    ];
    let dev = mapped(&host, "lv", &table);
    let device = open(&host, dev, true);
    assert_eq!(device.info().size, 64 * 512);
    // From the linear part into the third chunk of the striped one.
    let data: Vec<u8> = (0..16384u32).map(|n| (n % 251) as u8).collect();
    device.write_at(4096, &data).unwrap();
    assert_eq!(read(device.as_ref(), 4096, data.len()), data);
    let (a, b) = (sim.disk("/dev/sda"), sim.disk("/dev/sdb"));
    assert_eq!(a.read(2048 * 512 + 4096, 4096), data[..4096]);
    assert_eq!(a.read(4096 * 512, 4096), data[4096..8192]);
    assert_eq!(b.read(2048 * 512, 4096), data[8192..12288]);
    assert_eq!(a.read(4096 * 512 + 4096, 4096), data[12288..]);
    device.write_at(48 * 512, &[1; 4096]).unwrap();
    assert_eq!(read(device.as_ref(), 48 * 512, 4096), [0; 4096]);
    assert!(device.read_at(56 * 512, &mut [0; 512]).is_err());
    // The kernel prints devices as numbers.
    let printed = host.dm.table(dev, false).unwrap();
    assert_eq!(printed[1].params, "2 8 8:0 4096 8:16 2048");
    assert_eq!(printed[0], table[0]);
}

#[test]
fn a_bad_table_is_refused_as_a_whole() {
    let (_sim, host) = machine();
    let dev = host.dm.create("lv", "LVM-1").unwrap();
    for bad in [
        vec![target(8, 8, "linear", "8:0 0")],
        vec![
            target(0, 8, "linear", "8:0 0"),
            target(16, 8, "linear", "8:0 0"),
        ],
        vec![target(0, 8, "thin", "253:4 1")],
        vec![target(0, 8, "linear", "9:9 0")],
        vec![target(0, 8, "linear", "8:0 131072")],
        vec![target(0, 8, "striped", "2 8 8:0 0")],
        vec![target(0, 0, "zero", "")],
    ] {
        assert!(matches!(
            host.dm.load(dev, &bad, false),
            Err(HostError::Dm { op: "load", .. })
        ));
        assert!(!host.dm.by_uuid("LVM-1").unwrap().unwrap().inactive_table);
    }
}

#[test]
fn a_device_is_not_built_on_itself() {
    let (_sim, host) = machine();
    let lower = mapped(&host, "lower", &[target(0, 4096, "linear", "8:0 0")]);
    mapped(&host, "upper", &[target(0, 2048, "linear", "253:0 0")]);
    for onto in ["253:0 0", "253:1 0"] {
        let table = [target(0, 2048, "linear", onto)];
        assert_eq!(
            host.dm
                .load(lower, &table, false)
                .unwrap_err()
                .raw_os_error(),
            Some(22)
        );
    }
}

#[test]
fn a_table_is_live_only_after_resume_and_can_be_dropped_before() {
    let (_sim, host) = machine();
    let dev = host.dm.create("lv", "LVM-1").unwrap();
    host.dm
        .load(dev, &[target(0, 8, "linear", "8:0 0")], true)
        .unwrap();
    let state = host.dm.by_uuid("LVM-1").unwrap().unwrap();
    assert!(state.inactive_table && !state.active_table && !state.read_only);
    host.dm.discard(dev, Exposure::Visible).unwrap();
    assert_eq!(host.dm.table(dev, true).unwrap(), []);
    host.dm
        .load(dev, &[target(0, 8, "linear", "8:0 0")], true)
        .unwrap();
    host.dm
        .resume(dev, "lv", Some(("vg", "lv")), Exposure::Visible)
        .unwrap();
    let state = host.dm.by_uuid("LVM-1").unwrap().unwrap();
    assert!(!state.inactive_table && state.active_table && state.read_only);
    let info = host
        .block
        .open_path(Path::new("/dev/vg/lv"))
        .unwrap()
        .info()
        .clone();
    assert_eq!(info.size, 4096);
    assert_eq!(
        host.block.open(&info, true).err().unwrap().raw_os_error(),
        Some(30)
    );
}

#[test]
fn names_and_uuids_are_taken_once() {
    let (_sim, host) = machine();
    let dev = host.dm.create("a", "LVM-a").unwrap();
    assert_eq!(
        host.dm.create("a", "LVM-b").unwrap_err().raw_os_error(),
        Some(16)
    );
    assert_eq!(
        host.dm.create("b", "LVM-a").unwrap_err().raw_os_error(),
        Some(16)
    );
    let other = host.dm.create("b", "LVM-b").unwrap();
    assert_ne!(dev, other);
    let rename = |to| {
        host.dm
            .rename(dev, "a", to, None, Some(("vg", to)), Exposure::Visible)
    };
    assert_eq!(rename("b").unwrap_err().raw_os_error(), Some(16));
    rename("c").unwrap();
    let names: Vec<_> = host
        .dm
        .list()
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names, ["c", "b"]);
}

#[test]
fn an_open_device_is_not_removed() {
    let (sim, host) = machine();
    let lower = mapped(&host, "lower", &[target(0, 4096, "linear", "8:0 0")]);
    let upper = mapped(&host, "upper", &[target(0, 2048, "linear", "253:0 0")]);
    let remove = |dev, name| host.dm.remove(dev, name, None);
    assert!(matches!(
        remove(lower, "lower"),
        Err(HostError::Busy { open_count: 1, .. })
    ));
    let handle = open(&host, upper, false);
    assert_eq!(sim.open_count(upper), 1);
    assert!(matches!(
        remove(upper, "upper"),
        Err(HostError::Busy { .. })
    ));
    drop(handle);
    remove(upper, "upper").unwrap();
    remove(lower, "lower").unwrap();
    assert_eq!(host.dm.list().unwrap(), []);
    assert_eq!(remove(lower, "lower").unwrap_err().raw_os_error(), Some(6));
}

#[test]
fn io_to_a_suspended_device_waits_for_the_resume() {
    let (_sim, host) = machine();
    let dev = mapped(&host, "lv", &[target(0, 2048, "linear", "8:0 0")]);
    let device = open(&host, dev, true);
    host.dm
        .load(dev, &[target(0, 2048, "linear", "8:16 0")], false)
        .unwrap();
    host.dm.suspend(dev, SuspendMode::default()).unwrap();
    std::thread::scope(|scope| {
        let write = scope.spawn(|| device.write_at(0, b"late"));
        host.clock.pause(Duration::from_millis(1));
        assert!(!write.is_finished());
        host.dm.resume(dev, "lv", None, Exposure::Hidden).unwrap();
        write.join().unwrap().unwrap();
    });
    assert_eq!(
        _sim.disk("/dev/sdb").read(0, 4),
        b"late",
        "the write went to the new table"
    );
    assert_eq!(_sim.disk("/dev/sda").read(0, 4), [0; 4]);
}
