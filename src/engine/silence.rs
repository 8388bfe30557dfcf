//! VGs whose devices do not answer.
//!
//! A PV that hangs is not a PV that is gone. Were its VG forgotten, a volume
//! on it would count as deleted, and be made again elsewhere. So what was
//! known of such a VG stays, marked as silent: it is listed and refuses
//! changes, and a later look at the devices finds it as it is then.

use std::path::Path;
use std::sync::Arc;

use lvm2::id::PvId;

use super::hazard::Hazard;
use super::loaded::Loaded;
use super::scan::Scan;
use super::state::Problem;
use crate::host::{SkipReason, Skipped};

/// Whether the device may be a PV that answers again later.
pub(super) fn is_silent(skipped: &Skipped) -> bool {
    matches!(
        skipped.reason,
        SkipReason::TimedOut(_) | SkipReason::Suspended
    )
}

/// Keeps the VGs of `before` whose PVs did not answer in `scan`, and tells
/// silent PVs from missing ones in the others.
pub(super) fn keep(before: &[Arc<Loaded>], scan: &mut Scan) {
    let silent: Vec<Skipped> = scan
        .skipped
        .iter()
        .filter(|s| is_silent(s))
        .cloned()
        .collect();
    if silent.is_empty() {
        return;
    }
    for loaded in scan.vgs.values_mut().flatten() {
        let old = before.iter().find(|old| old.vg.id() == loaded.vg.id());
        tell_apart(loaded, old, &silent);
    }
    for old in before {
        let found = scan.vgs.get(old.vg.name());
        let found = found.is_some_and(|all| all.iter().any(|new| new.vg.id() == old.vg.id()));
        let hazards: Vec<Hazard> = old
            .pvs
            .iter()
            .filter_map(|pv| hazard(&pv.device.info().path, &silent))
            .collect();
        if !found && !hazards.is_empty() {
            let kept = old.silenced(hazards);
            let name = kept.vg.name().clone();
            scan.vgs.entry(name).or_default().push(kept);
        }
    }
    let named: Vec<&Path> = scan
        .vgs
        .values()
        .flatten()
        .flat_map(|loaded| &loaded.hazards)
        .filter_map(|hazard| match hazard {
            Hazard::Silent { path, .. } => Some(path.as_path()),
            _ => None,
        })
        .collect();
    let others = silent.iter().filter(|s| !named.contains(&s.path.as_path()));
    scan.problems.extend(others.map(|skipped| Problem {
        object: skipped.path.display().to_string(),
        detail: format!(
            "{}; if there is a PV on it, its VG is not seen",
            skipped.reason
        ),
    }));
}

fn tell_apart(loaded: &mut Loaded, old: Option<&Arc<Loaded>>, silent: &[Skipped]) {
    let Loaded { vg, hazards, .. } = loaded;
    let found = |id: &PvId| {
        let known = old.and_then(|old| old.device(id));
        let known = known.map(|device| device.info().path.clone());
        // A new process has only the path of the last write to go by.
        let hint = || Some(vg.pv_by_id(id)?.device_hint.clone().into());
        hazard(&known.or_else(hint)?, silent)
    };
    let mut told = Vec::new();
    for hazard in hazards.iter_mut() {
        if let Hazard::MissingPv { ids, .. } = hazard {
            ids.retain(|id| match found(id) {
                Some(silence) => {
                    told.push(silence);
                    false
                }
                None => true,
            });
        }
    }
    hazards.retain(|hazard| !matches!(hazard, Hazard::MissingPv { ids, .. } if ids.is_empty()));
    hazards.append(&mut told);
}

fn hazard(path: &Path, silent: &[Skipped]) -> Option<Hazard> {
    let skipped = silent.iter().find(|skipped| skipped.path == path)?;
    Some(Hazard::Silent {
        path: skipped.path.clone(),
        reason: skipped.reason.to_string(),
    })
}
