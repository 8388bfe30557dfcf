//! Parsers of the driver's host layer, compiled from its own files: building
//! the whole driver with coverage counters would take minutes, and these files
//! need little of it.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    reason = "the driver uses more of these files"
)]

#[path = "../../src/host/block.rs"]
mod block;
#[path = "../../src/host/candidate.rs"]
mod candidate;
#[path = "../../src/host/error.rs"]
mod error;
#[path = "../../src/host/fs.rs"]
mod fs;
pub mod linux;

pub use block::{DeviceInfo, SkipReason};
pub use candidate::{Candidate, Signature, Unfit};
pub use error::{HostError, HostResult};
pub use fs::MountEntry;

/// As in the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub hostname: String,
    pub kernel: String,
    pub system_id: Option<String>,
    pub extra_system_ids: Vec<String>,
}
