//! New LVs.

use crate::alloc::{self, FreeMap, NewSegment, Policy, Want};
use crate::id::LvId;
use crate::model::{Lv, SegmentKind, Vg};
use crate::name::{LvName, Tag};
use crate::text::{self, New, Section};
use crate::units::{Extents, Sectors};

use super::tree::{add_lv, int, segment, text_error};
use super::{DEFAULT_STRIPE, EditError, Layout, guard};

/// What a new LV is, but for its extents.
pub(super) struct NewLv<'a> {
    pub(super) name: &'a LvName,
    pub(super) id: &'a LvId,
    pub(super) tags: &'a [Tag],
    pub(super) time: u64,
    pub(super) host: &'a str,
}

pub(super) fn create(
    vg: &Vg,
    new: &NewLv<'_>,
    extents: Extents,
    layout: &Layout,
) -> Result<Vg, EditError> {
    guard::free_name(vg, new.name)?;
    if vg.lv_by_id(new.id).is_some() {
        return Err(EditError::IdExists {
            vg: vg.name().to_string(),
            id: *new.id,
        });
    }
    let visible = vg.lvs().iter().filter(|lv| lv.visible()).count() as u64;
    if vg.max_lv() > 0 && visible >= vg.max_lv() {
        return Err(EditError::TooManyLvs {
            vg: vg.name().to_string(),
            max: vg.max_lv(),
        });
    }
    let segments = place(vg, new.name, None, extents, layout)?;
    let section = lv_section(vg, new, layout, &segments)?;
    let mut changed = vg.clone();
    add_lv(&mut changed, new.name.as_str(), section)?;
    Ok(changed)
}

/// Finds room for `extents` more of the LV `name`, which is `grows` if it
/// exists.
pub(super) fn place(
    vg: &Vg,
    name: &LvName,
    grows: Option<&Lv>,
    extents: Extents,
    layout: &Layout,
) -> Result<Vec<NewSegment>, EditError> {
    let last = grows.and_then(|lv| match &lv.segments.last()?.kind {
        SegmentKind::Striped {
            stripe_size,
            stripes,
        } => Some((stripes.len(), *stripe_size)),
        SegmentKind::Other { .. } => None,
    });
    let last_stripes = last.and_then(|(stripes, _)| u32::try_from(stripes).ok());
    let stripes = layout.stripes.or(last_stripes).unwrap_or(1);
    let fallback = || DEFAULT_STRIPE.min(vg.extent_size().sectors());
    let stripe_size: Sectors = layout
        .stripe_size
        .or(last.and_then(|(_, size)| size))
        .unwrap_or_else(fallback);
    let written = || {
        let own = grows.and_then(|lv| lv.allocation_policy.as_deref());
        own.or(vg.allocation_policy()).and_then(Policy::from_text)
    };
    let no_space = |source| EditError::NoSpace {
        vg: vg.name().to_string(),
        lv: name.to_string(),
        source,
    };
    let rounded = alloc::round_up(extents, stripes)
        .ok_or_else(|| no_space(alloc::AllocError::TooLong { extents }))?;
    let want = Want {
        extents: rounded,
        policy: layout.policy.or_else(written).unwrap_or_default(),
        stripes,
        stripe_size,
        extend: grows,
        pvs: layout.pvs.as_deref(),
    };
    alloc::allocate(vg, &FreeMap::of(vg), &want).map_err(no_space)
}

fn lv_section(
    vg: &Vg,
    new: &NewLv<'_>,
    layout: &Layout,
    segments: &[NewSegment],
) -> Result<Section, EditError> {
    let time = i64::try_from(new.time).map_err(|_| EditError::Time { time: new.time })?;
    build(vg, new, time, layout, segments).map_err(text_error(vg))
}

/// Writes the keys in lvm2's order.
fn build(
    vg: &Vg,
    new: &NewLv<'_>,
    time: i64,
    layout: &Layout,
    segments: &[NewSegment],
) -> Result<Section, text::EditError> {
    let mut section = Section::new();
    section.push("id", New::Str(&new.id.to_string()))?;
    if vg.write_locked() {
        section.push("status", New::Strings(&["READ", "VISIBLE"]))?;
        section.push("flags", New::Strings(&["WRITE_LOCKED"]))?;
    } else {
        section.push("status", New::Strings(&["READ", "WRITE", "VISIBLE"]))?;
        section.push("flags", New::Strings(&[]))?;
    }
    let mut tags: Vec<&str> = Vec::with_capacity(new.tags.len());
    for tag in new.tags {
        if !tags.contains(&tag.as_str()) {
            tags.push(tag.as_str());
        }
    }
    if !tags.is_empty() {
        section.push("tags", New::Strings(&tags))?;
    }
    section.push("creation_time", New::Int(time))?;
    section.push("creation_host", New::Str(&host_name(new.host)))?;
    if let Some(policy) = layout.policy {
        section.push("allocation_policy", New::Str(policy.as_str()))?;
    }
    section.push("segment_count", int(segments.len() as u64))?;
    let mut start = 0;
    for (number, new) in segments.iter().enumerate() {
        let key = format!("segment{}", number + 1);
        section.push_section(&key, segment(start, new)?)?;
        if number > 0 {
            section.set_lead(&key, "\n")?;
        }
        start += new.count.0;
    }
    Ok(section)
}

/// The host's name without what lvm2 would write without an escape when it
/// writes the LV the next time: it could then not read its own text, and not
/// write the VG any more.
fn host_name(host: &str) -> String {
    host.chars().filter(|c| !matches!(c, '"' | '\\')).collect()
}
