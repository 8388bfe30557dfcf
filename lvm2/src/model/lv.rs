//! LVs as a VG's text describes them.

use crate::id::LvId;
use crate::name::LvName;
use crate::units::Extents;

use super::segment::{PvExtents, Segment};

/// Status words of LVs that lvm2 reads.
pub(crate) const LV_STATUS: &[&str] = &[
    "READ",
    "WRITE",
    "VISIBLE",
    "FIXED_MINOR",
    "PVMOVE",
    "LOCKED",
    "NOTSYNCED",
    "REBUILD",
    "WRITEMOSTLY",
];

/// Status words of an LV that an edit may meet.
const NATIVE_STATUS: &[&str] = &["READ", "WRITE", "VISIBLE", "FIXED_MINOR"];

/// Flags of an LV that an edit may meet.
const NATIVE_FLAGS: &[&str] = &["WRITE_LOCKED", "ACTIVATION_SKIP", "NOAUTOACTIVATE"];

/// A logical volume, visible or hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lv {
    /// Name, unique in the VG.
    pub name: LvName,
    /// Identity, which renames keep.
    pub id: LvId,
    /// Status words as written.
    pub status: Vec<String>,
    /// Flags as written.
    pub flags: Vec<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Seconds since 1970; lvm2 wants both this and the host, or neither.
    pub creation_time: Option<i64>,
    /// Host that made the LV.
    pub creation_host: Option<String>,
    /// Sectors; absent or 0 = automatic, −1 = none.
    pub read_ahead: Option<i64>,
    /// Fixed device number's major, where there is one.
    pub major: Option<i64>,
    /// Fixed device number's minor, where there is one.
    pub minor: Option<i64>,
    /// Policy of its own, as written.
    pub allocation_policy: Option<String>,
    /// `segment_count` as written.
    pub segment_count: i64,
    /// Segments in the order of the text.
    pub segments: Vec<Segment>,
}

impl Lv {
    /// Length in extents (saturating: hostile numbers are for `check` to report).
    #[must_use]
    pub fn extents(&self) -> Extents {
        Extents(
            self.segments
                .iter()
                .fold(0, |sum: u64, s| sum.saturating_add(s.count.0)),
        )
    }

    /// Shown to users.
    #[must_use]
    pub fn visible(&self) -> bool {
        self.has_status("VISIBLE")
    }

    /// May be written to: `WRITE`, or `WRITE_LOCKED`, which lvm2 writes
    /// instead where older versions must keep off.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.has_status("WRITE") || self.has_flag("WRITE_LOCKED")
    }

    /// Whether the status word is there.
    #[must_use]
    pub fn has_status(&self, word: &str) -> bool {
        self.status.iter().any(|s| s == word)
    }

    /// Whether the flag is there.
    #[must_use]
    pub fn has_flag(&self, word: &str) -> bool {
        self.flags.iter().any(|s| s == word)
    }

    /// Whether the tag is there.
    #[must_use]
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|t| t == tag)
    }

    /// The type of the first segment, as lvm2's `segtype` column shows it.
    #[must_use]
    pub fn type_name(&self) -> &str {
        self.segments.first().map_or("unknown", Segment::type_name)
    }

    /// The first segment that is not linear or striped on PVs.
    #[must_use]
    pub fn foreign_segment(&self) -> Option<&Segment> {
        self.segments.iter().find(|segment| !segment.is_native())
    }

    /// The first status word or flag that forbids edits: work in progress
    /// (`LOCKED`, `PVMOVE`), a role in another LV, or a word we do not know.
    #[must_use]
    pub fn foreign_word(&self) -> Option<&str> {
        let status = self
            .status
            .iter()
            .find(|word| !NATIVE_STATUS.contains(&word.as_str()));
        let flag = || {
            self.flags
                .iter()
                .find(|word| !NATIVE_FLAGS.contains(&word.as_str()))
        };
        status.or_else(flag).map(String::as_str)
    }

    /// Whether its own text allows edits: linear and striped segments on PVs
    /// only, and no status or flag that we do not understand. Whether other
    /// LVs build on it is for [`super::Vg::user_of`].
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.foreign_segment().is_none() && self.foreign_word().is_none()
    }

    /// Extents of PVs that the LV's own segments claim. Hidden LVs are LVs of
    /// their own and claim theirs.
    pub fn uses(&self) -> impl Iterator<Item = PvExtents<'_>> {
        self.segments.iter().flat_map(Segment::uses)
    }

    /// Names of the LVs it builds on.
    pub fn refers(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().flat_map(Segment::refers)
    }
}
