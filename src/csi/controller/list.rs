//! ListVolumes and ControllerGetVolume.

use lvm2::name::LvName;
use lvm2::units::Bytes;

use crate::engine::{VgOutline, tags};

use super::super::driver::Driver;
use super::super::node::condition;
use super::super::proto::list_volumes_response::{Entry, VolumeStatus};
use super::super::proto::{
    ControllerGetVolumeResponse, ListVolumesRequest, ListVolumesResponse, Volume,
    controller_get_volume_response,
};
use super::super::status::{CsiError, OfVolume};
use super::super::{context, topology};

/// Beginning of a page token; the id of the last volume of the page before
/// follows. A token stays good when volumes come and go, that one too.
const TOKEN: &str = "after:";

/// Lists the volumes of this node by id.
pub(super) fn list(
    driver: &Driver,
    request: &ListVolumesRequest,
) -> Result<ListVolumesResponse, CsiError> {
    let most = usize::try_from(request.max_entries)
        .map_err(|_| CsiError::MaxEntries(request.max_entries))?;
    let after = parse_token(&request.starting_token)?;
    let mut entries = Vec::new();
    for name in driver.engine.vg_names().of_volume("")? {
        match driver.engine.outline(&name) {
            Ok(outline) => entries.extend(entries_of(driver, &outline)),
            // One broken VG must not hide the volumes of the others.
            Err(error) => tracing::warn!(vg = %name, %error, "volumes of this VG are not listed"),
        }
    }
    entries.sort_by(|a, b| id(a).cmp(id(b)));
    Ok(page(entries, after.as_deref(), most))
}

/// One volume, with its condition.
pub(super) fn get(driver: &Driver, id: &str) -> Result<ControllerGetVolumeResponse, CsiError> {
    let lv = driver.volume(id)?;
    let outline = driver.engine.outline(&lv.vg).of_volume(id)?;
    Ok(ControllerGetVolumeResponse {
        volume: Some(Volume {
            capacity_bytes: i64::try_from(lv.size.0).unwrap_or(i64::MAX),
            volume_id: id.to_owned(),
            volume_context: context::of(&lv.vg, None, None),
            content_source: None,
            accessible_topology: vec![topology::of_node(&driver.node_id)],
        }),
        status: Some(controller_get_volume_response::VolumeStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition(&outline)),
        }),
    })
}

fn parse_token(token: &str) -> Result<Option<String>, CsiError> {
    if token.is_empty() {
        return Ok(None);
    }
    token
        .strip_prefix(TOKEN)
        .filter(|id| LvName::new(*id).is_ok())
        .map(|id| Some(id.to_owned()))
        .ok_or_else(|| CsiError::Token {
            token: token.to_owned(),
        })
}

fn entries_of(driver: &Driver, outline: &VgOutline) -> Vec<Entry> {
    let vg = &outline.vg;
    vg.lvs()
        .iter()
        .filter(|lv| lv.has_tag(tags::OWNED) && !lv.has_tag(tags::INCOMPLETE))
        .map(|lv| {
            let Bytes(size) = vg.extent_size().bytes_of(lv.extents());
            Entry {
                volume: Some(Volume {
                    capacity_bytes: i64::try_from(size).unwrap_or(i64::MAX),
                    volume_id: lv.name.to_string(),
                    volume_context: context::of(vg.name(), None, None),
                    content_source: None,
                    accessible_topology: vec![topology::of_node(&driver.node_id)],
                }),
                status: Some(VolumeStatus {
                    published_node_ids: Vec::new(),
                    volume_condition: Some(condition(outline)),
                }),
            }
        })
        .collect()
}

fn id(entry: &Entry) -> &str {
    entry.volume.as_ref().map_or("", |volume| &volume.volume_id)
}

/// The page after the volume `after`, of at most `most` entries (0 = all).
fn page(mut entries: Vec<Entry>, after: Option<&str>, most: usize) -> ListVolumesResponse {
    if let Some(after) = after {
        entries.retain(|entry| id(entry) > after);
    }
    let more = most > 0 && entries.len() > most;
    if more {
        entries.truncate(most);
    }
    let next_token = match entries.last() {
        Some(last) if more => format!("{TOKEN}{}", id(last)),
        _ => String::new(),
    };
    ListVolumesResponse {
        entries,
        next_token,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(ids: &[&str]) -> Vec<Entry> {
        ids.iter()
            .map(|id| Entry {
                volume: Some(Volume {
                    volume_id: (*id).to_owned(),
                    ..Volume::default()
                }),
                status: None,
            })
            .collect()
    }

    fn ids(page: &ListVolumesResponse) -> Vec<&str> {
        page.entries.iter().map(id).collect()
    }

    #[test]
    fn pages_follow_each_other() {
        let first = page(entries(&["a", "b", "c"]), None, 2);
        assert_eq!(ids(&first), ["a", "b"]);
        let after = parse_token(&first.next_token).unwrap();
        // "b" was deleted and "bb" made between the pages.
        let second = page(entries(&["a", "bb", "c"]), after.as_deref(), 2);
        assert_eq!(ids(&second), ["bb", "c"]);
        assert_eq!(second.next_token, "");
        assert_eq!(page(entries(&["a", "b"]), None, 0).entries.len(), 2);
    }

    #[test]
    fn tokens_of_others_are_refused() {
        for bad in ["invalid-token", "after:", "after:a b", "5"] {
            assert!(
                matches!(parse_token(bad), Err(CsiError::Token { .. })),
                "{bad}"
            );
        }
    }
}
