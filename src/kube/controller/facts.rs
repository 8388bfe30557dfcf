//! What the controller keeps of the objects that it watches: of a Node, a Pod
//! or a PersistentVolumeClaim only the few facts that it decides by.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::schedule::Unusable;
use crate::kube::crd::LvmSnapshot;
use crate::kube::names::{PVC_ANNOTATION, PVC_FINALIZER, VOLUME_LABEL};
use crate::kube::partial::{Claim, Node, Pod};

/// A Node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeFacts {
    /// Its labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Why it takes no volumes, if so.
    pub(super) unusable: Option<Unusable>,
    /// It is short of something.
    pub(super) pressed: bool,
}

impl From<&Node> for NodeFacts {
    fn from(node: &Node) -> Self {
        let is = |kind| node.status.is(kind);
        let unusable = if node.metadata.deletion_timestamp.is_some() {
            Some(Unusable::Gone)
        } else if !is("Ready") {
            Some(Unusable::NotReady)
        } else {
            node.spec.unschedulable.then_some(Unusable::Cordoned)
        };
        Self {
            labels: node.labels().clone(),
            unusable,
            pressed: is("MemoryPressure") || is("DiskPressure") || is("PIDPressure"),
        }
    }
}

/// An agent's pod.
#[derive(Clone, Debug)]
pub(super) struct AgentFacts {
    /// Where it runs.
    pub(super) node: String,
    /// Whether it serves.
    pub(super) ready: bool,
}

impl AgentFacts {
    /// The pod's, once it has a node.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let ready = pod.status.is("Ready") && pod.metadata.deletion_timestamp.is_none();
        Some(Self {
            node: pod.spec.node_name.clone()?,
            ready,
        })
    }
}

/// Namespace and name of a PersistentVolumeClaim.
pub(super) type ClaimKey = (String, String);

/// A PersistentVolumeClaim.
#[derive(Clone, Debug)]
pub(super) struct ClaimFacts {
    /// Its identity.
    pub(super) uid: String,
    /// It has a volume, or waits for a certain one.
    pub(super) bound: bool,
    /// Its deletion was asked for.
    pub(super) deleting: bool,
    /// Our finalizer is on it.
    pub(super) protected: bool,
    /// The volume that is being made for it, by the annotation.
    pub(super) volume: Option<String>,
}

impl From<&Claim> for ClaimFacts {
    fn from(claim: &Claim) -> Self {
        let phase = claim.status.phase.as_deref();
        let volume = claim.spec.volume_name.as_deref();
        Self {
            uid: claim.uid().unwrap_or_default(),
            bound: phase == Some("Bound") || volume.is_some_and(|name| !name.is_empty()),
            deleting: claim.metadata.deletion_timestamp.is_some(),
            protected: claim.finalizers().iter().any(|f| f == PVC_FINALIZER),
            volume: claim.annotations().get(PVC_ANNOTATION).cloned(),
        }
    }
}

impl ClaimFacts {
    /// Whether the protection has something to do.
    pub(super) fn is_due(&self) -> bool {
        self.protected && (self.bound || self.deleting)
    }

    /// Whether `volume` can be this claim's: the provisioner makes the name
    /// from the claim's UID, whole or the beginning of it without hyphens. An
    /// annotation that a user wrote must not delete another's volume.
    pub(super) fn owns(&self, volume: &str) -> bool {
        let plain = self.uid.replace('-', "");
        let last = volume.rsplit('-').next().unwrap_or_default();
        !self.uid.is_empty()
            && (volume.ends_with(&self.uid) || (last.len() >= 10 && plain.starts_with(last)))
    }
}

/// A snapshot.
#[derive(Clone, Debug)]
pub(super) struct SnapshotFacts {
    /// What it was taken of.
    pub(super) volume: Option<String>,
    /// Where it is.
    pub(super) node: String,
    /// Whether it waits to be removed.
    pub(super) deleting: bool,
    /// Finalizers on it.
    pub(super) finalizers: Vec<String>,
    /// Its version.
    pub(super) version: Option<String>,
}

impl From<&LvmSnapshot> for SnapshotFacts {
    fn from(snapshot: &LvmSnapshot) -> Self {
        Self {
            volume: snapshot.labels().get(VOLUME_LABEL).cloned(),
            node: snapshot.spec.owner_node_id.clone(),
            deleting: snapshot.metadata.deletion_timestamp.is_some(),
            finalizers: snapshot.finalizers().to_vec(),
            version: snapshot.resource_version(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(spec: &serde_json::Value, conditions: &[(&str, &str)]) -> NodeFacts {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status)| json!({ "type": kind, "status": status }))
            .collect();
        let node = json!({
            "metadata": { "name": "n", "labels": { "zone": "a" } },
            "spec": spec,
            "status": { "conditions": conditions },
        });
        NodeFacts::from(&serde_json::from_value::<Node>(node).unwrap())
    }

    #[test]
    fn nodes_that_take_volumes() {
        let good = node(&json!({}), &[("Ready", "True"), ("DiskPressure", "False")]);
        assert_eq!((good.unusable, good.pressed), (None, false));
        assert_eq!(good.labels["zone"], "a");
        for status in ["False", "Unknown"] {
            let dead = node(&json!({}), &[("Ready", status)]);
            assert_eq!(dead.unusable, Some(Unusable::NotReady));
        }
        let silent = node(&json!({}), &[]);
        assert_eq!(silent.unusable, Some(Unusable::NotReady));
        let cordoned = node(&json!({ "unschedulable": true }), &[("Ready", "True")]);
        assert_eq!(cordoned.unusable, Some(Unusable::Cordoned));
        let pressed = node(&json!({}), &[("Ready", "True"), ("MemoryPressure", "True")]);
        assert!(pressed.pressed && pressed.unusable.is_none());
    }

    #[test]
    fn a_claim_owns_only_what_bears_its_uid() {
        let claim = ClaimFacts {
            uid: "0f8fad5b-d9cb-469f-a165-70867728950e".to_owned(),
            bound: false,
            deleting: false,
            protected: true,
            volume: None,
        };
        for own in [
            "pvc-0f8fad5b-d9cb-469f-a165-70867728950e",
            "pvc-0f8fad5bd9cb469fa165",
        ] {
            assert!(claim.owns(own), "{own}");
        }
        for other in [
            "pvc-1f8fad5b-d9cb-469f-a165-70867728950e",
            "pvc-0f8fad5b",
            "pvc-",
            "",
            "data",
        ] {
            assert!(!claim.owns(other), "{other}");
        }
        assert!(!claim.is_due());
    }
}
