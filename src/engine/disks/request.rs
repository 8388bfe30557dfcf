//! What can be asked of disks, and what comes of it.

use std::path::PathBuf;

use lvm2::id::{PvId, VgId};
use lvm2::name::{Tag, VgName};
use lvm2::ondisk::geometry::Wish;
use lvm2::units::{Bytes, ExtentSize, Extents};

use crate::host::Signature;

/// A change of PVs and VGs. Devices that are no PVs yet become such on the
/// way; PVs that are of no VG are taken as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskRequest {
    /// Make devices PVs, of no VG.
    CreatePv {
        /// The devices.
        devices: Vec<PathBuf>,
        /// How they shall be laid out.
        wish: Wish,
    },
    /// Let a PV follow its device, or take a part of it.
    ResizePv {
        /// The device.
        device: PathBuf,
        /// The size; `None` = all of the device.
        size: Option<Bytes>,
    },
    /// Make PVs of no VG plain devices again.
    RemovePv {
        /// The devices.
        devices: Vec<PathBuf>,
    },
    /// Make a VG.
    CreateVg {
        /// Its name.
        vg: VgName,
        /// Its PVs.
        devices: Vec<PathBuf>,
        /// How new PVs shall be laid out.
        wish: Wish,
        /// Size of its extents.
        extent_size: ExtentSize,
        /// Its tags.
        tags: Vec<Tag>,
    },
    /// Add PVs to a VG.
    ExtendVg {
        /// The VG.
        vg: VgName,
        /// The devices.
        devices: Vec<PathBuf>,
        /// How new PVs shall be laid out.
        wish: Wish,
    },
    /// Take PVs that no LV uses out of a VG.
    ReduceVg {
        /// The VG.
        vg: VgName,
        /// The devices.
        devices: Vec<PathBuf>,
    },
    /// Remove a VG without LVs; its PVs stay PVs.
    RemoveVg {
        /// The VG.
        vg: VgName,
    },
}

impl DiskRequest {
    /// The command, as it is written to the metadata's description.
    pub(super) fn words(&self) -> String {
        let join = |devices: &[PathBuf]| {
            let names = devices.iter().map(|path| format!(" {}", path.display()));
            names.collect::<String>()
        };
        match self {
            Self::CreatePv { devices, .. } => format!("pv create{}", join(devices)),
            Self::ResizePv { device, .. } => format!("pv resize {}", device.display()),
            Self::RemovePv { devices } => format!("pv remove{}", join(devices)),
            Self::CreateVg { vg, devices, .. } => format!("vg create {vg}{}", join(devices)),
            Self::ExtendVg { vg, devices, .. } => format!("vg extend {vg}{}", join(devices)),
            Self::ReduceVg { vg, devices } => format!("vg reduce {vg}{}", join(devices)),
            Self::RemoveVg { vg } => format!("vg remove {vg}"),
        }
    }

    /// What a message about the request as a whole names.
    pub(super) fn object(&self) -> String {
        match self {
            Self::CreatePv { devices, .. } | Self::RemovePv { devices } => devices
                .first()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            Self::ResizePv { device, .. } => device.display().to_string(),
            Self::CreateVg { vg, .. }
            | Self::ExtendVg { vg, .. }
            | Self::ReduceVg { vg, .. }
            | Self::RemoveVg { vg } => format!("VG {vg}"),
        }
    }
}

/// A PV after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PvState {
    /// Its device.
    pub path: PathBuf,
    /// Its id; of a removed PV the one that it had.
    pub id: PvId,
    /// Its size.
    pub size: Bytes,
    /// Where its data begins.
    pub data_start: Bytes,
    /// Size of its metadata areas together.
    pub metadata_size: Bytes,
    /// What was wiped.
    pub wiped: Vec<Signature>,
}

/// A VG after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VgState {
    /// Name.
    pub name: VgName,
    /// Id.
    pub id: VgId,
    /// Number of the commit.
    pub seqno: u32,
    /// Size of an extent.
    pub extent_size: Bytes,
    /// Extents in all.
    pub extents: Extents,
    /// Number of PVs.
    pub pvs: usize,
}

/// What a change made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskOutcome {
    /// The PVs that the request named or made.
    pub pvs: Vec<PvState>,
    /// The VG, unless the request is about PVs of none. A removed VG is
    /// described as it was.
    pub vg: Option<VgState>,
}
