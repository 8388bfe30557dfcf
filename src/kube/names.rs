//! Names of the contract: group, finalizers, labels, annotations.

/// API group of the custom resources.
pub const GROUP: &str = "local.openebs.io";
/// Their version.
pub const VERSION: &str = "v1alpha1";
/// Our name as the manager of fields and the reporter of Events.
pub const MANAGER: &str = "lvcsi";
/// On an LVMVolume or LVMSnapshot whose LV exists. Its presence also tells the
/// peer's node service that the volume is ready to be mounted.
pub const FINALIZER: &str = "lvm.openebs.io/finalizer";
/// Label of an LVMVolume or LVMSnapshot: the node that worked on it.
pub const NODE_LABEL: &str = "kubernetes.io/nodename";
/// Label of an LVMSnapshot: the volume that it was taken of.
pub const VOLUME_LABEL: &str = "openebs.io/persistent-volume";
/// Topology key whose value is the node's id.
pub const NODE_TOPOLOGY: &str = "openebs.io/nodename";
/// Finalizer of a PVC while its volume is being made.
pub const PVC_FINALIZER: &str = "local.csi.openebs.io/csi-leak-protection";
/// Annotation of a PVC: the volume that is being made for it.
pub const PVC_ANNOTATION: &str = "local.csi.openebs.io/csi-volume-name";
/// Annotation of an LVMVolume, set by our controller: `NAMESPACE/NAME/UID` of the
/// PVC that it is made for.
pub const CLAIM_ANNOTATION: &str = "local.csi.openebs.io/claim";
/// Annotation of an LVMVolume, set by our controller: `mount` or `block`. An
/// annotation and not a field, because the peer's schema, which may be
/// installed, would drop a field. Without it the agent takes the safe way and
/// zeroes the whole LV.
pub const ACCESS_ANNOTATION: &str = "local.csi.openebs.io/access";
/// Annotation of a failed LVMVolume: why, as the
/// [word](crate::error::Kind::word) of a kind, so that the controller can answer with the right
/// gRPC code.
pub const KIND_ANNOTATION: &str = "local.csi.openebs.io/failure";
