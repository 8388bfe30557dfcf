//! device-mapper calls against a real kernel.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use lvcsi_sys::DevNo;
use lvcsi_sys::dm::{DmControl, DmId, DmInfo, SuspendFlags, TargetLine, UdevFlags};
use lvcsi_sys::loopdev::{LoopDevice, LoopOptions};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

mod common;

const MIB: u64 = 1 << 20;
/// Nobody but the test is interested in its devices.
const EVENT: UdevFlags = UdevFlags::PRIMARY_SOURCE
    .union(UdevFlags::DISABLE_DM_RULES)
    .union(UdevFlags::DISABLE_SUBSYSTEM_RULES)
    .union(UdevFlags::DISABLE_DISK_RULES)
    .union(UdevFlags::DISABLE_OTHER_RULES);

/// A device that is removed at the end of a test, even a failed one.
struct Device<'a> {
    control: &'a DmControl,
    dev: DevNo,
}

impl<'a> Device<'a> {
    fn create(control: &'a DmControl, name: &str, uuid: &str) -> Self {
        Self {
            control,
            dev: control.create(name, uuid).unwrap().dev,
        }
    }

    fn id(&self) -> DmId<'static> {
        DmId::Dev(self.dev)
    }

    fn info(&self) -> DmInfo {
        self.control.info(&self.id()).unwrap().unwrap()
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        let _ = self.control.remove(&self.id(), EVENT.event(None));
    }
}

fn line(start: u64, length: u64, kind: &str, params: &str) -> TargetLine {
    TargetLine {
        start,
        length,
        kind: kind.to_owned(),
        params: params.to_owned(),
    }
}

fn linear(device: &LoopDevice, length: u64, offset: u64) -> Vec<TargetLine> {
    vec![line(
        0,
        length,
        "linear",
        &format!("{} {offset}", device.devno()),
    )]
}

/// A name and uuid that no other test or process uses.
fn unique(test: &str) -> (String, String) {
    let name = format!("lvcsi-sys-{test}-{}", std::process::id());
    let uuid = format!("LVCSITEST-{test}-{}", std::process::id());
    (name, uuid)
}

#[test]
#[ignore = "needs device-mapper: runs in the guest"]
fn life_of_a_linear_device() {
    assert!(common::root());
    let control = DmControl::open().unwrap();
    let (_file, disk) = common::attach(8 * MIB, LoopOptions::default());
    let (name, uuid) = unique("life");
    let event = EVENT.event(None);

    assert!(control.version().unwrap() >= (4, 0, 0));
    assert_eq!(control.info(&DmId::Uuid(&uuid)).unwrap(), None);
    let device = Device::create(&control, &name, &uuid);
    let id = device.id();
    let created = device.info();
    assert_eq!(
        (created.name.as_str(), created.uuid.as_str()),
        (name.as_str(), uuid.as_str())
    );
    assert!(!created.active_table && !created.inactive_table);
    let taken = control.create(&name, "").unwrap_err();
    assert_eq!(taken.raw_os_error(), Some(libc::EBUSY));
    assert_eq!(control.table(&id, false).unwrap(), []);
    assert_eq!(control.deps(&id).unwrap(), []);

    let first = linear(&disk, 2048, 1024);
    control.load(&id, &first, false).unwrap();
    assert!(device.info().inactive_table);
    assert_eq!(control.table(&id, true).unwrap(), first);
    control.clear(&id).unwrap();
    assert!(!device.info().inactive_table);
    control.load(&id, &first, false).unwrap();
    let resumed = control.resume(&id, event).unwrap();
    assert!(resumed.uevent_generated && resumed.active_table && !resumed.suspended);
    assert_eq!(control.table(&id, false).unwrap(), first);
    assert_eq!(
        control.status(&id, true).unwrap(),
        [line(0, 2048, "linear", "")]
    );
    assert_eq!(control.deps(&id).unwrap(), [disk.devno()]);

    let listed = control.list().unwrap();
    let entry = listed.iter().find(|entry| entry.dev == device.dev).unwrap();
    assert_eq!(
        (entry.name.as_str(), entry.uuid.as_deref()),
        (name.as_str(), Some(uuid.as_str()))
    );

    let renamed = format!("{name}-new");
    for by in [DmId::Uuid(&uuid), DmId::Name(&renamed), id] {
        let to = if by == DmId::Name(&renamed) {
            &name
        } else {
            &renamed
        };
        let info = control.rename(&by, to, event).unwrap();
        assert_eq!((&info.name, info.uevent_generated), (to, true));
    }
    assert_eq!(control.info(&DmId::Name(&name)).unwrap(), None);
    assert_eq!(
        control.info(&DmId::Name(&renamed)).unwrap().unwrap().dev,
        device.dev
    );

    let second = linear(&disk, 4096, 1024);
    control.load(&id, &second, true).unwrap();
    let how = SuspendFlags {
        noflush: false,
        skip_lockfs: true,
    };
    assert!(control.suspend(&id, how).unwrap().suspended);
    assert!(control.suspend(&id, how).unwrap().suspended, "again");
    assert!(control.resume(&id, event).unwrap().read_only);
    assert_eq!(control.table(&id, false).unwrap(), second);

    let removed = control.remove(&DmId::Uuid(&uuid), event).unwrap();
    assert!(removed.uevent_generated);
    assert_eq!((removed.name, removed.uuid), (renamed, uuid.clone()));
    assert_eq!(control.info(&id).unwrap(), None);
    let gone = control.remove(&DmId::Uuid(&uuid), event).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(libc::ENXIO));
}

#[test]
#[ignore = "needs device-mapper: runs in the guest"]
fn bad_tables_and_names_are_refused() {
    let control = DmControl::open().unwrap();
    let (name, uuid) = unique("bad");
    let device = Device::create(&control, &name, &uuid);
    let load = |lines: &[TargetLine]| {
        control
            .load(&device.id(), lines, false)
            .unwrap_err()
            .raw_os_error()
    };
    assert_eq!(
        load(&[line(0, 8, "no-such-target", "")]),
        Some(libc::EINVAL)
    );
    assert_eq!(
        load(&[line(0, 8, "linear", "nonsense")]),
        Some(libc::EINVAL)
    );
    assert_eq!(
        load(&[line(0, 8, "error", ""), line(16, 8, "error", "")]),
        Some(libc::EINVAL)
    );
    let error = control.create("a/b", "").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    let error = control.message(&device.id(), 0, "hello").unwrap_err();
    assert!(
        matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENXIO)),
        "{error}"
    );
}

#[test]
#[ignore = "needs device-mapper: runs in the guest"]
fn long_replies_make_the_buffer_grow() {
    let control = DmControl::open().unwrap();
    let (name, uuid) = unique("long");
    let device = Device::create(&control, &name, &uuid);
    // 48 bytes a line, far more than the first buffer holds.
    let table: Vec<_> = (0..2000).map(|n| line(n * 8, 8, "error", "")).collect();
    control.load(&device.id(), &table, false).unwrap();
    control.resume(&device.id(), EVENT.event(None)).unwrap();
    assert_eq!(control.table(&device.id(), false).unwrap(), table);

    let many: Vec<_> = (0..120)
        .map(|n| {
            Device::create(
                &control,
                &format!("{name}-{n:0>100}"),
                &format!("{uuid}-{n}"),
            )
        })
        .collect();
    let listed = control.list().unwrap();
    for (n, device) in many.iter().enumerate() {
        let entry = listed.iter().find(|entry| entry.dev == device.dev).unwrap();
        assert_eq!(entry.uuid, Some(format!("{uuid}-{n}")));
    }
}

#[test]
#[ignore = "needs device-mapper: runs in the guest"]
fn statistics_answer_messages() {
    let control = DmControl::open().unwrap();
    let (name, uuid) = unique("message");
    let device = Device::create(&control, &name, &uuid);
    control
        .load(&device.id(), &[line(0, 64, "error", "")], false)
        .unwrap();
    control.resume(&device.id(), EVENT.event(None)).unwrap();
    let answer = control
        .message(&device.id(), 0, "@stats_create - /1")
        .unwrap();
    assert_eq!(
        answer.as_deref(),
        Some("0"),
        "the number of the first region"
    );
    assert_eq!(
        control.message(&device.id(), 0, "@stats_delete 0").unwrap(),
        None
    );
    let kinds = control.target_versions().unwrap();
    assert!(
        kinds
            .iter()
            .any(|(kind, version)| kind == "error" && *version >= (1, 0, 0))
    );
}

#[test]
#[ignore = "needs device-mapper: runs in the guest"]
fn polling_wakes_on_an_event() {
    let control = DmControl::open().unwrap();
    let (name, uuid) = unique("poll");
    let device = Device::create(&control, &name, &uuid);
    control.arm_poll().unwrap();
    control
        .load(&device.id(), &[line(0, 8, "error", "")], false)
        .unwrap();
    control.resume(&device.id(), EVENT.event(None)).unwrap();
    let mut fds = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::from(10_000u16)).unwrap(), 1);
}

#[test]
#[ignore = "needs device-mapper: runs in the guest"]
fn the_control_node_is_the_misc_device() {
    DmControl::open().unwrap();
    let node = std::fs::metadata("/dev/mapper/control").unwrap();
    assert_eq!(DevNo::from_rdev(node.rdev()).major, 10);
}
