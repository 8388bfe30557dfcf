//! Comparing what the metadata says with itself and with the kernel.

use lvm2::check;

use super::activation;
use super::copies::{CopyState, MetadataCopy};
use super::error::EngineError;
use super::hazard::Hazard;
use super::loaded::Loaded;
use super::state::{CheckReport, Problem, TableMismatch};
use super::tags;
use crate::host::Host;

/// Findings about one VG. Writes nothing.
pub(super) fn check(host: &Host, loaded: &Loaded) -> Result<CheckReport, EngineError> {
    let vg = &loaded.vg;
    let name = vg.name().to_string();
    let mut problems: Vec<Problem> = loaded
        .hazards
        .iter()
        .map(ToString::to_string)
        .chain(loaded.outdated.iter().cloned())
        .map(|detail| Problem {
            object: name.clone(),
            detail,
        })
        .collect();
    // Texts on devices that do not answer cannot be compared.
    if !loaded.hazards.iter().any(Hazard::is_silence) {
        problems.extend(loaded.copies().filter_map(unreadable_text));
    }
    let mut tables = Vec::new();
    for lv in vg.lvs() {
        let object = format!("{name}/{}", lv.name);
        let mut report = |detail: &str| {
            problems.push(Problem {
                object: object.clone(),
                detail: detail.to_owned(),
            });
        };
        if lv.has_tag(tags::INCOMPLETE) {
            report("its making was interrupted; the driver removes it at its next start");
        }
        // A snapshot's origin and the parts of other LVs have other devices.
        if !lv.is_native() || vg.user_of(lv.name.as_str()).is_some() {
            continue;
        }
        let Some(device) = activation::present(host, vg, lv)? else {
            continue;
        };
        if device.suspended {
            report("its device is suspended: I/O to it waits");
        }
        if device.inactive_table {
            report("a loaded table waits in its inactive slot");
        }
        if !device.active_table {
            continue;
        }
        let found = host
            .dm
            .table(device.dev, false)
            .map_err(|source| EngineError::Host {
                object: object.clone(),
                source: std::sync::Arc::new(source),
            })?;
        match activation::wanted(loaded, vg, lv) {
            Ok(want) if want.table == found => {}
            Ok(want) => {
                tables.push(TableMismatch {
                    lv: lv.name.clone(),
                    expected: want.table,
                    found,
                });
            }
            Err(error) => report(&error.to_string()),
        }
    }
    Ok(CheckReport {
        vg: vg.name().clone(),
        violations: check::check(vg),
        tables,
        problems,
    })
}

/// Reads every copy's text in full, also those that are equal by their header.
fn unreadable_text(copy: &MetadataCopy) -> Option<Problem> {
    let CopyState::Text { header, .. } = &copy.state else {
        return None;
    };
    let locn = header.committed.as_ref()?;
    let error = copy.area.read_text(locn).err()?;
    Some(Problem {
        object: copy.area.pv.info().path.display().to_string(),
        detail: format!("metadata area at byte {}: {error}", copy.area.start),
    })
}
