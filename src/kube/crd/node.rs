//! LVMNode.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kube::quantity::Quantity;

/// The volume groups of one node. The contract has them at the top level,
/// beside `metadata`, with neither spec nor status.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "local.openebs.io",
    version = "v1alpha1",
    kind = "LVMNode",
    root = "LvmNode",
    plural = "lvmnodes",
    singular = "lvmnode",
    shortname = "lvmnode",
    namespaced,
    no_spec,
    doc = "The volume groups of one node, kept up to date by its agent",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct NodeFields {
    /// The volume groups.
    pub volume_groups: Vec<VolumeGroup>,
}

/// One volume group.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct VolumeGroup {
    /// Name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Id of the volume group.
    #[schemars(length(min = 1))]
    pub uuid: String,
    /// Size of all its physical volumes.
    pub size: Quantity,
    /// Unallocated part.
    pub free: Quantity,
    /// Logical volumes, without hidden ones.
    #[schemars(range(min = 0))]
    pub lv_count: i32,
    /// Physical volumes.
    #[schemars(range(min = 0))]
    pub pv_count: i32,
    /// Most logical volumes allowed; 0 for no limit.
    pub max_lv: i32,
    /// Most physical volumes allowed; 0 for no limit.
    pub max_pv: i32,
    /// Snapshots.
    pub snap_count: i32,
    /// Physical volumes that were not found.
    pub missing_pv_count: i32,
    /// Metadata areas.
    pub metadata_count: i32,
    /// Metadata areas in use.
    pub metadata_used_count: i32,
    /// Free space in the fullest metadata area.
    pub metadata_free: Quantity,
    /// Size of the smallest metadata area.
    pub metadata_size: Quantity,
    /// -1 unknown, 0 writeable, 1 read-only.
    #[schemars(schema_with = "plain_integer")]
    pub permissions: i32,
    /// -1 unknown, 0 normal, 1 contiguous, 2 cling, 3 anywhere, 4 inherited.
    #[schemars(schema_with = "plain_integer")]
    pub allocation_policy: i32,
    /// Thin pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<ThinPool>>")]
    pub thin_pools: Vec<ThinPool>,
}

/// A thin pool.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ThinPool {
    /// Name of the pool's logical volume.
    pub name: String,
    /// Size.
    pub size: Quantity,
    /// Size less what is in use.
    pub free: Quantity,
}

/// An integer of the contract without a format.
fn plain_integer(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "integer" })
}
