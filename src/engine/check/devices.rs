//! The kernel's devices against the metadata.

use std::collections::HashSet;

use lvm2::model::Lv;
use lvm2::name::dm_uuid;
use lvm2::tables::Target;

use super::{Defect, Finding, about, about_lv, host_error};
use crate::engine::activation;
use crate::engine::error::EngineError;
use crate::engine::loaded::Loaded;
use crate::engine::tags;
use crate::host::{DmDevice, DmEntry, Host};

/// What is wrong with devices of the VG.
pub(super) fn devices(
    host: &Host,
    loaded: &Loaded,
    found: &mut Vec<Finding>,
) -> Result<(), EngineError> {
    let vg = &loaded.vg;
    let prefix = format!("LVM-{}", vg.id().as_str());
    let entries = host
        .dm
        .list()
        .map_err(|error| host_error(vg.name(), error))?;
    let ours: Vec<&DmEntry> = entries
        .iter()
        .filter(|entry| entry.uuid.starts_with(&prefix))
        .collect();
    let active: HashSet<&str> = ours.iter().map(|entry| entry.uuid.as_str()).collect();
    for lv in vg.lvs() {
        let uuid = dm_uuid(&vg.id(), &lv.id, None);
        // One that is being made, or goes, is nobody's yet.
        // A snapshot's origin and the parts of other LVs have other devices.
        let plain = lv.is_native() && vg.user_of(lv.name.as_str()).is_none();
        if active.contains(uuid.as_str()) && !lv.has_tag(tags::INCOMPLETE) && plain {
            volume(host, loaded, lv, found)?;
        }
    }
    let known: HashSet<&str> = vg.lvs().iter().map(|lv| lv.id.as_str()).collect();
    for entry in ours {
        let id = entry.uuid.get(prefix.len()..prefix.len() + 32);
        if id.is_some_and(|id| known.contains(id)) {
            state(host, loaded, entry, found)?;
        } else {
            orphan(host, loaded, entry, found)?;
        }
    }
    Ok(())
}

/// The device of an LV that we can judge.
fn volume(
    host: &Host,
    loaded: &Loaded,
    lv: &Lv,
    found: &mut Vec<Finding>,
) -> Result<(), EngineError> {
    let vg = &loaded.vg;
    let name = vg.name();
    let Some(device) = activation::present(host, vg, lv)? else {
        return Ok(());
    };
    let want = match activation::wanted(loaded, vg, lv) {
        Ok(want) => want,
        Err(error) => {
            found.push(about_lv(name, lv, Defect::NoTable(error.to_string())));
            return Ok(());
        }
    };
    if device.name != want.name {
        let defect = Defect::DeviceName {
            expected: want.name.clone(),
            found: device.name.clone(),
        };
        found.push(about_lv(name, lv, defect));
    }
    if device.active_table && device.name == want.name {
        let links = activation::links(host, vg, lv, device.dev, &want)?;
        let links = links.into_iter().map(Defect::Link);
        found.extend(links.map(|link| about_lv(name, lv, link)));
    }
    if device.active_table {
        let live = host
            .dm
            .table(device.dev, false)
            .map_err(|error| host_error(&device.name, error))?;
        if is_beginning(&live, &want.table) {
            let defect = Defect::ShortTable {
                expected: want.table,
                found: live,
            };
            found.push(about_lv(name, lv, defect));
        } else if live != want.table {
            let defect = Defect::Table {
                expected: want.table,
                found: live,
            };
            found.push(about_lv(name, lv, defect));
        }
    }
    Ok(())
}

/// Whether `live` maps all of its sectors as `want` does and ends earlier.
pub(super) fn is_beginning(live: &[Target], want: &[Target]) -> bool {
    let Some((last, head)) = live.split_last() else {
        return false;
    };
    let Some((same, [goes_on, ..])) = want.split_at_checked(head.len()) else {
        return false;
    };
    head == same
        && last.start == goes_on.start
        && last.kind == goes_on.kind
        && last.params == goes_on.params
        && last.len <= goes_on.len
        && live != want
}

/// What no device of a VG is, as long as nobody has the VG lock.
fn state(
    host: &Host,
    loaded: &Loaded,
    entry: &DmEntry,
    found: &mut Vec<Finding>,
) -> Result<(), EngineError> {
    let Some(device) = by_uuid(host, &entry.uuid)? else {
        return Ok(());
    };
    let vg = &loaded.vg;
    let lv = vg
        .lvs()
        .iter()
        .find(|lv| entry.uuid.starts_with(&dm_uuid(&vg.id(), &lv.id, None)));
    let Some(lv) = lv.filter(|lv| !lv.has_tag(tags::INCOMPLETE)) else {
        return Ok(());
    };
    let name = device.name;
    let mut report = |defect| found.push(about_lv(vg.name(), lv, defect));
    if device.inactive_table {
        report(Defect::InactiveTable(name.clone()));
    }
    if !device.active_table && !device.inactive_table {
        report(Defect::EmptyDevice(name));
    } else if device.suspended {
        report(Defect::Suspended(name));
    }
    Ok(())
}

fn orphan(
    host: &Host,
    loaded: &Loaded,
    entry: &DmEntry,
    found: &mut Vec<Finding>,
) -> Result<(), EngineError> {
    let Some(device) = by_uuid(host, &entry.uuid)? else {
        return Ok(());
    };
    let mounts = if device.open_count == 0 {
        Vec::new()
    } else {
        host.fs
            .mounts()
            .map_err(|error| host_error(&device.name, error))?
    };
    let mounts = mounts
        .into_iter()
        .filter(|mount| mount.dev == device.dev)
        .map(|mount| mount.target);
    let defect = Defect::Orphan {
        name: device.name,
        uuid: device.uuid,
        open_count: device.open_count,
        mounts: mounts.collect(),
    };
    found.push(about(loaded.vg.name(), defect));
    Ok(())
}

pub(super) fn by_uuid(host: &Host, uuid: &str) -> Result<Option<DmDevice>, EngineError> {
    host.dm
        .by_uuid(uuid)
        .map_err(|error| host_error(uuid, error))
}

#[cfg(test)]
mod tests {
    use lvm2::units::Sectors;

    use super::*;

    fn table(lines: &[(u64, u64, &str)]) -> Vec<Target> {
        let target = |(start, len, params): &(u64, u64, &str)| Target {
            start: Sectors(*start),
            len: Sectors(*len),
            kind: "linear".to_owned(),
            params: (*params).to_owned(),
        };
        lines.iter().map(target).collect()
    }

    #[test]
    fn a_table_that_only_ends_early_is_the_beginning_of_another() {
        let want = table(&[(0, 100, "8:0 0"), (100, 50, "8:16 0")]);
        for short in [
            table(&[(0, 100, "8:0 0"), (100, 20, "8:16 0")]),
            table(&[(0, 100, "8:0 0")]),
            table(&[(0, 10, "8:0 0")]),
        ] {
            assert!(is_beginning(&short, &want), "{short:?}");
        }
        for other in [
            vec![],
            want.clone(),
            table(&[(0, 100, "8:0 1")]),
            table(&[(0, 101, "8:0 0")]),
            table(&[(0, 50, "8:0 0"), (50, 50, "8:0 50")]),
            table(&[(0, 100, "8:0 0"), (100, 50, "8:16 0"), (150, 1, "8:0 0")]),
        ] {
            assert!(!is_beginning(&other, &want), "{other:?}");
        }
    }
}
