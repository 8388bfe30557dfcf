//! ControllerExpandVolume.

use lvm2::edit::Layout;
use lvm2::units::Bytes;

use crate::engine::{LvState, Request, Size, tags};

use super::super::capability::{Access, Capability};
use super::super::driver::Driver;
use super::super::proto::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use super::super::size::Range;
use super::super::status::{CsiError, OfVolume};

/// Grows the LV. Its file system is grown by the node.
pub(super) fn expand(
    driver: &Driver,
    request: &ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse, CsiError> {
    let range = Range::required(request.capacity_range.as_ref())?;
    let lv = driver.volume(&request.volume_id)?;
    let block = match &request.volume_capability {
        Some(capability) => Capability::of(Some(capability))?.access == Access::Block,
        None => tags::value(&lv.tags, tags::ACCESS) == Some("block"),
    };
    let size = grow(driver, &lv, range)?;
    Ok(ControllerExpandVolumeResponse {
        capacity_bytes: i64::try_from(size.0).unwrap_or(i64::MAX),
        // True also when nothing grew now: an earlier call may have grown the
        // LV and its answer been lost before the file system was grown.
        node_expansion_required: !block,
    })
}

/// Grows `lv` until it fulfils `range`, and returns its size.
pub(in super::super) fn grow(
    driver: &Driver,
    lv: &LvState,
    range: Range,
) -> Result<Bytes, CsiError> {
    let volume = lv.name.to_string();
    if let Some(limit) = range.limit.filter(|limit| lv.size > *limit) {
        return Err(CsiError::Shrink {
            volume,
            size: lv.size,
            limit,
        });
    }
    if lv.size >= range.required {
        return Ok(lv.size);
    }
    let extent = driver
        .engine
        .outline(&lv.vg)
        .of_volume(&volume)?
        .vg
        .extent_size();
    let extend = Request::Extend {
        name: lv.name.clone(),
        size: Size::Extents(range.extents(extent)?),
        add: false,
        layout: Layout::default(),
    };
    Ok(driver
        .engine
        .submit(&lv.vg, extend)
        .wait()
        .of_volume(&volume)?
        .size)
}
