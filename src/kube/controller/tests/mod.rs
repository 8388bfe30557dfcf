//! The controller with an API server in memory, and agents that make volumes
//! only on paper.

mod agents;
mod capacity;
mod claims;
mod create;
mod crowd;
mod delete;
mod expand;
mod forsaken;
mod lease;
mod nodes;
mod roles;
mod story;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status};

use super::claims::Times;
use super::lease::Terms;
use super::service::Service;
use super::{Controller as Shared, Settings, run_loops};
use crate::csi::proto::controller_server::Controller;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use crate::csi::proto::*;
use crate::kube::names::NODE_TOPOLOGY;
use crate::kube::tests::fake::FakeApi;
use crate::kube::uses;
use crate::metrics::Metrics;
use agents::Agents;

const VOLUMES: &str = "/apis/local.openebs.io/v1alpha1/namespaces/openebs/lvmvolumes";
const SNAPSHOTS: &str = "/apis/local.openebs.io/v1alpha1/namespaces/openebs/lvmsnapshots";
const LVM_NODES: &str = "/apis/local.openebs.io/v1alpha1/namespaces/openebs/lvmnodes";
const NODES: &str = "/api/v1/nodes";
const KUBELETS: &str = "/apis/storage.k8s.io/v1/csinodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/shop/persistentvolumeclaims";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const DRIVER: &str = "local.csi.openebs.io";
const GIB: u64 = 1 << 30;
/// How long a call waits that is to succeed on a busy machine.
const PATIENT: Duration = Duration::from_secs(120);

/// A cluster without a controller.
struct Rig {
    api: FakeApi,
    agents: Agents,
}

/// A replica of the controller.
struct Replica {
    shared: Arc<Shared>,
    service: Service,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Rig {
    /// With these nodes and VGs, in GiB.
    fn new(nodes: &[(&str, &[(&str, u64)])]) -> Self {
        let api = FakeApi::default();
        let agents = Agents::new(&api);
        let rig = Self { api, agents };
        for (node, vgs) in nodes {
            rig.add_node(node);
            rig.agents.add(node, vgs);
        }
        rig.agents.start();
        rig
    }

    /// Adds a node whose kubelet knows the driver and whose agent is ready.
    fn add_node(&self, node: &str) {
        self.api.put(NODES, node_object(node, &json!({})));
        self.api.put(
            KUBELETS,
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": { "name": node },
                "spec": { "drivers": [{
                    "name": DRIVER, "nodeID": node, "topologyKeys": [NODE_TOPOLOGY],
                }] },
            }),
        );
        self.api.put(PODS, pod(node, "True"));
    }

    fn settings(identity: &str) -> Settings {
        Settings {
            name: DRIVER.to_owned(),
            namespace: "openebs".to_owned(),
            identity: identity.to_owned(),
            agent_selector: "app=openebs-lvm-node".to_owned(),
            any_vg: false,
            grace: Duration::from_millis(300),
            terms: Terms {
                renew: Duration::from_millis(200),
                expire: Duration::from_secs(3),
                give_up: Duration::from_secs(2),
                retry: Duration::from_millis(50),
                follow: Duration::from_secs(1),
            },
            times: Times {
                protect: Duration::from_millis(300),
                forsaken: Duration::from_millis(300),
            },
        }
    }

    fn start(&self, identity: &str) -> Replica {
        self.start_with(Self::settings(identity))
    }

    fn start_with(&self, settings: Settings) -> Replica {
        self.start_by(self.api.client(), settings)
    }

    fn start_by(&self, client: kube::Client, settings: Settings) -> Replica {
        let metrics = Arc::new(Metrics::new().unwrap());
        let shared = Shared::new(&client, metrics, &settings);
        let stop = CancellationToken::new();
        let loops = run_loops(Arc::clone(&shared), client, settings, stop.clone());
        Replica {
            service: Service(Arc::clone(&shared)),
            shared,
            stop,
            task: tokio::spawn(loops),
        }
    }

    fn claim(&self, name: &str, uid: &str) {
        self.api.put(
            CLAIMS,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": name, "namespace": "shop", "uid": uid,
                    "finalizers": ["kubernetes.io/pvc-protection"],
                },
                "spec": { "accessModes": ["ReadWriteOnce"], "somethingNewer": 1 },
                "status": { "phase": "Pending" },
            }),
        );
    }

    fn volume(&self, name: &str) -> Option<Value> {
        self.api.get(VOLUMES, name)
    }

    async fn event(&self, reason: &str) -> String {
        self.event_that(reason, |_| true).await
    }

    /// The same for one of several with this reason, which come in any order.
    async fn event_that(&self, reason: &str, fits: impl Fn(&str) -> bool) -> String {
        let found = |api: &FakeApi| {
            let all = ["openebs", "shop", "default"]
                .into_iter()
                .flat_map(|namespace| {
                    api.all(&format!(
                        "/apis/events.k8s.io/v1/namespaces/{namespace}/events"
                    ))
                });
            let mut notes = all
                .into_iter()
                .filter(|event| event["reason"] == reason)
                .map(|event| event["note"].as_str().unwrap().to_owned());
            notes.find(|note| fits(note))
        };
        self.api.until(&format!("Event {reason}"), found).await
    }
}

impl Drop for Rig {
    /// Nothing was asked for that the roles do not allow.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for (verb, kind) in self.api.asked() {
            let both = uses::CONTROLLER.iter().chain(uses::AGENT);
            let mut uses = both.filter(|u| u.resource == kind);
            let allowed = uses.any(|u| u.verbs.contains(&verb));
            let stands_in = (verb, kind.as_str()) == ("update", "persistentvolumeclaims");
            assert!(allowed || stands_in, "{verb} {kind} is not among the uses");
        }
    }
}

fn node_object(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "zone": format!("z-{name}") } },
        "spec": spec,
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

fn pod(node: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("agent-{node}"), "namespace": "default",
            "labels": { "app": "openebs-lvm-node" },
        },
        "spec": { "nodeName": node, "containers": [] },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    })
}

impl Replica {
    async fn create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        self.create_within(request, PATIENT).await
    }

    async fn create_within(
        &self,
        request: CreateVolumeRequest,
        time: Duration,
    ) -> Result<Volume, Status> {
        let answer = self.service.create_volume(within(request, time)).await?;
        Ok(answer.into_inner().volume.unwrap())
    }

    async fn delete(&self, volume: &str) -> Result<(), Status> {
        self.delete_within(volume, PATIENT).await
    }

    async fn delete_within(&self, volume: &str, time: Duration) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: volume.to_owned(),
            ..Default::default()
        };
        self.service
            .delete_volume(within(request, time))
            .await
            .map(drop)
    }

    async fn expand(&self, volume: &str, bytes: u64) -> Result<i64, Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: volume.to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes: i64::try_from(bytes).unwrap(),
                limit_bytes: 0,
            }),
            ..Default::default()
        };
        let answer = self
            .service
            .controller_expand_volume(within(request, PATIENT))
            .await?
            .into_inner();
        assert!(answer.node_expansion_required);
        Ok(answer.capacity_bytes)
    }

    /// Ends in order.
    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// Ends without a chance to do anything: the process is gone.
    async fn die(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Waits until it would put volumes on these nodes.
    async fn usable(&self, nodes: &[&str]) {
        let cluster = &self.shared.cluster;
        let mut changes = cluster.changes();
        let waiting = async {
            while nodes.iter().any(|node| cluster.obstacle(node).is_some()) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENT, waiting).await.unwrap();
    }

    /// Waits until it has heard what the API server has.
    async fn ready(&self) {
        self.shared.cluster.complete().await;
    }
}

/// A call whose caller waits so long.
fn within<T>(message: T, time: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(time);
    request
}

fn capability() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
        access_type: Some(AccessType::Mount(MountVolume {
            fs_type: "ext4".to_owned(),
            ..Default::default()
        })),
    }
}

fn block() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..capability()
    }
}

/// A volume of the class that names the VG `data`.
fn ask(name: &str, gib: u64) -> CreateVolumeRequest {
    ask_with(name, gib, &[("volgroup", "data")])
}

fn ask_with(name: &str, gib: u64, parameters: &[(&str, &str)]) -> CreateVolumeRequest {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: i64::try_from(gib * GIB).unwrap(),
            limit_bytes: 0,
        }),
        volume_capabilities: vec![capability()],
        parameters: parameters.iter().map(pair).collect(),
        ..Default::default()
    }
}

fn place(segments: &[(&str, &str)]) -> Topology {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Topology {
        segments: segments.iter().map(pair).collect::<HashMap<_, _>>(),
    }
}

/// That the volume must be at one of these places.
fn at(mut request: CreateVolumeRequest, places: &[&[(&str, &str)]]) -> CreateVolumeRequest {
    let places: Vec<_> = places.iter().map(|segments| place(segments)).collect();
    request.accessibility_requirements = Some(TopologyRequirement {
        requisite: places.clone(),
        preferred: places,
    });
    request
}

/// For a claim of the namespace `shop`.
fn for_claim(mut request: CreateVolumeRequest, claim: &str) -> CreateVolumeRequest {
    for (key, value) in [("name", claim), ("namespace", "shop")] {
        let key = format!("csi.storage.k8s.io/pvc/{key}");
        request.parameters.insert(key, value.to_owned());
    }
    request
}

fn node_of(volume: &Volume) -> &str {
    &volume.accessible_topology[0].segments[NODE_TOPOLOGY]
}

fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.unwrap_err();
    (status.code(), status.message().to_owned())
}
