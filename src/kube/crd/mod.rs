//! The custom resources, field by field as the contract has them.
//!
//! Reading is lenient: what an older or newer release wrote must never stop a
//! watch. Fields that we do not know are kept by the server, for the schemas
//! preserve them, and are not touched by us, for we only patch.

mod node;
mod publish;
mod snapshot;
mod volume;

pub use node::{LvmNode, NodeFields, ThinPool, VolumeGroup};
pub use publish::{WriteError, all, manifest, write};
pub use snapshot::{LvmSnapshot, SnapshotSpec, SnapshotStatus, Thin};
pub use volume::{
    CapacityError, ErrorCode, LvmVolume, Qos, VolumeError, VolumeSpec, VolumeState, VolumeStatus,
    YesNo,
};
