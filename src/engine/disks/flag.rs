//! The flag in the label of every member that a VG uses it.

use super::super::copies::FoundPv;
use super::super::error::EngineError;
use super::super::loaded::Loaded;
use super::DiskError;
use super::session::host_error;
use super::target::label_of;
use super::write::{self, Write};

/// Sets the flag where it is missing: a machine died between the metadata that
/// made the PV a member and its label, or a version without flags made it.
/// lvm2 does the same with every write of a VG. Called with the VG's lock held
/// and right after a commit.
///
/// The VG is sound without it, so that a failure is a warning; the next commit
/// tries again.
pub(in super::super) fn mark_members(loaded: &mut Loaded) {
    for pv in &mut loaded.pvs {
        if pv.header.in_use() {
            continue;
        }
        match mark(pv) {
            Ok(()) => pv.header = pv.header.with_in_use(true),
            Err(error) => {
                tracing::warn!(vg = %loaded.vg.name(), %error, "the label of a PV does not say that a VG uses it");
            }
        }
    }
}

fn mark(pv: &FoundPv) -> Result<(), EngineError> {
    let path = &pv.device.info().path;
    let found = label_of(&pv.device.reader, &pv.device.id)?;
    let header = found.header.with_in_use(true);
    let label = write::label(found.sector, &header, "label: in use by a VG").map_err(|error| {
        DiskError::Layout {
            path: path.clone(),
            detail: error.to_string(),
        }
    })?;
    pv.device
        .writer()
        .and_then(|handle| write::run(handle, &[label, Write::Flush]))
        .map_err(|source| host_error(path, source))
}
