//! Finding free extents for an LV.
//!
//! The rules are lvm2's policies; the choice among free areas is ours (any
//! disjoint choice is valid to lvm2): what continues the LV first, then the
//! first PV with room for all of it, then the longest areas; always from an
//! area's start.

mod free;
mod place;
mod striped;

use crate::id::PvId;
use crate::model::{AreaRef, Lv, Segment, SegmentKind, Vg};
use crate::units::{Extents, Sectors};

pub use free::{FreeArea, FreeMap, PvFree};

/// Most extents that one LV can have: lvm2 counts them in 32 bits.
pub const MAX_LV_EXTENTS: u64 = u32::MAX as u64;

/// Smallest stripe: 4 KiB.
const MIN_STRIPE: u64 = 8;

/// How far apart an LV's extents may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// In one run: a new LV (each leg of a striped one) is one area, a longer
    /// LV goes on exactly where it ended.
    Contiguous,
    /// On the PVs that the LV already uses; a new LV on one PV a leg.
    Cling,
    /// Anywhere, but the legs of a striped LV on different PVs.
    #[default]
    Normal,
}

impl Policy {
    /// The policy that a text names. lvm2's `anywhere` counts as `normal`,
    /// which is stricter; any other word is `None`.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        match text {
            "contiguous" => Some(Self::Contiguous),
            "cling" | "cling_by_tags" => Some(Self::Cling),
            "normal" | "anywhere" => Some(Self::Normal),
            _ => None,
        }
    }

    /// The word that lvm2 writes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous",
            Self::Cling => "cling",
            Self::Normal => "normal",
        }
    }
}

/// What is to be allocated.
#[derive(Clone, Debug)]
pub struct Want<'a> {
    /// New logical extents, a multiple of `stripes`.
    pub extents: Extents,
    /// How far apart they may lie.
    pub policy: Policy,
    /// Legs; 1 = linear.
    pub stripes: u32,
    /// Size of a stripe; of no account where there is one leg.
    pub stripe_size: Sectors,
    /// The LV that grows, if it exists already.
    pub extend: Option<&'a Lv>,
    /// The only PVs to take from, if not all.
    pub pvs: Option<&'a [PvId]>,
}

/// One leg of a new segment: extents from `start` on of the PV with this key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStripe {
    /// The PV's key in the VG's text.
    pub key: String,
    /// First physical extent.
    pub start: Extents,
}

/// A segment for the LV: `count` logical extents, divided among the legs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSegment {
    /// Logical extents.
    pub count: Extents,
    /// The stripe size where there are several legs.
    pub stripe_size: Option<Sectors>,
    /// The legs, one for a linear segment.
    pub stripes: Vec<NewStripe>,
}

/// Why there is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocError {
    /// Nothing was asked for.
    #[error("no extents were asked for")]
    Nothing,
    /// More than lvm2 can count in one LV.
    #[error("an LV of {extents} extents is longer than the limit of {MAX_LV_EXTENTS}")]
    TooLong {
        /// The LV's extents, old and new.
        extents: Extents,
    },
    /// The extents cannot be shared out evenly.
    #[error("{extents} extents cannot be divided among {stripes} stripes")]
    Uneven {
        /// Extents asked for.
        extents: Extents,
        /// Legs.
        stripes: u32,
    },
    /// The stripe size is no power of two, under 4 KiB or over an extent.
    #[error(
        "stripe size of {stripe} sectors is not a power of two from {MIN_STRIPE} to the extent \
         size of {extent} sectors"
    )]
    StripeSize {
        /// What was asked for.
        stripe: Sectors,
        /// The VG's extent size.
        extent: Sectors,
    },
    /// A PV was named that is not in the VG.
    #[error("PV {0} is not in the VG")]
    UnknownPv(PvId),
    /// Not enough PVs have free extents for that many legs.
    #[error("{stripes} stripes need free extents on {stripes} PVs, but {pvs} PVs have any")]
    TooFewPvs {
        /// Legs.
        stripes: u32,
        /// PVs with free extents.
        pvs: usize,
    },
    /// Not enough free extents under this policy.
    #[error("{needed} more extents are needed, and {free} are free under policy {}", .policy.as_str())]
    NoSpace {
        /// Extents asked for.
        needed: Extents,
        /// Free extents on the PVs that the policy allows.
        free: Extents,
        /// The policy.
        policy: Policy,
    },
    /// The extents are there, but not in one piece.
    #[error(
        "{needed} extents in a row are needed on each of {stripes} PVs; the policy is \
         contiguous and the longest usable run has {longest}"
    )]
    NotContiguous {
        /// Extents of one leg.
        needed: Extents,
        /// Legs.
        stripes: u32,
        /// The longest run that one leg could have.
        longest: Extents,
    },
}

/// Rounds `extents` up to a multiple of `stripes`, as lvm2 does with a
/// requested size; `None` beyond 64 bits.
#[must_use]
pub fn round_up(extents: Extents, stripes: u32) -> Option<Extents> {
    extents
        .0
        .checked_next_multiple_of(u64::from(stripes.max(1)))
        .map(Extents)
}

/// Finds free extents for `want` in `free`, which must describe `vg`.
///
/// The result has exactly `want.extents` logical extents in logical order, and
/// overlaps neither itself nor anything in use. Its first segment may continue
/// the last one of the LV that grows; no other continues the one before it,
/// because a run of free extents is taken to its end before the next.
///
/// # Errors
/// When the request makes no sense in this VG or there is no room for it.
pub fn allocate(vg: &Vg, free: &FreeMap, want: &Want<'_>) -> Result<Vec<NewSegment>, AllocError> {
    check_want(vg, want)?;
    let free = match want.pvs {
        Some(ids) => free.restricted(ids)?,
        None => free.clone(),
    };
    let grows = want.extend.is_some_and(|lv| !lv.segments.is_empty());
    let Some(run) = continuation(&free, want) else {
        if grows && want.policy == Policy::Contiguous {
            return Err(not_contiguous(want, Extents(0)));
        }
        return place::place(&free, want, want.extents);
    };
    let legs = u64::from(want.stripes);
    let taken = Extents(run.count.0.min(want.extents.0 / legs));
    let count = Extents(taken.0 * legs);
    let left = want.extents.saturating_sub(count);
    if left.is_zero() {
        return Ok(vec![run.into_segment(count, want)]);
    }
    if want.policy == Policy::Contiguous {
        return Err(not_contiguous(want, taken));
    }
    let mut rest = free.clone();
    for stripe in &run.stripes {
        rest.take(&stripe.key, stripe.start, taken);
    }
    let mut segments = vec![run.into_segment(count, want)];
    match place::place(&rest, want, left) {
        Ok(more) => segments.extend(more),
        // What continues the LV may be what legs elsewhere need.
        Err(_) => segments = place::place(&free, want, want.extents)?,
    }
    Ok(segments)
}

fn not_contiguous(want: &Want<'_>, longest: Extents) -> AllocError {
    let needed = Extents(want.extents.0 / u64::from(want.stripes));
    AllocError::NotContiguous {
        needed,
        stripes: want.stripes,
        longest,
    }
}

fn check_want(vg: &Vg, want: &Want<'_>) -> Result<(), AllocError> {
    if want.extents.is_zero() {
        return Err(AllocError::Nothing);
    }
    let total = want
        .extents
        .saturating_add(want.extend.map_or(Extents(0), Lv::extents));
    if total.0 > MAX_LV_EXTENTS {
        return Err(AllocError::TooLong { extents: total });
    }
    if want.stripes == 0 || !want.extents.0.is_multiple_of(u64::from(want.stripes)) {
        return Err(AllocError::Uneven {
            extents: want.extents,
            stripes: want.stripes,
        });
    }
    let (stripe, extent) = (want.stripe_size, vg.extent_size().sectors());
    let fits = stripe.0.is_power_of_two() && stripe.0 >= MIN_STRIPE && stripe.0 <= extent.0;
    if want.stripes > 1 && !fits {
        return Err(AllocError::StripeSize { stripe, extent });
    }
    Ok(())
}

/// Equal runs, one a leg, that begin where the legs of an LV end.
struct Run {
    /// Extents of each leg.
    count: Extents,
    stripes: Vec<NewStripe>,
}

impl Run {
    fn into_segment(self, count: Extents, want: &Want<'_>) -> NewSegment {
        NewSegment {
            count,
            stripe_size: (want.stripes > 1).then_some(want.stripe_size),
            stripes: self.stripes,
        }
    }
}

/// The free run directly behind the LV's last segment, if the segment has the
/// legs that are wanted and each of them can go on.
fn continuation(free: &FreeMap, want: &Want<'_>) -> Option<Run> {
    let last = want.extend?.segments.last()?;
    let legs = legs_like(last, want)?;
    let mut run = Run {
        count: Extents(u64::MAX),
        stripes: Vec::new(),
    };
    for (key, start) in legs {
        let next = start.checked_add(last.leg_extents())?;
        let area = free.area_at(key, next)?;
        run.count = run.count.min(area.count);
        run.stripes.push(NewStripe {
            key: key.to_owned(),
            start: next,
        });
    }
    Some(run)
}

/// The PV areas of a segment with as many legs of the same stripe size as wanted.
fn legs_like<'a>(segment: &'a Segment, want: &Want<'_>) -> Option<Vec<(&'a str, Extents)>> {
    let SegmentKind::Striped {
        stripe_size,
        stripes,
    } = &segment.kind
    else {
        return None;
    };
    let same_size = want.stripes == 1 || *stripe_size == Some(want.stripe_size);
    if stripes.len() as u64 != u64::from(want.stripes) || !same_size {
        return None;
    }
    let area = |stripe: &'a crate::model::Stripe| match &stripe.area {
        AreaRef::Pv(key, start) => Some((key.as_str(), *start)),
        AreaRef::Lv(..) => None,
    };
    stripes.iter().map(area).collect()
}

impl NewSegment {
    /// Physical extents of one leg.
    #[must_use]
    pub fn leg_extents(&self) -> Extents {
        Extents(self.count.0 / (self.stripes.len() as u64).max(1))
    }
}
