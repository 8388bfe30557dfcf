//! PVs that are made, resized and given up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lvm2::edit::{self, Edit};
use lvm2::ondisk::geometry::{SMALLEST_PV, Wish};
use lvm2::ondisk::label::{self, PvHeader};
use lvm2::units::Bytes;

use super::super::error::EngineError;
use super::super::permit::writable;
use super::joiner::Joiner;
use super::session::{Session, host_error};
use super::target::{Content, Target, label_of};
use super::write::{self, Write};
use super::{DiskError, DiskOutcome, PvState};
use crate::host::{BlockDevice, DeviceInfo};

/// Makes devices PVs of no VG. Everything is looked at before anything is
/// written.
pub(super) fn create(
    session: &Session<'_>,
    devices: &[PathBuf],
    wish: Wish,
) -> Result<DiskOutcome, EngineError> {
    let _global = session.global(true)?;
    let mut joiners = Target::all(session, devices)?
        .into_iter()
        .map(|target| Joiner::new(session, target, wish))
        .collect::<Result<Vec<_>, _>>()?;
    // Before there is a PV: one that lvm2 does not see would be worse than an
    // entry without one.
    let blank: Vec<_> = joiners.iter().map(|j| (j.info().clone(), None)).collect();
    session.enter_devices(&blank)?;
    for joiner in &mut joiners {
        joiner.prepare(session)?;
    }
    let made: Vec<_> = joiners
        .iter()
        .map(|j| (j.info().clone(), Some(j.id())))
        .collect();
    session.enter_devices(&made)?;
    Ok(DiskOutcome {
        pvs: joiners.iter().map(Joiner::state).collect(),
        vg: None,
    })
}

/// Gives PVs of no VG up. One sector, which is written or is not, makes such a
/// PV a plain device.
pub(super) fn remove(
    session: &Session<'_>,
    devices: &[PathBuf],
) -> Result<DiskOutcome, EngineError> {
    let _global = session.global(true)?;
    let targets = Target::all(session, devices)?;
    let mut gone = Vec::new();
    for target in &targets {
        let Content::Free(free) = &target.content else {
            return Err(DiskError::NotPv {
                path: target.info.path.clone(),
            }
            .into());
        };
        gone.push((target, free));
    }
    let mut pvs = Vec::new();
    for (target, free) in gone {
        let mut sectors = vec![free.label.sector];
        sectors.extend(&free.label.further);
        session.write(&target.handle, &write::unlabel(&sectors))?;
        pvs.push(state(&target.info, &free.label.header));
    }
    let entries: Vec<_> = targets.iter().map(|t| (t.info.clone(), None)).collect();
    session.enter_devices(&entries)?;
    let ids: Vec<_> = pvs.iter().map(|pv| pv.id).collect();
    session.forget_online(&ids, None);
    Ok(DiskOutcome { pvs, vg: None })
}

/// Gives a PV the size of its device, or another one.
pub(super) fn resize(
    session: &Session<'_>,
    device: &Path,
    size: Option<Bytes>,
) -> Result<DiskOutcome, EngineError> {
    // Which PV is where, and of which VG, stays as it is: so do the hints.
    let _global = session.global(false)?;
    let info = session.examine(device)?.info;
    let size = wanted(&info, size)?;
    match session.engine.visitor.registry.vg_on(info.devno) {
        Some(vg) => resize_member(session, &vg, &info, size),
        None => resize_free(session, device, size),
    }
}

fn wanted(info: &DeviceInfo, size: Option<Bytes>) -> Result<Bytes, DiskError> {
    let size = size.map_or(Bytes(info.size), |size| size.sectors_floor().bytes());
    if size.0 > info.size {
        return Err(DiskError::LargerThanDevice {
            path: info.path.clone(),
            size: size.0,
            device: info.size,
        });
    }
    if size < SMALLEST_PV {
        return Err(DiskError::Geometry {
            path: info.path.clone(),
            source: lvm2::ondisk::geometry::GeometryError::TooSmall { size },
        });
    }
    Ok(size)
}

fn resize_free(
    session: &Session<'_>,
    device: &Path,
    size: Bytes,
) -> Result<DiskOutcome, EngineError> {
    let paths = [device.to_owned()];
    let target = Target::all(session, &paths)?.into_iter().next();
    let Some((target, Content::Free(free))) = target.as_ref().map(|t| (t, &t.content)) else {
        return Err(DiskError::NotPv {
            path: device.to_owned(),
        }
        .into());
    };
    let header = resized(&target.info, &free.label.header, size)?;
    let label = label(&target.info, free.label.sector, &header)?;
    session.write(&target.handle, &[label, Write::Flush])?;
    Ok(DiskOutcome {
        pvs: vec![state(&target.info, &header)],
        vg: None,
    })
}

/// The text first, whose extents count, then the label, whose size is a note
/// for people: between the two nothing is wrong that anybody minds.
fn resize_member(
    session: &Session<'_>,
    vg: &lvm2::name::VgName,
    info: &DeviceInfo,
    size: Bytes,
) -> Result<DiskOutcome, EngineError> {
    let _lock = session.vg(vg)?;
    let loaded = session.engine.visitor.registry.load(vg)?;
    writable(&loaded, session.host())?;
    let member = loaded
        .pvs
        .iter()
        .find(|pv| pv.device.info().devno == info.devno)
        .ok_or_else(|| DiskError::NotMember {
            path: info.path.clone(),
            vg: vg.clone(),
        })?;
    let id = member.device.id;
    // The kernel knows the size of today; the handle that reads is as old as
    // the last look, which was under this lock.
    let found = label_of(&member.device.reader, &id)?;
    let header = resized(info, &found.header, size)?;
    let changed = edit::apply(&loaded.vg, &Edit::ResizePv { id, size }).map_err(|source| {
        EngineError::Edit {
            vg: vg.clone(),
            source: Arc::new(source),
        }
    })?;
    let committed = if changed == *loaded.vg {
        Arc::clone(&loaded.vg)
    } else {
        session.commit(&loaded, &changed, &loaded.vg.print())?
    };
    if header != found.header {
        let label = label(info, found.sector, &header)?;
        let handle: &Arc<dyn BlockDevice> = if session.is_real() {
            member
                .device
                .writer()
                .map_err(|source| host_error(&info.path, source))?
        } else {
            &member.device.reader
        };
        session.write(handle, &[label, Write::Flush])?;
    }
    Ok(DiskOutcome {
        pvs: vec![state(info, &header)],
        vg: Some(super::vg::state(&committed)),
    })
}

/// The header of a PV of another size.
fn resized(info: &DeviceInfo, header: &PvHeader, size: Bytes) -> Result<PvHeader, DiskError> {
    let path = || info.path.clone();
    let start = header.data_areas.first().map(|area| area.offset);
    let start = start.unwrap_or_default();
    // lvm2 would have to move it.
    if header
        .metadata_areas
        .iter()
        .any(|area| area.offset >= start)
    {
        return Err(DiskError::Layout {
            path: path(),
            detail: "a metadata area at its end".to_owned(),
        });
    }
    if size <= start {
        return Err(DiskError::Geometry {
            path: path(),
            source: lvm2::ondisk::geometry::GeometryError::NoRoom { start, size },
        });
    }
    Ok(PvHeader {
        device_size: size,
        ..header.clone()
    })
}

fn label(info: &DeviceInfo, sector: u64, header: &PvHeader) -> Result<Write, DiskError> {
    write::label(sector, header, "label: size").map_err(|error: label::LabelError| {
        DiskError::Layout {
            path: info.path.clone(),
            detail: error.to_string(),
        }
    })
}

fn state(info: &DeviceInfo, header: &PvHeader) -> PvState {
    let start = header.data_areas.first().map(|area| area.offset);
    PvState {
        path: info.path.clone(),
        id: header.id,
        size: header.device_size,
        data_start: start.unwrap_or_default(),
        metadata_size: header.metadata_areas.iter().map(|area| area.size).sum(),
        wiped: Vec::new(),
    }
}
