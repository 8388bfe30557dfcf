//! What a new start does about an end that was not clean.

use std::sync::Arc;
use std::time::Duration;

use lvm2::model::Lv;
use lvm2::name::{LvName, Tag, VgName, dm_name, dm_uuid};

use super::error::EngineError;
use super::loaded::Loaded;
use super::request::Request;
use super::state::{Problem, Recovery};
use super::zeroing::claim_name;
use super::{Engine, tags};
use crate::host::{HostError, LockMode};

/// Removes every LV whose making was interrupted: nobody was told that it
/// exists, and its old content may still be readable. Gives devices the names
/// of LVs that were renamed: a repeated request finds no LV of the old name.
/// Refreshes metadata copies that a cut left behind the others.
pub(super) fn recover(engine: &Engine) -> Recovery {
    let mut recovery = Recovery::default();
    let (vgs, _) = match engine.registry().everything() {
        Ok(found) => found,
        Err(error) => {
            recovery.problems.push(problem("devices", &error));
            return recovery;
        }
    };
    for loaded in vgs {
        if loaded.refusal(&engine.host().identity).is_some() {
            continue;
        }
        remove_incomplete(engine, &loaded, &mut recovery);
        resume_suspended(engine, &loaded, &mut recovery);
        rename_devices(engine, &loaded, &mut recovery);
        if !loaded.outdated.is_empty() {
            renew(engine, loaded.vg.name(), &mut recovery);
        }
    }
    recovery
}

/// Resumes our LVs that a killed driver left suspended: nobody else would.
/// lvm2 suspends LVs only while it holds the VG lock, which the request waits
/// for.
fn resume_suspended(engine: &Engine, loaded: &Loaded, recovery: &mut Recovery) {
    let vg = loaded.vg.name();
    let report = match engine.vg(vg) {
        Ok(report) => report,
        Err(error) => {
            recovery.problems.push(problem(vg.as_str(), &error));
            return;
        }
    };
    let suspended = report.lvs.iter().filter(|lv| {
        let ours = report.vg.lv(lv.name.as_str());
        let ours = ours.is_some_and(|lv| lv.has_tag(tags::OWNED));
        ours && lv.device.as_ref().is_some_and(|device| device.suspended)
    });
    for lv in suspended {
        let object = format!("{vg}/{}", lv.name);
        let activate = Request::Activate {
            name: lv.name.clone(),
        };
        match engine.submit(vg, activate).wait() {
            Ok(_) => recovery.resumed.push(object),
            Err(error) => recovery.problems.push(problem(&object, &error)),
        }
    }
}

/// Brings older copies of the metadata up to date, which any turn of the VG's
/// worker does. If the removal of an incomplete LV has done it already, nothing
/// is left to do.
fn renew(engine: &Engine, vg: &VgName, recovery: &mut Recovery) {
    // There is nothing of this name to remove, and somebody's LV of this name is
    // refused.
    let nothing = match LvName::new("lvcsi_renew") {
        Ok(name) => remove(engine, vg, &name),
        Err(_) => return,
    };
    match nothing {
        Ok(()) => recovery.renewed.push(vg.to_string()),
        Err(error) => recovery.problems.push(problem(vg.as_str(), &error)),
    }
}

fn remove_incomplete(engine: &Engine, loaded: &Loaded, recovery: &mut Recovery) {
    let vg = loaded.vg.name();
    for lv in loaded
        .vg
        .lvs()
        .iter()
        .filter(|lv| lv.has_tag(tags::INCOMPLETE))
    {
        let object = format!("{vg}/{}", lv.name);
        match remove_claimed(engine, vg, lv) {
            Ok(true) => recovery.removed.push(object),
            Ok(false) => {}
            Err(error) => recovery.problems.push(problem(&object, &error)),
        }
    }
}

fn rename_devices(engine: &Engine, loaded: &Loaded, recovery: &mut Recovery) {
    let vg = &loaded.vg;
    let devices = match engine.host().dm.list() {
        Ok(devices) => devices,
        Err(error) => {
            recovery.problems.push(Problem {
                object: vg.name().to_string(),
                detail: error.to_string(),
            });
            return;
        }
    };
    for lv in vg.lvs() {
        let ours = lv.is_native() && lv.has_tag(tags::OWNED) && !lv.has_tag(tags::INCOMPLETE);
        let name = dm_name(vg.name().as_str(), lv.name.as_str(), None);
        let uuid = dm_uuid(&vg.id(), &lv.id, None);
        let renamed = devices.iter().any(|d| d.uuid == uuid && d.name != name);
        if ours && renamed {
            let request = Request::Activate {
                name: lv.name.clone(),
            };
            if let Err(error) = engine.submit(vg.name(), request).wait() {
                let object = format!("{}/{}", vg.name(), lv.name);
                recovery.problems.push(problem(&object, &error));
            }
        }
    }
}

/// Removes the incomplete LV of this name unless somebody works on it.
/// Returns whether it is gone.
pub(super) fn remove_abandoned(
    engine: &Engine,
    vg: &VgName,
    lv: &LvName,
) -> Result<bool, EngineError> {
    let loaded = engine.registry().load(vg)?;
    match loaded.vg.lv(lv.as_str()) {
        Some(lv) if lv.has_tag(tags::INCOMPLETE) => remove_claimed(engine, vg, lv),
        _ => Ok(true),
    }
}

fn remove_claimed(engine: &Engine, vg: &VgName, lv: &Lv) -> Result<bool, EngineError> {
    let claim = claim_name(&lv.id);
    let _claim = match engine
        .host()
        .locks
        .lock(&claim, LockMode::Exclusive, Duration::ZERO)
    {
        Ok(claim) => claim,
        // Its maker lives, in another process.
        Err(HostError::LockTimeout { .. }) => return Ok(false),
        Err(source) => {
            return Err(EngineError::Host {
                object: format!("{vg}/{}", lv.name),
                source: Arc::new(source),
            });
        }
    };
    remove(engine, vg, &lv.name).map(|()| true)
}

fn remove(engine: &Engine, vg: &VgName, lv: &LvName) -> Result<(), EngineError> {
    let request = Request::Remove {
        name: lv.clone(),
        must_exist: false,
        require_tag: Tag::new(tags::INCOMPLETE).ok(),
    };
    engine.submit(vg, request).wait().map(drop)
}

fn problem(object: &str, error: &EngineError) -> Problem {
    Problem {
        object: object.to_owned(),
        detail: error.to_string(),
    }
}
