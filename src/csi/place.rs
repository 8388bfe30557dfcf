//! In which VG a volume goes.

use std::cmp::Reverse;

use lvm2::name::{LvName, VgName};
use lvm2::units::{Bytes, ExtentSize, Extents, format_size};

use crate::engine::{Engine, EngineError, VgOutline};
use crate::error::Kind;

use super::params::{Scheduler, VgMatch};

/// A VG that may be written and whose name matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Name.
    pub(super) vg: VgName,
    /// Extent size.
    pub(super) extent: ExtentSize,
    /// Free extents on allocatable PVs.
    pub(super) free: Extents,
    /// Bytes of every LV together.
    pub(super) used: Bytes,
    /// LVs in it.
    pub(super) lvs: usize,
}

impl Candidate {
    fn of(outline: &VgOutline) -> Self {
        let vg = &outline.vg;
        let extent = vg.extent_size();
        let used = vg
            .lvs()
            .iter()
            .map(|lv| extent.bytes_of(lv.extents()).0)
            .fold(0, u64::saturating_add);
        Self {
            vg: vg.name().clone(),
            extent,
            free: vg.free_extents(),
            used: Bytes(used),
            lvs: vg.lvs().len(),
        }
    }

    /// Free bytes.
    pub(super) fn free_bytes(&self) -> Bytes {
        self.extent.bytes_of(self.free)
    }
}

/// The VGs of the node as far as they matter to one volume.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Usable ones, in the order in which to try them.
    pub(super) candidates: Vec<Candidate>,
    /// Those that match but cannot be used, each with the reason.
    pub(super) unusable: Vec<String>,
    /// One of them may be usable later: a device of it does not answer.
    pub(super) silent: Option<EngineError>,
    /// Every VG of the node.
    pub(super) all: Vec<VgName>,
}

/// Looks for VGs that `wanted` matches (all, if it is nothing). `lv` is the LV
/// to be made, if one is.
pub(super) fn find(
    engine: &Engine,
    wanted: Option<&VgMatch>,
    scheduler: Scheduler,
    lv: Option<&LvName>,
) -> Result<Found, EngineError> {
    let mut found = Found {
        all: engine.vg_names()?,
        ..Found::default()
    };
    for name in found
        .all
        .iter()
        .filter(|name| wanted.is_none_or(|w| w.matches(name)))
    {
        match engine.outline(name) {
            Ok(outline) => match outline.obstacle(lv) {
                Some(reason) => {
                    found.silent = found.silent.or_else(|| outline.silence());
                    found.unusable.push(reason);
                }
                None => found.candidates.push(Candidate::of(&outline)),
            },
            // One broken VG must not stop volumes in the others.
            Err(error) => {
                found.unusable.push(error.to_string());
                if error.kind() == Kind::DeadlineExceeded {
                    found.silent = Some(error);
                }
            }
        }
    }
    if let Some(VgMatch::Named(name)) = wanted
        && !found.all.contains(name)
        && let Err(error) = engine.outline(name)
        // It may be here and unreadable.
        && error.kind() != Kind::NotFound
    {
        found.unusable.push(error.to_string());
    }
    order(&mut found.candidates, scheduler);
    Ok(found)
}

fn order(candidates: &mut [Candidate], scheduler: Scheduler) {
    candidates.sort_by_cached_key(|candidate| {
        let weight = match scheduler {
            Scheduler::Space => (Reverse(candidate.free_bytes()), Bytes(0), 0),
            Scheduler::Capacity => (Reverse(Bytes(0)), candidate.used, 0),
            Scheduler::Volume => (Reverse(Bytes(0)), Bytes(0), candidate.lvs),
        };
        (weight, candidate.vg.clone())
    });
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} has {} free", self.vg, format_size(self.free_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lvm2::units::Sectors;

    fn candidate(vg: &str, free: u64, used: u64, lvs: usize) -> Candidate {
        Candidate {
            vg: VgName::new(vg).unwrap(),
            extent: ExtentSize::new(Sectors(8192)).unwrap(),
            free: Extents(free),
            used: Bytes(used),
            lvs,
        }
    }

    #[test]
    fn each_scheduler_has_its_order() {
        let mut vgs = vec![
            candidate("b", 10, 5, 3),
            candidate("a", 10, 9, 1),
            candidate("c", 20, 7, 2),
        ];
        let mut names = |scheduler| {
            order(&mut vgs, scheduler);
            vgs.iter().map(|c| c.vg.to_string()).collect::<String>()
        };
        assert_eq!(names(Scheduler::Space), "cab");
        assert_eq!(names(Scheduler::Capacity), "bca");
        assert_eq!(names(Scheduler::Volume), "acb");
    }
}
