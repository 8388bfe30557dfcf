//! What the engine tells about VGs, PVs and LVs.

use std::path::PathBuf;
use std::sync::Arc;

use lvm2::check::Refusal;
use lvm2::id::{LvId, PvId};
use lvm2::model::{Lv, Vg};
use lvm2::name::{LvName, VgName, check_pair};
use lvm2::tables::DevNo;
use lvm2::units::{Bytes, Extents, SECTOR};

use super::error::EngineError;
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

impl VgReport {
    /// Whether a part of the LV, however deep below, is on a missing PV.
    #[must_use]
    pub fn is_partial(&self, lv: &Lv) -> bool {
        let pairs = self.vg.pvs().iter().zip(&self.pvs);
        let missing: Vec<_> = pairs
            .filter(|(_, report)| report.missing)
            .map(|(pv, _)| pv.key.as_str())
            .collect();
        partial(&self.vg, lv, &missing, 0)
    }
}

fn partial(vg: &Vg, lv: &Lv, missing: &[&str], depth: u32) -> bool {
    // Nesting has a handful of levels; a text that nests in circles ends here.
    const DEEPEST: u32 = 16;
    if missing.is_empty() || depth > DEEPEST {
        return false;
    }
    let text = lv.uses().any(|used| missing.contains(&used.key));
    let mut below = lv.refers().filter_map(|name| vg.lv(name));
    text || below.any(|below| partial(vg, below, missing, depth + 1))
}

impl VgOutline {
    /// Why the VG cannot take a new LV of this name, or of any, if so.
    #[must_use]
    pub fn obstacle(&self, lv: Option<&LvName>) -> Option<String> {
        let pair = || check_pair(self.vg.name(), lv?).err();
        obstacle(self.vg.name(), self.refusal.as_deref(), &self.hazards)
            .or_else(|| pair().map(|error| error.to_string()))
    }

    /// Fails if nothing may be changed in this VG.
    ///
    /// # Errors
    /// With the rule of the metadata, or the state of a device, that forbids it.
    pub fn permitted(&self) -> Result<(), EngineError> {
        let vg = self.vg.name();
        if let Some(refusal) = &self.refusal {
            return Err(EngineError::Refused {
                vg: vg.clone(),
                refusal: Arc::clone(refusal),
            });
        }
        match self.hazards.first() {
            Some(hazard) => Err(EngineError::Hazard {
                vg: vg.clone(),
                hazard: hazard.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The device that does not answer, if that is why the VG is not usable.
    #[must_use]
    pub fn silence(&self) -> Option<EngineError> {
        silence(self.vg.name(), &self.hazards)
    }
}

/// The device that does not answer, if one of a VG's hazards is that.
pub(super) fn silence(vg: &VgName, hazards: &[Hazard]) -> Option<EngineError> {
    let hazard = hazards.iter().find(|hazard| hazard.is_silence())?;
    Some(EngineError::Hazard {
        vg: vg.clone(),
        hazard: hazard.clone(),
    })
}

fn obstacle(vg: &VgName, refusal: Option<&Refusal>, hazards: &[Hazard]) -> Option<String> {
    let hazard = || hazards.first().map(|hazard| format!("{vg}: {hazard}"));
    refusal.map(ToString::to_string).or_else(hazard)
}

/// What publishing a VG's state needs to know: everything but its LVs' devices.
#[derive(Clone, Debug)]
pub struct VgSummary {
    /// The metadata.
    pub vg: Arc<Vg>,
    /// Its PVs, in the metadata's order.
    pub pvs: Vec<PvReport>,
    /// Why this VG may not be changed by its metadata, if so.
    pub refusal: Option<Arc<Refusal>>,
    /// States of its devices that forbid changes.
    pub hazards: Vec<Hazard>,
    /// Use of the metadata areas.
    pub metadata: MetadataUse,
}

impl VgSummary {
    /// Why the VG may not be changed, if so.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        obstacle(self.vg.name(), self.refusal.as_deref(), &self.hazards)
    }

    /// Whether the VG belongs to another host, which is nothing to worry about.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(
            self.refusal.as_deref(),
            Some(Refusal::ForeignSystemId { .. })
        )
    }
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
    /// What the largest text has more than the present one, in whole sectors,
    /// as lvm2 counts it.
    #[must_use]
    pub fn free(&self) -> Bytes {
        let free = self.max_text.0.saturating_sub(self.text.0);
        Bytes(free / SECTOR * SECTOR)
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
    /// Use of its metadata areas.
    pub metadata: MetadataUse,
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
