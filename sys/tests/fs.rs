//! Growing and freezing real file systems on loop devices.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_types,
    reason = "the tests make file systems with mkfs"
)]

use std::fs::File;
use std::path::Path;
use std::process::Command;

use lvcsi_sys::loopdev::{LoopDevice, LoopOptions};
use lvcsi_sys::{block, fs};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statvfs::statvfs;

mod common;

const MIB: u64 = 1 << 20;

/// A mounted file system, in a mount namespace of the test's own thread.
struct Mounted {
    // Dropped in this order: the mount holds the device open.
    directory: tempfile::TempDir,
    device: LoopDevice,
    file: File,
}

impl Mounted {
    /// Makes and mounts a file system; `None` where that is not possible here.
    fn new(kind: &str, mkfs: &[&str], size: u64) -> Option<Self> {
        if !common::root() {
            return None;
        }
        let program = format!("mkfs.{kind}");
        let (file, device) = common::attach(size, LoopOptions::default());
        let Ok(made) = Command::new(&program)
            .args(mkfs)
            .arg(device.path())
            .output()
        else {
            eprintln!("skipped: {program} is not installed");
            return None;
        };
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mounted = mount(
            Some(device.path()),
            directory.path(),
            Some(kind),
            MsFlags::empty(),
            none,
        );
        if mounted == Err(nix::errno::Errno::ENODEV) {
            eprintln!("skipped: this kernel has no {kind}");
            return None;
        }
        mounted.unwrap();
        Some(Self {
            directory,
            device,
            file,
        })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn open(&self) -> File {
        File::open(self.path()).unwrap()
    }

    fn grow_device(&self, size: u64) {
        self.file.set_len(size).unwrap();
        self.device.set_capacity().unwrap();
        assert_eq!(block::size_bytes(&self.device).unwrap(), size);
    }

    /// Size of the file system in bytes.
    fn size(&self) -> u64 {
        let stat = statvfs(self.path()).unwrap();
        stat.blocks() * stat.fragment_size()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(self.directory.path(), MntFlags::MNT_DETACH);
    }
}

/// Whether this process has `CAP_SYS_RESOURCE`.
fn may_use_reserved_resources() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() >> CAP_SYS_RESOURCE & 1 == 1
}

#[test]
fn ext4_grows_while_mounted() {
    if common::root() && !may_use_reserved_resources() {
        eprintln!("skipped: ext4 lets only CAP_SYS_RESOURCE resize, which this process lacks");
        return;
    }
    let Some(mounted) = Mounted::new("ext4", &["-q", "-b", "4096"], 64 * MIB) else {
        return;
    };
    let before = mounted.size();
    let error = fs::ext4_resize(mounted.open(), 128 * MIB / 4096).unwrap_err();
    let too_large = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EIO));
    assert!(too_large, "larger than the device: {error}");
    assert_eq!(mounted.size(), before);
    mounted.grow_device(128 * MIB);
    fs::ext4_resize(mounted.open(), 128 * MIB / 4096).unwrap();
    assert!(
        mounted.size() > before * 19 / 10,
        "{before} -> {}",
        mounted.size()
    );
}

#[test]
fn xfs_grows_while_mounted_and_keeps_its_share_of_inodes() {
    let mkfs = ["-q", "-b", "size=4096", "-i", "maxpct=17"];
    let Some(mounted) = Mounted::new("xfs", &mkfs, 320 * MIB) else {
        return;
    };
    let before = fs::xfs_geometry(mounted.open()).unwrap();
    assert_eq!((before.block_size, before.inode_max_percent), (4096, 17));
    assert_eq!(before.data_blocks, 320 * MIB / 4096);
    mounted.grow_device(512 * MIB);
    fs::xfs_growfs_data(mounted.open(), 512 * MIB / 4096).unwrap();
    let after = fs::xfs_geometry(mounted.open()).unwrap();
    assert_eq!(
        after,
        fs::XfsGeometry {
            data_blocks: 512 * MIB / 4096,
            ..before
        }
    );
}

#[test]
fn btrfs_grows_while_mounted() {
    let Some(mounted) = Mounted::new("btrfs", &["-q"], 256 * MIB) else {
        return;
    };
    assert_eq!(mounted.size(), 256 * MIB);
    mounted.grow_device(512 * MIB);
    fs::btrfs_resize(mounted.open(), 1, 384 * MIB).unwrap();
    assert_eq!(mounted.size(), 384 * MIB);
    fs::btrfs_resize_max(mounted.open()).unwrap();
    assert_eq!(mounted.size(), 512 * MIB);
}

#[test]
fn freezing_is_exclusive_and_ends() {
    let Some(mounted) = Mounted::new("ext4", &["-q"], 32 * MIB) else {
        return;
    };
    fs::freeze(mounted.open()).unwrap();
    let again = fs::freeze(mounted.open()).map_err(|error| error.raw_os_error());
    fs::thaw(mounted.open()).unwrap();
    assert_eq!(again, Err(Some(libc::EBUSY)));
    assert_eq!(
        fs::thaw(mounted.open()).unwrap_err().raw_os_error(),
        Some(libc::EINVAL)
    );
    std::fs::write(mounted.path().join("file"), "written after").unwrap();
}

#[test]
fn other_file_systems_say_so() {
    let Some(mounted) = Mounted::new("ext4", &["-q"], 32 * MIB) else {
        return;
    };
    let error = fs::xfs_growfs_data(mounted.open(), 1).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    let error = fs::btrfs_resize_max(mounted.open()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
}
