//! Why a disk does not become, or stop being, a PV. Each error names the disk
//! or VG and what to do next; nothing was written when it is returned.

use std::path::PathBuf;

use lvm2::id::PvId;
use lvm2::name::VgName;
use lvm2::ondisk::geometry::GeometryError;

use crate::error::Kind;
use crate::host::{Signature, Unfit};

/// Why a change of PVs or VGs is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The device is used otherwise, or lvm2 would never use it.
    #[error("{}: {reason}; nothing was written", .path.display())]
    Unfit {
        /// The device.
        path: PathBuf,
        /// What stands against it.
        reason: Unfit,
    },
    /// The same device was named twice.
    #[error("{} was named twice, first as {}", .path.display(), .first.display())]
    Twice {
        /// The second name.
        path: PathBuf,
        /// The first one.
        first: PathBuf,
    },
    /// The device is a PV of a VG that this host sees.
    #[error(
        "{} is a PV of VG {vg}; `lvcsi vg reduce {vg} {}` takes it out once it is empty",
        .path.display(), .path.display()
    )]
    Member {
        /// The device.
        path: PathBuf,
        /// Its VG.
        vg: VgName,
    },
    /// The device holds the metadata of a VG that this host does not see, or
    /// that does not list it any more.
    #[error(
        "{} holds metadata of VG {vg}, which this host does not see as its VG: bring the VG's devices back (`lvmdevices --adddev` if there is a devices file), or let `vgck --updatemetadata {vg}` clear what is out of date",
        .path.display()
    )]
    Unseen {
        /// The device.
        path: PathBuf,
        /// The VG that the metadata on it names.
        vg: VgName,
    },
    /// The label says that a VG uses the PV, and no metadata tells which.
    #[error(
        "{} says that a VG uses it, but no metadata of that VG was found: bring the VG's other PVs back; if the VG is lost for good, `pvremove -ff {}` gives the disk up",
        .path.display(), .path.display()
    )]
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// The PV's id is on another device too.
    #[error("{} and {} both hold PV {id}: remove or exclude one of them first", .path.display(), .other.display())]
    Duplicate {
        /// The device.
        path: PathBuf,
        /// The other one.
        other: PathBuf,
        /// The PV.
        id: PvId,
    },
    /// What LVM2 wrote to the device cannot be read.
    #[error(
        "{} was a PV and is damaged ({detail}): it may belong to a VG; if it does not, `wipefs -a {}` gives it up",
        .path.display(), .path.display()
    )]
    Damaged {
        /// The device.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// A PV that is laid out in a way that lvm2 does not make by itself.
    #[error("{} is laid out unusually ({detail}); use lvm2's commands on it", .path.display())]
    Layout {
        /// The device.
        path: PathBuf,
        /// What is unusual.
        detail: String,
    },
    /// Something is on the device.
    #[error(
        "{} holds {}; if nobody needs that, --yes wipes it", .path.display(), list(.found)
    )]
    Signatures {
        /// The device.
        path: PathBuf,
        /// What was found.
        found: Vec<Signature>,
    },
    /// A signature that cannot be wiped, or comes up again after it was.
    #[error("{} holds {signature}, which cannot be wiped here; `wipefs -a {}` may", .path.display(), .path.display())]
    Stubborn {
        /// The device.
        path: PathBuf,
        /// What stays.
        signature: Signature,
    },
    /// PVs of one VG would have different logical block sizes.
    #[error(
        "{} has logical blocks of {size} bytes and {} of {other_size}: a file system on both would break; choose disks with equal blocks",
        .path.display(), .other.display()
    )]
    BlockSizes {
        /// The device.
        path: PathBuf,
        /// Bytes in its blocks.
        size: u32,
        /// A device of the same VG.
        other: PathBuf,
        /// Bytes in that one's blocks.
        other_size: u32,
    },
    /// The device cannot be laid out as wished.
    #[error("{}: {source}", .path.display())]
    Geometry {
        /// The device.
        path: PathBuf,
        /// Why.
        source: GeometryError,
    },
    /// There is no such device.
    #[error("there is no device {}", .path.display())]
    NoSuchDevice {
        /// What was named.
        path: PathBuf,
    },
    /// The device is no PV.
    #[error("{} is no PV; `lvcsi pvs` lists those that there are", .path.display())]
    NotPv {
        /// The device.
        path: PathBuf,
    },
    /// The device is no PV of this VG.
    #[error("{} is no PV of VG {vg}; `lvcsi pvs` says which VG it is of", .path.display())]
    NotMember {
        /// The device.
        path: PathBuf,
        /// The VG.
        vg: VgName,
    },
    /// The PV would be larger than its device.
    #[error("{} has {device} bytes; a PV of {size} does not fit on it", .path.display())]
    LargerThanDevice {
        /// The device.
        path: PathBuf,
        /// Bytes of the PV.
        size: u64,
        /// Bytes of the device.
        device: u64,
    },
    /// There is a VG of this name.
    #[error("there is a VG {vg} already; choose another name, or `lvcsi vg extend {vg}`")]
    VgExists {
        /// The name.
        vg: VgName,
    },
    /// The place of the VG's nodes is taken.
    #[error("VG name {vg} cannot be used: {} exists and is not a VG's; choose another name", .path.display())]
    NameTaken {
        /// The name.
        vg: VgName,
        /// What is there.
        path: PathBuf,
    },
    /// A VG that still has LVs.
    #[error("VG {vg} holds {} LV(s), {} first; remove them before the VG", .lvs.len(), .lvs.first().map_or("", String::as_str))]
    HasLvs {
        /// The VG.
        vg: VgName,
        /// Its LVs.
        lvs: Vec<String>,
    },
    /// Nowhere to write the VG's metadata.
    #[error("VG {vg} would have no metadata area in use: add or keep a PV that has one")]
    NoArea {
        /// The VG.
        vg: VgName,
    },
    /// Nothing was named.
    #[error("no device was named")]
    NoDevice,
}

impl DiskError {
    /// What a caller may conclude.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Twice { .. }
            | Self::Geometry { .. }
            | Self::LargerThanDevice { .. }
            | Self::NoDevice => Kind::InvalidArgument,
            Self::NotPv { .. } | Self::NotMember { .. } | Self::NoSuchDevice { .. } => {
                Kind::NotFound
            }
            Self::VgExists { .. } | Self::NameTaken { .. } => Kind::AlreadyExists,
            _ => Kind::FailedPrecondition,
        }
    }
}

fn list(found: &[Signature]) -> String {
    found
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
