//! Mending what is safe to mend, under the VG lock and after another look.

use std::sync::Arc;

use lvm2::model::Lv;
use lvm2::name::VgName;

use super::devices::{by_uuid, is_beginning};
use super::{Defect, Finding, findings, host_error};
use crate::engine::Engine;
use crate::engine::activation;
use crate::engine::activity::Activity;
use crate::engine::batch::Batch;
use crate::engine::error::EngineError;
use crate::engine::loaded::Loaded;
use crate::engine::permit::writable;
use crate::engine::recover;
use crate::engine::tags;
use crate::host::{DmDevice, Exposure, Host, LockMode};

/// What was mended and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// What is well now, or would be.
    pub done: Vec<Mended>,
    /// What is as it was.
    pub left: Vec<Mended>,
}

/// A finding, and what was done about it or why nothing was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// What was wrong.
    pub finding: Finding,
    /// What was done, or why it was left.
    pub what: String,
}

impl Repair {
    fn note(&mut self, finding: Finding, outcome: Result<String, String>) {
        match outcome {
            Ok(what) => self.done.push(Mended { finding, what }),
            Err(what) => self.left.push(Mended { finding, what }),
        }
    }
}

/// What helps against a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// Load the table that the metadata asks for and make it live.
    Refresh,
    /// Drop the inactive table.
    Clear,
    /// Let I/O go on.
    Resume,
    /// Remove the device.
    RemoveDevice,
    Rename,
    Links,
    /// Commit the metadata as it is to all areas.
    Rewrite,
    /// Remove the LV.
    RemoveLv,
    /// Write the copies in files.
    Backup,
}

impl Remedy {
    fn describe(self) -> &'static str {
        match self {
            Self::Refresh => "loaded the table that the metadata asks for",
            Self::Clear => "dropped the inactive table",
            Self::Resume => "resumed the device",
            Self::RemoveDevice => "removed the device",
            Self::Rename => "renamed the device",
            Self::Links => "made the node and the link",
            Self::Rewrite => "wrote the metadata to all areas",
            Self::RemoveLv => "removed the LV",
            Self::Backup => "wrote the copy",
        }
    }

    /// Whether it changes what the VG lock protects.
    fn needs_lock(self) -> bool {
        !matches!(self, Self::RemoveLv | Self::Backup)
    }
}

/// Chooses a remedy, or says why there is none that is safe.
fn remedy(finding: &Finding, loaded: &Loaded) -> Result<Remedy, String> {
    let lv = finding
        .lv
        .as_ref()
        .and_then(|name| loaded.vg.lv(name.as_str()));
    let ours = |remedy| match lv {
        Some(lv) if lv.is_native() && lv.has_tag(tags::OWNED) => Ok(remedy),
        _ => Err(format!(
            "the LV was not made by the driver; {}",
            finding.defect.advice()
        )),
    };
    match &finding.defect {
        // As `lvchange --refresh` does for any LV.
        Defect::ShortTable { .. } => Ok(Remedy::Refresh),
        Defect::InactiveTable(_) => ours(Remedy::Clear),
        Defect::Suspended(_) => ours(Remedy::Resume),
        Defect::EmptyDevice(_) => ours(Remedy::RemoveDevice),
        Defect::DeviceName { .. } => ours(Remedy::Rename),
        Defect::Link(_) => Ok(Remedy::Links),
        Defect::Orphan { open_count: 0, .. } => Ok(Remedy::RemoveDevice),
        Defect::OldCopy(_) => Ok(Remedy::Rewrite),
        Defect::Incomplete => Ok(Remedy::RemoveLv),
        Defect::BackupBehind { .. } | Defect::Lvm2BackupBehind { .. } => Ok(Remedy::Backup),
        other => Err(other.advice().to_owned()),
    }
}

/// Mends what is wrong with the VG `name`, as far as it is safe; with
/// `dry_run`, only says what would be done.
pub(in crate::engine) fn repair(
    engine: &Engine,
    name: &VgName,
    dry_run: bool,
) -> Result<Repair, EngineError> {
    let (host, registry) = (engine.host(), engine.registry());
    let config = &engine.inner.config;
    registry.rescan()?;
    let guard = host
        .locks
        .lock(
            &format!("V_{name}"),
            LockMode::Exclusive,
            config.lock_deadline,
        )
        .map_err(|error| host_error(format!("VG {name}"), error))?;
    let loaded = registry.load(name)?;
    let forbidden = writable(&loaded, host).err();
    let mut repair = Repair::default();
    let mut later = Vec::new();
    let mut rewritten = false;
    for finding in findings(host, config, &loaded)? {
        let chosen = match (&forbidden, remedy(&finding, &loaded)) {
            // A copy in a file changes nothing of the VG.
            (_, Ok(Remedy::Backup)) => Ok(Remedy::Backup),
            (Some(error), Ok(_)) => Err(error.to_string()),
            (_, chosen) => chosen,
        };
        let outcome = match chosen {
            Err(why) => Err(why),
            Ok(remedy) if dry_run => Ok(remedy.describe().to_owned()),
            Ok(remedy) if !remedy.needs_lock() => {
                later.push((finding, remedy));
                continue;
            }
            Ok(Remedy::Rewrite) if rewritten => Ok(Remedy::Rewrite.describe().to_owned()),
            Ok(remedy) => {
                rewritten |= remedy == Remedy::Rewrite;
                apply(engine, &loaded, &finding, remedy)
            }
        };
        repair.note(finding, outcome);
    }
    if !dry_run {
        verify(engine, name, &mut repair)?;
    }
    drop(guard);
    finish(engine, name, later, &mut repair)?;
    Ok(repair)
}

/// What was mended and is wrong all the same was not mended.
fn verify(engine: &Engine, name: &VgName, repair: &mut Repair) -> Result<(), EngineError> {
    if repair.done.is_empty() {
        return Ok(());
    }
    let loaded = engine.registry().load(name)?;
    let still = findings(engine.host(), &engine.inner.config, &loaded)?;
    let same = |mended: &Mended, finding: &Finding| {
        mended.finding.object == finding.object
            && mended.finding.defect.code() == finding.defect.code()
    };
    let done = std::mem::take(&mut repair.done);
    for mut mended in done {
        if still.iter().any(|finding| same(&mended, finding)) {
            mended.what = format!("{}, but it is there again", mended.what);
            repair.left.push(mended);
        } else {
            repair.done.push(mended);
        }
    }
    Ok(())
}

/// What takes locks of its own or none.
fn finish(
    engine: &Engine,
    name: &VgName,
    later: Vec<(Finding, Remedy)>,
    repair: &mut Repair,
) -> Result<(), EngineError> {
    for (finding, remedy) in later {
        let outcome = match (remedy, &finding.lv) {
            (Remedy::RemoveLv, Some(lv)) => recover::remove_abandoned(engine, name, lv),
            _ => {
                let loaded = engine.registry().load(name)?;
                engine.inner.backups.write_now(&loaded.vg).map(|()| true)
            }
        };
        let outcome = match outcome {
            Ok(true) => Ok(remedy.describe().to_owned()),
            Ok(false) => Err("somebody is at it again".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        repair.note(finding, outcome);
    }
    Ok(())
}

/// Applies a remedy under the VG lock.
fn apply(
    engine: &Engine,
    loaded: &Arc<Loaded>,
    finding: &Finding,
    remedy: Remedy,
) -> Result<String, String> {
    let host = engine.host();
    let vg = &loaded.vg;
    let lv = finding.lv.as_ref().and_then(|name| vg.lv(name.as_str()));
    let applied = match (remedy, &finding.defect, lv) {
        (Remedy::Rewrite, ..) => rewrite(engine, loaded),
        (Remedy::RemoveDevice, Defect::Orphan { uuid, .. }, _) => remove_orphan(host, uuid),
        (remedy, _, Some(lv)) => mend_device(host, loaded, lv, remedy),
        _ => Err(EngineError::NoSuchVg {
            vg: vg.name().clone(),
        }),
    };
    applied
        .map(|()| remedy.describe().to_owned())
        .map_err(|error| error.to_string())
}

fn rewrite(engine: &Engine, loaded: &Arc<Loaded>) -> Result<(), EngineError> {
    let vg = loaded.vg.name();
    let mut config = engine.inner.config.clone();
    config.description = format!("Write from lvcsi check --repair {vg}.");
    let batch = Batch {
        host: engine.host().clone(),
        vg: vg.clone(),
        config,
        registry: Arc::clone(&engine.inner.visitor.registry),
        backups: Arc::clone(&engine.inner.backups),
        activity: Arc::new(Activity::new(
            vg.clone(),
            engine.inner.visitor.watch.clone(),
        )),
    };
    batch.rewrite(loaded)
}

/// Removes a device of no LV. The kernel refuses if it is open by now.
fn remove_orphan(host: &Host, uuid: &str) -> Result<(), EngineError> {
    let Some(device) = by_uuid(host, uuid)? else {
        return Ok(());
    };
    let names = lvm2::name::split_dm_name(&device.name);
    let vg_lv = names
        .as_ref()
        .filter(|(_, _, layer)| layer.is_none())
        .map(|(vg, lv, _)| (vg.as_str(), lv.as_str()));
    host.dm
        .remove(device.dev, &device.name, vg_lv)
        .map_err(|error| host_error(&device.name, error))
}

fn mend_device(host: &Host, loaded: &Loaded, lv: &Lv, remedy: Remedy) -> Result<(), EngineError> {
    let vg = &loaded.vg;
    let Some(device) = activation::present(host, vg, lv)? else {
        return Ok(());
    };
    let want = activation::wanted(loaded, vg, lv)?;
    let failed = |error| host_error(&device.name, error);
    let live = || host.dm.table(device.dev, false).map_err(failed);
    let refuse = |detail: &str| {
        Err(EngineError::Metadata {
            vg: vg.name().clone(),
            detail: format!("{}: {detail}", lv.name),
        })
    };
    match remedy {
        Remedy::Refresh if is_beginning(&live()?, &want.table) => {
            activation::load(host, vg, lv, device.dev, &want)?;
            activation::resume(host, vg, lv, device.dev, &want)
        }
        Remedy::Refresh if live()? == want.table => Ok(()),
        Remedy::Clear => discard(host, &device, activation::exposure(lv)),
        // The table that counts is the one that I/O goes through then.
        Remedy::Resume if device.suspended && live()? == want.table => {
            discard(host, &device, activation::exposure(lv))?;
            activation::resume(host, vg, lv, device.dev, &want)
        }
        Remedy::Resume if !device.suspended => Ok(()),
        Remedy::Refresh | Remedy::Resume => {
            refuse("its live table is not what the metadata asks for")
        }
        Remedy::RemoveDevice if device.active_table => refuse("its device has a table by now"),
        Remedy::RemoveDevice => activation::deactivate(host, vg, lv).map(drop),
        Remedy::Rename => activation::rename_device(host, vg, lv, &device, &want.name),
        Remedy::Links => activation::mend_links(host, vg, lv, device.dev, &want),
        Remedy::Rewrite | Remedy::RemoveLv | Remedy::Backup => Ok(()),
    }
}

fn discard(host: &Host, device: &DmDevice, exposure: Exposure) -> Result<(), EngineError> {
    if !device.inactive_table {
        return Ok(());
    }
    host.dm
        .discard(device.dev, exposure)
        .map_err(|error| host_error(&device.name, error))
}
