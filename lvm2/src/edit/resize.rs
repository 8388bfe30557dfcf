//! Longer LVs.

use crate::alloc::NewSegment;
use crate::model::parse::is_segment;
use crate::model::{AreaRef, Lv, Segment, SegmentKind, Vg};
use crate::name::LvName;
use crate::text::{self, New, Section};
use crate::units::Extents;

use super::create::place;
use super::tree::{change_lv, int, segment};
use super::{EditError, Layout, guard};

pub(super) fn extend(
    vg: &Vg,
    name: &LvName,
    to: Extents,
    layout: &Layout,
) -> Result<Vg, EditError> {
    let lv = guard::editable(vg, name)?;
    let from = lv.extents();
    let Some(more) = to.checked_sub(from) else {
        return Err(would_reduce(vg, lv, to));
    };
    if more.is_zero() {
        return Ok(vg.clone());
    }
    let segments = place(vg, name, Some(lv), more, layout)?;
    let mut changed = vg.clone();
    change_lv(&mut changed, name.as_str(), |section| {
        append(section, lv, &segments)
    })?;
    Ok(changed)
}

/// The refusal to shorten an LV; other reasons not to change it come first.
pub(super) fn reduce(vg: &Vg, name: &LvName, to: Extents) -> EditError {
    match guard::editable(vg, name) {
        Ok(lv) => would_reduce(vg, lv, to),
        Err(error) => error,
    }
}

fn would_reduce(vg: &Vg, lv: &Lv, to: Extents) -> EditError {
    EditError::WouldReduce {
        vg: vg.name().to_string(),
        lv: lv.name.to_string(),
        from: lv.extents(),
        to,
    }
}

/// Puts new segments behind the LV's last one, which grows if the first of
/// them continues it.
pub(super) fn append(
    section: &mut Section,
    lv: &Lv,
    segments: &[NewSegment],
) -> Result<(), text::EditError> {
    let mut anchor = last_key(section);
    let mut start = lv.extents().0;
    let rest = match (lv.segments.last(), segments.split_first()) {
        (Some(last), Some((first, rest))) if continues(last, first) => {
            if let Some(inner) = section.section_mut(&anchor) {
                let count = last.count.saturating_add(first.count);
                inner.set("extent_count", int(count.0))?;
            }
            start += first.count.0;
            rest
        }
        _ => segments,
    };
    for (number, new) in (lv.segments.len() + 1..).zip(rest) {
        let key = format!("segment{number}");
        section.insert_after(&anchor, &key, New::Section(segment(start, new)?))?;
        if number > 1 {
            section.set_lead(&key, "\n")?;
        }
        anchor = key;
        start += new.count.0;
    }
    if rest.is_empty() {
        return Ok(());
    }
    section.set(
        "segment_count",
        int((lv.segments.len() + rest.len()) as u64),
    )
}

/// The key of the last segment, or what stands before the first.
fn last_key(section: &Section) -> String {
    let segments = section
        .sections()
        .map(|(key, _)| key)
        .filter(|key| is_segment(key));
    segments.last().unwrap_or("segment_count").to_owned()
}

/// Whether `new` is what `last` would be if it were longer.
fn continues(last: &Segment, new: &NewSegment) -> bool {
    let SegmentKind::Striped {
        stripe_size,
        stripes,
    } = &last.kind
    else {
        return false;
    };
    let leg = last.leg_extents();
    // lvm2 does not join segments with different tags, and new ones have none.
    last.tags.is_empty()
        && stripes.len() == new.stripes.len()
        && (stripes.len() == 1 || *stripe_size == new.stripe_size)
        && stripes
            .iter()
            .zip(&new.stripes)
            .all(|(old, new)| match &old.area {
                AreaRef::Pv(key, start) => {
                    *key == new.key && start.checked_add(leg) == Some(new.start)
                }
                AreaRef::Lv(..) => false,
            })
}
