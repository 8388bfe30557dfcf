//! What the engine tells about VGs, PVs and LVs.

use std::path::PathBuf;
use std::sync::Arc;

use lvm2::check::Refusal;
use lvm2::id::{LvId, PvId};
use lvm2::model::Vg;
use lvm2::name::{LvName, VgName};
use lvm2::tables::DevNo;
use lvm2::units::{Bytes, Extents};

use super::hazard::Hazard;
use crate::host::{DeviceInfo, DmDevice, Skipped};

/// An LV after an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LvState {
    /// The VG.
    pub vg: VgName,
    /// The LV.
    pub name: LvName,
    /// Its id.
    pub id: LvId,
    /// Size.
    pub size: Bytes,
    /// Tags.
    pub tags: Vec<String>,
    /// Its device, if active.
    pub dev: Option<DevNo>,
    /// A node by which the device can be opened without udev's help.
    pub node: Option<PathBuf>,
    /// Whether the operation changed anything.
    pub changed: bool,
}

/// The whole picture, taken at one time.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every VG that was found.
    pub vgs: Vec<VgReport>,
    /// PVs that belong to no VG, or whose VG cannot be read.
    pub orphans: Vec<PvReport>,
    /// Devices that were not searched.
    pub skipped: Vec<Skipped>,
    /// What is wrong with devices or metadata, each a sentence.
    pub problems: Vec<Problem>,
}

/// A VG in a [`Report`].
#[derive(Clone, Debug)]
pub struct VgReport {
    /// The metadata.
    pub vg: Arc<Vg>,
    /// Its PVs, in the metadata's order.
    pub pvs: Vec<PvReport>,
    /// dm state of its LVs, in the metadata's order.
    pub lvs: Vec<LvReport>,
    /// Why this VG may not be changed by us, if so.
    pub refusal: Option<Arc<Refusal>>,
    /// Bytes of the largest text that fits, and of the present one.
    pub metadata: MetadataUse,
}

/// What placing a volume needs to know of a VG.
#[derive(Clone, Debug)]
pub struct VgOutline {
    /// The metadata.
    pub vg: Arc<Vg>,
    /// Why this VG may not be changed by its metadata, if so.
    pub refusal: Option<Arc<Refusal>>,
    /// States of its devices that forbid changes.
    pub hazards: Vec<Hazard>,
}

/// Use of the metadata areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataUse {
    /// Metadata areas in all, and those in use (not ignored).
    pub areas: usize,
    /// Areas that are not ignored.
    pub used_areas: usize,
    /// Bytes of the smallest area.
    pub size: Bytes,
    /// Largest text that fits.
    pub max_text: Bytes,
    /// Present text.
    pub text: Bytes,
}

impl MetadataUse {
    /// What the largest text has more than the present one.
    #[must_use]
    pub fn free(&self) -> Bytes {
        Bytes(self.max_text.0.saturating_sub(self.text.0))
    }
}

/// A PV in a [`Report`].
#[derive(Clone, Debug)]
pub struct PvReport {
    /// Id.
    pub id: PvId,
    /// Its device; `None` if missing.
    pub device: Option<DeviceInfo>,
    /// VG, if known.
    pub vg: Option<VgName>,
    /// Size of the usable part (or of the device for an orphan).
    pub size: Bytes,
    /// Free part.
    pub free: Bytes,
    /// Allocatable.
    pub allocatable: bool,
    /// Listed in the metadata but not found.
    pub missing: bool,
    /// Tags.
    pub tags: Vec<String>,
    /// Extents in all and allocated.
    pub extents: (Extents, Extents),
}

/// An LV's device in a [`Report`].
#[derive(Clone, Debug)]
pub struct LvReport {
    /// Name.
    pub name: LvName,
    /// Its device, if active.
    pub device: Option<DmDevice>,
}

/// A finding about a device, a VG or an LV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `device`, `vg` or `lv` name.
    pub object: String,
    /// What is wrong.
    pub detail: String,
}

/// What would be done: `--dry-run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Unified diff of the metadata text.
    pub diff: String,
    /// Every step in order, as a sentence with device names and numbers.
    pub steps: Vec<String>,
}

/// What recovery did at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Incomplete LVs that were removed (`vg/lv`).
    pub removed: Vec<String>,
    /// LVs that were left suspended and go on now (`vg/lv`).
    pub resumed: Vec<String>,
    /// VGs of which some metadata copies were older than others.
    pub renewed: Vec<String>,
    /// VGs that could not be looked at or changed, and why.
    pub problems: Vec<Problem>,
}
