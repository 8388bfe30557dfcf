//! device-mapper as the engine uses it.

use lvm2::tables::{DevNo, Target};

use super::HostResult;

/// How a device shall appear to udev and in `/dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// A user's LV: `/dev/mapper` and `/dev/VG/LV` links, scanned for content.
    Visible,
    /// A user's LV whose old content is not wiped yet: links, no scan.
    VisibleUnwiped,
    /// An internal layer: no links but `/dev/mapper`, never scanned.
    Hidden,
}

/// What to do with I/O and file systems while suspending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuspendMode {
    /// Freeze a mounted file system first (needed for consistent snapshots).
    pub lockfs: bool,
    /// Do not wait for I/O in flight (thin pools that are out of space).
    pub noflush: bool,
}

/// A device-mapper device as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmDevice {
    /// Device number.
    pub dev: DevNo,
    /// Kernel name.
    pub name: String,
    /// dm uuid (`LVM-…` for LVs).
    pub uuid: String,
    /// Number of openers.
    pub open_count: u32,
    /// I/O is held back.
    pub suspended: bool,
    /// Read-only.
    pub read_only: bool,
    /// A live table is there.
    pub active_table: bool,
    /// A loaded table waits for the next resume.
    pub inactive_table: bool,
}

/// One row of the kernel's device list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmEntry {
    /// Device number.
    pub dev: DevNo,
    /// Kernel name.
    pub name: String,
    /// dm uuid, empty if the device has none.
    pub uuid: String,
}

/// The kernel's device-mapper. Devices are addressed by number after
/// creation; LVs are found by uuid, as lvm2 does.
pub trait DeviceMapper: Send + Sync {
    /// Creates an empty device. Fails with `Exists` if the name or uuid is taken.
    fn create(&self, name: &str, uuid: &str) -> HostResult<DevNo>;
    /// Loads `table` into the inactive slot.
    fn load(&self, dev: DevNo, table: &[Target], read_only: bool) -> HostResult<()>;
    /// Makes sure that the next resume brings no other table than the live one:
    /// what waits in the inactive slot is dropped, or on a suspended device
    /// replaced by a copy of the live table. A device that has neither is left
    /// alone.
    fn discard(&self, dev: DevNo, exposure: Exposure) -> HostResult<()>;
    /// Suspends the device.
    fn suspend(&self, dev: DevNo, mode: SuspendMode) -> HostResult<()>;
    /// Makes the inactive table live, if there is one, and lets I/O go on. On a
    /// device that is not suspended the kernel suspends, swaps and resumes in
    /// this one call, so nobody can be killed in between. File systems are not
    /// frozen (`DM_SKIP_LOCKFS_FLAG`).
    /// `vg_lv` names the LV for `/dev/VG/LV` where there is no udev.
    fn resume(
        &self,
        dev: DevNo,
        name: &str,
        vg_lv: Option<(&str, &str)>,
        exposure: Exposure,
    ) -> HostResult<()>;
    /// Renames the device (and its nodes where there is no udev).
    fn rename(
        &self,
        dev: DevNo,
        from: &str,
        to: &str,
        old: Option<(&str, &str)>,
        new: Option<(&str, &str)>,
        exposure: Exposure,
    ) -> HostResult<()>;
    /// Removes the device; retries while udev holds it for a moment.
    /// Fails with `Busy` if it stays open.
    fn remove(&self, dev: DevNo, name: &str, vg_lv: Option<(&str, &str)>) -> HostResult<()>;
    /// Looks a device up by uuid.
    fn by_uuid(&self, uuid: &str) -> HostResult<Option<DmDevice>>;
    /// The live table (or the inactive one).
    fn table(&self, dev: DevNo, inactive: bool) -> HostResult<Vec<Target>>;
    /// Every device there is, with uuids, in one call.
    fn list(&self) -> HostResult<Vec<DmEntry>>;
    /// A path by which the device can be opened now, without udev's help.
    fn node(&self, dev: DevNo) -> HostResult<std::path::PathBuf>;
    /// What is wrong with the nodes and links of a visible LV's device, each a
    /// sentence. Where udev makes them, which may be about to, only whether it
    /// was told not to.
    fn links(&self, dev: DevNo, name: &str, vg_lv: (&str, &str)) -> HostResult<Vec<String>>;
    /// Makes the nodes and links that [`links`](Self::links) misses.
    fn mend_links(&self, dev: DevNo, name: &str, vg_lv: (&str, &str)) -> HostResult<()>;
}
