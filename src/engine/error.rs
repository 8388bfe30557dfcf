//! Errors of the engine. They can be copied, for a failed commit answers
//! every request that shared it.

use std::path::PathBuf;
use std::sync::Arc;

use lvm2::check::Refusal;
use lvm2::edit::EditError;
use lvm2::id::VgId;
use lvm2::name::{LvName, VgName};
use lvm2::tables::TableError;
use lvm2::units::Bytes;

use super::activity::Obstacle;
use super::disks::DiskError;
use super::hazard::{Hazard, list_paths};
use crate::error::Kind;
use crate::host::HostError;

/// Why the engine did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No PV of a VG of this name was found.
    #[error("VG {vg} not found on this host")]
    NoSuchVg {
        /// The VG.
        vg: VgName,
    },
    /// No VG of this name was found, and there are PVs whose VG cannot be read.
    #[error(
        "VG {vg} not found on this host, and the metadata on {} is unreadable: if it is that VG's, restore it with: vgcfgrestore {vg}",
        list_paths(.paths)
    )]
    UnreadableVg {
        /// The VG.
        vg: VgName,
        /// Devices of those PVs.
        paths: Vec<PathBuf>,
    },
    /// Two VGs of this name with different ids.
    #[error("VG name {vg} is used by {} VGs ({}); rename one by its id: vgrename {} NEWNAME", .ids.len(), list_ids(.ids), .ids.first().map_or_else(String::new, ToString::to_string))]
    AmbiguousVg {
        /// The name.
        vg: VgName,
        /// The VGs.
        ids: Vec<VgId>,
    },
    /// The VG has no LV of this name.
    #[error("LV {vg}/{lv} not found")]
    NoSuchLv {
        /// The VG.
        vg: VgName,
        /// The LV.
        lv: LvName,
    },
    /// The name is taken by an LV that differs from the request.
    #[error("LV {vg}/{lv} exists and differs: {detail}")]
    Exists {
        /// The VG.
        vg: VgName,
        /// The LV.
        lv: LvName,
        /// In what it differs.
        detail: String,
    },
    /// The VG must not be changed by us.
    #[error("VG {vg} is not changed: {refusal}")]
    Refused {
        /// The VG.
        vg: VgName,
        /// The rule.
        refusal: Arc<Refusal>,
    },
    /// The metadata edit is impossible.
    #[error("{vg}: {source}")]
    Edit {
        /// The VG.
        vg: VgName,
        /// Why.
        source: Arc<EditError>,
    },
    /// The LV lacks the tag that marks it as ours.
    #[error(
        "LV {vg}/{lv} was not made by this driver (no tag {tag}); remove it with `lvcsi lv remove` or `lvremove`"
    )]
    NotOurs {
        /// The VG.
        vg: VgName,
        /// The LV.
        lv: LvName,
        /// The missing tag.
        tag: String,
    },
    /// A PV that holds a part of an LV is missing.
    #[error(
        "{source}: bring it back (if it is marked as missing, then run: vgextend --restoremissing {vg} DEVICE), or give it up with: vgreduce --removemissing --force {vg}"
    )]
    Partial {
        /// The VG.
        vg: VgName,
        /// The LV and the PV.
        source: Arc<TableError>,
    },
    /// A device is smaller than the metadata says.
    #[error(
        "{object} would reach to byte {end} of {}, which ends at {size}: the device has become smaller than its PV; give it its size back, or move what is there with: pvmove",
        .path.display()
    )]
    PvTooSmall {
        /// `vg/lv`.
        object: String,
        /// The PV's device.
        path: PathBuf,
        /// Its size.
        size: Bytes,
        /// Where the LV ends on it.
        end: Bytes,
    },
    /// The LV is being zeroed, or was when its maker was stopped.
    #[error("LV {vg}/{lv} is not ready: its extents are still being zeroed; ask again later")]
    Incomplete {
        /// The VG.
        vg: VgName,
        /// The LV.
        lv: LvName,
    },
    /// The devices of the VG are in a state that forbids a change.
    #[error("VG {vg} is not changed: {hazard}")]
    Hazard {
        /// The VG.
        vg: VgName,
        /// The state.
        hazard: Hazard,
    },
    /// The size is zero or cannot be expressed in extents.
    #[error("size of {lv} is {size}: it must be at least one byte and at most 2^32-1 extents")]
    BadSize {
        /// The LV.
        lv: LvName,
        /// What was asked for.
        size: Bytes,
    },
    /// The device of the LV is open.
    #[error("LV {vg}/{lv} is in use ({open_count} openers): unmount it or stop its user")]
    InUse {
        /// The VG.
        vg: VgName,
        /// The LV.
        lv: LvName,
        /// Openers.
        open_count: u32,
    },
    /// The new text does not fit into the metadata areas.
    #[error(
        "metadata of VG {vg} is full: its text would have {need}, it has {used} now, and at most {max} fit into its smallest metadata area, which has {area} (see `lvcsi vgs -o json`); remove LVs or tags, or add a PV with a larger area (pvcreate --metadatasize) and let the small ones be ignored (pvchange --metadataignore y)"
    )]
    MetadataFull {
        /// The VG.
        vg: VgName,
        /// Bytes of the text that was to be written.
        need: Bytes,
        /// Bytes of the present text.
        used: Bytes,
        /// Bytes of the largest text that fits.
        max: Bytes,
        /// Bytes of the smallest area in use.
        area: Bytes,
    },
    /// A metadata area or a table holds what the engine cannot interpret.
    #[error("VG {vg}: {detail}")]
    Metadata {
        /// The VG.
        vg: VgName,
        /// What is wrong where.
        detail: String,
    },
    /// The commit reached some metadata areas and not others.
    #[error("VG {vg}: commit {seqno} failed: {source}")]
    Commit {
        /// The VG.
        vg: VgName,
        /// The sequence number that was being written.
        seqno: u32,
        /// Why.
        source: Arc<HostError>,
    },
    /// Device-mapper, a lock or a device failed.
    #[error("{object}: {source}")]
    Host {
        /// VG, LV or device.
        object: String,
        /// Why.
        source: Arc<HostError>,
    },
    /// A disk does not become, or stop being, a PV.
    #[error(transparent)]
    Disk(Arc<DiskError>),
    /// A device does not answer. What was begun goes on when it does.
    #[error("{object}: {obstacle}; it goes on when the device answers: ask again")]
    Stuck {
        /// `vg/lv`, or what was looked at.
        object: String,
        /// Who waits for what.
        obstacle: Arc<Obstacle>,
    },
    /// Devices that did not answer may carry what was not found.
    #[error(
        "{object} was not found, but {} did not answer and may carry it: ask again",
        list(.devices)
    )]
    Unseen {
        /// What was looked for.
        object: String,
        /// The devices.
        devices: Vec<PathBuf>,
    },
    /// The engine is shutting down.
    #[error("{object}: the driver is shutting down")]
    Closed {
        /// `vg/lv`.
        object: String,
    },
}

fn list_ids(ids: &[VgId]) -> String {
    ids.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

impl EngineError {
    /// What a caller may conclude.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoSuchVg { .. } | Self::NoSuchLv { .. } => Kind::NotFound,
            Self::Exists { .. } => Kind::AlreadyExists,
            Self::Hazard { hazard, .. } if hazard.is_silence() => Kind::DeadlineExceeded,
            Self::Refused { .. }
            | Self::AmbiguousVg { .. }
            | Self::UnreadableVg { .. }
            | Self::NotOurs { .. }
            | Self::Hazard { .. }
            | Self::Partial { .. }
            | Self::PvTooSmall { .. }
            | Self::InUse { .. } => Kind::FailedPrecondition,
            Self::Edit { source, .. } => edit_kind(source),
            Self::BadSize { .. } => Kind::InvalidArgument,
            Self::MetadataFull { .. } => Kind::ResourceExhausted,
            Self::Stuck { .. } | Self::Unseen { .. } => Kind::DeadlineExceeded,
            Self::Disk(source) => source.kind(),
            Self::Closed { .. } | Self::Incomplete { .. } => Kind::Aborted,
            Self::Host { source, .. } => host_kind(source),
            Self::Metadata { .. } | Self::Commit { .. } => Kind::Internal,
        }
    }
}

fn list(devices: &[PathBuf]) -> String {
    let names: Vec<String> = devices
        .iter()
        .map(|device| device.display().to_string())
        .collect();
    names.join(", ")
}

impl From<DiskError> for EngineError {
    fn from(error: DiskError) -> Self {
        Self::Disk(Arc::new(error))
    }
}

/// What a caller may conclude from a host error.
#[must_use]
pub fn host_kind(error: &HostError) -> Kind {
    match error {
        HostError::LockTimeout { .. } | HostError::TimedOut { .. } => Kind::DeadlineExceeded,
        HostError::Busy { .. }
        | HostError::Claimed { .. }
        | HostError::Changed { .. }
        | HostError::NoLvm2Directory { .. }
        | HostError::NoLockDirectory { .. } => Kind::FailedPrecondition,
        HostError::UnsupportedFilesystem(_) => Kind::InvalidArgument,
        _ => Kind::Internal,
    }
}

fn edit_kind(error: &EditError) -> Kind {
    match error {
        EditError::NoSuchLv { .. } | EditError::NoSuchPv { .. } => Kind::NotFound,
        EditError::LvExists { .. } => Kind::AlreadyExists,
        EditError::NoSpace { .. } => Kind::ResourceExhausted,
        EditError::WouldReduce { .. } => Kind::OutOfRange,
        EditError::Name { .. } => Kind::InvalidArgument,
        _ => Kind::FailedPrecondition,
    }
}
