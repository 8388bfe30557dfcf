//! New VGs, and PVs that come, go and change size.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::id::{PvId, VgId};
use crate::model::{Pv, Vg, parse};
use crate::name::{Tag, VgName};
use crate::ondisk::{Area, geometry};
use crate::text::{self, New, Section};
use crate::units::{Bytes, ExtentSize, Extents};

use super::EditError;
use super::tree::{PVS, int, text_error, vg_mut};

/// Most extents that lvm2 counts in one VG.
const MOST_EXTENTS: u64 = u32::MAX as u64;

/// A PV that joins a VG, as its label describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPv {
    /// Identity, as in the label.
    pub id: PvId,
    /// Node of its device, a hint for people.
    pub device: String,
    /// Size as in the label.
    pub size: Bytes,
    /// Where extent 0 begins.
    pub data_start: Bytes,
    /// Space kept for a boot loader.
    pub boot: Option<Area>,
}

/// A VG to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVg {
    /// Name.
    pub name: VgName,
    /// Identity, from random bits.
    pub id: VgId,
    /// Size of every extent.
    pub extent_size: ExtentSize,
    /// Tags.
    pub tags: Vec<Tag>,
    /// The host that shall own it, if this host has a system id.
    pub system_id: Option<String>,
    /// Its PVs, at least one.
    pub pvs: Vec<NewPv>,
}

/// Makes a VG without LVs, laid out as lvm2 does it. It has seqno 0: the
/// first [`seal`](super::seal) makes it the first commit.
///
/// # Errors
/// When there is no PV, a PV has no room for an extent, or two are the same.
pub fn create_vg(new: &NewVg) -> Result<Vg, EditError> {
    let name = &new.name;
    // Names, tags and ids have no character that would need an escape.
    let tags: Vec<String> = new.tags.iter().map(|tag| format!("\"{tag}\"")).collect();
    let (status, flags) = match new.system_id {
        // Versions of lvm2 that know no owners must not write such a VG.
        Some(_) => ("\"RESIZEABLE\", \"READ\"", "\"WRITE_LOCKED\""),
        None => ("\"RESIZEABLE\", \"READ\", \"WRITE\"", ""),
    };
    let mut text = format!(
        "{name} {{\nid = \"{}\"\nseqno = 0\nformat = \"lvm2\"\nstatus = [{status}]\nflags = [{flags}]\n",
        new.id
    );
    if !tags.is_empty() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "tags = [{}]", tags.join(", "));
    }
    let _ = write!(
        text,
        "extent_size = {}\nmax_lv = 0\nmax_pv = 0\nmetadata_copies = 0\n\n\
         physical_volumes {{\n}}\n\n\n}}\n# Generated\n\n\
         contents = \"Text Format Volume Group\"\nversion = 1\n\n\
         description = \"\"\n\ncreation_host = \"\"\t#\ncreation_time = 0\t#\n\n",
        new.extent_size.sectors()
    );
    let mut tree = Section::parse(text.as_bytes()).map_err(crate::model::ModelError::from)?;
    if let Some(owner) = &new.system_id {
        let error = |source| EditError::Text {
            vg: name.to_string(),
            source,
        };
        tree.section_mut(name.as_str())
            .ok_or_else(|| EditError::Layout {
                vg: name.to_string(),
            })?
            .insert_before("extent_size", "system_id", New::Str(owner))
            .map_err(error)?;
    }
    let mut vg = Vg::parse(tree.print().as_bytes())?;
    for pv in &new.pvs {
        vg = add_pv(&vg, pv)?;
    }
    if new.pvs.is_empty() {
        return Err(EditError::NoPvs {
            vg: name.to_string(),
        });
    }
    Ok(vg)
}

/// Adds a PV behind the others.
pub(super) fn add_pv(vg: &Vg, new: &NewPv) -> Result<Vg, EditError> {
    let names = || vg.name().to_string();
    resizeable(vg)?;
    if vg.pv_by_id(&new.id).is_some() {
        return Err(EditError::PvExists {
            vg: names(),
            pv: new.id,
        });
    }
    let limit = limit(vg);
    if limit != 0 && vg.pvs().len() as u64 >= limit {
        return Err(EditError::TooManyPvs {
            vg: names(),
            max: limit,
        });
    }
    let extents = room(vg, new.id, new.size, new.data_start)?;
    countable(vg, vg.extents_total().saturating_add(extents))?;
    let key = free_key(vg);
    let section = section(new, extents).map_err(text_error(vg))?;
    change(vg, |pvs| pvs.push_section(&key, section))
}

/// Takes a PV out.
pub(super) fn remove_pv(vg: &Vg, id: PvId) -> Result<Vg, EditError> {
    resizeable(vg)?;
    let pv = existing(vg, id)?;
    let used: Extents = extents_of(vg, pv).into_values().sum();
    if used != Extents(0) {
        return Err(EditError::PvInUse {
            vg: vg.name().to_string(),
            pv: id,
            used,
            lvs: users_of(vg, pv),
        });
    }
    if vg.pvs().len() == 1 {
        return Err(EditError::LastPv {
            vg: vg.name().to_string(),
            pv: id,
        });
    }
    let key = pv.key.clone();
    change(vg, |pvs| {
        pvs.remove_section(&key);
        Ok(())
    })
}

/// Gives a PV another size; its extents follow.
pub(super) fn resize_pv(vg: &Vg, id: PvId, size: Bytes) -> Result<Vg, EditError> {
    resizeable(vg)?;
    let pv = existing(vg, id)?;
    let extents = room(vg, id, size, pv.pe_start.bytes())?;
    let used = extents_of(vg, pv)
        .iter()
        .map(|(start, count)| start.saturating_add(*count))
        .max()
        .unwrap_or_default();
    if extents < used {
        return Err(EditError::PvShrink {
            vg: vg.name().to_string(),
            pv: id,
            used,
            to: extents,
        });
    }
    let others = vg.extents_total().saturating_sub(pv.pe_count);
    countable(vg, others.saturating_add(extents))?;
    let sectors = size.sectors_floor();
    if pv.pe_count == extents && pv.dev_size == Some(sectors) {
        return Ok(vg.clone());
    }
    let key = pv.key.clone();
    change(vg, |pvs| {
        let Some(section) = pvs.section_mut(&key) else {
            return Ok(());
        };
        section.set("dev_size", int(sectors.0))?;
        section.set("pe_count", int(extents.0))
    })
}

/// Changes the PVs' section and reads the PVs again.
fn change(
    vg: &Vg,
    change: impl FnOnce(&mut Section) -> Result<(), text::EditError>,
) -> Result<Vg, EditError> {
    let layout = || EditError::Layout {
        vg: vg.name().to_string(),
    };
    let mut changed = vg.clone();
    let pvs = vg_mut(&mut changed)?.section_mut(PVS).ok_or_else(layout)?;
    change(pvs).map_err(text_error(vg))?;
    let name = vg.name().as_str();
    let section = changed.tree.section(name).ok_or_else(layout)?;
    let pvs = parse::pvs(name, section)?;
    changed.pvs = Arc::new(pvs);
    Ok(changed)
}

fn existing(vg: &Vg, id: PvId) -> Result<&Arc<Pv>, EditError> {
    vg.pv_by_id(&id).ok_or_else(|| EditError::NoSuchPv {
        vg: vg.name().to_string(),
        pv: id,
    })
}

/// lvm2 adds and removes PVs of such VGs only.
fn resizeable(vg: &Vg) -> Result<(), EditError> {
    if vg.has_status("RESIZEABLE") {
        return Ok(());
    }
    Err(EditError::NotResizeable {
        vg: vg.name().to_string(),
    })
}

/// The most PVs that the administrator allows; 0 = no limit.
fn limit(vg: &Vg) -> u64 {
    vg.tree
        .section(vg.name().as_str())
        .and_then(|section| section.int("max_pv"))
        .and_then(|limit| u64::try_from(limit).ok())
        .unwrap_or(0)
}

/// Extents of a PV of this size, at least one.
fn room(vg: &Vg, id: PvId, size: Bytes, data_start: Bytes) -> Result<Extents, EditError> {
    let extents = geometry::extents(size, data_start, vg.extent_size());
    if extents.is_zero() {
        return Err(EditError::NoExtents {
            vg: vg.name().to_string(),
            pv: id,
            size,
            data_start,
            extent_size: vg.extent_size().bytes(),
        });
    }
    Ok(extents)
}

fn countable(vg: &Vg, total: Extents) -> Result<(), EditError> {
    if total.0 <= MOST_EXTENTS {
        return Ok(());
    }
    Err(EditError::TooManyExtents {
        vg: vg.name().to_string(),
        total,
    })
}

/// Runs of extents of a PV that LVs use: first extent and length.
fn extents_of(vg: &Vg, pv: &Pv) -> BTreeMap<Extents, Extents> {
    vg.lvs()
        .iter()
        .flat_map(|lv| lv.uses())
        .filter(|used| used.key == pv.key)
        .map(|used| (used.start, used.count))
        .collect()
}

fn users_of(vg: &Vg, pv: &Pv) -> Vec<String> {
    vg.lvs()
        .iter()
        .filter(|lv| lv.uses().any(|used| used.key == pv.key))
        .map(|lv| lv.name.to_string())
        .collect()
}

/// The first of `pv0`, `pv1`, … that is free. Segments name PVs by key, so
/// those of other PVs stay as they are.
fn free_key(vg: &Vg) -> String {
    (0_usize..)
        .map(|number| format!("pv{number}"))
        .find(|key| vg.pv_by_key(key).is_none())
        .unwrap_or_default()
}

fn section(new: &NewPv, extents: Extents) -> Result<Section, text::EditError> {
    let mut section = Section::new();
    section.push("id", New::Str(&new.id.to_string()))?;
    section.push("device", New::Str(&new.device))?;
    section.push("status", New::Strings(&["ALLOCATABLE"]))?;
    section.set_lead("status", "\n\n")?;
    section.push("flags", New::Strings(&[]))?;
    section.push("dev_size", int(new.size.sectors_floor().0))?;
    section.push("pe_start", int(new.data_start.sectors_floor().0))?;
    section.push("pe_count", int(extents.0))?;
    if let Some(boot) = new.boot {
        section.push("ba_start", int(boot.offset.sectors_floor().0))?;
        section.push("ba_size", int(boot.size.sectors_floor().0))?;
    }
    Ok(section)
}
