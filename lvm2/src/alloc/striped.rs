//! The exact way to fill legs: it finds a place whenever there is one.

use std::cmp::Reverse;

use crate::units::Extents;

use super::free::{FreeArea, FreeMap};
use super::place::segment;
use super::{NewSegment, NewStripe, Want};

/// Part of a leg: its extents `at..at + area.count` lie in `area` of a PV.
struct Part {
    at: u64,
    key: String,
    area: FreeArea,
}

/// Fills the legs one after the other from the PVs with most room. A PV gives
/// at most the length of one leg, so where it ends one leg and begins the next
/// its two parts never lie at the same height, and a segment has distinct PVs.
/// (That is the wrap-around rule by which McNaughton schedules jobs that can
/// be interrupted: height is time, legs are machines, PVs are jobs.)
pub(super) fn fill(free: &FreeMap, want: &Want<'_>, leg: Extents) -> Option<Vec<NewSegment>> {
    let mut pvs: Vec<_> = free.pvs().iter().collect();
    pvs.sort_by_key(|pv| Reverse(pv.free()));
    let mut legs: Vec<Vec<Part>> = vec![Vec::new()];
    let mut at = 0;
    for pv in pvs {
        let mut share = pv.free().min(leg).0;
        for area in &pv.areas {
            let mut start = area.start.0;
            let mut room = area.count.0.min(share);
            share -= room;
            while room > 0 {
                if at == leg.0 {
                    if legs.len() as u64 == u64::from(want.stripes) {
                        break;
                    }
                    legs.push(Vec::new());
                    at = 0;
                }
                let count = room.min(leg.0 - at);
                let area = FreeArea {
                    start: Extents(start),
                    count: Extents(count),
                };
                legs.last_mut()?.push(Part {
                    at,
                    key: pv.key.clone(),
                    area,
                });
                (start, room, at) = (start + count, room - count, at + count);
            }
        }
    }
    if (legs.len() as u64) < u64::from(want.stripes) || at < leg.0 {
        return None;
    }
    cut(&legs, want, leg)
}

/// Cuts all legs at every height where one of them changes its area.
fn cut(legs: &[Vec<Part>], want: &Want<'_>, leg: Extents) -> Option<Vec<NewSegment>> {
    let mut heights: Vec<u64> = legs.iter().flatten().map(|part| part.at).collect();
    heights.push(leg.0);
    heights.sort_unstable();
    heights.dedup();
    let mut segments = Vec::with_capacity(heights.len());
    for (low, high) in heights.iter().zip(heights.iter().skip(1)) {
        let stripes: Option<Vec<NewStripe>> =
            legs.iter().map(|parts| stripe_at(parts, *low)).collect();
        segments.push(segment(want, Extents(high - low), stripes?));
    }
    Some(segments)
}

fn stripe_at(parts: &[Part], height: u64) -> Option<NewStripe> {
    let part = parts.iter().rev().find(|part| part.at <= height)?;
    let start = part.area.start.0 + (height - part.at);
    Some(NewStripe {
        key: part.key.clone(),
        start: Extents(start),
    })
}
