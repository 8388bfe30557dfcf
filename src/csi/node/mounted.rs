//! Where a volume is published, by the kernel's mount table.

use std::path::{Path, PathBuf};

use crate::engine::LvState;
use crate::host::{HostResult, MountEntry};

use super::super::driver::Driver;

/// Whether the entry is a mount of the volume's file system.
pub(super) fn is_filesystem(entry: &MountEntry, lv: &LvState) -> bool {
    lv.dev == Some(entry.dev)
}

/// Whether the entry is the volume's device node, bound to a file. The table
/// shows the node's path inside the file system that it lies on.
pub(super) fn is_node(entry: &MountEntry, lv: &LvState) -> bool {
    let name = lv.node.as_deref().and_then(Path::file_name);
    name.is_some()
        && entry.root.file_name() == name
        && matches!(entry.fs_type.as_str(), "devtmpfs" | "tmpfs")
}

/// Whether the entry forbids writing.
pub(super) fn is_read_only(entry: &MountEntry) -> bool {
    entry.options.iter().any(|option| option == "ro")
}

/// Whether the file system itself forbids writing.
pub(super) fn is_superblock_read_only(entry: &MountEntry) -> bool {
    entry.super_options.iter().any(|option| option == "ro")
}

/// What is mounted at `target`: the topmost, if several are.
pub(super) fn at<'a>(mounts: &'a [MountEntry], target: &Path) -> Option<&'a MountEntry> {
    mounts.iter().rev().find(|entry| entry.target == target)
}

/// Every place where the volume is published.
pub(in super::super) fn published(driver: &Driver, lv: &LvState) -> HostResult<Vec<PathBuf>> {
    if lv.dev.is_none() {
        return Ok(Vec::new());
    }
    let mounts = driver.engine.host().fs.mounts()?;
    Ok(mounts
        .into_iter()
        .filter(|entry| is_filesystem(entry, lv) || is_node(entry, lv))
        .map(|entry| entry.target)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::super::volume::tests::lv;
    use super::*;
    use lvm2::tables::DevNo;

    fn entry(dev: DevNo, root: &str, target: &str, fs_type: &str) -> MountEntry {
        MountEntry {
            dev,
            root: root.into(),
            target: target.into(),
            fs_type: fs_type.to_owned(),
            options: vec!["rw".to_owned()],
            super_options: vec!["ro".to_owned()],
        }
    }

    #[test]
    fn mounts_and_bound_nodes_are_told_apart() {
        let dev = DevNo {
            major: 253,
            minor: 3,
        };
        let devtmpfs = DevNo { major: 0, minor: 5 };
        let mut volume = lv("vg", "a", &["lvcsi"]);
        volume.dev = Some(dev);
        volume.node = Some("/dev/dm-3".into());
        let mounted = entry(dev, "/", "/x", "ext4");
        let bound = entry(devtmpfs, "/dm-3", "/y", "devtmpfs");
        assert!(is_filesystem(&mounted, &volume) && !is_node(&mounted, &volume));
        assert!(is_node(&bound, &volume) && !is_filesystem(&bound, &volume));
        assert!(!is_node(
            &entry(devtmpfs, "/dm-30", "/y", "devtmpfs"),
            &volume
        ));
        volume.node = None;
        assert!(!is_node(&bound, &volume));
        assert!(!is_read_only(&mounted) && is_superblock_read_only(&mounted));
        let table = [mounted, entry(devtmpfs, "/top", "/x", "tmpfs")];
        assert_eq!(at(&table, Path::new("/x")).unwrap().root, Path::new("/top"));
    }
}
