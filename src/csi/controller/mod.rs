//! The Controller service.

mod capacity;
mod create;
mod delete;
mod expand;
mod list;
mod validate;

pub(super) use expand::grow;

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::driver::{Driver, Exclusive, required};
use super::proto::controller_server::Controller;
use super::proto::controller_service_capability::rpc::Type as Rpc;
use super::proto::controller_service_capability::{Rpc as RpcCapability, Type};
use super::proto::*;
use super::volume_id::VolumeId;

/// The Controller service of a driver.
#[derive(Clone)]
pub struct ControllerService(pub Arc<Driver>);

/// Exactly what is implemented.
const CAPABILITIES: [Rpc; 7] = [
    Rpc::CreateDeleteVolume,
    Rpc::ListVolumes,
    Rpc::GetCapacity,
    Rpc::ExpandVolume,
    Rpc::GetVolume,
    Rpc::VolumeCondition,
    Rpc::SingleNodeMultiWriter,
];

fn not_advertised<T>(rpc: &str) -> Result<Response<T>, Status> {
    Err(Status::unimplemented(format!(
        "{rpc} is not among this driver's capabilities"
    )))
}

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = VolumeId::for_name(&request.name).map_err(super::status::CsiError::from)?;
        let volume = id.lv.to_string();
        self.0
            .job("CreateVolume", &volume, Exclusive::Volume, move |driver| {
                create::create(driver, &id, &request)
            })
            .await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let id = request.into_inner().volume_id;
        required("volume_id", &id)?;
        self.0
            .job(
                "DeleteVolume",
                &id.clone(),
                Exclusive::Volume,
                move |driver| delete::delete(driver, &id),
            )
            .await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        required("volume_id", &request.volume_id)?;
        let volume = request.volume_id.clone();
        self.0
            .job(
                "ValidateVolumeCapabilities",
                &volume,
                Exclusive::No,
                move |driver| validate::validate(driver, request),
            )
            .await
    }

    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        let request = request.into_inner();
        self.0
            .job("ListVolumes", "", Exclusive::No, move |driver| {
                list::list(driver, &request)
            })
            .await
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        let id = request.into_inner().volume_id;
        required("volume_id", &id)?;
        self.0
            .job(
                "ControllerGetVolume",
                &id.clone(),
                Exclusive::No,
                move |driver| list::get(driver, &id),
            )
            .await
    }

    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        let request = request.into_inner();
        self.0
            .job("GetCapacity", "", Exclusive::No, move |driver| {
                capacity::get(driver, &request)
            })
            .await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        required("volume_id", &request.volume_id)?;
        let volume = request.volume_id.clone();
        self.0
            .job(
                "ControllerExpandVolume",
                &volume,
                Exclusive::Volume,
                move |driver| expand::expand(driver, &request),
            )
            .await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let capabilities = CAPABILITIES
            .iter()
            .map(|rpc| ControllerServiceCapability {
                r#type: Some(Type::Rpc(RpcCapability {
                    r#type: (*rpc).into(),
                })),
            })
            .collect();
        Ok(Response::new(ControllerGetCapabilitiesResponse {
            capabilities,
        }))
    }

    async fn controller_publish_volume(
        &self,
        _: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        not_advertised("ControllerPublishVolume")
    }

    async fn controller_unpublish_volume(
        &self,
        _: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        not_advertised("ControllerUnpublishVolume")
    }

    async fn controller_modify_volume(
        &self,
        _: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        not_advertised("ControllerModifyVolume")
    }

    async fn create_snapshot(
        &self,
        _: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        not_advertised("CreateSnapshot")
    }

    async fn delete_snapshot(
        &self,
        _: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        not_advertised("DeleteSnapshot")
    }

    async fn list_snapshots(
        &self,
        _: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        not_advertised("ListSnapshots")
    }

    async fn get_snapshot(
        &self,
        _: Request<GetSnapshotRequest>,
    ) -> Result<Response<GetSnapshotResponse>, Status> {
        not_advertised("GetSnapshot")
    }
}
