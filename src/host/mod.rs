//! What the engine needs from a machine, as traits, with two implementations.
//!
//! [`linux`] is the real one; [`sim`] keeps disks and device-mapper in memory
//! and can fail at any call. Nothing above this module touches the kernel.
//!
//! All sizes in this module are bytes unless a type says otherwise. A call that
//! reads or changes a device lasts as long as the device takes: the kernel does
//! not let a thread go before. [`watch`] tells who waits for what, so that
//! nobody else has to.

pub mod block;
pub mod candidate;
pub mod clock;
pub mod dm;
pub mod error;
pub mod fs;
pub mod linux;
pub mod lock;
pub mod lvm2files;
pub mod sim;
pub mod store;
pub mod watch;

use std::sync::Arc;

pub use block::{BlockDevice, BlockDevices, DeviceEvents, DeviceInfo, SkipReason, Skipped};
pub use candidate::{Candidate, Signature, Unfit};
pub use clock::Clock;
pub use dm::{DeviceMapper, DmDevice, DmEntry, Exposure, SuspendMode};
pub use error::{HostError, HostResult};
pub use fs::{Filesystems, FsKind, FsUsage, MountEntry, Probe};
pub use lock::{LockGuard, LockMode, Locks};
pub use lvm2files::Lvm2Files;
pub use store::{CopyStore, StoredFile};
pub use watch::{Calls, Pending};

/// One machine: its disks, device-mapper, locks, file systems, clock and files.
#[derive(Clone)]
pub struct Host {
    /// Block devices that may carry PVs.
    pub block: Arc<dyn BlockDevices>,
    /// The kernel's device-mapper.
    pub dm: Arc<dyn DeviceMapper>,
    /// lvm2's lock files.
    pub locks: Arc<dyn Locks>,
    /// lvm2's other files.
    pub lvm2: Arc<dyn Lvm2Files>,
    /// Mounts and file systems.
    pub fs: Arc<dyn Filesystems>,
    /// Time, waiting and randomness.
    pub clock: Arc<dyn Clock>,
    /// Files of metadata copies.
    pub copies: Arc<dyn CopyStore>,
    /// What lvm.conf and friends say about this machine.
    pub identity: Identity,
}

/// Who this machine is to lvm2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Host name, written as `creation_host`.
    pub hostname: String,
    /// What `uname -srvm` says, written as a comment beside the host name.
    pub kernel: String,
    /// The local system id that lvm.conf configures, if any.
    pub system_id: Option<String>,
    /// Further system ids whose VGs this host may use.
    pub extra_system_ids: Vec<String>,
}
