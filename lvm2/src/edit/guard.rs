//! Which LVs may be changed, and which names given.

use std::sync::Arc;

use crate::model::{Lv, Vg};
use crate::name::{LvName, check_pair};

use super::EditError;

/// The LV `name`, if it is one that may be changed: a user's own linear or
/// striped LV that nothing else builds on or works on.
pub(super) fn editable<'a>(vg: &'a Vg, name: &LvName) -> Result<&'a Arc<Lv>, EditError> {
    let names = || (vg.name().to_string(), name.to_string());
    let lv = vg.lv(name.as_str()).ok_or_else(|| {
        let (vg, lv) = names();
        EditError::NoSuchLv { vg, lv }
    })?;
    if let Some(word) = lv.foreign_word() {
        let (vg, lv) = names();
        return Err(EditError::Locked {
            vg,
            lv,
            flag: word.to_owned(),
        });
    }
    if let Some(segment) = lv.foreign_segment() {
        let type_name = segment.type_name().to_owned();
        let (vg, lv) = names();
        return Err(EditError::NotNative { vg, lv, type_name });
    }
    if let Some(user) = vg.user_of(name.as_str()) {
        return Err(in_use(vg, lv, user));
    }
    if !lv.visible() {
        let (vg, lv) = names();
        return Err(EditError::Hidden { vg, lv });
    }
    Ok(lv)
}

fn in_use(vg: &Vg, lv: &Lv, user: &Lv) -> EditError {
    let (vg, lv) = (vg.name().to_string(), lv.name.to_string());
    let (user, type_name) = (user.name.to_string(), user.type_name().to_owned());
    // The COW store is named by the same segment as the origin, but it is
    // hidden, so for a visible LV the snapshot is a snapshot of it.
    if matches!(type_name.as_str(), "snapshot" | "thin") {
        return EditError::Origin {
            vg,
            lv,
            snapshot: user,
        };
    }
    EditError::InUse {
        vg,
        lv,
        user,
        type_name,
    }
}

/// Whether an LV of this VG may be given the name.
pub(super) fn free_name(vg: &Vg, name: &LvName) -> Result<(), EditError> {
    name.check_new()?;
    check_pair(vg.name(), name)?;
    let taken =
        vg.lv(name.as_str()).is_some() || vg.historical().iter().any(|past| past == name.as_str());
    if taken {
        return Err(EditError::LvExists {
            vg: vg.name().to_string(),
            lv: name.to_string(),
        });
    }
    Ok(())
}
