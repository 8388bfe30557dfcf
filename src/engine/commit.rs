//! Writing a new version of a VG's metadata.
//!
//! Text to every area in use, flush, headers, flush. A header is one sector,
//! so at every moment each area names the old text or the new one, complete.
//! No pre-commit slot is written: nothing of lvm2 reads it, and no live table
//! changes between text and header.

use std::sync::Arc;

use lvm2::crc::crc;
use lvm2::edit::{self, Stamp};
use lvm2::model::Vg;
use lvm2::name::VgName;
use lvm2::ondisk::mda::{MdaHeader, RawLocn};
use lvm2::ondisk::ring::{self, Placement, RingError};
use lvm2::units::Bytes;

use super::area::{Area, PvDevice};
use super::copies::{CopyState, FoundPv, MetadataCopy};
use super::error::EngineError;
use super::loaded::Loaded;
use super::registry::Registry;
use crate::host::HostError;

/// A commit whose text is on the disks, but which no header names yet.
pub(super) struct Staged {
    vg: Arc<Vg>,
    headers: Vec<(Area, MdaHeader)>,
}

/// How a commit ended.
pub(super) enum Committed {
    /// In every area.
    Everywhere(Loaded),
    /// In some areas; the others keep an older text and are refreshed by the
    /// next commit. The VG has to be read again.
    Partly(Vec<HostError>),
}

/// Makes `vg` the next commit of the VG that `loaded` is, on `loaded`'s PVs,
/// and tells its number. What it leaves behind if it fails is in
/// [`Staged::publish`]'s errors.
///
/// # Errors
/// As [`stage`] and [`Staged::publish`], or when there is no next number.
pub(super) fn commit(
    registry: &Registry,
    loaded: &Loaded,
    vg: &Vg,
    stamp: &Stamp,
    also: &[Arc<PvDevice>],
) -> Result<(Committed, u32), EngineError> {
    let seal = |vg: &Vg| {
        edit::seal(vg, stamp).map_err(|source| EngineError::Edit {
            vg: vg.name().clone(),
            source: Arc::new(source),
        })
    };
    let mut sealed = seal(vg)?;
    // A number that was tried and failed may be on some disk: never again.
    while sealed.seqno() <= registry.attempted(sealed.id()) {
        sealed = seal(&sealed)?;
    }
    let (id, seqno) = (sealed.id(), sealed.seqno());
    let staged = stage(loaded, Arc::new(sealed), also)?;
    registry.attempt(id, seqno);
    let committed = staged.publish(loaded)?;
    match &committed {
        Committed::Everywhere(_) => registry.attempt_ended(id),
        Committed::Partly(errors) => {
            for error in errors {
                tracing::warn!(vg = %vg.name(), seqno, %error, "a metadata area was not written; the next commit refreshes it");
            }
        }
    }
    Ok((committed, seqno))
}

/// Writes the text of `vg` into free space of every area in use, and makes it
/// durable together with what was written to the devices `also` before.
///
/// # Errors
/// [`EngineError::MetadataFull`] before anything is written;
/// [`EngineError::Commit`] if a device fails. In both cases the VG is as it was.
pub(super) fn stage(
    loaded: &Loaded,
    vg: Arc<Vg>,
    also: &[Arc<PvDevice>],
) -> Result<Staged, EngineError> {
    let mut text = vg.print().into_bytes();
    text.push(0);
    let size = text.len() as u64;
    let checksum = crc(&text);
    let mut places: Vec<(&Area, Placement, MdaHeader)> = Vec::new();
    for copy in loaded.copies() {
        if matches!(copy.state, CopyState::Ignored(_)) {
            continue;
        }
        let Some(header) = copy.header() else {
            continue;
        };
        let place = ring::place(header, size).map_err(|error| too_large(loaded, size, &error))?;
        let mut next = header.clone();
        next.committed = Some(RawLocn {
            offset: place.start,
            size,
            checksum,
            ignored: false,
            flags: 0,
        });
        next.precommitted = None;
        places.push((&copy.area, place, next));
    }
    let failed = |source| failed(vg.name(), vg.seqno(), source);
    for (area, place, _) in &places {
        area.write_text(place, &text).map_err(failed)?;
    }
    let mut dirty: Vec<&Arc<PvDevice>> = places.iter().map(|(area, ..)| &area.pv).collect();
    dirty.extend(also);
    dirty.sort_by_key(|pv| Arc::as_ptr(pv));
    dirty.dedup_by_key(|pv| Arc::as_ptr(pv));
    for pv in dirty {
        pv.writer()
            .and_then(|writer| writer.flush())
            .map_err(failed)?;
    }
    let headers = places
        .into_iter()
        .map(|(area, _, next)| (area.clone(), next))
        .collect();
    Ok(Staged { vg, headers })
}

impl Staged {
    /// Makes the staged text the committed one.
    ///
    /// # Errors
    /// [`EngineError::Commit`] if no area took it. Whether a failed header
    /// write reached the disk is then unknown: the VG has to be read again and
    /// the sequence number must not be used for another text.
    pub(super) fn publish(self, loaded: &Loaded) -> Result<Committed, EngineError> {
        let mut errors = Vec::new();
        let mut written = 0_usize;
        let outcomes: Vec<_> = self
            .headers
            .iter()
            .map(|(area, header)| area.write_header(header).map(|()| area))
            .collect();
        for outcome in outcomes {
            match outcome.and_then(Area::flush) {
                Ok(()) => written += 1,
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() {
            return Ok(Committed::Everywhere(self.into_loaded(loaded)));
        }
        if written > 0 {
            return Ok(Committed::Partly(errors));
        }
        let source = errors.swap_remove(0);
        Err(failed(self.vg.name(), self.vg.seqno(), source))
    }

    fn into_loaded(self, old: &Loaded) -> Loaded {
        let pvs = old
            .pvs
            .iter()
            .map(|pv| FoundPv {
                device: Arc::clone(&pv.device),
                header: pv.header.clone(),
                copies: pv.copies.iter().map(|copy| self.refreshed(copy)).collect(),
            })
            .collect();
        Loaded {
            vg: self.vg,
            pvs,
            hazards: old.hazards.clone(),
            outdated: Vec::new(),
            refusal: old.refusal.clone(),
        }
    }

    fn refreshed(&self, copy: &MetadataCopy) -> MetadataCopy {
        let same =
            |area: &Area| area.start == copy.area.start && Arc::ptr_eq(&area.pv, &copy.area.pv);
        match self.headers.iter().find(|(area, _)| same(area)) {
            Some((area, header)) => MetadataCopy {
                area: area.clone(),
                state: CopyState::Text {
                    header: header.clone(),
                    vg: Arc::clone(&self.vg),
                },
            },
            None => copy.clone(),
        }
    }
}

/// A commit that did not happen, or of which that is not known.
pub(super) fn failed(vg: &VgName, seqno: u32, source: HostError) -> EngineError {
    EngineError::Commit {
        vg: vg.clone(),
        seqno,
        source: Arc::new(source),
    }
}

fn too_large(loaded: &Loaded, size: u64, error: &RingError) -> EngineError {
    let vg = loaded.vg.name();
    let usage = loaded.metadata_use();
    match error {
        RingError::TooLarge { max, .. } => EngineError::MetadataFull {
            vg: vg.clone(),
            need: Bytes(size),
            used: usage.text,
            max: Bytes(*max),
            area: usage.size,
        },
        other => EngineError::Metadata {
            vg: vg.clone(),
            detail: other.to_string(),
        },
    }
}
