//! GetCapacity.

use lvm2::units::Bytes;

use super::super::capability::Capability;
use super::super::driver::Driver;
use super::super::params::Params;
use super::super::place;
use super::super::proto::{GetCapacityRequest, GetCapacityResponse};
use super::super::status::{CsiError, OfVolume};
use super::super::topology;

/// How much a volume of this class can have.
///
/// By the contract the capacity of a node is that of its best VG, not the sum:
/// a volume never spans VGs. So the available capacity and the maximum size
/// are the same number.
pub(super) fn get(
    driver: &Driver,
    request: &GetCapacityRequest,
) -> Result<GetCapacityResponse, CsiError> {
    let params = Params::parse(&request.parameters)?;
    let possible = request.volume_capabilities.is_empty()
        || Capability::all(&request.volume_capabilities).is_ok();
    let here = request
        .accessible_topology
        .as_ref()
        .is_none_or(|place| topology::contains(place, &driver.node_id));
    if !possible || !here {
        return Ok(GetCapacityResponse::default());
    }
    let found =
        place::find(&driver.engine, params.vgs.as_ref(), params.scheduler, None).of_volume("")?;
    let largest = found
        .candidates
        .iter()
        .map(place::Candidate::free_bytes)
        .max();
    let least = found
        .candidates
        .iter()
        .map(|candidate| candidate.extent.bytes())
        .min();
    let signed = |bytes: Bytes| i64::try_from(bytes.0).unwrap_or(i64::MAX);
    Ok(GetCapacityResponse {
        available_capacity: signed(largest.unwrap_or_default()),
        maximum_volume_size: largest.map(signed),
        minimum_volume_size: least.map(signed),
    })
}
