use std::collections::HashSet;
use std::path::PathBuf;

use super::super::block::tests::loop_device;
use super::*;
use crate::host::HostError;

const FS: LinuxFilesystems = LinuxFilesystems;

fn known_to_the_kernel(kind: FsKind) -> bool {
    let kernel = std::fs::read_to_string("/proc/filesystems").unwrap();
    let known: HashSet<&str> = kernel.split_whitespace().collect();
    let there = known.contains(kind.as_str());
    if !there {
        eprintln!("skipped: the kernel has no {}", kind.as_str());
    }
    there
}

fn may_resize_ext() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caps = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .unwrap();
    u64::from_str_radix(caps.trim(), 16).unwrap() >> CAP_SYS_RESOURCE & 1 == 1
}

/// Leaves nothing mounted if the test fails.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = FS.unmount(&self.0);
    }
}

/// Makes, mounts, grows and checks one kind for real.
fn life(kind: FsKind) {
    if !known_to_the_kernel(kind) {
        return;
    }
    let Some((device, backing)) = loop_device(512, 400 << 20) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("a b/mnt");
    FS.make_dir(&target).unwrap();
    FS.make(device.path(), kind, &[]).unwrap();
    assert_eq!(
        FS.probe(device.path()).unwrap(),
        Probe::Signature(kind.as_str().to_owned())
    );
    FS.check(device.path(), kind).unwrap();
    let options = ["noatime".to_owned(), "rw".to_owned()];
    FS.mount(device.path(), &target, kind, &options).unwrap();
    let _mounted = Mounted(target.clone());
    let entry = FS
        .mounts()
        .unwrap()
        .into_iter()
        .find(|m| m.target == target)
        .unwrap();
    assert_eq!(entry.fs_type, kind.as_str());
    assert!(entry.options.contains(&"noatime".to_owned()));
    let before = FS.usage(&target).unwrap();
    std::fs::write(target.join("file"), vec![7; 1 << 20]).unwrap();

    let size = 800 << 20;
    OpenOptions::new()
        .write(true)
        .open(&backing)
        .unwrap()
        .set_len(size)
        .unwrap();
    device.set_capacity().unwrap();
    if matches!(kind, FsKind::Ext3 | FsKind::Ext4) && !may_resize_ext() {
        eprintln!("skipped: ext4 lets only CAP_SYS_RESOURCE resize, which this process lacks");
        return;
    }
    let grown = FS.grow(device.path(), &target, kind).unwrap();
    assert!(grown <= size && grown > size - (64 << 20), "{grown}");
    assert_eq!(
        FS.grow(device.path(), &target, kind).unwrap(),
        grown,
        "again is nothing to do"
    );
    let after = FS.usage(&target).unwrap();
    assert!(
        after.total_bytes > before.total_bytes + (300 << 20),
        "{before:?} {after:?}"
    );
    assert!(after.total_bytes >= after.used_bytes + after.available_bytes);

    FS.unmount(&target).unwrap();
    FS.unmount(&target).unwrap();
    FS.check(device.path(), kind).unwrap();
    FS.remove_path(&target).unwrap();
}

#[test]
fn ext4_from_mkfs_to_fsck() {
    life(FsKind::Ext4);
}

#[test]
fn ext3_from_mkfs_to_fsck() {
    life(FsKind::Ext3);
}

#[test]
fn xfs_from_mkfs_to_fsck() {
    life(FsKind::Xfs);
}

#[test]
fn btrfs_from_mkfs_to_fsck() {
    life(FsKind::Btrfs);
}

#[test]
fn xfs_and_btrfs_refuse_a_device_in_use_and_mkfs_tells_why() {
    let Some((device, _backing)) = loop_device(512, 400 << 20) else {
        return;
    };
    FS.make(
        device.path(),
        FsKind::Ext4,
        &["-L".to_owned(), "mine".to_owned()],
    )
    .unwrap();
    for kind in [FsKind::Xfs, FsKind::Btrfs] {
        let error = FS.make(device.path(), kind, &[]).unwrap_err();
        assert!(
            matches!(&error, HostError::Program { stderr, .. } if stderr.contains("ext4")),
            "{error}"
        );
    }
    assert_eq!(
        FS.probe(device.path()).unwrap(),
        Probe::Signature("ext4".to_owned())
    );
}

#[test]
fn binds_a_device_node_onto_a_file() {
    let Some((device, _backing)) = loop_device(512, 8 << 20) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("pod/block");
    FS.make_file(&target).unwrap();
    FS.make_file(&target).unwrap();
    FS.bind(device.path(), &target, true).unwrap();
    let _mounted = Mounted(target.clone());
    let entry = FS
        .mounts()
        .unwrap()
        .into_iter()
        .find(|m| m.target == target)
        .unwrap();
    assert_eq!(entry.root.file_name(), device.path().file_name());
    assert!(entry.options.contains(&"ro".to_owned()));
    assert!(FS.remove_path(&target).is_err(), "still mounted");
    FS.unmount(&target).unwrap();
    FS.remove_path(&target).unwrap();
    FS.remove_path(&target).unwrap();
    assert_eq!(FS.kind_of(&target).unwrap(), None);
    assert_eq!(FS.kind_of(dir.path()).unwrap(), Some(true));
    FS.unmount(&PathBuf::from("/no/such/mount")).unwrap();
}
