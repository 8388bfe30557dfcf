//! Which extents nobody uses.

use std::collections::HashMap;

use crate::id::PvId;
use crate::model::Vg;
use crate::units::Extents;

use super::AllocError;

/// A run of free extents of one PV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeArea {
    /// First physical extent.
    pub start: Extents,
    /// Number of extents, never 0.
    pub count: Extents,
}

/// The free runs of a PV that extents may be taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PvFree {
    /// The PV's key in the VG's text.
    pub key: String,
    /// The PV's identity.
    pub id: PvId,
    /// Free runs, ascending, not touching each other.
    pub areas: Vec<FreeArea>,
}

impl PvFree {
    /// Free extents of the PV.
    #[must_use]
    pub fn free(&self) -> Extents {
        Extents(self.areas.iter().map(|area| area.count.0).sum())
    }

    /// The smallest run of at least `needed` extents, else the longest.
    pub(super) fn candidate(&self, needed: Extents) -> Option<FreeArea> {
        let fitting = self.areas.iter().filter(|area| area.count >= needed);
        let smallest = fitting.min_by_key(|area| (area.count, area.start));
        // Of several longest runs the first: hence the reversed start.
        let longest = || {
            self.areas
                .iter()
                .max_by_key(|area| (area.count, std::cmp::Reverse(area.start)))
        };
        smallest.or_else(longest).copied()
    }

    fn take(&mut self, start: Extents, count: Extents) {
        let end = start.saturating_add(count);
        let mut left = Vec::with_capacity(self.areas.len() + 1);
        for area in self.areas.drain(..) {
            let area_end = area.start.saturating_add(area.count);
            if area_end <= start || end <= area.start {
                left.push(area);
                continue;
            }
            push_between(&mut left, area.start, start);
            push_between(&mut left, end, area_end);
        }
        self.areas = left;
    }
}

fn push_between(areas: &mut Vec<FreeArea>, start: Extents, end: Extents) {
    if let Some(count) = end.checked_sub(start).filter(|count| !count.is_zero()) {
        areas.push(FreeArea { start, count });
    }
}

/// The free extents of the PVs of a VG that may be allocated from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeMap {
    pvs: Vec<PvFree>,
    /// Every PV of the VG, so that naming one that is full or closed to
    /// allocation is told from naming a stranger.
    known: Vec<PvId>,
}

impl FreeMap {
    /// Computes what `vg` leaves free. Extents outside a PV and extents that
    /// two LVs claim are for [`crate::check`] to report; here they are in use.
    #[must_use]
    pub fn of(vg: &Vg) -> Self {
        let mut used: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
        for lv in vg.lvs() {
            for area in lv.uses() {
                let end = area.start.0.saturating_add(area.count.0);
                used.entry(area.key).or_default().push((area.start.0, end));
            }
        }
        let pvs = vg.pvs().iter().filter(|pv| pv.can_allocate());
        let pvs = pvs.map(|pv| {
            let mut ranges = used.remove(pv.key.as_str()).unwrap_or_default();
            ranges.sort_unstable();
            PvFree {
                key: pv.key.clone(),
                id: pv.id,
                areas: gaps(&ranges, pv.pe_count),
            }
        });
        Self {
            pvs: pvs.collect(),
            known: vg.pvs().iter().map(|pv| pv.id).collect(),
        }
    }

    /// The PVs that may be allocated from, in the VG's order.
    #[must_use]
    pub fn pvs(&self) -> &[PvFree] {
        &self.pvs
    }

    /// Free extents of all of them.
    #[must_use]
    pub fn free(&self) -> Extents {
        Extents(
            self.pvs
                .iter()
                .fold(0, |sum: u64, pv| sum.saturating_add(pv.free().0)),
        )
    }

    /// The longest run of free extents, which is what a contiguous LV can have.
    #[must_use]
    pub fn longest(&self) -> Extents {
        let areas = self.pvs.iter().flat_map(|pv| &pv.areas);
        areas.map(|area| area.count).max().unwrap_or_default()
    }

    /// The map of the PVs `ids` alone.
    pub(super) fn restricted(&self, ids: &[PvId]) -> Result<Self, AllocError> {
        if let Some(stranger) = ids.iter().find(|id| !self.known.contains(id)) {
            return Err(AllocError::UnknownPv(*stranger));
        }
        let mut map = self.clone();
        map.pvs.retain(|pv| ids.contains(&pv.id));
        Ok(map)
    }

    /// The map of the PVs with these keys alone.
    pub(super) fn only(&self, keys: &[&str]) -> Self {
        let mut map = self.clone();
        map.pvs.retain(|pv| keys.contains(&pv.key.as_str()));
        map
    }

    /// What is left of the free run that holds extent `start`, from there on.
    pub(super) fn area_at(&self, key: &str, start: Extents) -> Option<FreeArea> {
        let pv = self.pvs.iter().find(|pv| pv.key == key)?;
        let area = pv
            .areas
            .iter()
            .find(|area| area.start <= start && start < area.start.saturating_add(area.count))?;
        let count = area.start.saturating_add(area.count).checked_sub(start)?;
        Some(FreeArea { start, count })
    }

    /// Marks extents as used.
    pub(super) fn take(&mut self, key: &str, start: Extents, count: Extents) {
        if let Some(pv) = self.pvs.iter_mut().find(|pv| pv.key == key) {
            pv.take(start, count);
        }
    }
}

/// What sorted `used` ranges leave of `0..count`.
fn gaps(used: &[(u64, u64)], count: Extents) -> Vec<FreeArea> {
    let mut areas = Vec::new();
    let mut next = 0;
    for (start, end) in used {
        push_between(&mut areas, Extents(next), Extents((*start).min(count.0)));
        next = next.max(*end);
    }
    push_between(&mut areas, Extents(next), count);
    areas
}
