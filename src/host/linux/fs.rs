//! File systems: making, checking, mounting, growing, measuring.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statvfs::statvfs;

use super::block::path_error;
use super::{mkfs, mount, probe};
use crate::host::{Filesystems, FsKind, FsUsage, HostResult, MountEntry, Probe};

/// Mode of directories made for mounts, as the kubelet makes its own.
const DIR_MODE: u32 = 0o750;

/// The machine's file systems.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinuxFilesystems;

impl Filesystems for LinuxFilesystems {
    fn probe(&self, device: &Path) -> HostResult<Probe> {
        probe::probe(device)
    }

    fn make(&self, device: &Path, kind: FsKind, options: &[String]) -> HostResult<()> {
        mkfs::make(device, kind, options)
    }

    fn check(&self, device: &Path, kind: FsKind) -> HostResult<()> {
        mkfs::check(device, kind)
    }

    fn mount(
        &self,
        device: &Path,
        target: &Path,
        kind: FsKind,
        options: &[String],
    ) -> HostResult<()> {
        mount::device(device, target, kind, options)
    }

    /// Read-only keeps the *inode* of the node from being changed; writes to the
    /// device behind it are up to the device itself.
    fn bind(&self, source: &Path, target: &Path, read_only: bool) -> HostResult<()> {
        mount::bind(source, target, read_only)
    }

    fn unmount(&self, target: &Path) -> HostResult<()> {
        mount::unmount(target)
    }

    fn mounts(&self) -> HostResult<Vec<MountEntry>> {
        mount::mounts()
    }

    fn grow(&self, device: &Path, target: &Path, kind: FsKind) -> HostResult<u64> {
        let size = File::open(device)
            .and_then(lvcsi_sys::block::size_bytes)
            .map_err(|error| path_error("grow", device, error))?;
        grow(target, kind, size).map_err(|error| path_error("grow", target, error))
    }

    fn usage(&self, target: &Path) -> HostResult<FsUsage> {
        let stat = statvfs(target).map_err(|error| path_error("statvfs", target, error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.fragment_size());
        Ok(FsUsage {
            total_bytes: bytes(stat.blocks()),
            available_bytes: bytes(stat.blocks_available()),
            used_bytes: bytes(stat.blocks().saturating_sub(stat.blocks_free())),
            total_inodes: stat.files(),
            free_inodes: stat.files_free(),
        })
    }

    fn make_dir(&self, path: &Path) -> HostResult<()> {
        make_dir(path).map_err(|error| path_error("create", path, error))
    }

    fn make_file(&self, path: &Path) -> HostResult<()> {
        path.parent()
            .map_or(Ok(()), make_dir)
            .and_then(|()| {
                OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o640)
                    .open(path)
            })
            .map(drop)
            .map_err(|error| path_error("create", path, error))
    }

    fn remove_path(&self, path: &Path) -> HostResult<()> {
        let removed = match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => std::fs::remove_dir(path),
            Ok(_) => std::fs::remove_file(path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(path_error("remove", path, error))
            }
            _ => Ok(()),
        }
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        for ancestor in path.ancestors().skip(1) {
            let rest = path.strip_prefix(ancestor).unwrap_or(path);
            match ancestor.canonicalize() {
                Ok(real) => return Ok(real.join(rest)),
                Err(absent) if absent.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(path_error("resolve", path, error)),
            }
        }
        Ok(path.to_owned())
    }

    fn kind_of(&self, path: &Path) -> HostResult<Option<bool>> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.is_dir())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(path_error("stat", path, error)),
        }
    }
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIR_MODE)
        .create(path)
}

/// Grows the mounted file system to a device of `size` bytes and returns the
/// size it has then, in bytes. Being that large already is success.
fn grow(target: &Path, kind: FsKind, size: u64) -> io::Result<u64> {
    let root = File::open(target)?;
    match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => {
            let block = statvfs(target)?.fragment_size();
            let blocks = size.checked_div(block).ok_or(Errno::EINVAL)?;
            lvcsi_sys::fs::ext4_resize(&root, blocks)?;
            Ok(blocks * block)
        }
        FsKind::Xfs => {
            let shape = lvcsi_sys::fs::xfs_geometry(&root)?;
            let block = u64::from(shape.block_size);
            let blocks = size.checked_div(block).ok_or(Errno::EINVAL)?;
            if blocks > shape.data_blocks {
                lvcsi_sys::fs::xfs_growfs_data(&root, blocks)?;
            }
            // XFS leaves a last group that would be too small unused.
            Ok(lvcsi_sys::fs::xfs_geometry(&root)?.data_blocks * block)
        }
        FsKind::Btrfs => {
            lvcsi_sys::fs::btrfs_resize_max(&root)?;
            Ok(size)
        }
    }
}

#[cfg(test)]
#[path = "fs_tests.rs"]
mod tests;
