//! GetCapacity.

use std::sync::Arc;

use lvm2::units::Bytes;

use super::Controller;
use super::error::ControllerError;
use super::patience::Patience;
use super::topology;
use crate::csi::capability::Capability;
use crate::csi::params::Params;
use crate::csi::proto::{GetCapacityRequest, GetCapacityResponse};
use crate::csi::size::largest;

/// How much a volume of this class can have in this part of the cluster.
///
/// A volume never spans VGs, so it is the best VG's free space. The largest
/// volume is less: the contract rounds sizes up, and what is rounded up must
/// still fit, or the scheduler would choose a node in vain.
pub(super) async fn get(
    controller: &Arc<Controller>,
    request: &GetCapacityRequest,
    patience: &Patience,
) -> Result<GetCapacityResponse, ControllerError> {
    let params = Params::parse(&request.parameters)?;
    let possible = request.volume_capabilities.is_empty()
        || Capability::all(&request.volume_capabilities).is_ok();
    // A class that names no VG gets no volume.
    if !possible || (params.vgs.is_none() && !controller.any_vg) {
        return Ok(GetCapacityResponse::default());
    }
    controller.known("", patience).await?;
    let place = request.accessible_topology.as_ref();
    let free = controller.cluster.most_free(
        |node, labels| place.is_none_or(|place| topology::contains(place, node, labels)),
        |vg| params.vgs.as_ref().is_none_or(|vgs| vgs.matches(vg)),
    );
    // The provisioner asks again soon; a 0 would stand until its next round.
    let free = free.map_err(|(node, why)| ControllerError::NoCapacity { node, why })?;
    let signed = |bytes: Bytes| i64::try_from(bytes.0).unwrap_or(i64::MAX);
    Ok(GetCapacityResponse {
        available_capacity: signed(free.unwrap_or_default()),
        maximum_volume_size: free.map(|free| signed(largest(free))),
        minimum_volume_size: None,
    })
}
