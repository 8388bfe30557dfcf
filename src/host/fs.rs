//! Mounts and file systems.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{HostError, HostResult};

/// A file system that can be made, checked and grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FsKind {
    /// ext2
    Ext2,
    /// ext3
    Ext3,
    /// ext4
    Ext4,
    /// XFS
    Xfs,
    /// Btrfs
    Btrfs,
}

impl FsKind {
    /// The name that mount(2), mkfs and StorageClasses use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }
}

impl FromStr for FsKind {
    type Err = HostError;

    fn from_str(name: &str) -> HostResult<Self> {
        Ok(match name {
            "ext2" => Self::Ext2,
            "ext3" => Self::Ext3,
            "ext4" => Self::Ext4,
            "xfs" => Self::Xfs,
            "btrfs" => Self::Btrfs,
            _ => return Err(HostError::UnsupportedFilesystem(name.to_owned())),
        })
    }
}

/// What is on a device, as libblkid's full signature set sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// No signature of any kind.
    NoSignature,
    /// A signature: its type (`ext4`, `LVM2_member`, `gpt`, `crypto_LUKS`, …).
    Signature(String),
    /// Several signatures that contradict each other.
    Ambivalent,
}

/// One line of the mount table of this process's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Device number of the mounted file system; where the kernel has an anonymous
    /// one (Btrfs), that of the device which it names as the source.
    pub dev: lvm2::tables::DevNo,
    /// The part of the file system that is mounted, e.g. `/` or, for a bound
    /// device node, `/dm-3`.
    pub root: PathBuf,
    /// Where.
    pub target: PathBuf,
    /// File system type (`devtmpfs` for bound device nodes).
    pub fs_type: String,
    /// Mount options of this mount (not of the superblock).
    pub options: Vec<String>,
    /// Superblock options.
    pub super_options: Vec<String>,
}

/// Use of a mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsUsage {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes free to unprivileged users.
    pub available_bytes: u64,
    /// Bytes used.
    pub used_bytes: u64,
    /// Inodes in all (0 where the file system has no fixed number).
    pub total_inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
}

/// Mounting, making and growing file systems. Devices are paths that exist.
pub trait Filesystems: Send + Sync {
    /// Looks for signatures with libblkid (file systems, raid, partition tables).
    fn probe(&self, device: &Path) -> HostResult<Probe>;
    /// Makes a file system. The caller has proven that the device is blank.
    fn make(&self, device: &Path, kind: FsKind, options: &[String]) -> HostResult<()>;
    /// Checks (and repairs what is safe to repair) an unmounted file system.
    fn check(&self, device: &Path, kind: FsKind) -> HostResult<()>;
    /// Mounts `device` on `target` (a directory that exists) with `options`
    /// as in mount(8): flags such as `ro`, `noatime` and file system data.
    fn mount(
        &self,
        device: &Path,
        target: &Path,
        kind: FsKind,
        options: &[String],
    ) -> HostResult<()>;
    /// Bind-mounts a device node onto the file `target`.
    fn bind(&self, source: &Path, target: &Path, read_only: bool) -> HostResult<()>;
    /// Unmounts `target`; not mounted is success.
    fn unmount(&self, target: &Path) -> HostResult<()>;
    /// The mount table.
    fn mounts(&self) -> HostResult<Vec<MountEntry>>;
    /// Grows a mounted file system to the size of its device; returns its size.
    fn grow(&self, device: &Path, target: &Path, kind: FsKind) -> HostResult<u64>;
    /// Space and inodes of a mounted file system.
    fn usage(&self, target: &Path) -> HostResult<FsUsage>;
    /// Makes a directory and its parents.
    fn make_dir(&self, path: &Path) -> HostResult<()>;
    /// Makes an empty file and its parents.
    fn make_file(&self, path: &Path) -> HostResult<()>;
    /// Removes an empty directory or a file; absent is success.
    fn remove_path(&self, path: &Path) -> HostResult<()>;
    /// The path as the mount table spells it: links on the way to its last part
    /// are followed. The path need not exist.
    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        Ok(path.to_owned())
    }
    /// Whether the path exists, and whether it is a directory.
    fn kind_of(&self, path: &Path) -> HostResult<Option<bool>>;
}
