//! PVs as a VG's text describes them.

use crate::id::PvId;
use crate::units::{Bytes, ExtentSize, Extents, Sectors};

/// A physical volume of a VG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pv {
    /// The section's name (`pv0`). lvm2 renumbers these at every write, so
    /// they mean something within one text only; [`Pv::id`] is what lasts.
    pub key: String,
    /// Identity, as in the PV's label.
    pub id: PvId,
    /// Path when the text was written; a hint, or `[unknown]`.
    pub device_hint: String,
    /// Size of the device, where the text has it.
    pub dev_size: Option<Sectors>,
    /// Where extent 0 begins on the device.
    pub pe_start: Sectors,
    /// Number of extents.
    pub pe_count: Extents,
    /// New extents may be taken from it.
    pub allocatable: bool,
    /// lvm2 lost the device and wrote so.
    pub missing: bool,
    /// The VG was exported.
    pub exported: bool,
    /// Tags.
    pub tags: Vec<String>,
    /// Status words as written.
    pub status: Vec<String>,
    /// Flags as written.
    pub flags: Vec<String>,
}

impl Pv {
    /// Whether new extents may be taken from the PV.
    #[must_use]
    pub fn can_allocate(&self) -> bool {
        self.allocatable && !self.missing
    }

    /// Byte offset of extent `pe` on the device; `None` beyond 64 bits.
    #[must_use]
    pub fn offset_of(&self, pe: Extents, size: ExtentSize) -> Option<Bytes> {
        let sectors = self.sector_of(pe, size)?;
        sectors.0.checked_mul(512).map(Bytes)
    }

    /// First sector of extent `pe` on the device; `None` beyond 64 bits.
    #[must_use]
    pub fn sector_of(&self, pe: Extents, size: ExtentSize) -> Option<Sectors> {
        let inside = size.sectors_of(pe)?;
        self.pe_start.0.checked_add(inside.0).map(Sectors)
    }
}
