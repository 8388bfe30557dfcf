//! A device that shall become a PV: what it is, and what stands against it.

use std::fmt;
use std::path::PathBuf;

use lvm2::ondisk::geometry::Topology;

use super::{DeviceInfo, SkipReason};

/// Why a device must not become a PV.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// lvm2 would not look for a PV there.
    #[error("it {0}")]
    Skipped(SkipReason),
    /// A file system on it is mounted.
    #[error("it is mounted at {}", .0.display())]
    Mounted(PathBuf),
    /// The kernel swaps to it.
    #[error("the kernel swaps to it; swapoff ends that")]
    Swap,
    /// Other devices are built on it.
    #[error("it is in use by {}", .0.join(", "))]
    Held(Vec<String>),
    /// The kernel refuses writes to it.
    #[error("it is read-only")]
    ReadOnly,
}

/// A device as the kernel shows it, before anything of it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The device.
    pub info: DeviceInfo,
    /// How it likes to be used.
    pub topology: Topology,
    /// What stands against it, the most telling first.
    pub unfit: Vec<Unfit>,
}

/// Something that a former user left on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// `ext4`, `LVM2_member`, `gpt`, …
    pub kind: String,
    /// Label of a file system.
    pub label: Option<String>,
    /// Its uuid.
    pub uuid: Option<String>,
    /// Offset and length of its magic number in bytes; without it, it cannot
    /// be wiped.
    pub magic: Option<(u64, u64)>,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some((offset, _)) = self.magic {
            write!(f, " at byte {offset}")?;
        }
        if let Some(label) = &self.label {
            write!(f, ", label {label:?}")?;
        }
        match &self.uuid {
            Some(uuid) => write!(f, ", uuid {uuid}"),
            None => Ok(()),
        }
    }
}
