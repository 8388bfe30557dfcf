//! Changing the tree of a VG and deriving again what changed.

use std::sync::Arc;

use crate::alloc::NewSegment;
use crate::model::Vg;
use crate::model::parse;
use crate::text::{self, New, Section};

use super::EditError;

/// Where a VG keeps its LVs.
pub(super) const LVS: &str = "logical_volumes";
/// Where it keeps its PVs.
pub(super) const PVS: &str = "physical_volumes";

/// What lvm2 writes before a VG's closing brace, with and without LVs.
const TAIL_WITH_LVS: &str = "\n\n";
const TAIL_WITHOUT_LVS: &str = "\n\n\n";

/// The VG's section, to be changed.
pub(super) fn vg_mut(vg: &mut Vg) -> Result<&mut Section, EditError> {
    let name = vg.header.name.clone();
    vg.tree
        .section_mut(name.as_str())
        .ok_or_else(|| EditError::Layout {
            vg: name.to_string(),
        })
}

/// The section of all LVs, to be changed.
fn lvs_mut(vg: &mut Vg) -> Result<&mut Section, EditError> {
    let name = vg.name().to_string();
    vg_mut(vg)?
        .section_mut(LVS)
        .ok_or(EditError::Layout { vg: name })
}

/// What an error of the tree becomes.
pub(super) fn text_error(vg: &Vg) -> impl Fn(text::EditError) -> EditError + use<> {
    let vg = vg.name().to_string();
    move |source| EditError::Text {
        vg: vg.clone(),
        source,
    }
}

/// Adds an LV behind the last visible one; hidden ones follow.
pub(super) fn add_lv(vg: &mut Vg, name: &str, section: Section) -> Result<(), EditError> {
    let error = text_error(vg);
    if vg.lvs.is_empty() {
        make_lvs(vg)?;
    }
    let hidden = vg.lvs.iter().position(|lv| !lv.visible());
    let anchor = hidden
        .and_then(|at| vg.lvs.get(at))
        .map(|lv| lv.name.clone());
    let lvs = lvs_mut(vg)?;
    match anchor {
        Some(anchor) => lvs.insert_before(anchor.as_str(), name, New::Section(section)),
        None => lvs.push_section(name, section),
    }
    .map_err(error)?;
    let lv = Arc::new(derive(vg, name)?);
    let at = hidden.unwrap_or(vg.lvs.len());
    Arc::make_mut(&mut vg.lvs).insert(at, lv);
    Ok(())
}

fn make_lvs(vg: &mut Vg) -> Result<(), EditError> {
    let error = text_error(vg);
    let section = vg_mut(vg)?;
    if section.section(LVS).is_some() {
        return Ok(());
    }
    section
        .insert_after(PVS, LVS, New::Section(Section::new()))
        .map_err(&error)?;
    if section.tail() == TAIL_WITHOUT_LVS {
        section.set_tail(TAIL_WITH_LVS).map_err(&error)?;
    }
    Ok(())
}

/// Takes an LV out; lvm2 writes no section for no LVs.
pub(super) fn remove_lv(vg: &mut Vg, name: &str) -> Result<(), EditError> {
    let error = text_error(vg);
    if let Some(at) = vg.lvs.iter().position(|lv| lv.name.as_str() == name) {
        Arc::make_mut(&mut vg.lvs).remove(at);
    }
    if !vg.lvs.is_empty() {
        lvs_mut(vg)?.remove_section(name);
        return Ok(());
    }
    let section = vg_mut(vg)?;
    section.remove_section(LVS);
    if section.tail() == TAIL_WITH_LVS {
        section.set_tail(TAIL_WITHOUT_LVS).map_err(error)?;
    }
    Ok(())
}

/// Gives an LV's section another name.
pub(super) fn rename_lv(vg: &mut Vg, from: &str, to: &str) -> Result<(), EditError> {
    let error = text_error(vg);
    lvs_mut(vg)?.rename_section(from, to).map_err(error)?;
    derive_at(vg, from, to)
}

/// Changes an LV's section by `change` and reads it again.
pub(super) fn change_lv(
    vg: &mut Vg,
    name: &str,
    change: impl FnOnce(&mut Section) -> Result<(), text::EditError>,
) -> Result<(), EditError> {
    let error = text_error(vg);
    let layout = EditError::Layout {
        vg: vg.name().to_string(),
    };
    change(lvs_mut(vg)?.section_mut(name).ok_or(layout)?).map_err(error)?;
    derive_at(vg, name, name)
}

/// Reads the LV that was called `old` from its section, now called `name`.
fn derive_at(vg: &mut Vg, old: &str, name: &str) -> Result<(), EditError> {
    let lv = Arc::new(derive(vg, name)?);
    let lvs = Arc::make_mut(&mut vg.lvs);
    if let Some(slot) = lvs.iter_mut().find(|lv| lv.name.as_str() == old) {
        *slot = lv;
    }
    Ok(())
}

fn derive(vg: &Vg, name: &str) -> Result<crate::model::Lv, EditError> {
    let section = vg
        .tree
        .section(vg.name().as_str())
        .and_then(|vg| vg.section(LVS)?.section(name));
    let section = section.ok_or_else(|| EditError::Layout {
        vg: vg.name().to_string(),
    })?;
    let is_pv = |key: &str| vg.pv_by_key(key).is_some();
    Ok(parse::lv(vg.name().as_str(), name, section, &is_pv)?)
}

/// The section of a new segment that begins at logical extent `start`.
pub(super) fn segment(start: u64, new: &NewSegment) -> Result<Section, text::EditError> {
    let mut section = Section::new();
    section.push("start_extent", int(start))?;
    section.push("extent_count", int(new.count.0))?;
    section.push("type", New::Str("striped"))?;
    section.set_lead("type", "\n\n")?;
    section.push("stripe_count", int(new.stripes.len() as u64))?;
    if let Some(size) = new.stripe_size {
        section.push("stripe_size", int(size.0))?;
    }
    let areas: Vec<(&str, u64)> = new
        .stripes
        .iter()
        .map(|stripe| (stripe.key.as_str(), stripe.start.0))
        .collect();
    section.push("stripes", New::Areas(&areas))?;
    section.set_lead("stripes", "\n\n")?;
    Ok(section)
}

/// A number for the text. All that are written here are below 2⁶³: extents and
/// sectors of areas that were read as such.
pub(super) fn int(value: u64) -> New<'static> {
    New::Int(i64::try_from(value).unwrap_or(i64::MAX))
}
