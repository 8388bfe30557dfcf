//! NodeUnpublishVolume.

use crate::engine::tags;

use super::super::driver::{Driver, required};
use super::super::proto::{NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse};
use super::super::status::{CsiError, OfVolume};
use super::mounted::{at, is_filesystem, is_node};
use super::target;

/// Takes the volume away from the target path, and the path too. Works for a
/// volume that does not exist any more, or a pod could never end, and asks no
/// PV: neither the volume's own disk nor another one can hold it up by hanging.
/// The LV stays active, as lvm2 leaves it.
pub(super) fn unpublish(
    driver: &Driver,
    request: &NodeUnpublishVolumeRequest,
) -> Result<NodeUnpublishVolumeResponse, CsiError> {
    let volume = &request.volume_id;
    let target = target::target(required("target_path", &request.target_path)?)?;
    let fs = &driver.engine.host().fs;
    let target = fs.resolve(&target).of_volume(volume)?;
    let lv = driver.find_last_known(volume).unwrap_or_else(|error| {
        tracing::warn!(%error, "unpublishing by path only");
        None
    });
    let mut was_mounted = false;
    // Mounts can lie on top of each other; each round takes the topmost away.
    while let Some(entry) = at(&fs.mounts().of_volume(volume)?, &target) {
        // A bound node may be that of an earlier activation; only a file
        // system tells for sure that somebody else's volume is there.
        let bound = matches!(entry.fs_type.as_str(), "devtmpfs" | "tmpfs");
        if let Some(lv) = lv.as_ref().filter(|lv| lv.dev.is_some())
            && !bound
            && !is_filesystem(entry, lv)
            && !is_node(entry, lv)
        {
            let path = target.display().to_string();
            let detail = "another device is mounted there";
            return Err(CsiError::NotCleared {
                volume: volume.clone(),
                path,
                detail,
            });
        }
        fs.unmount(&target).of_volume(volume)?;
        was_mounted = true;
    }
    let is_block = lv.is_some_and(|lv| tags::value(&lv.tags, tags::ACCESS) == Some("block"));
    match fs.kind_of(&target).of_volume(volume)? {
        // Directories are removed only if they are empty. A file of which we
        // do not know that we made it is not ours to remove.
        Some(true) => fs.remove_path(&target).of_volume(volume)?,
        Some(false) if was_mounted || is_block => fs.remove_path(&target).of_volume(volume)?,
        _ => {}
    }
    Ok(NodeUnpublishVolumeResponse {})
}
