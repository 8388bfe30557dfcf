//! Changes that need no extents.

use crate::model::Vg;
use crate::name::{LvName, Tag};
use crate::text::New;

use super::tree::{change_lv, remove_lv, rename_lv};
use super::{EditError, guard};

pub(super) fn remove(vg: &Vg, name: &LvName) -> Result<Vg, EditError> {
    guard::editable(vg, name)?;
    let mut changed = vg.clone();
    remove_lv(&mut changed, name.as_str())?;
    Ok(changed)
}

pub(super) fn rename(vg: &Vg, name: &LvName, to: &LvName) -> Result<Vg, EditError> {
    guard::editable(vg, name)?;
    if name == to {
        return Ok(vg.clone());
    }
    guard::free_name(vg, to)?;
    let mut changed = vg.clone();
    rename_lv(&mut changed, name.as_str(), to.as_str())?;
    Ok(changed)
}

pub(super) fn tags(vg: &Vg, name: &LvName, add: &[Tag], remove: &[Tag]) -> Result<Vg, EditError> {
    let lv = guard::editable(vg, name)?;
    let gone = |tag: &str| remove.iter().any(|removed| removed.as_str() == tag);
    let mut tags: Vec<&str> = lv
        .tags
        .iter()
        .map(String::as_str)
        .filter(|tag| !gone(tag))
        .collect();
    for tag in add {
        if !tags.contains(&tag.as_str()) {
            tags.push(tag.as_str());
        }
    }
    let mut changed = vg.clone();
    if tags == lv.tags {
        return Ok(changed);
    }
    change_lv(&mut changed, name.as_str(), |section| {
        if tags.is_empty() {
            section.remove("tags");
            return Ok(());
        }
        if section.get("tags").is_some() {
            return section.set_strings("tags", &tags);
        }
        let anchor = if section.get("flags").is_some() {
            "flags"
        } else {
            "status"
        };
        section.insert_after(anchor, "tags", New::Strings(&tags))
    })?;
    Ok(changed)
}
