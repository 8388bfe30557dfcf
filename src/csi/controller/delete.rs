//! DeleteVolume.

use lvm2::name::Tag;

use crate::engine::{Request, tags};

use super::super::driver::Driver;
use super::super::node::published;
use super::super::proto::DeleteVolumeResponse;
use super::super::status::{CsiError, OfVolume};

/// Removes the volume; one that does not exist is removed already.
pub(super) fn delete(driver: &Driver, id: &str) -> Result<DeleteVolumeResponse, CsiError> {
    let Some(lv) = driver.find_any(id)? else {
        return gone(driver, id);
    };
    // A mounted file system keeps the device open and the engine refuses. The
    // bind mount of a device node does not: it must be looked for.
    if let Some(at) = published(driver, &lv).of_volume(id)?.into_iter().next() {
        return Err(CsiError::StillPublished {
            volume: id.to_owned(),
            at: at.display().to_string(),
        });
    }
    let remove = Request::Remove {
        name: lv.name,
        must_exist: false,
        require_tag: Tag::new(tags::OWNED).ok(),
    };
    driver.engine.submit(&lv.vg, remove).wait().of_volume(id)?;
    Ok(DeleteVolumeResponse {})
}

/// Nobody asks again about a volume that was called deleted: where a device did
/// not answer, the volume may be on it.
fn gone(driver: &Driver, id: &str) -> Result<DeleteVolumeResponse, CsiError> {
    let silent = driver.engine.silent();
    if silent.is_empty() {
        return Ok(DeleteVolumeResponse {});
    }
    let names: Vec<String> = silent
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Err(CsiError::Unseen {
        volume: id.to_owned(),
        devices: names.join(", "),
    })
}
