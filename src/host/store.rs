//! Files that keep copies of metadata: our own and lvm2's backup file.

use std::path::{Path, PathBuf};

use super::HostResult;

/// A file in a directory of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Name within the directory.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// When it was written last, in seconds since 1970.
    pub modified: u64,
}

/// Files of metadata copies. A copy is written in two steps, so that the slow
/// one needs no lock: [`stage`](Self::stage) puts it on the disk under a
/// temporary name, [`publish`](Self::publish) renames it.
pub trait CopyStore: Send + Sync {
    /// Writes `content` to a new file in `dir`, readable by its owner only,
    /// and makes it durable. Returns its temporary path. With `create`, an
    /// absent directory is made.
    fn stage(&self, dir: &Path, create: bool, content: &[u8]) -> HostResult<PathBuf>;

    /// Gives a staged file its name, in place of a file that has it.
    fn publish(&self, staged: &Path, name: &str) -> HostResult<()>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> HostResult<()>;

    /// The files in `dir`; none if there is no such directory.
    fn list(&self, dir: &Path) -> HostResult<Vec<StoredFile>>;

    /// The content of a file; `None` if there is none. A file that is larger
    /// than any metadata is an error.
    fn read(&self, path: &Path) -> HostResult<Option<Vec<u8>>>;

    /// Removes a file; absent is success.
    fn remove(&self, path: &Path) -> HostResult<()>;

    /// The directory where lvm2 keeps the newest metadata of each VG, if it is
    /// there and lvm.conf does not switch backups off.
    fn lvm2_dir(&self) -> Option<PathBuf>;
}

/// How temporary files begin; one that a dead process left is removed later.
pub const TEMPORARY: &str = ".lvcsi_";
