//! lvm2's lock files (`V_<vg>`, `P_global`) with lvm2's own protocol.

use std::path::PathBuf;
use std::time::Duration;

use super::{HostError, HostResult};

/// Shared for reading, exclusive for changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Many readers at once.
    Shared,
    /// One holder alone.
    Exclusive,
}

/// A held lock; dropping it releases the lock.
pub trait LockGuard: Send {}

/// Taking locks that lvm2 respects.
pub trait Locks: Send + Sync {
    /// Takes the lock `resource` (a file name such as `V_data`), waiting at
    /// most `deadline`.
    ///
    /// # Errors
    /// [`HostError::LockTimeout`] names the holder where the kernel tells;
    /// [`HostError::NoLockDirectory`] when the host's lock directory is not there (a
    /// container without the mount).
    fn lock(
        &self,
        resource: &str,
        mode: LockMode,
        deadline: Duration,
    ) -> HostResult<Box<dyn LockGuard>>;

    /// The host's lock directory if it is not there: until it is, no lock is given,
    /// and so nothing is changed that lvm2 can see.
    fn absent(&self) -> Option<PathBuf>;

    /// Why no lock is given, if none is.
    fn refusal(&self) -> Option<HostError> {
        let path = self.absent()?;
        Some(HostError::NoLockDirectory { path })
    }

    /// Lock files whose names begin with `prefix`, that nobody holds and that
    /// are too old to be about to be locked: their makers died.
    fn leftovers(&self, prefix: &str) -> HostResult<Vec<String>>;
}
