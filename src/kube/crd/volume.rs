//! LVMVolume.

use kube::CustomResource;
use lvm2::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An LV on one node.
#[allow(clippy::duplicated_attributes, reason = "every column has a type")]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "local.openebs.io",
    version = "v1alpha1",
    kind = "LVMVolume",
    root = "LvmVolume",
    plural = "lvmvolumes",
    singular = "lvmvolume",
    shortname = "lvmvol",
    namespaced,
    doc = "A logical volume on one node",
    status = "VolumeStatus",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.ownerNodeID",
    printcolumn(
        name = "VolGroup",
        type_ = "string",
        json_path = ".spec.volGroup",
        description = "volume group that holds the volume"
    ),
    printcolumn(
        name = "Node",
        type_ = "string",
        json_path = ".spec.ownerNodeID",
        description = "node that holds the volume"
    ),
    printcolumn(
        name = "Size",
        type_ = "string",
        json_path = ".spec.capacity",
        description = "size of the volume"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.state",
        description = "whether the volume was made"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "age of the object"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct VolumeSpec {
    /// Node that holds the volume, chosen by the controller. Never changes.
    #[serde(rename = "ownerNodeID")]
    #[schemars(length(min = 1))]
    pub owner_node_id: String,
    /// Volume group that holds the volume; empty until the agent has chosen.
    pub vol_group: String,
    /// Regular expression for the volume groups that may hold the volume.
    // Objects of before 0.5 have none; reading them must not fail.
    #[serde(default)]
    pub vg_pattern: String,
    /// Size in bytes, in decimal.
    #[schemars(length(min = 1))]
    pub capacity: String,
    /// Whether the volume may be mounted at several paths of its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<YesNo>,
    /// Whether the volume is a thin volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thin_provision: Option<YesNo>,
    /// LVMSnapshot whose content the volume begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Limits of I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
}

/// Yes or no.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum YesNo {
    /// True.
    Yes,
    /// False; also what a word that we do not know means.
    #[default]
    #[serde(other)]
    No,
}

/// Limits of a volume's I/O: a decimal number, or `max` for none.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Qos {
    /// Bytes read a second.
    #[serde(rename = "readBPS", default, skip_serializing_if = "Option::is_none")]
    pub read_bps: Option<String>,
    /// Bytes written a second.
    #[serde(rename = "writeBPS", default, skip_serializing_if = "Option::is_none")]
    pub write_bps: Option<String>,
    /// Reads a second.
    #[serde(rename = "readIOPS", default, skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<String>,
    /// Writes a second.
    #[serde(rename = "writeIOPS", default, skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<String>,
}

/// What became of the volume.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct VolumeStatus {
    /// Pending: not made yet. Ready: made. Failed: cannot be made; never tried
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<VolumeState>,
    /// Why it failed; set only with Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<VolumeError>,
}

/// Where the volume stands.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[schemars(inline)]
pub enum VolumeState {
    /// Not made yet.
    #[default]
    Pending,
    /// Made.
    Ready,
    /// Cannot be made.
    Failed,
    /// A word that we do not know: left alone.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// Why a volume could not be made.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct VolumeError {
    /// `Internal` or `InsufficientCapacity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub code: Option<ErrorCode>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The contract's error codes.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorCode {
    /// No volume group has room.
    InsufficientCapacity,
    /// Anything else.
    #[default]
    #[serde(other)]
    Internal,
}

/// A capacity that is no decimal number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.capacity is {text:?}: it must be a decimal number of bytes, at least 1")]
pub struct CapacityError {
    /// The field.
    pub text: String,
}

impl VolumeSpec {
    /// The size that is asked for.
    ///
    /// # Errors
    /// If the field is no number.
    pub fn capacity(&self) -> Result<Bytes, CapacityError> {
        match self.capacity.parse() {
            Ok(bytes) if bytes > 0 => Ok(Bytes(bytes)),
            _ => Err(CapacityError {
                text: self.capacity.clone(),
            }),
        }
    }

    /// Whether the volume may be mounted at several paths.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.shared == Some(YesNo::Yes)
    }

    /// Whether the volume is thin.
    #[must_use]
    pub fn is_thin(&self) -> bool {
        self.thin_provision == Some(YesNo::Yes)
    }
}

impl LvmVolume {
    /// Where the volume stands; an object without a state was just made.
    #[must_use]
    pub fn state(&self) -> VolumeState {
        self.status
            .as_ref()
            .and_then(|status| status.state)
            .unwrap_or_default()
    }

    /// Whether the contract's finalizer is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        let finalizers = self.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers
            .iter()
            .any(|f| f == crate::kube::names::FINALIZER)
    }

    /// Whether its deletion was asked for.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}
