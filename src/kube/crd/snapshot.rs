//! LVMSnapshot.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::kube::quantity::Quantity;

/// A snapshot of an LV.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "local.openebs.io",
    version = "v1alpha1",
    kind = "LVMSnapshot",
    root = "LvmSnapshot",
    plural = "lvmsnapshots",
    singular = "lvmsnapshot",
    namespaced,
    doc = "A snapshot of a logical volume",
    status = "SnapshotStatus",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.ownerNodeID"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct SnapshotSpec {
    /// Node that holds the snapshot. Never changes.
    #[serde(rename = "ownerNodeID")]
    #[schemars(length(min = 1))]
    pub owner_node_id: String,
    /// Volume group that holds the snapshot.
    pub vol_group: String,
    /// Bytes set aside for changes, in decimal; none means a thin snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snap_size: Option<String>,
    /// Whether the snapshot is thin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thin_provision: Option<Thin>,
}

/// What became of the snapshot.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct SnapshotStatus {
    /// `Pending` or `Ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Size of the snapshot's LV when it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lv_size: Option<Quantity>,
}

/// `thinProvision` of a snapshot: releases differ in whether it is a Boolean
/// or a word, so both are read, and the schema allows both.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(untagged)]
pub enum Thin {
    /// true or false.
    Bool(bool),
    /// yes or no.
    Word(String),
}

impl Thin {
    /// What it says.
    #[must_use]
    pub fn is_thin(&self) -> bool {
        match self {
            Self::Bool(thin) => *thin,
            Self::Word(word) => word == "yes" || word == "true",
        }
    }
}

impl JsonSchema for Thin {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Thin".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
    }
}
