//! What the agent knows of the cluster, for the CSI services: from memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::runtime::reflector::{ObjectRef, Store};

use crate::csi::Cluster;
use crate::kube::crd::{LvmVolume, VolumeState};

/// The labels of this node and the LVMVolumes on it.
pub(super) struct Knowledge {
    namespace: String,
    node: String,
    topology_keys: Vec<String>,
    labels: Mutex<Option<HashMap<String, String>>>,
    volumes: Store<LvmVolume>,
}

impl Knowledge {
    /// Knows nothing yet.
    pub(super) fn new(
        namespace: &str,
        node: &str,
        topology_keys: Vec<String>,
        volumes: Store<LvmVolume>,
    ) -> Arc<Self> {
        Arc::new(Self {
            namespace: namespace.to_owned(),
            node: node.to_owned(),
            topology_keys,
            labels: Mutex::new(None),
            volumes,
        })
    }

    /// The node's labels are these. Whether the topology differs from before.
    pub(super) fn learn(&self, labels: impl IntoIterator<Item = (String, String)>) -> bool {
        let wanted: HashMap<_, _> = labels
            .into_iter()
            .filter(|(key, _)| self.topology_keys.contains(key))
            .collect();
        let mut known = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = known.as_ref() != Some(&wanted);
        *known = Some(wanted);
        differs
    }
}

impl Cluster for Knowledge {
    fn topology(&self) -> Option<HashMap<String, String>> {
        if self.topology_keys.is_empty() {
            return Some(HashMap::new());
        }
        self.labels
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn objection(&self, volume: &str) -> Option<String> {
        let key = ObjectRef::new(volume).within(&self.namespace);
        // An object that is not known may have been made while the API server
        // could not be reached: the LV's own tags decide then.
        let object = self.volumes.get(&key)?;
        if object.spec.owner_node_id != self.node {
            return Some(format!(
                "its LVMVolume belongs to node {}",
                object.spec.owner_node_id
            ));
        }
        if object.is_deleting() {
            return Some("its LVMVolume is being deleted".to_owned());
        }
        (object.state() == VolumeState::Failed)
            .then(|| "its LVMVolume is Failed: see kubectl describe lvmvol".to_owned())
    }

    fn made_in(&self, volume: &str) -> Option<String> {
        let key = ObjectRef::new(volume).within(&self.namespace);
        let object = self.volumes.get(&key)?;
        let made = object.spec.owner_node_id == self.node && object.state() == VolumeState::Ready;
        made.then(|| object.spec.vol_group.clone())
    }
}
