//! States of a VG's devices in which the engine does not write to it. Those
//! that the metadata alone shows are in [`lvm2::check::Refusal`].

use std::path::PathBuf;

use lvm2::id::PvId;
use lvm2::name::VgName;

/// Why the devices of a VG forbid a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Hazard {
    /// PVs that the metadata lists were not found.
    #[error("PV {} is missing: bring the device back, or give it up with: vgreduce --removemissing {vg}", list_ids(.ids))]
    MissingPv {
        /// The VG.
        vg: VgName,
        /// The PVs.
        ids: Vec<PvId>,
    },
    /// The device of a PV does not answer: it was seen before, and is used
    /// again once it answers.
    #[error("PV device {}: {reason}; it is used again when it answers", .path.display())]
    Silent {
        /// The device.
        path: PathBuf,
        /// What it does instead of answering.
        reason: String,
    },
    /// One PV on several devices.
    #[error("PV {id} appears on {}: remove the copies or exclude them in lvm.conf", list_paths(.paths))]
    DuplicatePv {
        /// The PV.
        id: PvId,
        /// Its devices.
        paths: Vec<PathBuf>,
    },
    /// A copy of the metadata that cannot be read may be the newest one.
    #[error(
        "metadata area at byte {offset} of {path} is unreadable ({detail}); if the other copies are right, repair it with: vgck --updatemetadata {vg}"
    )]
    UnreadableCopy {
        /// The VG.
        vg: VgName,
        /// The device.
        path: PathBuf,
        /// Start of the area, bytes.
        offset: u64,
        /// What is wrong with it.
        detail: String,
    },
    /// Copies with one sequence number and different texts.
    #[error("metadata copies with sequence number {seqno} differ between {}; choose one with: vgck --updatemetadata {vg}", list_paths(.paths))]
    Mismatch {
        /// The VG.
        vg: VgName,
        /// The sequence number.
        seqno: u32,
        /// Devices of the copies.
        paths: Vec<PathBuf>,
    },
    /// No area to write to.
    #[error(
        "no metadata area of the VG is in use; use one with: pvchange --metadataignore n DEVICE"
    )]
    NoArea,
}

impl Hazard {
    /// Whether a device merely does not answer now.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Silent { .. })
    }
}

pub(super) fn list_paths(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(" and ")
}

fn list_ids(ids: &[PvId]) -> String {
    ids.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
