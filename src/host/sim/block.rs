//! Block devices: disks and mapped devices alike.

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::fault::{CallKind, eio};
use super::journal::DiskEvent;
use super::machine::{Entered, OpenFile, Part, Process};
use super::pages::index;
use crate::host::{
    BlockDevice, BlockDevices, Candidate, DeviceEvents, DeviceInfo, HostError, HostResult,
    Signature, SkipReason, Skipped, Unfit,
};

/// lvm2's smallest PV.
pub(super) const SMALLEST_PV: u64 = 2 << 20;

struct Handle {
    process: Process,
    info: DeviceInfo,
    write: bool,
    id: u64,
}

impl Process {
    fn open_device(&self, path: &Path, find: Find<'_>) -> HostResult<Arc<dyn BlockDevice>> {
        const ENOENT: i32 = 2;
        const EROFS: i32 = 30;
        let failed = |source| HostError::Path {
            op: "open",
            path: path.to_owned(),
            source,
        };
        let errno = |number| failed(io::Error::from_raw_os_error(number));
        let entered = self.enter(CallKind::Open, path.to_string_lossy(), 0, 0);
        let mut state = entered.map_err(failed)?.state;
        let (dev, write) = match find {
            Find::Device(info, write) => (Some(info.devno), write),
            Find::Alone(info) => (Some(info.devno), true),
            Find::Path => (state.resolve(path), false),
        };
        let dev = dev.ok_or_else(|| errno(ENOENT))?;
        let size = state.size(dev).ok_or_else(|| errno(ENOENT))?;
        if write
            && state
                .mapped
                .get(&dev)
                .is_some_and(|mapped| mapped.read_only)
        {
            return Err(errno(EROFS));
        }
        let info = DeviceInfo {
            devno: dev,
            path: path.to_owned(),
            size,
            block_size: state.block_size(dev),
        };
        let exclusive = matches!(find, Find::Alone(_));
        if exclusive && state.claimed(dev) {
            return Err(HostError::Claimed {
                path: path.to_owned(),
            });
        }
        if let Find::Alone(expected) = find
            && expected.size != size
        {
            return Err(HostError::Changed {
                path: path.to_owned(),
                detail: format!("it has {size} bytes, not {}", expected.size),
            });
        }
        let id = state.id();
        state.open.insert(
            id,
            OpenFile {
                process: self.id,
                dev,
                exclusive,
            },
        );
        Ok(Arc::new(Handle {
            process: self.clone(),
            info,
            write,
            id,
        }))
    }
}

enum Find<'a> {
    Device(&'a DeviceInfo, bool),
    /// For writing, and as the only user.
    Alone(&'a DeviceInfo),
    Path,
}

/// Hears of disks that come and go, and of [`super::SimHost::touch`].
struct Ears {
    process: Process,
    heard: u64,
}

impl DeviceEvents for Ears {
    fn wait(&mut self, timeout: Duration) -> HostResult<bool> {
        let machine = &self.process.machine;
        let heard = self.heard;
        let (state, _) = machine
            .changed
            .wait_timeout_while(machine.state(), timeout, |state| state.generation == heard)
            .unwrap_or_else(PoisonError::into_inner);
        self.heard = state.generation;
        Ok(self.heard != heard)
    }
}

impl BlockDevices for Process {
    fn discover(&self) -> HostResult<(Vec<DeviceInfo>, Vec<Skipped>)> {
        let entered = self.enter(CallKind::Discover, "/sys/block", 0, 0);
        let state = entered
            .map_err(|source| HostError::Path {
                op: "list",
                path: "/sys/block".into(),
                source,
            })?
            .state;
        let mut found = Vec::new();
        let mut skipped = Vec::new();
        let mut sort = |info: DeviceInfo, reason: Option<SkipReason>| {
            let reason = reason.or((info.size < SMALLEST_PV).then_some(SkipReason::TooSmall));
            match reason {
                Some(reason) => skipped.push(Skipped {
                    path: info.path,
                    reason,
                }),
                None => found.push(info),
            }
        };
        for disk in state.disks.values().filter(|disk| disk.attached) {
            let devices = state.notes.devices.as_ref();
            let unlisted = devices.is_some_and(|listed| !listed.contains_key(&disk.info.path));
            let reason = disk.unfit.iter().find_map(|unfit| match unfit {
                Unfit::Skipped(reason) => Some(reason.clone()),
                _ => None,
            });
            sort(
                disk.info.clone(),
                reason.or(unlisted.then_some(SkipReason::NotInDevicesFile)),
            );
        }
        for (dev, mapped) in &state.mapped {
            let reason = match mapped {
                mapped if mapped.uuid.starts_with("LVM-") => Some(SkipReason::LogicalVolume),
                mapped if mapped.suspended => Some(SkipReason::Suspended),
                _ => None,
            };
            let info = DeviceInfo {
                devno: *dev,
                path: state.node(*dev),
                size: mapped.size(),
                block_size: state.block_size(*dev),
            };
            sort(info, reason);
        }
        Ok((found, skipped))
    }

    fn events(&self) -> HostResult<Box<dyn DeviceEvents>> {
        Ok(Box::new(Ears {
            process: self.clone(),
            heard: self.machine.state().generation,
        }))
    }

    fn generation(&self) -> u64 {
        self.machine.state().generation
    }

    fn open(&self, device: &DeviceInfo, write: bool) -> HostResult<Arc<dyn BlockDevice>> {
        self.open_device(&device.path, Find::Device(device, write))
    }

    fn open_path(&self, path: &Path) -> HostResult<Arc<dyn BlockDevice>> {
        self.open_device(path, Find::Path)
    }

    fn examine(&self, path: &Path) -> HostResult<Candidate> {
        self.candidate(path)
    }

    fn open_exclusive(&self, device: &DeviceInfo) -> HostResult<Arc<dyn BlockDevice>> {
        self.open_device(&device.path, Find::Alone(device))
    }

    fn signatures(&self, device: &DeviceInfo) -> HostResult<Vec<Signature>> {
        self.find_signatures(device)
    }
}

impl Handle {
    fn enter(&self, kind: CallKind, offset: u64, len: u64) -> io::Result<Entered<'_>> {
        let entered = self
            .process
            .enter(kind, self.info.path.to_string_lossy(), offset, len)?;
        let state = self.process.unsuspended(entered.state, self.info.devno)?;
        Ok(Entered { state, ..entered })
    }

    fn change(&self, kind: CallKind, offset: u64, len: u64) -> io::Result<Entered<'_>> {
        const EBADF: i32 = 9;
        if !self.write {
            return Err(io::Error::from_raw_os_error(EBADF));
        }
        self.enter(kind, offset, len)
    }

    fn failed(&self, op: &'static str, offset: u64) -> impl FnOnce(io::Error) -> HostError {
        let path = self.info.path.clone();
        move |source| HostError::Io {
            op,
            path,
            offset,
            source,
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut entered = match self.change(CallKind::Write, offset, data.len() as u64) {
            Ok(entered) => entered,
            Err(error) => {
                let failed = || DiskEvent::failed(&self.info.path, offset, data);
                self.process.machine.state().note(failed);
                return Err(error);
            }
        };
        let Some(part) = entered.fails_after else {
            return entered.state.write(self.info.devno, offset, data);
        };
        let block = u64::from(self.info.block_size);
        let len = match part {
            Part::Half => data.len() as u64 / 2 / block * block,
            Part::All => data.len() as u64,
        };
        entered
            .state
            .write(self.info.devno, offset, &data[..index(len)])?;
        let failed = || DiskEvent::failed(&self.info.path, offset, data);
        entered.state.note(failed);
        Err(eio())
    }
}

impl BlockDevice for Handle {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> HostResult<()> {
        self.enter(CallKind::Read, offset, buf.len() as u64)
            .and_then(|entered| entered.state.read(self.info.devno, offset, buf))
            .map_err(self.failed("read", offset))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> HostResult<()> {
        self.write(offset, data)
            .map_err(self.failed("write", offset))
    }

    fn zero(&self, offset: u64, length: u64) -> HostResult<()> {
        self.change(CallKind::Zero, offset, length)
            .and_then(|mut entered| entered.state.zero(self.info.devno, offset, length))
            .map_err(self.failed("zero", offset))
    }

    /// The old content stays: the worst of what a discard may leave.
    fn discard(&self, offset: u64, length: u64) -> HostResult<()> {
        self.change(CallKind::Discard, offset, length)
            .and_then(|entered| entered.state.map(self.info.devno, offset, length).map(drop))
            .map_err(self.failed("discard", offset))
    }

    fn flush(&self) -> HostResult<()> {
        self.enter(CallKind::Flush, 0, 0)
            .and_then(|mut entered| entered.state.flush(self.info.devno))
            .map_err(self.failed("flush", 0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.process.machine.state().open.remove(&self.id);
    }
}
