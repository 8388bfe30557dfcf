//! What a cluster knows that this node's disks do not tell.

use std::collections::HashMap;

/// The cluster that a driver is a node of. Every answer is from memory: no
/// call may wait for the cluster, for volumes must be published and
/// unpublished while it is away.
pub trait Cluster: Send + Sync {
    /// Topology of this node beside its name; nothing while it is not known.
    fn topology(&self) -> Option<HashMap<String, String>>;

    /// Why the volume may not be published here, if the cluster forbids it.
    /// What the cluster does not know at present, it does not forbid.
    fn objection(&self, volume: &str) -> Option<String>;

    /// The VG that the cluster has the volume in, once it was made here. An LV of
    /// its name there is the volume although nobody marked it: the peer does not.
    fn made_in(&self, volume: &str) -> Option<String>;
}
