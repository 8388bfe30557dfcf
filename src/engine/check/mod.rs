//! Comparing what the metadata says with itself, with the kernel, and with
//! what else is on the machine; and mending what is safe to mend.

mod defect;
mod devices;
mod machine;
mod repair;

use std::sync::Arc;
use std::time::Duration;

use lvm2::check;
use lvm2::model::Lv;
use lvm2::name::VgName;

use super::Engine;
use super::backup;
use super::copies::{CopyState, MetadataCopy};
use super::error::EngineError;
use super::hazard::Hazard;
use super::loaded::Loaded;
use super::request::EngineConfig;
use super::tags;
use super::zeroing::claim_name;
use crate::host::{Host, HostError, LockMode};

pub use defect::{Defect, Finding};
pub use repair::{Mended, Repair};

pub(super) use machine::{check_machine, repair_machine};
pub(super) use repair::repair;

/// Copies are written a moment after the commit.
const BACKUP_GRACE: i64 = 10;

/// Findings about one VG, while nobody changes it. Writes nothing. Whoever
/// does not let go of the lock is a finding.
pub(super) fn check(engine: &Engine, name: &VgName) -> Result<Vec<Finding>, EngineError> {
    let config = engine.inner.config.clone();
    let hangs = engine
        .activity(name)
        .and_then(|activity| activity.obstacle());
    let lock = || {
        let locks = &engine.host().locks;
        locks.lock(&format!("V_{name}"), LockMode::Shared, config.lock_deadline)
    };
    let held = hangs.is_none().then(lock);
    engine.registry().rescan()?;
    let mut found = {
        let config = config.clone();
        engine.visit(name, move |host, loaded| findings(host, &config, loaded))?
    };
    if let Some(Err(error)) = &held
        && (!found.is_empty() || matches!(error, HostError::LockTimeout { .. }))
    {
        found.push(about(name, Defect::Unlocked(error.to_string())));
    }
    Ok(found)
}

/// A finding about a VG.
fn about(vg: &VgName, defect: Defect) -> Finding {
    Finding {
        object: vg.to_string(),
        lv: None,
        defect,
    }
}

/// A finding about an LV.
fn about_lv(vg: &VgName, lv: &Lv, defect: Defect) -> Finding {
    Finding {
        object: format!("{vg}/{}", lv.name),
        lv: Some(lv.name.clone()),
        defect,
    }
}

fn host_error(object: impl ToString, source: HostError) -> EngineError {
    EngineError::Host {
        object: object.to_string(),
        source: Arc::new(source),
    }
}

/// Everything about the VG as it is now.
fn findings(
    host: &Host,
    config: &EngineConfig,
    loaded: &Loaded,
) -> Result<Vec<Finding>, EngineError> {
    let mut found = metadata(host, loaded);
    devices::devices(host, loaded, &mut found)?;
    volumes(host, loaded, &mut found)?;
    backups(host, config, loaded, &mut found)?;
    Ok(found)
}

/// What the metadata and its copies show by themselves.
fn metadata(host: &Host, loaded: &Loaded) -> Vec<Finding> {
    let vg = &loaded.vg;
    let name = vg.name();
    let rules = check::check(vg).into_iter().map(|violation| Finding {
        object: violation.object.clone(),
        lv: None,
        defect: Defect::Rule(violation),
    });
    let mut found: Vec<Finding> = rules.collect();
    let refusal = loaded.refusal(&host.identity);
    found.extend(refusal.map(|refusal| about(name, Defect::Refused(refusal))));
    let hazards = loaded.hazards.iter().cloned();
    found.extend(hazards.map(|hazard| about(name, Defect::Hazard(hazard))));
    let old = loaded.outdated.iter().cloned();
    found.extend(old.map(|detail| about(name, Defect::OldCopy(detail))));
    // Texts on devices that do not answer cannot be compared.
    if !loaded.hazards.iter().any(Hazard::is_silence) {
        found.extend(loaded.copies().filter_map(unreadable_text));
    }
    for pv in &loaded.pvs {
        // Before version 2 of the header's extension there was no such mark.
        if pv.header.ext_version >= 2 && !pv.header.in_use() {
            found.push(Finding {
                object: pv.device.info().path.display().to_string(),
                lv: None,
                defect: Defect::PvLooksFree,
            });
        }
    }
    found
}

/// Reads every copy's text in full, also those that are equal by their header.
fn unreadable_text(copy: &MetadataCopy) -> Option<Finding> {
    let CopyState::Text { header, .. } = &copy.state else {
        return None;
    };
    let locn = header.committed.as_ref()?;
    let error = copy.area.read_text(locn).err()?;
    Some(Finding {
        object: copy.area.pv.info().path.display().to_string(),
        lv: None,
        defect: Defect::UnreadableText {
            offset: copy.area.start,
            detail: error.to_string(),
        },
    })
}

/// Volumes that somebody did not finish.
fn volumes(host: &Host, loaded: &Loaded, found: &mut Vec<Finding>) -> Result<(), EngineError> {
    let name = loaded.vg.name();
    for lv in loaded.vg.lvs() {
        if lv.has_tag(tags::INCOMPLETE) && abandoned(host, lv)? {
            found.push(about_lv(name, lv, Defect::Incomplete));
        }
        let words: Vec<String> = lv.tags.iter().map(ToString::to_string).collect();
        if let (Some(kind), None) = (
            tags::value(&words, tags::FORMATTING),
            tags::value(&words, tags::FILESYSTEM),
        ) {
            let device = super::activation::present(host, &loaded.vg, lv)?;
            // While it is open, mkfs runs.
            if device.is_none_or(|device| device.open_count == 0) {
                found.push(about_lv(name, lv, Defect::MkfsUnfinished(kind.to_owned())));
            }
        }
    }
    Ok(())
}

/// Whether nobody works on an incomplete LV.
fn abandoned(host: &Host, lv: &Lv) -> Result<bool, EngineError> {
    let claim = claim_name(&lv.id);
    match host.locks.lock(&claim, LockMode::Exclusive, Duration::ZERO) {
        Ok(_free) => Ok(true),
        Err(HostError::LockTimeout { .. }) => Ok(false),
        Err(error) => Err(host_error(&lv.name, error)),
    }
}

/// Copies in files that are older than the disks.
fn backups(
    host: &Host,
    config: &EngineConfig,
    loaded: &Loaded,
    found: &mut Vec<Finding>,
) -> Result<(), EngineError> {
    let vg = &loaded.vg;
    let (name, seqno) = (vg.name(), vg.seqno());
    let Some(config) = &config.backup else {
        return Ok(());
    };
    let now = i64::try_from(host.clock.unix_seconds()).unwrap_or(i64::MAX);
    let written = vg.creation_time().unwrap_or(0);
    if now.saturating_sub(written) < BACKUP_GRACE {
        return Ok(());
    }
    // A commit of lvm2 is in lvm2's archive.
    let ours = vg
        .description()
        .is_some_and(|text| text.starts_with("Write from lvcsi "));
    if ours {
        let newest = backup::newest_seqno(host, config, name)
            .map_err(|error| host_error(name, error))?
            .unwrap_or(0);
        if newest < seqno {
            let place = config.dir.join(name.as_str());
            let defect = Defect::BackupBehind {
                seqno,
                found: newest,
                place,
            };
            found.push(about(name, defect));
        }
    }
    if config.lvm2
        && let Some((behind, place)) =
            backup::lvm2_seqno(host, vg).map_err(|error| host_error(name, error))?
        && behind < seqno
    {
        let defect = Defect::Lvm2BackupBehind {
            seqno,
            found: behind,
            place,
        };
        found.push(about(name, defect));
    }
    Ok(())
}
