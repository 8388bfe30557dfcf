//! The agent on a simulated machine, with an API server in memory.

mod adopt;
mod away;
mod create;
mod delete;
mod node;
mod overtaken;
mod unlocked;

use std::sync::Arc;
use std::time::Duration;

use lvm2::edit::Layout;
use lvm2::model::Lv;
use lvm2::name::{LvName, Tag, VgName};
use lvm2::units::{Bytes, ExtentSize, Sectors};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Parts, Settings, reconcile};
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::volume_capability::{AccessMode, AccessType};
use crate::csi::proto::{NodePublishVolumeRequest, NodeUnpublishVolumeRequest, VolumeCapability};
use crate::csi::{Driver, FormatDefaults};
use crate::engine::{CreateLv, Engine, EngineConfig, Request, Size, Wipe, tags};
use crate::host::sim::SimHost;
use crate::kube::tests::fake::FakeApi;
use crate::metrics::Metrics;

const VOLUMES: &str = "/apis/local.openebs.io/v1alpha1/namespaces/openebs/lvmvolumes";
const LVM_NODES: &str = "/apis/local.openebs.io/v1alpha1/namespaces/openebs/lvmnodes";
const NODES: &str = "/api/v1/nodes";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/openebs/events";
const MIB: u64 = 1 << 20;

/// A machine with the VGs `small` (256 MiB) and `large` (1 GiB), and a cluster
/// that has it as `n1`.
struct Rig {
    sim: SimHost,
    api: FakeApi,
}

/// An agent that runs.
struct Running {
    engine: Engine,
    driver: Arc<Driver>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Rig {
    fn new() -> Self {
        let sim = SimHost::new();
        let extent = ExtentSize::new(Sectors(8192)).unwrap();
        sim.add_disk("/dev/sda", 256 * MIB, 512);
        sim.add_disk("/dev/sdb", 1024 * MIB, 512);
        sim.add_vg("small", &["/dev/sda"], extent).unwrap();
        sim.add_vg("large", &["/dev/sdb"], extent).unwrap();
        let api = FakeApi::default();
        api.put(
            NODES,
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": "n1", "labels": { "zone": "a", "other": "x" } },
            }),
        );
        Self { sim, api }
    }

    fn engine(&self) -> Engine {
        Engine::start(self.sim.host(), EngineConfig::default()).unwrap()
    }

    /// A new process of the agent.
    fn start(&self) -> Running {
        let engine = self.engine();
        let metrics = Arc::new(Metrics::new().unwrap());
        let stop = CancellationToken::new();
        let settings = Settings {
            namespace: "openebs".to_owned(),
            node: "n1".to_owned(),
            driver: "local.csi.openebs.io".to_owned(),
            topology_keys: vec!["zone".to_owned()],
            format_defaults: FormatDefaults::default(),
            any_vg: false,
            interval: Duration::from_millis(300),
            quiet: Duration::from_millis(300),
        };
        let client = self.api.client();
        let parts = Parts::new(&engine, client, Arc::clone(&metrics), settings, &stop);
        let driver = Arc::clone(&parts.driver);
        let task = tokio::spawn(reconcile(parts.agent, parts.loops, stop.clone()));
        Running {
            engine,
            driver,
            metrics,
            stop,
            task,
        }
    }

    /// A Pending volume, as the peer's controller writes it.
    fn ask(&self, name: &str, mib: u64, pattern: &str) {
        self.api.put(VOLUMES, volume(name, mib * MIB, pattern));
    }

    fn object(&self, name: &str) -> Value {
        self.api.get(VOLUMES, name).unwrap()
    }

    /// Waits until the volume's state is this, and returns the object.
    async fn state(&self, name: &str, state: &str) -> Value {
        let what = format!("{name} is {state}");
        let found = |api: &FakeApi| {
            api.get(VOLUMES, name)
                .filter(|object| object["status"]["state"] == state)
        };
        self.api.until(&what, found).await
    }

    /// Waits until the object is gone.
    async fn gone(&self, name: &str) {
        let what = format!("{name} is gone");
        let found = |api: &FakeApi| api.get(VOLUMES, name).is_none().then_some(());
        self.api.until(&what, found).await;
    }

    /// Waits until an Event of this reason about `name` is there, and returns
    /// its note.
    async fn event(&self, name: &str, reason: &str) -> String {
        let what = format!("Event {reason} about {name}");
        let found = |api: &FakeApi| {
            let events = api.all(EVENTS);
            let found = events
                .iter()
                .find(|event| event["reason"] == reason && event["regarding"]["name"] == name)?;
            Some(found["note"].as_str().unwrap().to_owned())
        };
        self.api.until(&what, found).await
    }

    /// The LVs of a VG, as another process reads them.
    fn lvs(&self, vg: &str) -> Vec<Lv> {
        let outline = self.engine().outline(&vg_name(vg)).unwrap();
        outline.vg.lvs().iter().map(|lv| Lv::clone(lv)).collect()
    }

    /// Makes an LV as lvm2 does: without our tags.
    fn lvcreate(&self, vg: &str, name: &str, mib: u64) {
        let request = Request::Create(new_lv(name, mib, Vec::new()));
        self.engine().submit(&vg_name(vg), request).wait().unwrap();
    }
}

impl Running {
    /// Ends in order.
    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// Ends without a chance to do anything: the process is gone.
    async fn die(self) {
        self.task.abort();
        let _ = self.task.await;
        self.stop.cancel();
    }
}

fn new_lv(name: &str, mib: u64, tags: Vec<Tag>) -> CreateLv {
    CreateLv {
        name: LvName::new(name).unwrap(),
        size: Size::Bytes(Bytes(mib * MIB)),
        tags,
        layout: Layout::default(),
        wipe: Wipe::Signatures,
        activate: true,
    }
}

fn volume(name: &str, capacity: u64, pattern: &str) -> Value {
    json!({
        "apiVersion": "local.openebs.io/v1alpha1",
        "kind": "LVMVolume",
        "metadata": { "name": name, "namespace": "openebs" },
        "spec": {
            "ownerNodeID": "n1",
            "volGroup": "",
            "vgPattern": pattern,
            "capacity": capacity.to_string(),
            "shared": "no",
            "thinProvision": "no",
            "somethingNewer": { "kept": true },
        },
        "status": { "state": "Pending" },
    })
}

/// The same after the peer's agent has made it.
fn ready(name: &str, mib: u64, vg: &str) -> Value {
    let mut object = volume(name, mib * MIB, &format!("^{vg}$"));
    object["spec"]["volGroup"] = json!(vg);
    object["status"]["state"] = json!("Ready");
    object["metadata"]["finalizers"] = json!(["lvm.openebs.io/finalizer"]);
    object["metadata"]["labels"] = json!({ "kubernetes.io/nodename": "n1" });
    object
}

fn vg_name(name: &str) -> VgName {
    VgName::new(name).unwrap()
}

fn owned() -> Tag {
    Tag::new(tags::OWNED).unwrap()
}

fn publish(volume: &str, access: AccessType) -> tonic::Request<NodePublishVolumeRequest> {
    tonic::Request::new(NodePublishVolumeRequest {
        volume_id: volume.to_owned(),
        target_path: format!("/pods/{volume}"),
        volume_capability: Some(VolumeCapability {
            access_mode: Some(AccessMode {
                mode: Mode::SingleNodeWriter.into(),
            }),
            access_type: Some(access),
        }),
        ..Default::default()
    })
}

fn unpublish(volume: &str) -> tonic::Request<NodeUnpublishVolumeRequest> {
    tonic::Request::new(NodeUnpublishVolumeRequest {
        volume_id: volume.to_owned(),
        target_path: format!("/pods/{volume}"),
    })
}
