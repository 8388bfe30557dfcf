//! device-mapper: policy on top of the ioctls — udev flags, retries, nodes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use devicemapper::errors::Error as CoreError;
use devicemapper::{DM, DevId, DmError, DmFlags, DmUuid};
use lvcsi_sys::dm::{DmControl, DmId, SuspendFlags, TargetLine, UdevFlags};
use lvm2::tables::{DevNo, Target};
use lvm2::units::Sectors;
use nix::errno::Errno;
use nix::libc;

use super::clock::pause;
use super::nodes::Nodes;
use crate::host::dm::DmEntry;
use crate::host::{DeviceMapper, DmDevice, Exposure, HostError, HostResult, SuspendMode};

/// How long a removal waits for udev's rules to let go of the device. lvm2 tries
/// as long.
const REMOVE_PATIENCE: Duration = Duration::from_secs(5);
/// First and longest pause between two tries to remove. The kernel has no event
/// for the last close of a device.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(200));

/// The machine's device-mapper. The control device is opened at the first call
/// that needs it, so that reading metadata works on kernels without it.
pub(super) struct LinuxDeviceMapper {
    control: OnceLock<Control>,
    /// udev makes the nodes and links.
    udev: bool,
    nodes: Nodes,
}

struct Control {
    /// Everything that is addressed by number, changes something or lists.
    raw: DmControl,
    /// Questions by uuid.
    dm: DM,
}

impl LinuxDeviceMapper {
    pub(super) fn new(udev: bool, nodes: Nodes) -> Self {
        Self {
            control: OnceLock::new(),
            udev,
            nodes,
        }
    }

    fn control(&self) -> HostResult<&Control> {
        if let Some(control) = self.control.get() {
            return Ok(control);
        }
        let failed = |source| failure("open", &"/dev/mapper/control", source);
        // The first makes the node that the second needs.
        let raw = DmControl::open().map_err(failed)?;
        let dm = DM::new().map_err(|error| failed(os_error(error)))?;
        let version = dm.version().map_err(|error| failed(os_error(error)))?;
        tracing::debug!(?version, "device-mapper");
        Ok(self.control.get_or_init(|| Control { raw, dm }))
    }

    /// Like [`control`](Self::control), but nothing on a kernel without
    /// device-mapper, which has no devices either.
    fn control_if_any(&self) -> HostResult<Option<&Control>> {
        match self.control() {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => {
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    fn event(&self, exposure: Exposure) -> u32 {
        event(self.udev, exposure)
    }

    /// Runs a change of the nodes where they are ours to make. They are for
    /// people and their programs; the device works without them, so that a
    /// failure is not the operation's.
    fn nodes(&self, change: impl FnOnce(&Nodes) -> HostResult<()>) {
        if !self.udev
            && let Err(error) = change(&self.nodes)
        {
            tracing::warn!(%error, "device nodes in /dev are not up to date");
        }
    }
}

/// What the event of a removal tells udev: its rules take no flags from it, and for
/// one that has any they start a program, to tell somebody who does not wait.
const NO_FLAGS: u32 = 0;

/// What the event of a change tells udev. There is no cookie in it: we never
/// wait for udev, and a cookie that nobody waits for would stay behind.
fn event(udev: bool, exposure: Exposure) -> u32 {
    let mut flags = UdevFlags::PRIMARY_SOURCE;
    if udev {
        flags |= UdevFlags::DISABLE_LIBRARY_FALLBACK;
    } else {
        flags |= UdevFlags::DISABLE_DM_RULES | UdevFlags::DISABLE_SUBSYSTEM_RULES;
    }
    match exposure {
        Exposure::Visible => {}
        Exposure::VisibleUnwiped => flags |= UdevFlags::NOSCAN,
        Exposure::Hidden => {
            flags |= UdevFlags::DISABLE_SUBSYSTEM_RULES
                | UdevFlags::DISABLE_DISK_RULES
                | UdevFlags::DISABLE_OTHER_RULES;
        }
    }
    flags.event(None)
}

/// Whether the last event of ours told udev that no rules are for the device.
/// Its database has the same mark of a device whose first event of ours it has
/// not seen yet, and an old one while it has events to work on.
fn hidden_from_udev(dev: DevNo) -> bool {
    if Path::new("/run/udev/queue").exists() {
        return false;
    }
    let name = format!("dm-{}", dev.minor);
    let Ok(device) = libudev::Device::from_subsystem_sysname("block".to_owned(), name) else {
        return false;
    };
    [
        "DM_UDEV_PRIMARY_SOURCE_FLAG",
        "DM_UDEV_DISABLE_OTHER_RULES_FLAG",
    ]
    .iter()
    .all(|flag| {
        device
            .property_value(flag)
            .is_some_and(|value| value == "1")
    })
}

impl DeviceMapper for LinuxDeviceMapper {
    /// # Errors
    /// [`HostError::Dm`] with `EBUSY` if the name or the uuid is taken.
    fn create(&self, name: &str, uuid: &str) -> HostResult<DevNo> {
        let info = self
            .control()?
            .raw
            .create(name, uuid)
            .map_err(|error| failure("create", &name, error))?;
        Ok(ours(info.dev))
    }

    fn load(&self, dev: DevNo, table: &[Target], read_only: bool) -> HostResult<()> {
        let lines: Vec<TargetLine> = table
            .iter()
            .map(|target| TargetLine {
                start: target.start.0,
                length: target.len.0,
                kind: target.kind.clone(),
                params: target.params.clone(),
            })
            .collect();
        self.control()?
            .raw
            .load(&id(dev), &lines, read_only)
            .map(drop)
            .map_err(|error| failure("load", &dev, error))
    }

    /// `DM_TABLE_CLEAR` is for devices without a live table only: up to Linux 6.x
    /// with IMA, it makes the measurements of both slots share their memory, a
    /// rename frees it, and the removal frees it again (dm-ima.c).
    fn discard(&self, dev: DevNo, exposure: Exposure) -> HostResult<()> {
        let control = &self.control()?.raw;
        let failed = |error| failure("discard", &dev, error);
        let Some(info) = control.info(&id(dev)).map_err(failed)? else {
            return Ok(());
        };
        if !info.inactive_table {
            return Ok(());
        }
        if !info.active_table {
            return control.clear(&id(dev)).map(drop).map_err(failed);
        }
        let live = control.table(&id(dev), false).map_err(failed)?;
        control
            .load(&id(dev), &live, info.read_only)
            .map_err(failed)?;
        if info.suspended {
            return Ok(());
        }
        if let Err(error) = control.resume(&id(dev), self.event(exposure)) {
            // It was suspended for the exchange, and has only the live table
            // now: with that it goes on. The first error is the one that tells.
            let _ = control.resume(&id(dev), self.event(exposure));
            return Err(failed(error));
        }
        Ok(())
    }

    fn suspend(&self, dev: DevNo, mode: SuspendMode) -> HostResult<()> {
        let flags = SuspendFlags {
            noflush: mode.noflush,
            skip_lockfs: !mode.lockfs,
        };
        let suspended = self.control()?.raw.suspend(&id(dev), flags);
        suspended
            .map(drop)
            .map_err(|error| failure("suspend", &dev, error))
    }

    fn resume(
        &self,
        dev: DevNo,
        name: &str,
        vg_lv: Option<(&str, &str)>,
        exposure: Exposure,
    ) -> HostResult<()> {
        let resumed = self.control()?.raw.resume(&id(dev), self.event(exposure));
        resumed.map_err(|error| failure("resume", &name, error))?;
        self.nodes(|nodes| nodes.make(name, dev, linked(vg_lv, exposure)));
        Ok(())
    }

    fn rename(
        &self,
        dev: DevNo,
        from: &str,
        to: &str,
        old: Option<(&str, &str)>,
        new: Option<(&str, &str)>,
        exposure: Exposure,
    ) -> HostResult<()> {
        // The kernel takes names here, and names may have changed hands.
        let control = &self.control()?.raw;
        let failed = |error| failure("rename", &from, error);
        match control.info(&DmId::Name(from)).map_err(failed)? {
            Some(info) if ours(info.dev) == dev => {}
            _ => return Err(failed(Errno::ENXIO.into())),
        }
        control
            .rename(&DmId::Name(from), to, self.event(exposure))
            .map_err(failed)?;
        self.nodes(|nodes| nodes.remove(from, old));
        self.nodes(|nodes| nodes.make(to, dev, linked(new, exposure)));
        Ok(())
    }

    fn remove(&self, dev: DevNo, name: &str, vg_lv: Option<(&str, &str)>) -> HostResult<()> {
        let control = &self.control()?.raw;
        let until = Instant::now() + REMOVE_PATIENCE;
        let mut next = PAUSES.0;
        loop {
            match control.remove(&id(dev), NO_FLAGS) {
                Ok(_) => break,
                // Somebody else was faster.
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => break,
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    if Instant::now() >= until {
                        let info = control
                            .info(&id(dev))
                            .map_err(|error| failure("remove", &name, error))?;
                        let open_count = info.map_or(0, |info| info.open_count);
                        return Err(HostError::Busy {
                            device: name.to_owned(),
                            open_count,
                        });
                    }
                    pause(next);
                    next = (next * 2).min(PAUSES.1);
                }
                Err(error) => return Err(failure("remove", &name, error)),
            }
        }
        self.nodes(|nodes| nodes.remove(name, vg_lv));
        Ok(())
    }

    fn by_uuid(&self, uuid: &str) -> HostResult<Option<DmDevice>> {
        let Some(control) = self.control_if_any()? else {
            return Ok(None);
        };
        let failed = |error| failure("status", &uuid, os_error(error));
        let id = DevId::Uuid(DmUuid::new(uuid).map_err(failed)?);
        let info = match control.dm.device_info(&id).map_err(os_error) {
            Ok(info) => info,
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(None),
            Err(error) => return Err(failure("status", &uuid, error)),
        };
        let flags = info.flags();
        let device = info.device();
        Ok(Some(DmDevice {
            dev: DevNo {
                major: device.major,
                minor: device.minor,
            },
            name: info.name().map(ToString::to_string).unwrap_or_default(),
            uuid: uuid.to_owned(),
            open_count: u32::try_from(info.open_count()).unwrap_or(0),
            suspended: flags.contains(DmFlags::DM_SUSPEND),
            read_only: flags.contains(DmFlags::DM_READONLY),
            active_table: flags.contains(DmFlags::DM_ACTIVE_PRESENT),
            inactive_table: flags.contains(DmFlags::DM_INACTIVE_PRESENT),
        }))
    }

    fn table(&self, dev: DevNo, inactive: bool) -> HostResult<Vec<Target>> {
        let lines = self
            .control()?
            .raw
            .table(&id(dev), inactive)
            .map_err(|error| failure("table", &dev, error))?;
        Ok(lines
            .into_iter()
            .map(|line| Target {
                start: Sectors(line.start),
                len: Sectors(line.length),
                kind: line.kind,
                params: line.params,
            })
            .collect())
    }

    fn list(&self) -> HostResult<Vec<DmEntry>> {
        let Some(control) = self.control_if_any()? else {
            return Ok(Vec::new());
        };
        let entries = control
            .raw
            .list()
            .map_err(|error| failure("list", &"devices", error))?;
        Ok(entries
            .into_iter()
            .map(|entry| DmEntry {
                dev: ours(entry.dev),
                name: entry.name,
                uuid: entry.uuid.unwrap_or_default(),
            })
            .collect())
    }

    fn links(&self, dev: DevNo, name: &str, vg_lv: (&str, &str)) -> HostResult<Vec<String>> {
        if !self.udev {
            return Ok(self.nodes.wrong(name, dev, vg_lv));
        }
        if hidden_from_udev(dev) {
            let (vg, lv) = vg_lv;
            let link = format!("/dev/{vg}/{lv} is missing, for udev was told to hide the device");
            return Ok(vec![link]);
        }
        Ok(Vec::new())
    }

    fn mend_links(&self, dev: DevNo, name: &str, vg_lv: (&str, &str)) -> HostResult<()> {
        if !self.udev {
            return self.nodes.make(name, dev, Some(vg_lv));
        }
        // Only a resume that ends a suspension makes an event.
        self.suspend(dev, SuspendMode::default())?;
        self.resume(dev, name, Some(vg_lv), Exposure::Visible)
    }

    fn node(&self, dev: DevNo) -> HostResult<PathBuf> {
        self.nodes.path(dev)
    }
}

/// Hidden layers have no `/dev/VG/LV`.
fn linked<'a>(vg_lv: Option<(&'a str, &'a str)>, exposure: Exposure) -> Option<(&'a str, &'a str)> {
    vg_lv.filter(|_| exposure != Exposure::Hidden)
}

fn id(dev: DevNo) -> DmId<'static> {
    DmId::Dev(lvcsi_sys::DevNo::new(dev.major, dev.minor))
}

fn ours(dev: lvcsi_sys::DevNo) -> DevNo {
    DevNo {
        major: dev.major,
        minor: dev.minor,
    }
}

fn failure(op: &'static str, device: &dyn std::fmt::Display, source: io::Error) -> HostError {
    HostError::Dm {
        op,
        device: device.to_string(),
        source,
    }
}

/// The kernel's answer inside an error of the crate.
fn os_error(error: DmError) -> io::Error {
    match error {
        DmError::Core(CoreError::Ioctl(_, _, _, errno)) => io::Error::from(*errno),
        error => io::Error::other(error.to_string()),
    }
}

#[cfg(test)]
#[path = "dm_tests.rs"]
mod tests;
