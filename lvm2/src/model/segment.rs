//! Segments: which extents of an LV come from where.

use crate::units::{Extents, Sectors};

/// Where a leg of a segment takes its extents from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AreaRef {
    /// A PV by its key in this VG's text (`pv0`), and the first physical extent.
    Pv(String, Extents),
    /// Another LV by name, and the first logical extent in it.
    Lv(String, Extents),
}

/// One leg of a striped segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Where the leg's extents are.
    pub area: AreaRef,
}

/// Extents of a PV that the text of a segment claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PvExtents<'a> {
    /// The PV's key in the VG's text.
    pub key: &'a str,
    /// First physical extent.
    pub start: Extents,
    /// Number of physical extents.
    pub count: Extents,
}

/// An area that a segment of a foreign type names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherArea {
    /// The PV's key.
    pub key: String,
    /// First physical extent.
    pub start: Extents,
    /// Number of physical extents, as far as the text tells.
    pub count: Extents,
}

/// What a segment is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Linear (one leg) or striped (several).
    Striped {
        /// Bytes of one leg before the next follows; absent where there is one leg.
        stripe_size: Option<Sectors>,
        /// The legs in order.
        stripes: Vec<Stripe>,
    },
    /// Any other type: kept verbatim in the text, counted, never changed.
    Other {
        /// The type as written, with its `+FLAG` suffixes.
        type_name: String,
        /// Extents of PVs that it uses directly.
        areas: Vec<OtherArea>,
        /// LVs that it names.
        refers: Vec<String>,
    },
}

/// A run of an LV's extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First logical extent.
    pub start: Extents,
    /// Number of logical extents.
    pub count: Extents,
    /// What it is made of.
    pub kind: SegmentKind,
    /// Tags on the segment.
    pub tags: Vec<String>,
}

/// Segment types that lvm2 reads, without flags. Any other makes a VG
/// unchangeable for lvm2, so for us too.
const KNOWN_TYPES: &[&str] = &[
    "striped",
    "linear",
    "error",
    "zero",
    "snapshot",
    "thin-pool",
    "thin",
    "mirror",
    "raid0",
    "raid0_meta",
    "raid1",
    "raid4",
    "raid5",
    "raid5_ls",
    "raid5_la",
    "raid5_rs",
    "raid5_ra",
    "raid5_n",
    "raid6",
    "raid6_zr",
    "raid6_nr",
    "raid6_nc",
    "raid6_ls_6",
    "raid6_la_6",
    "raid6_rs_6",
    "raid6_ra_6",
    "raid6_n_6",
    "raid10",
    "raid10_near",
    "cache-pool",
    "cache",
    "writecache",
    "integrity",
    "vdo",
    "vdo-pool",
];

/// Flags that may follow a type.
const KNOWN_TYPE_FLAGS: &[&str] = &[
    "RESHAPE",
    "RESHAPE_DATA_OFFSET",
    "RESHAPE_DELTA_DISKS_PLUS",
    "RESHAPE_DELTA_DISKS_MINUS",
    "REMOVE_AFTER_RESHAPE",
    "METADATA_FORMAT",
    "CROP_METADATA",
    "CACHE_USES_CACHEVOL",
];

/// Whether lvm2 knows a type as written, with its flags.
pub(super) fn is_known_type(type_name: &str) -> bool {
    let mut words = type_name.split('+');
    words.next().is_some_and(|word| KNOWN_TYPES.contains(&word))
        && words.all(|word| KNOWN_TYPE_FLAGS.contains(&word))
}

impl Segment {
    /// The type's name, `linear` for one leg.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match &self.kind {
            SegmentKind::Striped { stripes, .. } if stripes.len() == 1 => "linear",
            SegmentKind::Striped { .. } => "striped",
            SegmentKind::Other { type_name, .. } => type_name,
        }
    }

    /// Whether lvm2 knows the type and every flag on it.
    #[must_use]
    pub fn type_is_known(&self) -> bool {
        match &self.kind {
            SegmentKind::Striped { .. } => true,
            SegmentKind::Other { type_name, .. } => is_known_type(type_name),
        }
    }

    /// Whether every extent lies directly on a PV in linear or striped form.
    #[must_use]
    pub fn is_native(&self) -> bool {
        match &self.kind {
            SegmentKind::Striped { stripes, .. } => {
                !stripes.is_empty()
                    && stripes
                        .iter()
                        .all(|stripe| matches!(stripe.area, AreaRef::Pv(..)))
            }
            SegmentKind::Other { .. } => false,
        }
    }

    /// Extents of one leg; of the whole segment where there are no legs.
    #[must_use]
    pub fn leg_extents(&self) -> Extents {
        match &self.kind {
            SegmentKind::Striped { stripes, .. } => {
                Extents(self.count.0 / (stripes.len() as u64).max(1))
            }
            SegmentKind::Other { .. } => self.count,
        }
    }

    /// First extent behind the segment; `None` beyond 64 bits.
    #[must_use]
    pub fn end(&self) -> Option<Extents> {
        self.start.0.checked_add(self.count.0).map(Extents)
    }

    /// The extents of PVs that the segment claims.
    pub fn uses(&self) -> impl Iterator<Item = PvExtents<'_>> {
        let leg = self.leg_extents();
        let (stripes, areas): (&[Stripe], &[OtherArea]) = match &self.kind {
            SegmentKind::Striped { stripes, .. } => (stripes, &[]),
            SegmentKind::Other { areas, .. } => (&[], areas),
        };
        let striped = stripes.iter().filter_map(move |stripe| match &stripe.area {
            AreaRef::Pv(key, start) => Some(PvExtents {
                key,
                start: *start,
                count: leg,
            }),
            AreaRef::Lv(..) => None,
        });
        striped.chain(areas.iter().map(|area| PvExtents {
            key: &area.key,
            start: area.start,
            count: area.count,
        }))
    }

    /// Names of the LVs that the segment builds on.
    pub fn refers(&self) -> impl Iterator<Item = &str> {
        let (stripes, names): (&[Stripe], &[String]) = match &self.kind {
            SegmentKind::Striped { stripes, .. } => (stripes, &[]),
            SegmentKind::Other { refers, .. } => (&[], refers),
        };
        let striped = stripes.iter().filter_map(|stripe| match &stripe.area {
            AreaRef::Lv(name, _) => Some(name.as_str()),
            AreaRef::Pv(..) => None,
        });
        striped.chain(names.iter().map(String::as_str))
    }
}
