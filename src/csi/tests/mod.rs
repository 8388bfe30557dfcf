//! The services on a simulated machine.

mod controller;
mod hang;
mod node;
mod refusals;
mod socket;

use std::sync::Arc;

use lvm2::units::{ExtentSize, Sectors};
use tonic::{Code, Request, Response, Status};

use super::controller::ControllerService;
use super::driver::Driver;
use super::node::NodeService;
use super::proto::controller_server::Controller;
use super::proto::node_server::Node;
use super::proto::volume_capability::access_mode::Mode;
use super::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use super::proto::*;
use crate::engine::{Engine, EngineConfig};
use crate::host::sim::SimHost;

const MIB: i64 = 1 << 20;

/// A machine with the VG `data` of about 1 GiB, and a driver on it.
struct Rig {
    sim: SimHost,
    driver: Arc<Driver>,
    controller: ControllerService,
    node: NodeService,
}

impl Rig {
    fn new() -> Self {
        let sim = SimHost::new();
        sim.add_disk("/dev/sda", 1 << 30, 512);
        sim.add_vg(
            "data",
            &["/dev/sda"],
            ExtentSize::new(Sectors(8192)).unwrap(),
        )
        .unwrap();
        Self::on(sim)
    }

    fn on(sim: SimHost) -> Self {
        Self::with(sim, EngineConfig::default())
    }

    fn with(sim: SimHost, config: EngineConfig) -> Self {
        let engine = Engine::start(sim.host(), config).unwrap();
        let driver = Driver::new(engine, "local.csi.openebs.io", "n1");
        let controller = ControllerService(Arc::clone(&driver));
        let node = NodeService(Arc::clone(&driver));
        Self {
            sim,
            driver,
            controller,
            node,
        }
    }

    async fn create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        Ok(self
            .controller
            .create_volume(Request::new(request))
            .await?
            .into_inner()
            .volume
            .unwrap())
    }

    async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        };
        self.controller
            .delete_volume(Request::new(request))
            .await
            .map(drop)
    }

    async fn publish(
        &self,
        id: &str,
        target: &str,
        capability: VolumeCapability,
    ) -> Result<(), Status> {
        self.publish_with(id, target, capability, |_| {}).await
    }

    async fn publish_with(
        &self,
        id: &str,
        target: &str,
        capability: VolumeCapability,
        change: impl FnOnce(&mut NodePublishVolumeRequest),
    ) -> Result<(), Status> {
        let mut request = NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: target.to_owned(),
            volume_capability: Some(capability),
            ..Default::default()
        };
        change(&mut request);
        self.node
            .node_publish_volume(Request::new(request))
            .await
            .map(drop)
    }

    async fn unpublish(&self, id: &str, target: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: target.to_owned(),
        };
        self.node
            .node_unpublish_volume(Request::new(request))
            .await
            .map(drop)
    }

    async fn stats(&self, id: &str, path: &str) -> Result<NodeGetVolumeStatsResponse, Status> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: id.to_owned(),
            volume_path: path.to_owned(),
            ..Default::default()
        };
        self.node
            .node_get_volume_stats(Request::new(request))
            .await
            .map(Response::into_inner)
    }

    async fn list(&self) -> Vec<String> {
        let page = self
            .controller
            .list_volumes(Request::new(ListVolumesRequest::default()))
            .await;
        let entries = page.unwrap().into_inner().entries;
        entries
            .into_iter()
            .map(|entry| entry.volume.unwrap().volume_id)
            .collect()
    }
}

fn mount(fs: &str, mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume {
            fs_type: fs.to_owned(),
            ..Default::default()
        })),
    }
}

fn block() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
        access_type: Some(AccessType::Block(BlockVolume {})),
    }
}

/// A request for a mounted volume of `size` bytes in `data`.
fn volume(name: &str, size: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: size,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![mount("", Mode::SingleNodeWriter)],
        parameters: [("volgroup".to_owned(), "data".to_owned())].into(),
        ..Default::default()
    }
}

/// The code of a refusal whose message holds `part`.
#[track_caller]
fn code<T: std::fmt::Debug>(result: Result<T, Status>, part: &str) -> Code {
    let status = result.unwrap_err();
    assert!(
        status.message().contains(part),
        "{:?} lacks {part:?}",
        status.message()
    );
    status.code()
}
