//! Block devices: discovery and aligned, uncached I/O.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lvm2::tables::DevNo;

use super::{Candidate, HostResult, Signature};

/// A device that may carry a PV label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Kernel device number: the identity of the device until it goes away.
    pub devno: DevNo,
    /// Preferred node, e.g. `/dev/nvme0n1p2`.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Logical block size in bytes, 512 or 4096.
    pub block_size: u32,
}

/// Why a block device is not searched for a PV label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// Smaller than lvm2's smallest PV (2 MiB).
    #[error("smaller than 2 MiB")]
    TooSmall,
    /// A kind of device that lvm2 never uses.
    #[error("device type {0} is never a PV")]
    Kind(String),
    /// Has a partition table that the kernel reads.
    #[error("is partitioned")]
    Partitioned,
    /// A leg of a multipath device.
    #[error("is a path of multipath device {0}")]
    MultipathComponent(String),
    /// A member of an md array.
    #[error("is a member of an md array")]
    MdComponent,
    /// An LV, or a loop device that shows one; nested VGs are not searched
    /// (`devices/scan_lvs = 0`).
    #[error("is itself an LV")]
    LogicalVolume,
    /// A device-mapper device that is suspended: reading it would hang.
    #[error("is suspended")]
    Suspended,
    /// Excluded by lvm.conf's filter or global_filter.
    #[error("is excluded by the filter in lvm.conf")]
    Filtered,
    /// Not in lvm2's devices file.
    #[error("is not in the devices file")]
    NotInDevicesFile,
    /// Did not answer within the time-out.
    #[error("did not answer within {0:?}")]
    TimedOut(Duration),
    /// Could not be opened or read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
}

/// A device that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The device's node.
    pub path: PathBuf,
    /// The rule that left it out.
    pub reason: SkipReason,
}

/// Discovery and opening of block devices.
pub trait BlockDevices: Send + Sync {
    /// Lists the devices that may carry a PV, and those left out with the
    /// reason. Reads no device content except where a skip rule demands it,
    /// and then with a time-out per device.
    fn discover(&self) -> HostResult<(Vec<DeviceInfo>, Vec<Skipped>)>;

    /// A number that changes whenever a block device may have appeared,
    /// vanished or changed size since the last call; equal numbers mean that
    /// an earlier [`discover`](Self::discover) still holds.
    fn generation(&self) -> u64;

    /// Hears of changes of block devices as they happen, LVs included: also of
    /// a device that another program has written to and closed, where udev
    /// watches it. Every caller has ears of its own.
    ///
    /// # Errors
    /// Where events cannot be heard.
    fn events(&self) -> HostResult<Box<dyn DeviceEvents>>;

    /// Opens `device` for reading, and for writing too when `write` is set.
    fn open(&self, device: &DeviceInfo, write: bool) -> HostResult<Arc<dyn BlockDevice>>;

    /// Opens the device at `path` (any block device, for `inspect`).
    fn open_path(&self, path: &Path) -> HostResult<Arc<dyn BlockDevice>>;

    /// What keeps the device at `path` from answering, where the kernel tells
    /// without touching it: a suspended device below it, for instance.
    fn obstacle(&self, _path: &Path) -> Option<String> {
        None
    }

    /// Looks at the device at `path`, links followed, as one that shall become
    /// a PV. Not being in the devices file is no obstacle.
    fn examine(&self, path: &Path) -> HostResult<Candidate>;

    /// Opens `device` for writing as its only user: while the handle lives
    /// nobody can mount it, swap to it or build a device on it, and whoever
    /// does so already makes this fail with
    /// [`HostError::Claimed`](super::HostError::Claimed).
    fn open_exclusive(&self, device: &DeviceInfo) -> HostResult<Arc<dyn BlockDevice>>;

    /// Every signature on the device. Of a kind that keeps several copies one
    /// is found; the others come up when that one is gone.
    fn signatures(&self, device: &DeviceInfo) -> HostResult<Vec<Signature>>;
}

/// Changes of block devices as they happen.
pub trait DeviceEvents: Send {
    /// Waits until something may have changed, at most for `timeout`. Whether
    /// something did.
    ///
    /// # Errors
    /// When nothing can be heard any more.
    fn wait(&mut self, timeout: Duration) -> HostResult<bool>;
}

/// An open block device. Offsets and lengths need no alignment: the
/// implementation reads and rewrites whole logical blocks where they differ.
/// Calls never go through the page cache.
pub trait BlockDevice: Send + Sync {
    /// The device this handle belongs to.
    fn info(&self) -> &DeviceInfo;

    /// Fills `buf` from `offset`.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> HostResult<()>;

    /// Writes `data` at `offset`. Durable only after [`flush`](Self::flush).
    fn write_at(&self, offset: u64, data: &[u8]) -> HostResult<()>;

    /// Writes zeros over `length` bytes from `offset`, by the device's own
    /// command where it has one.
    fn zero(&self, offset: u64, length: u64) -> HostResult<()>;

    /// Discards `length` bytes from `offset`. The content is undefined after.
    fn discard(&self, offset: u64, length: u64) -> HostResult<()>;

    /// Makes every completed write durable.
    fn flush(&self) -> HostResult<()>;
}
