//! VGs that are made and removed, and PVs that join and leave them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use lvm2::edit::{self, Edit, NewVg};
use lvm2::id::{PvId, VgId};
use lvm2::model::Vg;
use lvm2::name::{Tag, VgName};
use lvm2::ondisk::geometry::Wish;
use lvm2::ondisk::mda::MdaHeader;
use lvm2::ondisk::ring;
use lvm2::units::{Bytes, ExtentSize};

use super::super::copies::{CopyState, FoundPv};
use super::super::error::EngineError;
use super::super::loaded::Loaded;
use super::super::permit::writable;
use super::joiner::Joiner;
use super::session::{Session, host_error};
use super::target::{Target, label_of};
use super::write::{self, Write};
use super::{DiskError, DiskOutcome, PvState, VgState};
use crate::host::{BlockDevice, DeviceInfo};

/// Room that the lines about the writer of a text may need beyond those that
/// are there.
const STAMP: u64 = 4096;

/// Makes a VG.
pub(super) fn create(
    session: &Session<'_>,
    vg: &VgName,
    devices: &[PathBuf],
    wish: Wish,
    extent_size: ExtentSize,
    tags: &[Tag],
) -> Result<DiskOutcome, EngineError> {
    let _global = session.global(true)?;
    free_name(session, vg)?;
    let mut joiners = join(session, devices, wish)?;
    equal_blocks(joiners.iter().map(Joiner::info))?;
    let pvs = joiners.iter().map(Joiner::edit).collect::<Result<_, _>>()?;
    let mut random = [0; 32];
    session.host().clock.random(&mut random);
    let new = NewVg {
        name: vg.clone(),
        id: VgId::from_random(random),
        extent_size,
        tags: tags.to_vec(),
        system_id: session.host().identity.system_id.clone(),
        pvs,
    };
    let made = edit::create_vg(&new).map_err(|source| edit_error(vg, source))?;
    let loaded = assembled(
        Arc::new(made),
        joiners.iter().map(|joiner| joiner.found(session)).collect(),
    );
    fits(&loaded, &loaded.vg)?;
    enter(session, &joiners, false)?;
    let _lock = session.vg(vg)?;
    for joiner in &mut joiners {
        joiner.prepare(session)?;
    }
    let committed = session.commit(&loaded, &loaded.vg, "")?;
    finish(session, &joiners)?;
    Ok(outcome(&joiners, &committed))
}

/// Adds PVs to a VG.
pub(super) fn extend(
    session: &Session<'_>,
    vg: &VgName,
    devices: &[PathBuf],
    wish: Wish,
) -> Result<DiskOutcome, EngineError> {
    let _global = session.global(true)?;
    // A first look, so that what is refused leaves the devices file alone too.
    let loaded = session.engine.visitor.registry.load(vg)?;
    writable(&loaded, session.host())?;
    let mut joiners = join(session, devices, wish)?;
    added(session, &loaded, &joiners)?;
    enter(session, &joiners, false)?;
    let _lock = session.vg(vg)?;
    let loaded = session.engine.visitor.registry.load(vg)?;
    writable(&loaded, session.host())?;
    let (all, changed) = added(session, &loaded, &joiners)?;
    for joiner in &mut joiners {
        joiner.prepare(session)?;
    }
    let committed = session.commit(&all, &changed, &loaded.vg.print())?;
    finish(session, &joiners)?;
    Ok(outcome(&joiners, &committed))
}

/// Takes empty PVs out of a VG.
pub(super) fn reduce(
    session: &Session<'_>,
    vg: &VgName,
    devices: &[PathBuf],
) -> Result<DiskOutcome, EngineError> {
    let _global = session.global(true)?;
    let _lock = session.vg(vg)?;
    let mut loaded = session.engine.visitor.registry.load(vg)?;
    writable(&loaded, session.host())?;
    let ids = members(session, &loaded, devices)?;
    let mut changed = without(&loaded.vg, &ids)?;
    let stays = |pv: &&FoundPv| !ids.contains(&pv.device.id);
    if !loaded.pvs.iter().filter(stays).any(has_area) {
        return Err(DiskError::NoArea { vg: vg.clone() }.into());
    }
    let leaving = claim(session, &loaded, &ids)?;
    if !loaded.outdated.is_empty() {
        // The newest text may be on the leaving PVs alone: the others get it
        // before it goes.
        session.commit(&loaded, &loaded.vg, &loaded.vg.print())?;
        if session.is_real() {
            loaded = session.engine.visitor.registry.load(vg)?;
            writable(&loaded, session.host())?;
            // On top of that commit: no number is used for two texts.
            changed = without(&loaded.vg, &ids)?;
        }
    }
    let mut pvs = Vec::new();
    for leaver in &leaving {
        session.write(&leaver.handle, &leaver.areas)?;
        session.write(&leaver.handle, &leaver.label)?;
        pvs.push(leaver.state.clone());
    }
    let rest = loaded.pvs.iter().filter(stays).cloned().collect();
    let rest = assembled(Arc::clone(&loaded.vg), rest);
    let committed = session.commit(&rest, &changed, &loaded.vg.print())?;
    session.forget_online(&ids, None);
    Ok(DiskOutcome {
        pvs,
        vg: Some(state(&committed)),
    })
}

/// The VG without these PVs.
fn without(vg: &Vg, ids: &[PvId]) -> Result<Vg, EngineError> {
    ids.iter().try_fold(Vg::clone(vg), |vg, id| {
        edit::apply(&vg, &Edit::RemovePv { id: *id })
            .map_err(|source| edit_error(vg.name(), source))
    })
}

/// Removes a VG without LVs. As long as one area holds the text the VG is
/// there, with all of its PVs, and asking again goes on; no label says "in
/// use" by then.
pub(super) fn remove(session: &Session<'_>, vg: &VgName) -> Result<DiskOutcome, EngineError> {
    let _global = session.global(true)?;
    let _lock = session.vg(vg)?;
    let loaded = session.engine.visitor.registry.load(vg)?;
    writable(&loaded, session.host())?;
    if !loaded.vg.lvs().is_empty() {
        return Err(DiskError::HasLvs {
            vg: vg.clone(),
            lvs: loaded
                .vg
                .lvs()
                .iter()
                .map(|lv| lv.name.to_string())
                .collect(),
        }
        .into());
    }
    let ids: Vec<PvId> = loaded.vg.pvs().iter().map(|pv| pv.id).collect();
    let leaving = claim(session, &loaded, &ids)?;
    session.vanish(&loaded.vg);
    for leaver in &leaving {
        session.write(&leaver.handle, &leaver.label)?;
    }
    for leaver in &leaving {
        session.write(&leaver.handle, &leaver.areas)?;
    }
    session.forget_online(&ids, Some(vg));
    Ok(DiskOutcome {
        pvs: leaving.into_iter().map(|leaver| leaver.state).collect(),
        vg: Some(state(&loaded.vg)),
    })
}

/// A PV that leaves a VG, claimed, with what is to be written to it.
struct Leaver {
    handle: Arc<dyn BlockDevice>,
    areas: Vec<Write>,
    label: Vec<Write>,
    state: PvState,
}

fn claim(session: &Session<'_>, loaded: &Loaded, ids: &[PvId]) -> Result<Vec<Leaver>, EngineError> {
    let members = loaded.pvs.iter().filter(|pv| ids.contains(&pv.device.id));
    members
        .map(|pv| {
            let info = pv.device.info();
            let handle = session.open(info)?;
            let found = label_of(&handle, &pv.device.id)?;
            let header = found.header.with_in_use(false);
            let label =
                write::label(found.sector, &header, "label: of no VG").map_err(|error| {
                    DiskError::Layout {
                        path: info.path.clone(),
                        detail: error.to_string(),
                    }
                })?;
            let mut areas: Vec<Write> = header
                .metadata_areas
                .iter()
                .map(|area| write::area_header(&MdaHeader::empty(*area)))
                .collect();
            areas.push(Write::Flush);
            let start = header.data_areas.first().map(|area| area.offset);
            Ok(Leaver {
                areas,
                label: vec![label, Write::Flush],
                state: PvState {
                    path: info.path.clone(),
                    id: header.id,
                    size: header.device_size,
                    data_start: start.unwrap_or_default(),
                    metadata_size: header.metadata_areas.iter().map(|area| area.size).sum(),
                    wiped: Vec::new(),
                },
                handle,
            })
        })
        .collect()
}

fn join(
    session: &Session<'_>,
    devices: &[PathBuf],
    wish: Wish,
) -> Result<Vec<Joiner>, EngineError> {
    Target::all(session, devices)?
        .into_iter()
        .map(|target| Joiner::member(session, target, wish))
        .collect()
}

/// The VG with the joining PVs, and what it is committed to.
fn added(
    session: &Session<'_>,
    loaded: &Loaded,
    joiners: &[Joiner],
) -> Result<(Loaded, Vg), EngineError> {
    let infos = loaded.pvs.iter().map(|pv| pv.device.info());
    equal_blocks(infos.chain(joiners.iter().map(Joiner::info)))?;
    let mut changed = Vg::clone(&loaded.vg);
    for joiner in joiners {
        changed = edit::apply(&changed, &Edit::AddPv(joiner.edit()?))
            .map_err(|source| edit_error(loaded.vg.name(), source))?;
    }
    let mut pvs = loaded.pvs.clone();
    pvs.extend(joiners.iter().map(|joiner| joiner.found(session)));
    let all = assembled(Arc::clone(&loaded.vg), pvs);
    fits(&all, &changed)?;
    Ok((all, changed))
}

fn enter(session: &Session<'_>, joiners: &[Joiner], made: bool) -> Result<(), EngineError> {
    let entries: Vec<_> = joiners
        .iter()
        .map(|joiner| (joiner.info().clone(), made.then(|| joiner.id())))
        .collect();
    session.enter_devices(&entries)
}

/// What follows the commit: metadata says that the PVs are members.
fn finish(session: &Session<'_>, joiners: &[Joiner]) -> Result<(), EngineError> {
    for joiner in joiners {
        joiner.mark(session)?;
    }
    enter(session, joiners, true)?;
    let ids: Vec<PvId> = joiners.iter().map(Joiner::id).collect();
    session.forget_online(&ids, None);
    Ok(())
}

/// A name that neither a VG nor anything in `/dev` has.
fn free_name(session: &Session<'_>, vg: &VgName) -> Result<(), EngineError> {
    if session.engine.visitor.registry.names()?.contains(vg) {
        return Err(DiskError::VgExists { vg: vg.clone() }.into());
    }
    let path = Path::new("/dev").join(vg.as_str());
    let there = session
        .host()
        .fs
        .kind_of(&path)
        .map_err(|source| host_error(&path, source))?;
    match there {
        Some(_) => Err(DiskError::NameTaken {
            vg: vg.clone(),
            path,
        }
        .into()),
        None => Ok(()),
    }
}

/// The PVs of the VG on these devices.
fn members(
    session: &Session<'_>,
    loaded: &Loaded,
    devices: &[PathBuf],
) -> Result<Vec<PvId>, EngineError> {
    if devices.is_empty() {
        return Err(DiskError::NoDevice.into());
    }
    let mut ids: Vec<PvId> = Vec::new();
    for path in devices {
        let candidate = session.examine(path)?;
        let on = |pv: &&FoundPv| pv.device.info().devno == candidate.info.devno;
        let member = loaded.pvs.iter().find(on).ok_or_else(|| {
            EngineError::from(DiskError::NotMember {
                path: path.clone(),
                vg: loaded.vg.name().clone(),
            })
        })?;
        if ids.contains(&member.device.id) {
            return Err(DiskError::Twice {
                path: path.clone(),
                first: member.device.info().path.clone(),
            }
            .into());
        }
        ids.push(member.device.id);
    }
    Ok(ids)
}

/// File systems on an LV that spans different block sizes break.
fn equal_blocks<'a>(mut infos: impl Iterator<Item = &'a DeviceInfo>) -> Result<(), DiskError> {
    let Some(first) = infos.next() else {
        return Ok(());
    };
    match infos.find(|info| info.block_size != first.block_size) {
        Some(info) => Err(DiskError::BlockSizes {
            path: info.path.clone(),
            size: info.block_size,
            other: first.path.clone(),
            other_size: first.block_size,
        }),
        None => Ok(()),
    }
}

fn has_area(pv: &FoundPv) -> bool {
    let in_use = |state: &CopyState| matches!(state, CopyState::Empty(_) | CopyState::Text { .. });
    pv.copies.iter().any(|copy| in_use(&copy.state))
}

/// Whether the text fits into every area that it shall go to, which has to be
/// known before the first write.
fn fits(loaded: &Loaded, vg: &Vg) -> Result<(), EngineError> {
    if !loaded.pvs.iter().any(has_area) {
        return Err(DiskError::NoArea {
            vg: vg.name().clone(),
        }
        .into());
    }
    let need = (vg.print().len() as u64).saturating_add(STAMP);
    let sizes = loaded
        .copies()
        .filter(|copy| !matches!(copy.state, CopyState::Ignored(_)))
        .map(|copy| ring::max_text(copy.area.size));
    match sizes.min().filter(|max| *max < need) {
        Some(max) => Err(EngineError::MetadataFull {
            vg: vg.name().clone(),
            need: Bytes(need),
            used: loaded.metadata_use().text,
            max: Bytes(max),
            area: loaded.metadata_use().size,
        }),
        None => Ok(()),
    }
}

fn assembled(vg: Arc<Vg>, pvs: Vec<FoundPv>) -> Loaded {
    Loaded {
        vg,
        pvs,
        hazards: Vec::new(),
        outdated: Vec::new(),
        refusal: OnceLock::new(),
    }
}

/// The VG for an answer.
pub(super) fn state(vg: &Vg) -> VgState {
    VgState {
        name: vg.name().clone(),
        id: vg.id(),
        seqno: vg.seqno(),
        extent_size: vg.extent_size().bytes(),
        extents: vg.extents_total(),
        pvs: vg.pvs().len(),
    }
}

fn outcome(joiners: &[Joiner], vg: &Vg) -> DiskOutcome {
    DiskOutcome {
        pvs: joiners.iter().map(Joiner::state).collect(),
        vg: Some(state(vg)),
    }
}

fn edit_error(vg: &VgName, source: edit::EditError) -> EngineError {
    EngineError::Edit {
        vg: vg.clone(),
        source: Arc::new(source),
    }
}
