//! NodeExpandVolume.

use super::super::capability::filesystem;
use super::super::controller::grow;
use super::super::driver::Driver;
use super::super::proto::{NodeExpandVolumeRequest, NodeExpandVolumeResponse};
use super::super::size::Range;
use super::super::status::{CsiError, OfVolume};
use super::mounted::{at, is_filesystem, is_node};
use super::publish::activate;
use super::target::components;

/// Makes the file system as large as the LV, while it is mounted. The LV
/// itself is grown first if the controller's call was left out.
pub(super) fn expand(
    driver: &Driver,
    request: &NodeExpandVolumeRequest,
) -> Result<NodeExpandVolumeResponse, CsiError> {
    grown(driver, request).map_err(|error| CsiError::NotGrown(Box::new(error)))
}

fn grown(
    driver: &Driver,
    request: &NodeExpandVolumeRequest,
) -> Result<NodeExpandVolumeResponse, CsiError> {
    let volume = &request.volume_id;
    let range = Range::of(request.capacity_range.as_ref())?;
    let (lv, node) = activate(driver, driver.volume(volume)?)?;
    let fs = &driver.engine.host().fs;
    let mounts = fs.mounts().of_volume(volume)?;
    let path = fs
        .resolve(&components(&request.volume_path))
        .of_volume(volume)?;
    let Some(entry) =
        at(&mounts, &path).filter(|entry| is_filesystem(entry, &lv) || is_node(entry, &lv))
    else {
        let path = request.volume_path.clone();
        return Err(CsiError::NotPublished {
            volume: volume.clone(),
            path,
        });
    };
    let size = grow(driver, &lv, range)?;
    if is_filesystem(entry, &lv)
        && let Some(kind) = filesystem(&entry.fs_type)?
    {
        fs.grow(&node, &path, kind).of_volume(volume)?;
    }
    Ok(NodeExpandVolumeResponse {
        capacity_bytes: i64::try_from(size.0).unwrap_or(i64::MAX),
    })
}
