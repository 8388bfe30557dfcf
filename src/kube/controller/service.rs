//! The Controller and Identity services of a cluster.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing::Instrument;

use super::error::{ControllerError, OfVolume};
use super::patience::{Late, Patience};
use super::wanted::Wanted;
use super::{Controller as Shared, capacity, create, delete, expand, validate};
use crate::csi::identity;
use crate::csi::proto::controller_server::Controller;
use crate::csi::proto::controller_service_capability::rpc::Type as Rpc;
use crate::csi::proto::controller_service_capability::{Rpc as RpcCapability, Type};
use crate::csi::proto::identity_server::Identity;
use crate::csi::proto::*;
use crate::error::Kind;
use crate::kube::crd::LvmVolume;

/// The services.
#[derive(Clone)]
pub(super) struct Service(pub(super) Arc<Shared>);

/// Exactly what is implemented. The contract's list has snapshots too; it has
/// neither lists nor `SINGLE_NODE_MULTI_WRITER`, with which the kubelet would
/// ask for what `shared` is there to decide.
const CAPABILITIES: [Rpc; 3] = [Rpc::CreateDeleteVolume, Rpc::ExpandVolume, Rpc::GetCapacity];

static CALLS: AtomicU64 = AtomicU64::new(0);

impl Shared {
    /// Waits until everything was heard that decisions need.
    pub(super) async fn known(
        &self,
        volume: &str,
        patience: &Patience,
    ) -> Result<(), ControllerError> {
        patience
            .wait(self.cluster.complete())
            .await
            .map_err(|Late| {
                let unheard = self.cluster.unheard();
                let kinds: Vec<_> = unheard.iter().map(|kind| kind.resource()).collect();
                ControllerError::Starting {
                    volume: volume.to_owned(),
                    kinds: kinds.join(", "),
                }
            })
    }

    /// The volume's object; the server is asked where the watch shows none.
    pub(super) async fn object(&self, volume: &str) -> Result<Arc<LvmVolume>, ControllerError> {
        if let Some(object) = self.cluster.volume(volume) {
            return Ok(object);
        }
        let object = self.server.volume(volume).await.of_volume(volume)?;
        object
            .map(Arc::new)
            .ok_or_else(|| ControllerError::NoVolume {
                volume: volume.to_owned(),
            })
    }
}

impl Service {
    /// Runs a call as a task of its own: what it has begun to write it ends,
    /// also when the caller hangs up; it waits no longer than the caller.
    async fn call<R, T, F, W>(
        &self,
        rpc: &'static str,
        volume: String,
        exclusive: bool,
        request: Request<R>,
        work: W,
    ) -> Result<Response<T>, Status>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ControllerError>> + Send + 'static,
        W: FnOnce(Arc<Shared>, R, Patience) -> F,
    {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let span = tracing::info_span!("csi", rpc, volume, call);
        let hung_up = CancellationToken::new();
        let patience = Patience::of(request.metadata(), hung_up.clone());
        let shared = Arc::clone(&self.0);
        let guard = match exclusive.then(|| shared.enter(rpc, &volume)).transpose() {
            Ok(guard) => guard,
            Err(error) => {
                span.in_scope(|| tracing::info!(%error, "refused"));
                return Err(error.into());
            }
        };
        let work = work(Arc::clone(&shared), request.into_inner(), patience);
        let task = async move {
            let _volume_is_ours = guard;
            let begun = Instant::now();
            let result = work.await;
            let took = begun.elapsed();
            let code = result
                .as_ref()
                .err()
                .map_or(tonic::Code::Ok, |e| e.kind().code());
            shared.metrics.called(rpc, code, took);
            match &result {
                Ok(_) => tracing::info!(?took, "done"),
                Err(error) if error.kind() == Kind::Internal => {
                    tracing::error!(?took, %error, "failed");
                }
                Err(error) => tracing::warn!(?took, kind = ?error.kind(), %error, "refused"),
            }
            result
        };
        let _hangs_up = hung_up.drop_guard();
        match tokio::spawn(task.instrument(span)).await {
            Ok(result) => result.map(Response::new).map_err(Status::from),
            Err(stopped) => Err(Status::internal(format!(
                "{rpc} ended early ({stopped}); this is a fault of the driver"
            ))),
        }
    }
}

fn required(field: &'static str, value: &str) -> Result<String, Status> {
    if value.is_empty() {
        return Err(ControllerError::Missing(field).into());
    }
    Ok(value.to_owned())
}

fn not_advertised<T>(rpc: &str) -> Result<Response<T>, Status> {
    Err(Status::unimplemented(format!(
        "{rpc} is not among this driver's capabilities"
    )))
}

#[tonic::async_trait]
impl Identity for Service {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(identity::info(&self.0.name)))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(identity::capabilities()))
    }

    /// Ready means that the API server was heard.
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let ready = Some(self.0.cluster.unheard().is_empty());
        Ok(Response::new(ProbeResponse { ready }))
    }
}

#[tonic::async_trait]
impl Controller for Service {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let (metadata, extensions, body) = request.into_parts();
        let wanted = Wanted::of(&self.0, body).inspect_err(|error| {
            tracing::warn!(rpc = "CreateVolume", %error, "refused");
        })?;
        let volume = wanted.volume.clone();
        let request = Request::from_parts(metadata, extensions, wanted);
        self.call(
            "CreateVolume",
            volume,
            true,
            request,
            |shared, wanted, patience| async move {
                create::create(&shared, &wanted, &patience).await
            },
        )
        .await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let volume = required("volume_id", &request.get_ref().volume_id)?;
        self.call(
            "DeleteVolume",
            volume,
            true,
            request,
            |shared, request, patience| async move {
                delete::remove(&shared, &request.volume_id, &patience).await?;
                Ok(DeleteVolumeResponse {})
            },
        )
        .await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let volume = required("volume_id", &request.get_ref().volume_id)?;
        self.call(
            "ValidateVolumeCapabilities",
            volume,
            false,
            request,
            |shared, request, patience| async move {
                validate::validate(&shared, request, &patience).await
            },
        )
        .await
    }

    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        self.call(
            "GetCapacity",
            String::new(),
            false,
            request,
            |shared, request, patience| async move {
                capacity::get(&shared, &request, &patience).await
            },
        )
        .await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let volume = required("volume_id", &request.get_ref().volume_id)?;
        self.call(
            "ControllerExpandVolume",
            volume,
            true,
            request,
            |shared, request, patience| async move {
                expand::expand(&shared, &request, &patience).await
            },
        )
        .await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let capability = |rpc: &Rpc| ControllerServiceCapability {
            r#type: Some(Type::Rpc(RpcCapability {
                r#type: (*rpc).into(),
            })),
        };
        Ok(Response::new(ControllerGetCapabilitiesResponse {
            capabilities: CAPABILITIES.iter().map(capability).collect(),
        }))
    }

    async fn list_volumes(
        &self,
        _: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        not_advertised("ListVolumes")
    }

    async fn controller_get_volume(
        &self,
        _: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        not_advertised("ControllerGetVolume")
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
