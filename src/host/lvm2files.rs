//! The files by which lvm2's commands tell each other about PVs.

use std::path::PathBuf;
use std::time::Duration;

use lvm2::id::PvId;
use lvm2::name::VgName;

use super::{DeviceInfo, HostResult, LockGuard};

/// lvm2's hints, its devices file and its notes about PVs that are online.
///
/// Everything here is called with `P_global` held exclusively.
pub trait Lvm2Files: Send + Sync {
    /// Makes lvm2 forget which devices are PVs of which VG. It relearns that
    /// only once the guard is dropped, which has to be after the change: a
    /// command with stale hints does not look at a new PV, takes it for
    /// missing, and writes that down.
    fn invalidate_hints(&self, deadline: Duration) -> HostResult<Box<dyn LockGuard>>;

    /// The devices file, if this machine uses one. Devices that are not in it
    /// do not exist for lvm2.
    fn devices_file(&self) -> HostResult<Option<PathBuf>>;

    /// Enters devices into the devices file, with the PV on each or with none;
    /// entries that are there are brought up to date, and everything else in
    /// the file stays. Nothing happens where no devices file is used.
    ///
    /// A crash leaves the old file or the new one. Takes the file's own lock,
    /// which lvm2 orders behind `P_global`.
    fn enter_devices(
        &self,
        entries: &[(DeviceInfo, Option<PvId>)],
        deadline: Duration,
    ) -> HostResult<()>;

    /// Removes the notes that these PVs, and all of this VG, are online; what
    /// they say about the VG is no longer true. Absent notes are success.
    fn forget_online(&self, pvs: &[PvId], vg: Option<&VgName>) -> HostResult<()>;
}
