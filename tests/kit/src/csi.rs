//! A CSI client for people who write tests: blocking calls, short requests.

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

/// The messages and clients that are generated from `proto/csi.proto`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    reason = "generated; the specification documents it"
)]
pub mod v1 {
    tonic::include_proto!("csi.v1");
}

use v1::controller_client::ControllerClient;
use v1::identity_client::IdentityClient;
use v1::node_client::NodeClient;
use v1::volume_capability::access_mode::Mode;
use v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use v1::{CapacityRange, VolumeCapability};

/// Answer of a call.
pub type Answer<T> = Result<T, Status>;

/// A connection to a driver. Clones share it and may be used from any thread.
#[derive(Debug, Clone)]
pub struct Csi {
    runtime: Arc<Runtime>,
    channel: Channel,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident: $client:ident, $request:ident -> $response:ident;)*) => {
        $($(#[$doc])*
        /// # Errors
        /// What the driver answers.
        pub fn $name(&self, request: v1::$request) -> Answer<v1::$response> {
            let mut client = $client::new(self.channel.clone());
            self.wait(client.$name(request))
        })*
    };
}

impl Csi {
    /// Connects to the socket.
    ///
    /// # Panics
    /// If nobody listens there.
    #[must_use]
    pub fn connect(socket: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let endpoint = Endpoint::try_from(format!("unix://{}", socket.display()))
            .expect("an address of a socket");
        let channel = runtime
            .block_on(endpoint.connect())
            .unwrap_or_else(|e| panic!("{}: {e:?}", socket.display()));
        Self {
            runtime: Arc::new(runtime),
            channel,
        }
    }

    fn wait<T>(&self, call: impl Future<Output = Answer<Response<T>>>) -> Answer<T> {
        self.runtime.block_on(call).map(Response::into_inner)
    }

    calls! {
        /// GetPluginInfo.
        get_plugin_info: IdentityClient, GetPluginInfoRequest -> GetPluginInfoResponse;
        /// Probe.
        probe: IdentityClient, ProbeRequest -> ProbeResponse;
        /// CreateVolume.
        create_volume: ControllerClient, CreateVolumeRequest -> CreateVolumeResponse;
        /// DeleteVolume.
        delete_volume: ControllerClient, DeleteVolumeRequest -> DeleteVolumeResponse;
        /// ListVolumes.
        list_volumes: ControllerClient, ListVolumesRequest -> ListVolumesResponse;
        /// GetCapacity.
        get_capacity: ControllerClient, GetCapacityRequest -> GetCapacityResponse;
        /// ValidateVolumeCapabilities.
        validate_volume_capabilities: ControllerClient, ValidateVolumeCapabilitiesRequest -> ValidateVolumeCapabilitiesResponse;
        /// ControllerExpandVolume.
        controller_expand_volume: ControllerClient, ControllerExpandVolumeRequest -> ControllerExpandVolumeResponse;
        /// NodePublishVolume.
        node_publish_volume: NodeClient, NodePublishVolumeRequest -> NodePublishVolumeResponse;
        /// NodeUnpublishVolume.
        node_unpublish_volume: NodeClient, NodeUnpublishVolumeRequest -> NodeUnpublishVolumeResponse;
        /// NodeGetVolumeStats.
        node_get_volume_stats: NodeClient, NodeGetVolumeStatsRequest -> NodeGetVolumeStatsResponse;
        /// NodeExpandVolume.
        node_expand_volume: NodeClient, NodeExpandVolumeRequest -> NodeExpandVolumeResponse;
    }

    /// CreateVolume in `vg`, for a mount of `fs` or, with an empty `fs`, as a
    /// block device.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn create(&self, vg: &str, name: &str, bytes: i64, fs: &str) -> Answer<v1::Volume> {
        let response = self.create_volume(create_request(vg, name, bytes, fs))?;
        response
            .volume
            .ok_or_else(|| Status::internal("no volume in the answer"))
    }

    /// DeleteVolume.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn delete(&self, id: &str) -> Answer<()> {
        let request = v1::DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        };
        self.delete_volume(request).map(drop)
    }

    /// ControllerExpandVolume; returns the new size.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn expand(&self, id: &str, bytes: i64) -> Answer<i64> {
        let request = v1::ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: range(bytes),
            ..Default::default()
        };
        Ok(self.controller_expand_volume(request)?.capacity_bytes)
    }

    /// NodePublishVolume; an empty `fs` publishes the block device.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn publish(&self, volume: &v1::Volume, target: &Path, fs: &str) -> Answer<()> {
        let request = v1::NodePublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            target_path: target.display().to_string(),
            volume_capability: Some(capability(fs)),
            volume_context: volume.volume_context.clone(),
            ..Default::default()
        };
        self.node_publish_volume(request).map(drop)
    }

    /// NodeUnpublishVolume.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn unpublish(&self, id: &str, target: &Path) -> Answer<()> {
        let request = v1::NodeUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: target.display().to_string(),
        };
        self.node_unpublish_volume(request).map(drop)
    }

    /// NodeExpandVolume.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn node_expand(&self, id: &str, target: &Path, bytes: i64) -> Answer<i64> {
        let request = v1::NodeExpandVolumeRequest {
            volume_id: id.to_owned(),
            volume_path: target.display().to_string(),
            capacity_range: range(bytes),
            ..Default::default()
        };
        Ok(self.node_expand_volume(request)?.capacity_bytes)
    }

    /// NodeGetVolumeStats.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn stats(&self, id: &str, target: &Path) -> Answer<v1::NodeGetVolumeStatsResponse> {
        self.node_get_volume_stats(v1::NodeGetVolumeStatsRequest {
            volume_id: id.to_owned(),
            volume_path: target.display().to_string(),
            ..Default::default()
        })
    }
}

/// The request of [`Csi::create`].
#[must_use]
pub fn create_request(vg: &str, name: &str, bytes: i64, fs: &str) -> v1::CreateVolumeRequest {
    v1::CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: range(bytes),
        volume_capabilities: vec![capability(fs)],
        parameters: HashMap::from([
            ("storage".to_owned(), "lvm".to_owned()),
            ("volgroup".to_owned(), vg.to_owned()),
        ]),
        ..Default::default()
    }
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "the field that takes it is optional"
)]
fn range(bytes: i64) -> Option<CapacityRange> {
    Some(CapacityRange {
        required_bytes: bytes,
        limit_bytes: 0,
    })
}

/// One writer on one node: a mount of `fs`, or the block device if it is empty.
#[must_use]
pub fn capability(fs: &str) -> VolumeCapability {
    let access_type = if fs.is_empty() {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: fs.to_owned(),
            ..Default::default()
        })
    };
    VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
        access_type: Some(access_type),
    }
}
