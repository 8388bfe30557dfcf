//! Placing what does not continue an LV.

use std::cmp::Reverse;

use crate::model::Lv;
use crate::units::Extents;

use super::free::{FreeArea, FreeMap, PvFree};
use super::{AllocError, NewSegment, NewStripe, Policy, Want, striped};

/// Places `left` logical extents under the policy of `want`.
pub(super) fn place(
    free: &FreeMap,
    want: &Want<'_>,
    left: Extents,
) -> Result<Vec<NewSegment>, AllocError> {
    let leg = Extents(left.0 / u64::from(want.stripes));
    let with_space = free.pvs().iter().filter(|pv| !pv.areas.is_empty()).count();
    if with_space == 0 {
        return Err(no_space(free, want, left));
    }
    if (with_space as u64) < u64::from(want.stripes) {
        return Err(AllocError::TooFewPvs {
            stripes: want.stripes,
            pvs: with_space,
        });
    }
    match want.policy {
        Policy::Contiguous => contiguous(free, want, leg).map(|segment| vec![segment]),
        Policy::Cling => {
            let near = near(free, want, leg);
            spread(&near, want, leg).ok_or_else(|| no_space(&near, want, left))
        }
        Policy::Normal => {
            // Staying on the PVs it has keeps an LV's fate tied to fewer disks.
            let near = want
                .extend
                .and_then(|_| spread(&near(free, want, leg), want, leg));
            near.or_else(|| spread(free, want, leg))
                .ok_or_else(|| no_space(free, want, left))
        }
    }
}

fn no_space(free: &FreeMap, want: &Want<'_>, left: Extents) -> AllocError {
    AllocError::NoSpace {
        needed: left,
        free: free.free(),
        policy: want.policy,
    }
}

/// One area a leg, on different PVs.
fn contiguous(free: &FreeMap, want: &Want<'_>, leg: Extents) -> Result<NewSegment, AllocError> {
    let candidates = ranked(free, leg);
    let fitting = candidates.iter().filter(|(_, area)| area.count >= leg);
    let stripes: Vec<NewStripe> = fitting
        .take(want.stripes as usize)
        .map(|(pv, area)| stripe(pv, area))
        .collect();
    if stripes.len() as u64 == u64::from(want.stripes) {
        return Ok(segment(want, leg, stripes));
    }
    let longest = candidates
        .get(want.stripes as usize - 1)
        .map_or(Extents(0), |(_, a)| a.count);
    Err(AllocError::NotContiguous {
        needed: leg,
        stripes: want.stripes,
        longest,
    })
}

/// The PVs that `cling` allows: those in use by the LV, or for a new LV the
/// fewest PVs, one a leg, each with room for a whole leg where possible.
fn near(free: &FreeMap, want: &Want<'_>, leg: Extents) -> FreeMap {
    if let Some(lv) = want.extend.filter(|lv| !lv.segments.is_empty()) {
        let keys: Vec<&str> = lv_keys(lv);
        return free.only(&keys);
    }
    let mut pvs: Vec<&PvFree> = free.pvs().iter().collect();
    let fits = |pv: &PvFree| pv.candidate(leg).is_some_and(|area| area.count >= leg);
    pvs.sort_by_key(|pv| (!fits(pv), Reverse(pv.free().min(leg))));
    let keys: Vec<&str> = pvs
        .iter()
        .take(want.stripes as usize)
        .map(|pv| pv.key.as_str())
        .collect();
    free.only(&keys)
}

fn lv_keys(lv: &Lv) -> Vec<&str> {
    let mut keys: Vec<&str> = lv.uses().map(|area| area.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Takes the best areas until there is enough: for each PV the smallest that
/// holds all that is left, else its longest; see [`ranked`] for the PVs.
fn spread(free: &FreeMap, want: &Want<'_>, leg: Extents) -> Option<Vec<NewSegment>> {
    let mut map = free.clone();
    let mut segments = Vec::new();
    let mut left = leg;
    while !left.is_zero() {
        let ranked = ranked(&map, left);
        let chosen = ranked.get(..want.stripes as usize);
        let Some(chosen) = chosen.filter(|chosen| !chosen.is_empty()) else {
            // Greed can strand extents on one PV that legs on others need.
            return striped::fill(free, want, leg);
        };
        let shortest = chosen
            .iter()
            .map(|(_, area)| area.count)
            .min()
            .unwrap_or_default();
        let count = left.min(shortest);
        let stripes: Vec<NewStripe> = chosen.iter().map(|(pv, area)| stripe(pv, area)).collect();
        for stripe in &stripes {
            map.take(&stripe.key, stripe.start, count);
        }
        segments.push(segment(want, count, stripes));
        left = left.saturating_sub(count);
    }
    Some(segments)
}

/// Every PV's candidate for `needed` extents: those that hold them all in the
/// VG's order, so that LVs fill one PV before the next as lvm2 does it, then
/// the others, longest first.
fn ranked(free: &FreeMap, needed: Extents) -> Vec<(&PvFree, FreeArea)> {
    let mut candidates: Vec<(&PvFree, FreeArea)> = free
        .pvs()
        .iter()
        .filter_map(|pv| Some((pv, pv.candidate(needed)?)))
        .collect();
    candidates.sort_by_key(|(_, area)| Reverse(area.count.min(needed)));
    candidates
}

fn stripe(pv: &PvFree, area: &FreeArea) -> NewStripe {
    NewStripe {
        key: pv.key.clone(),
        start: area.start,
    }
}

/// A segment of `leg` extents on each of the stripes.
pub(super) fn segment(want: &Want<'_>, leg: Extents, stripes: Vec<NewStripe>) -> NewSegment {
    NewSegment {
        count: Extents(leg.0.saturating_mul(stripes.len() as u64)),
        stripe_size: (want.stripes > 1).then_some(want.stripe_size),
        stripes,
    }
}
