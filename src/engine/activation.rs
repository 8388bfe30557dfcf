//! Bringing device-mapper to what the metadata says.

use std::sync::Arc;

use lvm2::model::{Lv, Vg};
use lvm2::name::dm_uuid;
use lvm2::tables::{self, DevNo, Device, TableError};
use lvm2::units::Bytes;

use super::error::EngineError;
use super::loaded::Loaded;
use super::tags;
use crate::host::{DmDevice, Exposure, Host, HostError, SuspendMode};

fn object(vg: &Vg, lv: &Lv) -> String {
    format!("{}/{}", vg.name(), lv.name)
}

fn host_error(vg: &Vg, lv: &Lv, source: HostError) -> EngineError {
    if let HostError::Busy { open_count, .. } = source {
        return EngineError::InUse {
            vg: vg.name().clone(),
            lv: lv.name.clone(),
            open_count,
        };
    }
    EngineError::Host {
        object: object(vg, lv),
        source: Arc::new(source),
    }
}

pub(super) fn exposure(lv: &Lv) -> Exposure {
    if lv.visible() {
        Exposure::Visible
    } else {
        Exposure::Hidden
    }
}

/// The device that `lv` should have.
pub(super) fn wanted(loaded: &Loaded, vg: &Vg, lv: &Lv) -> Result<Device, EngineError> {
    let numbers = loaded.device_numbers();
    tables::plan(vg, lv, &|pv| numbers.get(pv).copied()).map_err(|error| match error {
        TableError::PvAbsent { .. } => EngineError::Partial {
            vg: vg.name().clone(),
            source: Arc::new(error),
        },
        other => EngineError::Metadata {
            vg: vg.name().clone(),
            detail: other.to_string(),
        },
    })
}

/// The device that `lv` has now.
pub(super) fn present(host: &Host, vg: &Vg, lv: &Lv) -> Result<Option<DmDevice>, EngineError> {
    host.dm
        .by_uuid(&dm_uuid(&vg.id(), &lv.id, None))
        .map_err(|error| host_error(vg, lv, error))
}

/// Makes the device of `lv` exist with the table and the name that the
/// metadata asks for, whatever state an interrupted operation left it in.
/// Returns its number and whether anything had to be done.
pub(super) fn activate(
    host: &Host,
    loaded: &Loaded,
    vg: &Vg,
    lv: &Lv,
) -> Result<(DevNo, bool), EngineError> {
    activate_as(host, loaded, vg, lv, exposure(lv))
}

/// As [`activate`], with another appearance than the LV's own.
pub(super) fn activate_as(
    host: &Host,
    loaded: &Loaded,
    vg: &Vg,
    lv: &Lv,
    exposure: Exposure,
) -> Result<(DevNo, bool), EngineError> {
    let want = wanted(loaded, vg, lv)?;
    let Some(device) = present(host, vg, lv)? else {
        return Ok((create(host, vg, lv, &want, exposure)?, true));
    };
    let mut changed = false;
    if device.name != want.name {
        rename_device(host, vg, lv, &device, &want.name)?;
        changed = true;
    }
    let live = if device.active_table {
        host.dm
            .table(device.dev, false)
            .map_err(|error| host_error(vg, lv, error))?
    } else {
        Vec::new()
    };
    if live != want.table {
        load(host, vg, lv, device.dev, &want)?;
        resume_as(host, vg, lv, device.dev, &want, exposure)?;
        changed = true;
    } else if device.suspended || device.inactive_table {
        if device.inactive_table {
            host.dm
                .discard(device.dev, exposure)
                .map_err(|error| host_error(vg, lv, error))?;
        }
        resume_as(host, vg, lv, device.dev, &want, exposure)?;
        changed = true;
    } else if exposure == Exposure::Visible && !links(host, vg, lv, device.dev, &want)?.is_empty() {
        // Who zeroed it under cover died before it could be shown.
        mend_links(host, vg, lv, device.dev, &want)?;
        changed = true;
    }
    Ok((device.dev, changed))
}

fn create(
    host: &Host,
    vg: &Vg,
    lv: &Lv,
    want: &Device,
    exposure: Exposure,
) -> Result<DevNo, EngineError> {
    let dev = host
        .dm
        .create(&want.name, &want.uuid)
        .map_err(|error| host_error(vg, lv, error))?;
    let ready =
        load(host, vg, lv, dev, want).and_then(|()| resume_as(host, vg, lv, dev, want, exposure));
    if let Err(error) = ready {
        // The device is ours, empty and useless: leave nothing behind.
        if let Err(left) = host.dm.remove(dev, &want.name, names(vg, lv)) {
            tracing::warn!(device = %want.name, error = %left, "an unused device stays behind");
        }
        return Err(error);
    }
    Ok(dev)
}

/// Loads the table of `want` beside the live one.
pub(super) fn load(
    host: &Host,
    vg: &Vg,
    lv: &Lv,
    dev: DevNo,
    want: &Device,
) -> Result<(), EngineError> {
    host.dm
        .load(dev, &want.table, want.read_only)
        .map_err(|error| host_error(vg, lv, error))
}

/// Makes the loaded table live.
pub(super) fn resume(
    host: &Host,
    vg: &Vg,
    lv: &Lv,
    dev: DevNo,
    want: &Device,
) -> Result<(), EngineError> {
    resume_as(host, vg, lv, dev, want, exposure(lv))
}

fn resume_as(
    host: &Host,
    vg: &Vg,
    lv: &Lv,
    dev: DevNo,
    want: &Device,
    exposure: Exposure,
) -> Result<(), EngineError> {
    let names = names(vg, lv).filter(|_| exposure != Exposure::Hidden);
    host.dm
        .resume(dev, &want.name, names, exposure)
        .map_err(|error| {
            // Whoever resumes the device next must not get a table that no
            // longer belongs to the metadata by then.
            unload(host, dev, exposure);
            go_on(host, vg, lv, names, exposure);
            host_error(vg, lv, error)
        })
}

/// The kernel suspends a device before it looks whether the new table can be,
/// and leaves it so: I/O goes on with the table that is still live.
fn go_on(host: &Host, vg: &Vg, lv: &Lv, names: Option<(&str, &str)>, exposure: Exposure) {
    let Ok(Some(device)) = present(host, vg, lv) else {
        return;
    };
    if !device.suspended || !device.active_table {
        return;
    }
    if let Err(error) = host.dm.resume(device.dev, &device.name, names, exposure) {
        tracing::error!(device = %device.name, %error, "a device stays suspended");
    }
}

/// Whether the devices of the PVs reach as far as `lv` does. The kernel finds
/// out only when a table goes live, and that is after the commit.
pub(super) fn fits(loaded: &Loaded, vg: &Vg, lv: &Lv) -> Result<(), EngineError> {
    let areas = tables::pv_areas(vg, lv).map_err(|error| EngineError::Metadata {
        vg: vg.name().clone(),
        detail: error.to_string(),
    })?;
    for area in areas {
        let Some(device) = loaded.device(&area.pv) else {
            continue;
        };
        let (info, end) = (
            device.info(),
            area.device_offset.0.saturating_add(area.len.0),
        );
        if end > info.size {
            return Err(EngineError::PvTooSmall {
                object: format!("{}/{}", vg.name(), lv.name),
                path: info.path.clone(),
                size: Bytes(info.size),
                end: Bytes(end),
            });
        }
    }
    Ok(())
}

/// Suspends and resumes a device that nobody uses yet: only a resume that ends
/// a suspension makes an event for udev.
pub(super) fn announce(
    host: &Host,
    vg: &Vg,
    lv: &Lv,
    dev: DevNo,
    want: &Device,
) -> Result<(), EngineError> {
    host.dm
        .suspend(dev, SuspendMode::default())
        .map_err(|error| host_error(vg, lv, error))?;
    resume(host, vg, lv, dev, want).inspect_err(|_| {
        // A device that holds back I/O is worse than none.
        if let Err(left) = host.dm.remove(dev, &want.name, names(vg, lv)) {
            tracing::warn!(device = %want.name, error = %left, "a suspended device stays behind");
        }
    })
}

/// Drops a table that was loaded for a change that did not come.
pub(super) fn unload(host: &Host, dev: DevNo, exposure: Exposure) {
    if let Err(error) = host.dm.discard(dev, exposure) {
        tracing::warn!(device = %dev, %error, "a stale inactive table stays behind");
    }
}

/// Makes the device of `lv` go away. Returns whether there was one.
pub(super) fn deactivate(host: &Host, vg: &Vg, lv: &Lv) -> Result<bool, EngineError> {
    let Some(device) = present(host, vg, lv)? else {
        return Ok(false);
    };
    host.dm
        .remove(device.dev, &device.name, names(vg, lv))
        .map_err(|error| host_error(vg, lv, error))?;
    Ok(true)
}

/// Gives the device of `lv` the name that the metadata asks for.
pub(super) fn rename_device(
    host: &Host,
    vg: &Vg,
    lv: &Lv,
    device: &DmDevice,
    to: &str,
) -> Result<(), EngineError> {
    let old = lvm2::name::split_dm_name(&device.name);
    let old = old.as_ref().map(|(vg, lv, _)| (vg.as_str(), lv.as_str()));
    host.dm
        .rename(
            device.dev,
            &device.name,
            to,
            old,
            names(vg, lv),
            exposure(lv),
        )
        .map_err(|error| host_error(vg, lv, error))
}

/// What is wrong with the nodes and links of the device of `lv`, if we made the
/// LV: what lvm2 tells udev of its own is not ours to judge.
pub(super) fn links(
    host: &Host,
    vg: &Vg,
    lv: &Lv,
    dev: DevNo,
    want: &Device,
) -> Result<Vec<String>, EngineError> {
    let Some(names) = names(vg, lv).filter(|_| lv.has_tag(tags::OWNED)) else {
        return Ok(Vec::new());
    };
    host.dm
        .links(dev, &want.name, names)
        .map_err(|error| host_error(vg, lv, error))
}

/// Makes the nodes and links of the device of `lv`.
pub(super) fn mend_links(
    host: &Host,
    vg: &Vg,
    lv: &Lv,
    dev: DevNo,
    want: &Device,
) -> Result<(), EngineError> {
    let Some(names) = names(vg, lv) else {
        return Ok(());
    };
    host.dm
        .mend_links(dev, &want.name, names)
        .map_err(|error| host_error(vg, lv, error))
}

fn names<'a>(vg: &'a Vg, lv: &'a Lv) -> Option<(&'a str, &'a str)> {
    lv.visible().then(|| (vg.name().as_str(), lv.name.as_str()))
}
