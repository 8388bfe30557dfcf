//! The Node service.

mod blank;
mod expand;
mod format;
mod mounted;
mod publish;
mod stats;
mod target;
mod unpublish;

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::driver::{Driver, Exclusive, required};
use super::proto::node_server::Node;
use super::proto::node_service_capability::rpc::Type as Rpc;
use super::proto::node_service_capability::{Rpc as RpcCapability, Type};
use super::proto::*;
use super::topology;

pub use format::FormatError;
pub(super) use mounted::published;
pub(super) use stats::condition;

/// The Node service of a driver.
#[derive(Clone)]
pub struct NodeService(pub Arc<Driver>);

/// Exactly what is implemented.
const CAPABILITIES: [Rpc; 4] = [
    Rpc::GetVolumeStats,
    Rpc::ExpandVolume,
    Rpc::VolumeCondition,
    Rpc::SingleNodeMultiWriter,
];

/// What an agent offers: the contract's list. With `SINGLE_NODE_MULTI_WRITER`
/// the kubelet would ask for what `shared` is there to decide.
const CONTRACTED: [Rpc; 2] = [Rpc::GetVolumeStats, Rpc::ExpandVolume];

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        required("volume_id", &request.volume_id)?;
        let volume = request.volume_id.clone();
        self.0
            .job(
                "NodePublishVolume",
                &volume,
                Exclusive::Volume,
                move |driver| publish::publish(driver, &request),
            )
            .await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        required("volume_id", &request.volume_id)?;
        let volume = request.volume_id.clone();
        self.0
            .job(
                "NodeUnpublishVolume",
                &volume,
                Exclusive::Volume,
                move |driver| unpublish::unpublish(driver, &request),
            )
            .await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let request = request.into_inner();
        required("volume_id", &request.volume_id)?;
        required("volume_path", &request.volume_path)?;
        let volume = request.volume_id.clone();
        self.0
            .job(
                "NodeGetVolumeStats",
                &volume,
                Exclusive::Path,
                move |driver| stats::stats(driver, &request),
            )
            .await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        required("volume_id", &request.volume_id)?;
        required("volume_path", &request.volume_path)?;
        let volume = request.volume_id.clone();
        self.0
            .job(
                "NodeExpandVolume",
                &volume,
                Exclusive::Volume,
                move |driver| expand::expand(driver, &request),
            )
            .await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let capabilities = match self.0.cluster {
            Some(_) => &CONTRACTED[..],
            None => &CAPABILITIES[..],
        }
        .iter()
        .map(|rpc| NodeServiceCapability {
            r#type: Some(Type::Rpc(RpcCapability {
                r#type: (*rpc).into(),
            })),
        })
        .collect();
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        let more = self.0.topology().ok_or_else(|| {
            Status::unavailable(
                "the labels of this node are not known yet: the API server did not answer; ask \
                 again",
            )
        })?;
        let mut place = topology::of_node(&self.0.node_id);
        place.segments.extend(more);
        Ok(Response::new(NodeGetInfoResponse {
            node_id: self.0.node_id.clone(),
            // LVM has no limit that a node could meet.
            max_volumes_per_node: 0,
            accessible_topology: Some(place),
        }))
    }

    async fn node_stage_volume(
        &self,
        _: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        Err(Status::unimplemented(
            "NodeStageVolume is not among this driver's capabilities",
        ))
    }

    async fn node_unstage_volume(
        &self,
        _: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        Err(Status::unimplemented(
            "NodeUnstageVolume is not among this driver's capabilities",
        ))
    }
}
