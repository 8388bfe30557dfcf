//! One LV becomes the end of another.

use crate::alloc::{NewSegment, NewStripe};
use crate::model::{AreaRef, Segment, SegmentKind, Vg};
use crate::name::LvName;

use super::resize::append;
use super::tree::{change_lv, remove_lv};
use super::{EditError, guard};

/// The extents of `from` go to the end of `name`, in their order, and `from`
/// is no more. No extent becomes free on the way.
pub(super) fn absorb(vg: &Vg, name: &LvName, from: &LvName) -> Result<Vg, EditError> {
    let lv = guard::editable(vg, name)?;
    let source = guard::editable(vg, from)?;
    if lv.id == source.id {
        return Err(EditError::LvExists {
            vg: vg.name().to_string(),
            lv: name.to_string(),
        });
    }
    let segments: Vec<NewSegment> = source.segments.iter().filter_map(as_new).collect();
    if segments.len() != source.segments.len() {
        return Err(EditError::NotNative {
            vg: vg.name().to_string(),
            lv: from.to_string(),
            type_name: source.type_name().to_owned(),
        });
    }
    let mut changed = vg.clone();
    remove_lv(&mut changed, from.as_str())?;
    change_lv(&mut changed, name.as_str(), |section| {
        append(section, lv, &segments)
    })?;
    Ok(changed)
}

/// A segment on PVs as one that is to be added.
fn as_new(segment: &Segment) -> Option<NewSegment> {
    let SegmentKind::Striped {
        stripe_size,
        stripes,
    } = &segment.kind
    else {
        return None;
    };
    let stripes = stripes.iter().map(|stripe| match &stripe.area {
        AreaRef::Pv(key, start) => Some(NewStripe {
            key: key.clone(),
            start: *start,
        }),
        AreaRef::Lv(..) => None,
    });
    Some(NewSegment {
        count: segment.count,
        stripe_size: *stripe_size,
        stripes: stripes.collect::<Option<_>>()?,
    })
}
