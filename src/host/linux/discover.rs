//! Finding the devices that may carry PVs, with the reasons against the others.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lvm2::tables::DevNo;

use super::block::{LinuxBlockDevice, number, path_error};
use super::devicesfile::DevicesFile;
use super::ears::Ears;
use super::events::Events;
use super::filter::Filter;
use super::lvmconf::{LvmConf, MdChecks};
use super::prober::{Looks, Prober};
use super::skip::{self, Rules};
use super::sysfs::{SysDevice, Sysfs, read};
use super::{examine, probe};
use crate::host::{
    BlockDevice, BlockDevices, Candidate, DeviceEvents, DeviceInfo, HostResult, Signature,
    SkipReason, Skipped,
};

/// Deepest directory below `/dev` that may hold aliases (`/dev/disk/by-id`).
const ALIAS_DEPTH: u32 = 3;

/// The machine's block devices.
#[derive(Debug)]
pub(super) struct LinuxBlockDevices {
    sysfs: Sysfs,
    dev_dir: PathBuf,
    rules: Rules,
    md_checks: MdChecks,
    global_filter: Filter,
    filter: Filter,
    devices_file: Option<PathBuf>,
    probe_timeout: Duration,
    /// One discovery at a time: a second would find the first one's devices
    /// occupied and take them for dead.
    prober: Mutex<Prober>,
    events: Events,
}

impl LinuxBlockDevices {
    pub(super) fn new(
        conf: &LvmConf,
        sysfs: Sysfs,
        dev_dir: PathBuf,
        probe_timeout: Duration,
    ) -> HostResult<Self> {
        let scan_lvs = conf.scan_lvs();
        Ok(Self {
            rules: Rules {
                scan_lvs,
                multipath: conf.multipath_detection(),
                md: conf.md_detection(),
            },
            md_checks: conf.md_checks(),
            global_filter: conf.global_filter()?,
            filter: conf.local_filter()?,
            devices_file: conf.devices_file(),
            events: Events::new(sysfs.clone(), !scan_lvs),
            sysfs,
            dev_dir,
            probe_timeout,
            prober: Mutex::default(),
        })
    }

    /// lvm2 uses no devices file that does not exist.
    fn devices_file(&self) -> HostResult<Option<DevicesFile>> {
        let Some(path) = &self.devices_file else {
            return Ok(None);
        };
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(DevicesFile::parse(&text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(path_error("read", path, error)),
        }
    }

    /// The node to use: for device-mapper the name that people know, if it is
    /// there.
    fn node(&self, device: &SysDevice) -> PathBuf {
        let named = device
            .dm
            .as_ref()
            .map(|dm| self.dev_dir.join("mapper").join(&dm.name));
        named
            .filter(|path| device_at(path) == Some(device.devno))
            .unwrap_or_else(|| self.dev_dir.join(&device.node))
    }

    /// Whether md superblocks at the end of devices count: lvm2 looks there
    /// only where arrays of such formats are in use.
    fn md_end(&self, all: &HashMap<String, SysDevice>) -> bool {
        match self.md_checks {
            MdChecks::Start => false,
            MdChecks::Full => true,
            MdChecks::Auto => all.values().any(|device| {
                skip::is_md(&device.name)
                    && read(&device.dir, "md/metadata_version")
                        .is_some_and(|version| version == "1.0" || version.starts_with("0.9"))
            }),
        }
    }

    /// What devices are read for.
    fn looks(&self, all: &HashMap<String, SysDevice>, end: bool) -> Looks {
        // The kubelet attaches a loop device to every block volume of a pod, so
        // what is said of LVs goes for those, too.
        let loops = if self.rules.scan_lvs {
            HashSet::new()
        } else {
            all.values()
                .filter(|device| skip::is_loop(&disk_of(device, all).name))
                .map(|device| device.devno)
                .collect()
        };
        Looks {
            sysfs: self.sysfs.clone(),
            end,
            loops,
        }
    }

    /// Whether a filter of lvm.conf excludes the device. A devices file takes
    /// the place of `filter`.
    fn excluded(
        &self,
        device: &SysDevice,
        path: &Path,
        aliases: &HashMap<DevNo, Vec<PathBuf>>,
        listing: bool,
    ) -> Option<SkipReason> {
        let others = aliases.get(&device.devno).map_or(&[][..], Vec::as_slice);
        let names = || {
            [path]
                .into_iter()
                .chain(others.iter().map(PathBuf::as_path))
        };
        let passes =
            self.global_filter.accepts(names()) && (listing || self.filter.accepts(names()));
        (!passes).then_some(SkipReason::Filtered)
    }

    fn aliases(&self) -> HashMap<DevNo, Vec<PathBuf>> {
        let mut found = HashMap::new();
        if !self.global_filter.is_empty() || !self.filter.is_empty() {
            collect_aliases(&self.dev_dir, ALIAS_DEPTH, &mut found);
        }
        found
    }
}

impl BlockDevices for LinuxBlockDevices {
    fn discover(&self) -> HostResult<(Vec<DeviceInfo>, Vec<Skipped>)> {
        let all = self.sysfs.devices()?;
        let devices_file = self.devices_file()?;
        let aliases = self.aliases();
        let mut skipped = Vec::new();
        let mut candidates = Vec::new();
        for device in all.values() {
            let path = self.node(device);
            let reason = skip::reason(device, &all, self.rules)
                .or_else(|| self.excluded(device, &path, &aliases, devices_file.is_some()))
                .or_else(|| {
                    let file = devices_file.as_ref()?;
                    let listed = file.lists(device, disk_of(device, &all), &path);
                    (!listed).then_some(SkipReason::NotInDevicesFile)
                });
            match reason {
                Some(reason) => skipped.push(Skipped { path, reason }),
                None => candidates.push(device.info(path)),
            }
        }
        candidates.sort_by_key(|device| device.devno);
        let prober = self.prober.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = self.looks(&all, self.md_end(&all));
        let probed = prober.probe(candidates, looks, self.probe_timeout);
        drop(prober);
        let mut usable = Vec::new();
        for (device, reason) in probed {
            match reason {
                // A superblock does not matter where lvm.conf says so.
                Some(SkipReason::MdComponent) if !self.rules.md => usable.push(device),
                Some(reason) => skipped.push(Skipped {
                    path: device.path,
                    reason,
                }),
                None => usable.push(device),
            }
        }
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((usable, skipped))
    }

    fn events(&self) -> HostResult<Box<dyn DeviceEvents>> {
        Ok(Box::new(Ears::new()?))
    }

    fn generation(&self) -> u64 {
        self.events.generation()
    }

    fn open(&self, device: &DeviceInfo, write: bool) -> HostResult<Arc<dyn BlockDevice>> {
        Ok(Arc::new(LinuxBlockDevice::open(device, write)?))
    }

    fn open_path(&self, path: &Path) -> HostResult<Arc<dyn BlockDevice>> {
        Ok(Arc::new(LinuxBlockDevice::open_path(path)?))
    }

    fn obstacle(&self, path: &Path) -> Option<String> {
        let name = self.sysfs.suspended_at_or_below(device_at(path)?)?;
        Some(format!(
            "device-mapper device {name} is suspended; `dmsetup resume {name}` lets it go on"
        ))
    }

    fn examine(&self, path: &Path) -> HostResult<Candidate> {
        let all = self.sysfs.devices()?;
        let device = examine::find(path, &all)?;
        let node = self.node(device);
        let listing = self.devices_file()?.is_some();
        let excluded = || self.excluded(device, &node, &self.aliases(), listing);
        let mut reason = skip::reason(device, &all, self.rules).or_else(excluded);
        let info = device.info(node);
        if reason.is_none() {
            let prober = self.prober.lock().unwrap_or_else(PoisonError::into_inner);
            // A superblock anywhere counts here: whoever reads the device as
            // an array would see our writes as damage.
            let looks = self.looks(&all, true);
            let probed = prober.probe(vec![info.clone()], looks, self.probe_timeout);
            reason = probed.into_iter().find_map(|(_, reason)| reason);
        }
        let unfit = examine::unfit(device, &all, reason)?;
        let topology = examine::topology(device, disk_of(device, &all));
        Ok(Candidate {
            info,
            topology,
            unfit,
        })
    }

    fn open_exclusive(&self, device: &DeviceInfo) -> HostResult<Arc<dyn BlockDevice>> {
        Ok(Arc::new(LinuxBlockDevice::open_exclusive(device)?))
    }

    fn signatures(&self, device: &DeviceInfo) -> HostResult<Vec<Signature>> {
        probe::signatures(device)
    }
}

/// The whole disk of a partition; any other device itself.
pub(super) fn disk_of<'a>(
    device: &'a SysDevice,
    all: &'a HashMap<String, SysDevice>,
) -> &'a SysDevice {
    let disk = device
        .partition_of
        .as_ref()
        .and_then(|(disk, _)| all.get(disk));
    disk.unwrap_or(device)
}

/// The number of the block device that `path` leads to.
pub(super) fn device_at(path: &Path) -> Option<DevNo> {
    let metadata = std::fs::metadata(path).ok()?;
    let rdev = lvcsi_sys::DevNo::from_rdev(metadata.rdev());
    metadata.file_type().is_block_device().then(|| number(rdev))
}

/// All names of block devices below `dir`.
fn collect_aliases(dir: &Path, depth: u32, found: &mut HashMap<DevNo, Vec<PathBuf>>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path = entry.path();
        if kind.is_dir() {
            if depth > 1 {
                collect_aliases(&path, depth - 1, found);
            }
        } else if (kind.is_symlink() || kind.is_block_device())
            && let Some(devno) = device_at(&path)
        {
            found.entry(devno).or_default().push(path);
        }
    }
}

#[cfg(test)]
#[path = "discover_tests.rs"]
mod tests;
