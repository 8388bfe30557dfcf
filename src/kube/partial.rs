//! Of objects that are not ours the fields that the driver looks at. Their whole
//! types would be megabytes of code, and an event of a pod or a node takes long to
//! read whole. They are for reading only: what is written back is never one of these.

use k8s_openapi::api::{core::v1 as core, storage::v1 as storage};
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;

/// A Node.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = core::Node)]
pub struct Node {
    /// Name, labels, and whether it is going.
    pub metadata: ObjectMeta,
    /// What was asked of it.
    #[serde(default)]
    pub spec: NodeSpec,
    /// What it says of itself.
    #[serde(default)]
    pub status: Conditions,
}

/// What was asked of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeSpec {
    /// It is cordoned.
    #[serde(default)]
    pub unschedulable: bool,
}

/// A Pod.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = core::Pod)]
pub struct Pod {
    /// Name, and whether it is going.
    pub metadata: ObjectMeta,
    /// Where it is.
    #[serde(default)]
    pub spec: PodSpec,
    /// How it is.
    #[serde(default)]
    pub status: Conditions,
}

/// Where a Pod is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Its Node, once it has one.
    pub node_name: Option<String>,
}

/// The status of what has conditions.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Conditions {
    conditions: Option<Vec<Condition>>,
}

/// One condition.
#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Conditions {
    /// Whether the condition of this type is true.
    #[must_use]
    pub fn is(&self, kind: &str) -> bool {
        let all = self.conditions.iter().flatten();
        let mut of_kind = all.filter(|condition| condition.kind == kind);
        of_kind.any(|condition| condition.status == "True")
    }
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = core::PersistentVolumeClaim)]
pub struct Claim {
    /// Names, identity, finalizers and annotations.
    pub metadata: ObjectMeta,
    /// What it asks for.
    #[serde(default)]
    pub spec: ClaimSpec,
    /// How far it came.
    #[serde(default)]
    pub status: ClaimStatus,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSpec {
    /// The PV that it has, or waits for.
    pub volume_name: Option<String>,
}

/// How far a claim came.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ClaimStatus {
    /// `Bound`, for instance.
    pub phase: Option<String>,
}

/// The drivers that a node's kubelet knows.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = storage::CSINode)]
pub struct KubeletDrivers {
    /// Its name is the Node's.
    pub metadata: ObjectMeta,
    /// What it lists.
    #[serde(default)]
    pub spec: KubeletSpec,
}

/// What a CSINode lists.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct KubeletSpec {
    drivers: Option<Vec<Driver>>,
}

/// A driver of a CSINode.
#[derive(Clone, Debug, Deserialize)]
struct Driver {
    name: String,
}

impl KubeletSpec {
    /// Whether the kubelet knows the driver.
    #[must_use]
    pub fn knows(&self, driver: &str) -> bool {
        let mut all = self.drivers.iter().flatten();
        all.any(|known| known.name == driver)
    }
}
