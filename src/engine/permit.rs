//! Whether a VG that was read may be used for what is planned.

use std::sync::Arc;

use lvm2::check::Refusal;
use lvm2::edit::EditError;
use lvm2::model::Vg;

use super::error::EngineError;
use super::hazard::Hazard;
use super::loaded::Loaded;
use super::planned::Planned;
use super::step::Step;
use crate::host::Host;

/// Refuses `planned`, a change of `old`, if the metadata or the devices of the
/// VG forbid it.
pub(super) fn check(
    loaded: &Loaded,
    host: &Host,
    old: &Arc<Vg>,
    planned: &Planned,
) -> Result<(), EngineError> {
    // What is zeroed now is committed later.
    if !Arc::ptr_eq(old, &planned.vg) || planned.zero.is_some() {
        return writable(loaded, host);
    }
    for step in planned.before.iter().chain(&planned.after) {
        match step {
            Step::Activate { .. } | Step::Refresh { .. } => activatable(loaded, host)?,
            Step::Deactivate { .. } => accessible(loaded, host)?,
            _ => {}
        }
    }
    Ok(())
}

/// Plans a change, or says what forbids it. Where the whole VG must not be
/// changed, that is the reason, and not what else is in the way.
pub(super) fn planned(
    loaded: &Loaded,
    host: &Host,
    plan: Result<Planned, EngineError>,
) -> Result<Planned, EngineError> {
    if let Err(EngineError::Edit { source, .. }) = &plan
        && !matches!(
            **source,
            EditError::NoSuchLv { .. } | EditError::Name { .. }
        )
    {
        writable(loaded, host)?;
    }
    plan
}

fn refused(loaded: &Loaded, refusal: Arc<Refusal>) -> EngineError {
    EngineError::Refused {
        vg: loaded.vg.name().clone(),
        refusal,
    }
}

fn hazard(loaded: &Loaded, hazard: &Hazard) -> EngineError {
    EngineError::Hazard {
        vg: loaded.vg.name().clone(),
        hazard: hazard.clone(),
    }
}

/// Refuses to write.
pub(super) fn writable(loaded: &Loaded, host: &Host) -> Result<(), EngineError> {
    if let Some(refusal) = loaded.refusal(&host.identity) {
        return Err(refused(loaded, refusal));
    }
    match loaded.hazards.first() {
        Some(found) => Err(hazard(loaded, found)),
        None => Ok(()),
    }
}

/// Refuses to make devices of LVs. A read-only VG has read-only devices, and
/// LVs that need none of what is missing or unknown come up; with a copy of a
/// PV about, any table may lead to the wrong disk.
fn activatable(loaded: &Loaded, host: &Host) -> Result<(), EngineError> {
    accessible(loaded, host)?;
    let refusal = loaded.refusal(&host.identity).filter(|refusal| {
        matches!(
            **refusal,
            Refusal::UnknownStatus { .. } | Refusal::Broken { .. }
        )
    });
    if let Some(refusal) = refusal {
        return Err(refused(loaded, refusal));
    }
    let duplicate = |found: &&Hazard| matches!(found, Hazard::DuplicatePv { .. });
    match loaded.hazards.iter().find(duplicate) {
        Some(found) => Err(hazard(loaded, found)),
        None => Ok(()),
    }
}

/// Refuses to touch devices of a VG that is another's.
fn accessible(loaded: &Loaded, host: &Host) -> Result<(), EngineError> {
    let foreign = loaded.refusal(&host.identity).filter(|refusal| {
        matches!(
            **refusal,
            Refusal::ForeignSystemId { .. }
                | Refusal::Clustered { .. }
                | Refusal::LockType { .. }
                | Refusal::Exported { .. }
        )
    });
    foreign.map_or(Ok(()), |refusal| Err(refused(loaded, refusal)))
}
