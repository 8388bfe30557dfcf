//! Errors of the host layer. Each names the object and carries the OS error.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Result of a host call.
pub type HostResult<T> = Result<T, HostError>;

/// What went wrong on the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A read, write or flush failed.
    #[error("{op} {path} at byte {offset}: {source}")]
    Io {
        /// `read`, `write`, `flush`, `zero` or `discard`.
        op: &'static str,
        /// The device.
        path: PathBuf,
        /// Byte offset of the call.
        offset: u64,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A path could not be opened, made, listed or removed.
    #[error("{op} {path}: {source}")]
    Path {
        /// What was tried.
        op: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A device-mapper ioctl failed.
    #[error("device-mapper {op} of {device}: {source}")]
    Dm {
        /// The ioctl, e.g. `load`.
        op: &'static str,
        /// Name, uuid or number of the device.
        device: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A device is open and cannot be removed.
    #[error("{device} is in use ({open_count} openers)")]
    Busy {
        /// dm name.
        device: String,
        /// Openers the kernel counts.
        open_count: u32,
    },
    /// A device is in use by somebody, and cannot be had alone.
    #[error(
        "{path} is in use: a mount, a device built on it or a program holds it; end that and try again"
    )]
    Claimed {
        /// The device.
        path: PathBuf,
    },
    /// A device is not what it was when it was looked at.
    #[error("{path} has changed meanwhile ({detail}); look at it and try again")]
    Changed {
        /// The device.
        path: PathBuf,
        /// What differs.
        detail: String,
    },
    /// A directory that lvm2 on the host shares with its commands is missing.
    #[error("{path} does not exist: mount the host's directory, or lvm2 on the host is misled")]
    NoLvm2Directory {
        /// The directory.
        path: PathBuf,
    },
    /// A device did not answer in time.
    #[error("{op} {path} did not end within {after:?}")]
    TimedOut {
        /// What was tried.
        op: &'static str,
        /// The device.
        path: PathBuf,
        /// The time-out.
        after: Duration,
    },
    /// A lock was not to be had in time.
    #[error("lock {resource} is held{}; gave up after {after:?}", holder_text(.holder))]
    LockTimeout {
        /// Lock file name.
        resource: String,
        /// Process ids and names of the holders, where known.
        holder: Vec<String>,
        /// The deadline.
        after: Duration,
    },
    /// The host's lock directory is missing.
    #[error(
        "{} does not exist: mount the host's lvm2 lock directory there, so that this driver and \
         lvm2 commands on the host exclude each other; until then nothing on the disks is changed. \
         An agent with LVCSI_PRIVATE_LOCKS=true does without, as the peer does, and then nobody may \
         change these VGs on the host",
        path.display()
    )]
    NoLockDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// mkfs or fsck failed.
    #[error("{program} on {device} failed ({status}): {stderr}")]
    Program {
        /// The program.
        program: &'static str,
        /// The device.
        device: PathBuf,
        /// Exit status or signal.
        status: String,
        /// The end of what it printed.
        stderr: String,
    },
    /// The file system type is not supported.
    #[error("file system {0:?} is not supported (ext2, ext3, ext4, xfs, btrfs)")]
    UnsupportedFilesystem(String),
    /// A configuration file of lvm2 could not be understood.
    #[error("{path}: {reason}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        reason: String,
    },
}

impl HostError {
    /// The OS error number behind this error, if any.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } | Self::Path { source, .. } | Self::Dm { source, .. } => {
                source.raw_os_error()
            }
            _ => None,
        }
    }
}

fn holder_text(holder: &[String]) -> String {
    if holder.is_empty() {
        String::new()
    } else {
        format!(" by {}", holder.join(", "))
    }
}
