//! A VG as it was read: the newest metadata, the devices of its PVs and every
//! copy, with what forbids a change.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use lvm2::check::{self, Refusal};
use lvm2::id::{PvId, VgId};
use lvm2::model::Vg;
use lvm2::ondisk::ring;
use lvm2::tables::DevNo;
use lvm2::units::Bytes;

use super::area::PvDevice;
use super::copies::{CopyState, FoundPv, MetadataCopy, TextCache, read_copy};
use super::hazard::Hazard;
use super::state::MetadataUse;
use crate::host::Identity;

/// A VG in memory. Never changed: a commit or a reload makes another.
pub(super) struct Loaded {
    pub(super) vg: Arc<Vg>,
    /// The PVs of the VG that are there.
    pub(super) pvs: Vec<FoundPv>,
    pub(super) hazards: Vec<Hazard>,
    /// Areas whose text is older than `vg`; the next commit refreshes them.
    pub(super) outdated: Vec<String>,
    /// Found once: a check of all invariants takes longer than a commit. Our
    /// own edits keep what they found, so a commit hands it on.
    pub(super) refusal: OnceLock<Option<Arc<Refusal>>>,
}

impl Loaded {
    /// Picks the newest metadata of VG `id` out of everything that was found.
    /// `None` if no readable copy names it.
    pub(super) fn assemble(id: VgId, found: &[FoundPv]) -> Option<Self> {
        let newest = found
            .iter()
            .flat_map(|pv| &pv.copies)
            .filter_map(MetadataCopy::vg)
            .filter(|vg| vg.id() == id)
            .max_by_key(|vg| vg.seqno())?;
        let vg = Arc::clone(newest);
        let mut hazards = Vec::new();
        let mut missing = Vec::new();
        let mut pvs: Vec<FoundPv> = Vec::new();
        for pv in vg.pvs() {
            let mut devices = found
                .iter()
                .filter(|candidate| candidate.device.id == pv.id);
            let Some(first) = devices.next() else {
                missing.push(pv.id);
                continue;
            };
            let mut paths = vec![first.device.info().path.clone()];
            paths.extend(devices.map(|device| device.device.info().path.clone()));
            if paths.len() > 1 {
                hazards.push(Hazard::DuplicatePv { id: pv.id, paths });
            }
            pvs.push(first.clone());
        }
        if !missing.is_empty() {
            hazards.push(Hazard::MissingPv {
                vg: vg.name().clone(),
                ids: missing,
            });
        }
        let mut loaded = Self {
            vg,
            pvs,
            hazards,
            outdated: Vec::new(),
            refusal: OnceLock::new(),
        };
        loaded.judge_copies();
        Some(loaded)
    }

    /// The same VG, of which only the past is known: `hazards` say why.
    pub(super) fn silenced(&self, mut hazards: Vec<Hazard>) -> Self {
        let others = self.hazards.iter().filter(|hazard| !hazard.is_silence());
        hazards.extend(others.cloned());
        Self {
            vg: Arc::clone(&self.vg),
            pvs: self.pvs.clone(),
            hazards,
            outdated: self.outdated.clone(),
            refusal: self.refusal.clone(),
        }
    }

    /// Every metadata copy on the VG's PVs.
    pub(super) fn copies(&self) -> impl Iterator<Item = &MetadataCopy> {
        self.pvs.iter().flat_map(|pv| &pv.copies)
    }

    fn judge_copies(&mut self) {
        let mut mismatch = Vec::new();
        let mut reference: Option<(u32, u64)> = None;
        let mut hazards = Vec::new();
        let mut outdated = Vec::new();
        let mut in_use = 0;
        for copy in self.copies() {
            let path = &copy.area.pv.info().path;
            match &copy.state {
                CopyState::Unreadable(detail) => hazards.push(Hazard::UnreadableCopy {
                    vg: self.vg.name().clone(),
                    path: path.clone(),
                    offset: copy.area.start,
                    detail: detail.clone(),
                }),
                CopyState::Ignored(_) => {}
                CopyState::Empty(_) => {
                    in_use += 1;
                    outdated.push(format!("{} holds no metadata yet", path.display()));
                }
                CopyState::Text { header, vg } => {
                    in_use += 1;
                    let text = header
                        .committed
                        .as_ref()
                        .map(|locn| (locn.checksum, locn.size));
                    if vg.id() != self.vg.id() {
                        hazards.push(Hazard::UnreadableCopy {
                            vg: self.vg.name().clone(),
                            path: path.clone(),
                            offset: copy.area.start,
                            detail: format!("it describes another VG, {}", vg.name()),
                        });
                    } else if vg.seqno() < self.vg.seqno() {
                        outdated.push(format!(
                            "{} has metadata {} instead of {}",
                            path.display(),
                            vg.seqno(),
                            self.vg.seqno()
                        ));
                    } else if reference.is_none() || reference == text {
                        reference = text;
                        mismatch.push(path.clone());
                    } else {
                        mismatch.push(path.clone());
                        hazards.push(Hazard::Mismatch {
                            vg: self.vg.name().clone(),
                            seqno: vg.seqno(),
                            paths: mismatch.clone(),
                        });
                    }
                }
            }
        }
        if in_use == 0 {
            hazards.push(Hazard::NoArea);
        }
        self.hazards.append(&mut hazards);
        self.outdated = outdated;
    }

    /// Whether every header still is what it was when this was read.
    pub(super) fn is_current(&self) -> bool {
        self.copies().all(|copy| match copy.header() {
            Some(known) => copy.area.read_header().is_ok_and(|header| header == *known),
            None => false,
        })
    }

    /// Reads the copies on the known PVs again. `None` when they no longer
    /// tell the whole VG (PVs were added or removed, the VG is gone), or when an
    /// area that held a text is empty now, for then another PV may have been
    /// made of the device: all devices have to be looked at.
    pub(super) fn reload(&self) -> Option<Self> {
        let mut texts = TextCache::default();
        for pv in &self.pvs {
            texts.seed(&pv.copies);
        }
        let found: Vec<FoundPv> = self
            .pvs
            .iter()
            .map(|pv| FoundPv {
                device: Arc::clone(&pv.device),
                header: pv.header.clone(),
                copies: pv
                    .copies
                    .iter()
                    .map(|copy| read_copy(&copy.area, &mut texts))
                    .collect(),
            })
            .collect();
        let mut pairs = self.copies().zip(found.iter().flat_map(|pv| &pv.copies));
        if pairs.any(|(old, new)| old.vg().is_some() && matches!(new.state, CopyState::Empty(_))) {
            return None;
        }
        let fresh = Self::assemble(self.vg.id(), &found)?;
        let same_pvs = fresh.vg.pvs().len() == self.vg.pvs().len()
            && fresh
                .vg
                .pvs()
                .iter()
                .all(|pv| self.vg.pv_by_id(&pv.id).is_some());
        (same_pvs && fresh.vg.name() == self.vg.name()).then_some(fresh)
    }

    /// The device of a PV.
    pub(super) fn device(&self, id: &PvId) -> Option<&Arc<PvDevice>> {
        self.pvs
            .iter()
            .find(|pv| pv.device.id == *id)
            .map(|pv| &pv.device)
    }

    /// The device numbers of the PVs that may be used. One that is marked as
    /// missing and is there again lacks what was written meanwhile.
    pub(super) fn device_numbers(&self) -> BTreeMap<PvId, DevNo> {
        let lacks = |pv: &PvId| self.vg.pv_by_id(pv).is_some_and(|pv| pv.missing);
        self.pvs
            .iter()
            .filter(|pv| !lacks(&pv.device.id))
            .map(|pv| (pv.device.id, pv.device.info().devno))
            .collect()
    }

    /// Why the metadata itself forbids a change.
    pub(super) fn refusal(&self, identity: &Identity) -> Option<Arc<Refusal>> {
        let judge = || {
            let identity = check::Identity {
                system_id: identity.system_id.clone(),
                extra: identity.extra_system_ids.clone(),
            };
            check::refusal(&self.vg, &identity).map(Arc::new)
        };
        self.refusal.get_or_init(judge).clone()
    }

    /// Use of the metadata areas.
    pub(super) fn metadata_use(&self) -> MetadataUse {
        metadata_use(self.copies())
    }

    /// Use of the metadata areas of one PV.
    pub(super) fn pv_metadata_use(&self, id: &PvId) -> MetadataUse {
        let pv = self.pvs.iter().find(|pv| pv.device.id == *id);
        metadata_use(pv.into_iter().flat_map(|pv| &pv.copies))
    }
}

fn metadata_use<'a>(copies: impl Iterator<Item = &'a MetadataCopy>) -> MetadataUse {
    let mut usage = MetadataUse::default();
    let mut smallest = u64::MAX;
    for copy in copies {
        usage.areas += 1;
        let Some(header) = copy.header() else {
            continue;
        };
        if matches!(copy.state, CopyState::Ignored(_)) {
            continue;
        }
        usage.used_areas += 1;
        if header.size < smallest {
            smallest = header.size;
            usage.size = Bytes(header.size);
            usage.max_text = Bytes(ring::max_text(header.size));
        }
        if let Some(locn) = &header.committed {
            usage.text = Bytes(usage.text.0.max(locn.size));
        }
    }
    usage
}
