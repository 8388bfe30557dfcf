//! The volume group that a metadata text describes.
//!
//! A [`Vg`] owns the text as a lossless tree; everything typed is derived from
//! that tree and can be read only. Edits change the tree and derive again what
//! they touched, so nothing that lvm2 wrote is lost by being unknown here.

mod error;
mod lv;
pub(crate) mod parse;
mod pv;
mod read;
mod segment;

use std::sync::Arc;

use crate::id::{LvId, PvId, VgId};
use crate::name::VgName;
use crate::text::Section;
use crate::units::{ExtentSize, Extents, Sectors};

pub use error::{ModelError, Object};
pub(crate) use lv::LV_STATUS;
pub use lv::Lv;
pub use pv::Pv;
pub use segment::{AreaRef, OtherArea, PvExtents, Segment, SegmentKind, Stripe};

/// Status words of VGs that lvm2 reads.
pub(crate) const VG_STATUS: &[&str] = &[
    "RESIZEABLE",
    "READ",
    "WRITE",
    "EXPORTED",
    "CLUSTERED",
    "PVMOVE",
    "SHARED",
    "PARTIAL",
];

/// Status words of PVs that lvm2 reads.
pub(crate) const PV_STATUS: &[&str] = &["ALLOCATABLE", "EXPORTED", "MISSING"];

/// What the keys directly under a VG say, and the lines around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: VgName,
    pub(crate) id: VgId,
    pub(crate) seqno: u32,
    pub(crate) extent_size: ExtentSize,
    pub(crate) status: Vec<String>,
    pub(crate) flags: Vec<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) system_id: Option<String>,
    pub(crate) lock_type: Option<String>,
    pub(crate) allocation_policy: Option<String>,
    pub(crate) max_lv: u64,
    pub(crate) max_pv: u64,
    pub(crate) historical: Vec<String>,
    pub(crate) description: Option<String>,
    pub(crate) creation_host: Option<String>,
    pub(crate) creation_time: Option<i64>,
}

/// A volume group: its metadata text and what that says. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Vg {
    pub(crate) tree: Section,
    pub(crate) header: Arc<Header>,
    pub(crate) pvs: Arc<Vec<Arc<Pv>>>,
    pub(crate) lvs: Arc<Vec<Arc<Lv>>>,
}

impl Vg {
    /// Reads a metadata text, up to a NUL if there is one. A formatted backup
    /// file is read as well; [`crate::check`] says that it cannot be written
    /// to a disk as it is.
    ///
    /// # Errors
    /// When the text is no metadata, or what every VG must have is missing or
    /// of a wrong type. Whether the VG makes sense is for [`crate::check`].
    pub fn parse(text: &[u8]) -> Result<Self, ModelError> {
        parse::vg(Section::parse(text)?)
    }

    /// The metadata text, without the NUL that ends it on the disk. For a VG
    /// that was not edited this is what was read, byte for byte.
    #[must_use]
    pub fn print(&self) -> String {
        self.tree.print()
    }

    /// Name.
    #[must_use]
    pub fn name(&self) -> &VgName {
        &self.header.name
    }

    /// Identity, which renames keep.
    #[must_use]
    pub fn id(&self) -> VgId {
        self.header.id
    }

    /// Number of the commit that wrote this text.
    #[must_use]
    pub fn seqno(&self) -> u32 {
        self.header.seqno
    }

    /// Size of every extent of the VG.
    #[must_use]
    pub fn extent_size(&self) -> ExtentSize {
        self.header.extent_size
    }

    /// Status words as written.
    #[must_use]
    pub fn status(&self) -> &[String] {
        &self.header.status
    }

    /// Flags as written.
    #[must_use]
    pub fn flags(&self) -> &[String] {
        &self.header.flags
    }

    /// Tags.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.header.tags
    }

    /// The host that owns the VG, if one does.
    #[must_use]
    pub fn system_id(&self) -> Option<&str> {
        self.header.system_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The lock manager that the VG needs; `none` counts as absent.
    #[must_use]
    pub fn lock_type(&self) -> Option<&str> {
        self.header
            .lock_type
            .as_deref()
            .filter(|kind| !matches!(*kind, "" | "none"))
    }

    /// The VG's allocation policy as written; absent means normal.
    #[must_use]
    pub fn allocation_policy(&self) -> Option<&str> {
        self.header.allocation_policy.as_deref()
    }

    /// Most LVs that users may make; 0 = no limit.
    #[must_use]
    pub fn max_lv(&self) -> u64 {
        self.header.max_lv
    }

    /// Most PVs; 0 = no limit.
    #[must_use]
    pub fn max_pv(&self) -> u64 {
        self.header.max_pv
    }

    /// The VG was exported, for another machine to import.
    #[must_use]
    pub fn exported(&self) -> bool {
        self.has_status("EXPORTED")
    }

    /// May be changed: `WRITE`, or `WRITE_LOCKED`, which lvm2 writes instead
    /// where older versions must keep off.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.has_status("WRITE") || self.header.flags.iter().any(|flag| flag == "WRITE_LOCKED")
    }

    /// Whether lvm2 writes `WRITE_LOCKED` for `WRITE` in this VG.
    #[must_use]
    pub fn write_locked(&self) -> bool {
        self.system_id().is_some() || self.lock_type().is_some()
    }

    /// Whether the status word is there.
    #[must_use]
    pub fn has_status(&self, word: &str) -> bool {
        self.header.status.iter().any(|s| s == word)
    }

    /// Names of removed LVs that the VG keeps a record of.
    #[must_use]
    pub fn historical(&self) -> &[String] {
        &self.header.historical
    }

    /// PVs in the order of the text.
    #[must_use]
    pub fn pvs(&self) -> &[Arc<Pv>] {
        &self.pvs
    }

    /// LVs, visible and hidden, in the order of the text.
    #[must_use]
    pub fn lvs(&self) -> &[Arc<Lv>] {
        &self.lvs
    }

    /// The LV of this name.
    #[must_use]
    pub fn lv(&self, name: &str) -> Option<&Arc<Lv>> {
        self.lvs.iter().find(|lv| lv.name.as_str() == name)
    }

    /// The LV of this identity.
    #[must_use]
    pub fn lv_by_id(&self, id: &LvId) -> Option<&Arc<Lv>> {
        self.lvs.iter().find(|lv| lv.id == *id)
    }

    /// The PV of this identity.
    #[must_use]
    pub fn pv_by_id(&self, id: &PvId) -> Option<&Arc<Pv>> {
        self.pvs.iter().find(|pv| pv.id == *id)
    }

    /// The PV that this text calls `key` (`pv0`).
    #[must_use]
    pub fn pv_by_key(&self, key: &str) -> Option<&Arc<Pv>> {
        self.pvs.iter().find(|pv| pv.key == key)
    }

    /// An LV that builds on the LV `name` (an origin, pool, sub-LV or log has
    /// one), if there is any.
    #[must_use]
    pub fn user_of(&self, name: &str) -> Option<&Arc<Lv>> {
        self.lvs
            .iter()
            .find(|lv| lv.refers().any(|referred| referred == name))
    }

    /// Extents of all PVs.
    #[must_use]
    pub fn extents_total(&self) -> Extents {
        Extents(
            self.pvs
                .iter()
                .fold(0, |sum: u64, pv| sum.saturating_add(pv.pe_count.0)),
        )
    }

    /// Free extents of the PVs that may be allocated from.
    #[must_use]
    pub fn free_extents(&self) -> Extents {
        crate::alloc::FreeMap::of(self).free()
    }

    /// The command or call that wrote the text.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.header.description.as_deref()
    }

    /// The host that wrote the text.
    #[must_use]
    pub fn creation_host(&self) -> Option<&str> {
        self.header.creation_host.as_deref()
    }

    /// When the text was written, in seconds since 1970.
    #[must_use]
    pub fn creation_time(&self) -> Option<i64> {
        self.header.creation_time
    }

    /// Sectors of an LV of this VG; `None` beyond 64 bits.
    #[must_use]
    pub fn sectors_of(&self, lv: &Lv) -> Option<Sectors> {
        self.extent_size().sectors_of(lv.extents())
    }
}

/// Two VGs are equal when their texts are.
impl PartialEq for Vg {
    fn eq(&self, other: &Self) -> bool {
        self.print() == other.print()
    }
}

impl Eq for Vg {}
