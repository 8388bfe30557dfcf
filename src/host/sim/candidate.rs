//! Devices that shall become PVs, and what lvm2's commands are told.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lvm2::id::PvId;
use lvm2::name::VgName;
use lvm2::ondisk::geometry::Topology;

use super::SimHost;
use super::fault::CallKind;
use super::machine::Process;
use super::superblock::{self, HEAD};
use crate::host::{
    Candidate, DeviceInfo, HostError, HostResult, LockGuard, Lvm2Files, Signature, SkipReason,
    Unfit,
};

/// The devices file of the machine.
const DEVICES_FILE: &str = "/etc/lvm/devices/system.devices";
const HINTS: &str = "/run/lvm/hints";

/// What lvm2's commands on the machine know of each other.
#[derive(Default)]
pub(super) struct Notes {
    /// Somebody who reads hints believes them.
    pub(super) hints: bool,
    /// Entries of the devices file, if one is in use.
    pub(super) devices: Option<BTreeMap<PathBuf, Option<PvId>>>,
}

/// The hints are unlocked; that has no bearing on whether they hold.
struct HintsGuard;

impl LockGuard for HintsGuard {}

impl Process {
    fn call(&self, kind: CallKind, object: &Path) -> HostResult<super::machine::Entered<'_>> {
        self.enter(kind, object.to_string_lossy(), 0, 0)
            .map_err(|source| HostError::Path {
                op: "use",
                path: object.to_owned(),
                source,
            })
    }

    pub(super) fn candidate(&self, path: &Path) -> HostResult<Candidate> {
        const ENOENT: i32 = 2;
        let state = self.call(CallKind::Examine, path)?.state;
        let absent = || HostError::Path {
            op: "open",
            path: path.to_owned(),
            source: io::Error::from_raw_os_error(ENOENT),
        };
        let dev = state.resolve(path).ok_or_else(absent)?;
        let size = state.size(dev).ok_or_else(absent)?;
        let mut unfit = Vec::new();
        let mounted = state
            .mounts
            .iter()
            .find(|mount| mount.device == Some(dev))
            .map(|mount| Unfit::Mounted(mount.entry.target.clone()));
        unfit.extend(mounted);
        if size < super::block::SMALLEST_PV {
            unfit.push(Unfit::Skipped(SkipReason::TooSmall));
        }
        if let Some(mapped) = state.mapped.get(&dev)
            && mapped.uuid.starts_with("LVM-")
        {
            unfit.push(Unfit::Skipped(SkipReason::LogicalVolume));
        }
        let holders: Vec<String> = state
            .mapped
            .values()
            .filter(|mapped| mapped.holds(dev))
            .map(|mapped| mapped.name.clone())
            .collect();
        if !holders.is_empty() {
            unfit.push(Unfit::Held(holders));
        }
        let disk = state.disks.get(&dev);
        unfit.extend(disk.into_iter().flat_map(|disk| disk.unfit.clone()));
        Ok(Candidate {
            info: DeviceInfo {
                devno: dev,
                path: path.to_owned(),
                size,
                block_size: state.block_size(dev),
            },
            topology: disk.map(|disk| disk.topology).unwrap_or_default(),
            unfit,
        })
    }

    pub(super) fn find_signatures(&self, device: &DeviceInfo) -> HostResult<Vec<Signature>> {
        let failed = |source| HostError::Path {
            op: "probe",
            path: device.path.clone(),
            source,
        };
        let state = self.call(CallKind::Signatures, &device.path)?.state;
        let mut head = vec![0; HEAD];
        let devno = device.devno;
        state.read(devno, 0, &mut head).map_err(failed)?;
        Ok(superblock::signatures(&head))
    }
}

impl Lvm2Files for Process {
    fn invalidate_hints(&self, _deadline: Duration) -> HostResult<Box<dyn LockGuard>> {
        let mut entered = self.call(CallKind::Hints, Path::new(HINTS))?;
        entered.state.notes.hints = false;
        Ok(Box::new(HintsGuard))
    }

    fn devices_file(&self) -> HostResult<Option<PathBuf>> {
        let state = self.machine.state();
        Ok(state.notes.devices.as_ref().map(|_| DEVICES_FILE.into()))
    }

    fn enter_devices(
        &self,
        entries: &[(DeviceInfo, Option<PvId>)],
        _deadline: Duration,
    ) -> HostResult<()> {
        let mut entered = self.call(CallKind::DevicesFile, Path::new(DEVICES_FILE))?;
        if let Some(devices) = &mut entered.state.notes.devices {
            for (info, pv) in entries {
                devices.insert(info.path.clone(), *pv);
            }
        }
        Ok(())
    }

    fn forget_online(&self, _pvs: &[PvId], _vg: Option<&VgName>) -> HostResult<()> {
        self.call(CallKind::Online, Path::new("/run/lvm")).map(drop)
    }
}

impl SimHost {
    /// Lets lvm2 on the machine have hints about its PVs, until they are
    /// invalidated.
    pub fn make_hints(&self) {
        self.machine.state().notes.hints = true;
    }

    /// Whether lvm2 would believe hints.
    #[must_use]
    pub fn has_hints(&self) -> bool {
        self.machine.state().notes.hints
    }

    /// Makes the machine use a devices file with entries for these nodes.
    pub fn use_devices_file(&self, nodes: &[&str]) {
        let entries = nodes.iter().map(|node| (PathBuf::from(node), None));
        let mut state = self.machine.state();
        state.notes.devices = Some(entries.collect());
        state.generation += 1;
    }

    /// The entries of the devices file.
    #[must_use]
    pub fn devices_file_entries(&self) -> Vec<(PathBuf, Option<PvId>)> {
        let state = self.machine.state();
        let entries = state.notes.devices.iter().flatten();
        entries.map(|(path, pv)| (path.clone(), *pv)).collect()
    }

    /// Makes something stand against the disk at `path` becoming a PV.
    pub fn make_unfit(&self, path: &str, reason: Unfit) {
        self.change_disk(path, |disk| disk.unfit.push(reason));
    }

    /// Gives the disk at `path` a topology.
    pub fn set_topology(&self, path: &str, topology: Topology) {
        self.change_disk(path, |disk| disk.topology = topology);
    }

    /// Gives the disk at `path` another size, as a LUN can have.
    pub fn resize_disk(&self, path: &str, size: u64) {
        self.change_disk(path, |disk| disk.info.size = size);
    }

    fn change_disk(&self, path: &str, change: impl FnOnce(&mut super::disk::Disk)) {
        let mut state = self.machine.state();
        state.generation += 1;
        let disk = state
            .disks
            .values_mut()
            .find(|disk| disk.info.path == Path::new(path));
        if let Some(disk) = disk {
            change(disk);
        }
    }
}
