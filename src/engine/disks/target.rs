//! A device that shall become a PV, or is one of no VG: what it holds, and
//! whether it may be written to at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lvm2::ondisk::geometry::{Geometry, Topology, Wish};
use lvm2::ondisk::label::{self, FoundLabel, LabelError};

use super::super::area::{Area, PvDevice};
use super::super::copies::{CopyState, FoundPv, TextCache, read_copy};
use super::super::error::EngineError;
use super::super::registry::Registry;
use super::DiskError;
use super::session::{Mode, Session, host_error};
use crate::host::{BlockDevice, DeviceInfo, Signature};

/// libblkid's name of a PV's label.
const LABEL_KIND: &str = "LVM2_member";

/// What LVM2 wrote to a device.
pub(super) enum Content {
    /// Nothing.
    Blank,
    /// A PV of no VG.
    Free(Box<FreePv>),
}

/// A PV of no VG.
pub(super) struct FreePv {
    pub(super) label: FoundLabel,
    pub(super) found: FoundPv,
}

/// A device that may be written to: nobody else uses it, and no VG does.
pub(super) struct Target {
    pub(super) info: DeviceInfo,
    topology: Topology,
    /// In a real run the only handle that claims the device, open from before
    /// anything was read; in a dry run one for reading.
    pub(super) handle: Arc<dyn BlockDevice>,
    pub(super) content: Content,
    /// What a former user left, the label of a PV included.
    pub(super) signatures: Vec<Signature>,
}

impl Target {
    /// Looks at each device, and claims it in a real run. Refuses everything
    /// that somebody may still need.
    pub(super) fn all(session: &Session<'_>, paths: &[PathBuf]) -> Result<Vec<Self>, EngineError> {
        if paths.is_empty() {
            return Err(DiskError::NoDevice.into());
        }
        let mut found: Vec<(DeviceInfo, Topology)> = Vec::new();
        for path in paths {
            let (info, topology) = examine(session, path)?;
            if let Some((first, _)) = found.iter().find(|(other, _)| other.devno == info.devno) {
                return Err(DiskError::Twice {
                    path: path.clone(),
                    first: first.path.clone(),
                }
                .into());
            }
            found.push((info, topology));
        }
        found
            .into_iter()
            .map(|(info, topology)| Self::new(session, info, topology))
            .collect()
    }

    fn new(
        session: &Session<'_>,
        info: DeviceInfo,
        topology: Topology,
    ) -> Result<Self, EngineError> {
        refuse_members(&session.engine.visitor.registry, &info)?;
        let handle = session.open(&info)?;
        let content = content(session, &info, &handle)?;
        let signatures = session
            .host()
            .block
            .signatures(&info)
            .map_err(|source| host_error(&info.path, source))?;
        let target = Self {
            info,
            topology,
            handle,
            content,
            signatures,
        };
        Ok(target)
    }

    /// Where things will lie if the device becomes a new PV.
    pub(super) fn geometry(&self, wish: Wish) -> Result<Geometry, DiskError> {
        let size = lvm2::units::Bytes(self.info.size);
        Geometry::new(size, self.topology, wish).map_err(|source| DiskError::Geometry {
            path: self.info.path.clone(),
            source,
        })
    }

    /// What has to be wiped, if the person agrees; `keep_label` leaves a PV's
    /// own label alone.
    pub(super) fn to_wipe(
        &self,
        session: &Session<'_>,
        keep_label: bool,
    ) -> Result<Vec<Signature>, DiskError> {
        let wiped = |found: &&Signature| !(keep_label && found.kind == LABEL_KIND);
        let found: Vec<Signature> = self.signatures.iter().filter(wiped).cloned().collect();
        let path = || self.info.path.clone();
        if let Some(signature) = found.iter().find(|found| found.magic.is_none()) {
            return Err(DiskError::Stubborn {
                path: path(),
                signature: signature.clone(),
            });
        }
        if !found.is_empty() && !session.agreed {
            return Err(DiskError::Signatures {
                path: path(),
                found,
            });
        }
        Ok(found)
    }

    /// What is left to wipe after a wipe: further copies come to light only
    /// when the first is gone.
    pub(super) fn left_over(
        &self,
        session: &Session<'_>,
        keep_label: bool,
    ) -> Result<Vec<Signature>, EngineError> {
        let found = session
            .host()
            .block
            .signatures(&self.info)
            .map_err(|source| host_error(&self.info.path, source))?;
        Ok(found
            .into_iter()
            .filter(|found| !(keep_label && found.kind == LABEL_KIND))
            .collect())
    }
}

/// The device behind `path`, if nothing stands against writing to it.
fn examine(session: &Session<'_>, path: &Path) -> Result<(DeviceInfo, Topology), EngineError> {
    let candidate = session.examine(path)?;
    if let Some(reason) = candidate.unfit.into_iter().next() {
        // A PV whose LVs are active is held by them: its VG says more.
        refuse_members(&session.engine.visitor.registry, &candidate.info)?;
        return Err(DiskError::Unfit {
            path: path.to_owned(),
            reason,
        }
        .into());
    }
    Ok((candidate.info, candidate.topology))
}

/// A device that some VG of this host lists is nobody's to take, whatever the
/// state of that VG.
fn refuse_members(registry: &Registry, info: &DeviceInfo) -> Result<(), EngineError> {
    match registry.vg_on(info.devno) {
        Some(vg) => Err(DiskError::Member {
            path: info.path.clone(),
            vg,
        }
        .into()),
        None => Ok(()),
    }
}

/// Reads what LVM2 wrote to the device. This does not rely on any scan: the
/// device may be one that scans leave out.
fn content(
    session: &Session<'_>,
    info: &DeviceInfo,
    handle: &Arc<dyn BlockDevice>,
) -> Result<Content, EngineError> {
    let path = &info.path;
    let damaged = |detail: String| DiskError::Damaged {
        path: path.clone(),
        detail,
    };
    let mut head = [0; label::SEARCHED_BYTES];
    handle
        .read_at(0, &mut head)
        .map_err(|source| host_error(path, source))?;
    let label = match label::find(&head) {
        Ok(Some(label)) => label,
        Ok(None) => {
            // A label with a bad checksum is none for lvm2, but it may be
            // that of a VG that misses this PV now. wipefs leaves such labels
            // too, but takes their type away.
            return match label::damaged(&head) {
                Some(error) => Err(damaged(error.to_string()).into()),
                None => Ok(Content::Blank),
            };
        }
        Err(error) => return Err(damaged(error.to_string()).into()),
    };
    let registry = &session.engine.visitor.registry;
    let header = &label.header;
    if let Some(holder) = registry.holder_of(&header.id, info.devno) {
        let path = path.clone();
        return Err(match (holder.device, holder.vg) {
            (Some(other), _) => DiskError::Duplicate {
                path,
                other,
                id: header.id,
            },
            (None, Some(vg)) => DiskError::Unseen { path, vg },
            (None, None) => DiskError::InUse { path },
        }
        .into());
    }
    let pv = Arc::new(PvDevice::claimed(
        header.id,
        Arc::clone(handle),
        matches!(session.mode, Mode::Real),
        Arc::clone(&session.host().block),
    ));
    let mut texts = TextCache::default();
    let copies: Vec<_> = header
        .metadata_areas
        .iter()
        .map(|area| {
            let area = Area {
                pv: Arc::clone(&pv),
                start: area.offset.0,
                size: area.size.0,
            };
            read_copy(&area, &mut texts)
        })
        .collect();
    for copy in &copies {
        match &copy.state {
            CopyState::Text { vg, .. } => {
                return Err(DiskError::Unseen {
                    path: path.clone(),
                    vg: vg.name().clone(),
                }
                .into());
            }
            CopyState::Unreadable(detail) => {
                let detail = format!("metadata area at byte {}: {detail}", copy.area.start);
                return Err(damaged(detail).into());
            }
            CopyState::Empty(_) | CopyState::Ignored(_) => {}
        }
    }
    if copies.is_empty() && header.ext_version < label::EXT_VERSION {
        return Err(DiskError::Layout {
            path: path.clone(),
            detail: "no metadata area, and a label too old to say whether a VG uses it".to_owned(),
        }
        .into());
    }
    if header.in_use() {
        return Err(DiskError::InUse { path: path.clone() }.into());
    }
    let found = FoundPv {
        device: pv,
        header: header.clone(),
        copies,
    };
    Ok(Content::Free(Box::new(FreePv { label, found })))
}

/// The label that is on a PV now, which must be what `expected` says. Called
/// right before a label is written: nothing is written over a device that is
/// not the PV that it was.
pub(super) fn label_of(
    handle: &Arc<dyn BlockDevice>,
    expected: &lvm2::id::PvId,
) -> Result<FoundLabel, EngineError> {
    let path = &handle.info().path;
    let mut head = [0; label::SEARCHED_BYTES];
    handle
        .read_at(0, &mut head)
        .map_err(|source| host_error(path, source))?;
    let damaged = |detail: String| DiskError::Damaged {
        path: path.clone(),
        detail,
    };
    match label::find(&head).map_err(|error: LabelError| damaged(error.to_string()))? {
        Some(label) if label.header.id == *expected => Ok(label),
        Some(label) => {
            Err(damaged(format!("it is PV {} and not {expected}", label.header.id)).into())
        }
        None => Err(damaged("its label is gone".to_owned()).into()),
    }
}
