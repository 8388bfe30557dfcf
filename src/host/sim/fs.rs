//! Mounts and file systems.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use lvm2::tables::DevNo;

use super::fault::{CallKind, eio};
use super::machine::{Process, State};
use super::superblock::{self, HEAD};
use crate::host::{Filesystems, FsKind, FsUsage, HostError, HostResult, MountEntry, Probe};

const ENOENT: i32 = 2;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EINVAL: i32 = 22;
const EROFS: i32 = 30;
const ENOTEMPTY: i32 = 39;

/// A mount, and the device that a mounted file system keeps open.
pub(super) struct Mounted {
    pub(super) entry: MountEntry,
    /// `None` for a bound device node, which opens nothing.
    pub(super) device: Option<DevNo>,
}

fn os(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

fn failed(op: &'static str, path: &Path, source: io::Error) -> HostError {
    HostError::Path {
        op,
        path: path.to_owned(),
        source,
    }
}

fn program(program: &'static str, device: &Path, stderr: impl Into<String>) -> HostError {
    let status = "exit status: 1".to_owned();
    HostError::Program {
        program,
        device: device.to_owned(),
        status,
        stderr: stderr.into(),
    }
}

/// A call on a device that exists and may be read.
struct OnDevice<'a> {
    state: MutexGuard<'a, State>,
    dev: DevNo,
    head: Vec<u8>,
    size: u64,
}

impl OnDevice<'_> {
    fn put_superblock(&mut self, kind: FsKind, size: u64) -> io::Result<()> {
        for (offset, bytes) in superblock::superblock(kind, size) {
            self.state.write(self.dev, offset, &bytes)?;
        }
        self.state.flush(self.dev)
    }

    fn mounted(&self) -> bool {
        self.state
            .mounts
            .iter()
            .any(|mount| mount.device == Some(self.dev))
    }
}

impl Process {
    fn on_device(&self, kind: CallKind, device: &Path) -> io::Result<OnDevice<'_>> {
        let state = self.enter(kind, device.to_string_lossy(), 0, 0)?.state;
        let dev = state.device_at(device).ok_or_else(|| os(ENOENT))?;
        let state = self.unsuspended(state, dev)?;
        let size = state.size(dev).ok_or_else(|| os(ENOENT))?;
        let mut head = vec![0; HEAD];
        let len = super::pages::index(size.min(HEAD as u64));
        state.read(dev, 0, &mut head[..len])?;
        Ok(OnDevice {
            state,
            dev,
            head,
            size,
        })
    }

    fn on_path(&self, kind: CallKind, path: &Path) -> io::Result<MutexGuard<'_, State>> {
        Ok(self.enter(kind, path.to_string_lossy(), 0, 0)?.state)
    }

    fn make_path(&self, path: &Path, is_dir: bool) -> io::Result<()> {
        let mut state = self.on_path(CallKind::MakePath, path)?;
        for parent in path.ancestors().skip(1) {
            if !*state.paths.entry(parent.to_owned()).or_insert(true) {
                return Err(os(ENOTDIR));
            }
        }
        match state.paths.insert(path.to_owned(), is_dir) {
            Some(before) if before != is_dir => {
                state.paths.insert(path.to_owned(), before);
                Err(os(EEXIST))
            }
            _ => Ok(()),
        }
    }
}

impl State {
    /// The device a path leads to: a node, or a file that a node is bound to.
    pub(super) fn device_at(&self, path: &Path) -> Option<DevNo> {
        let bound = self
            .mounts
            .iter()
            .rev()
            .find(|mount| mount.entry.target == path);
        let node = bound.map(|mount| {
            Path::new("/dev").join(
                mount
                    .entry
                    .root
                    .strip_prefix("/")
                    .unwrap_or(&mount.entry.root),
            )
        });
        self.resolve(node.as_deref().unwrap_or(path))
    }

    fn mounted_at(&self, target: &Path) -> io::Result<&Mounted> {
        let found = self
            .mounts
            .iter()
            .rev()
            .find(|mount| mount.entry.target == target);
        found.ok_or_else(|| os(EINVAL))
    }

    fn add_mount(&mut self, entry: MountEntry, device: Option<DevNo>, dir: bool) -> io::Result<()> {
        match self.paths.get(&entry.target) {
            None => Err(os(ENOENT)),
            Some(is_dir) if *is_dir != dir => Err(os(ENOTDIR)),
            Some(_) => {
                self.mounts.push(Mounted { entry, device });
                Ok(())
            }
        }
    }
}

/// Splits mount(8) options into those of the mount and those of the file
/// system; the former always begin with `rw` or `ro`, as the kernel lists them.
fn split_options(options: &[String]) -> (Vec<String>, Vec<String>) {
    const OF_MOUNT: [&str; 8] = [
        "nosuid",
        "nodev",
        "noexec",
        "noatime",
        "nodiratime",
        "relatime",
        "strictatime",
        "nosymfollow",
    ];
    let read_only = options.iter().any(|option| option == "ro");
    let mode = if read_only { "ro" } else { "rw" };
    let (mut own, mut data) = (vec![mode.to_owned()], vec![mode.to_owned()]);
    for option in options.iter().flat_map(|option| option.split(',')) {
        match option {
            "ro" | "rw" | "" | "defaults" => {}
            _ if OF_MOUNT.contains(&option) => own.push(option.to_owned()),
            _ => data.push(option.to_owned()),
        }
    }
    (own, data)
}

impl Filesystems for Process {
    fn probe(&self, device: &Path) -> HostResult<Probe> {
        let call = self.on_device(CallKind::Probe, device);
        let call = call.map_err(|source| failed("probe", device, source))?;
        Ok(superblock::probe(&call.head))
    }

    fn make(&self, device: &Path, kind: FsKind, _options: &[String]) -> HostResult<()> {
        let error = |source: io::Error| program("mkfs", device, source.to_string());
        let mut call = self.on_device(CallKind::Make, device).map_err(error)?;
        if call.state.open_count(call.dev) > 0 {
            return Err(program("mkfs", device, "the device is in use"));
        }
        if superblock::probe(&call.head) != Probe::NoSignature {
            return Err(program("mkfs", device, "the device holds a signature"));
        }
        if call.size < superblock::smallest(kind) {
            return Err(program("mkfs", device, "the device is too small"));
        }
        let size = call.size;
        call.put_superblock(kind, size).map_err(error)
    }

    fn check(&self, device: &Path, kind: FsKind) -> HostResult<()> {
        let call = self.on_device(CallKind::Check, device);
        let call = call.map_err(|source| program("fsck", device, source.to_string()))?;
        if call.mounted() {
            return Err(program("fsck", device, "the device is mounted"));
        }
        match superblock::read(&call.head) {
            Some((found, _)) if found == kind => Ok(()),
            _ => Err(program(
                "fsck",
                device,
                format!("no {} superblock", kind.as_str()),
            )),
        }
    }

    fn mount(
        &self,
        device: &Path,
        target: &Path,
        kind: FsKind,
        options: &[String],
    ) -> HostResult<()> {
        let error = |source| failed("mount", target, source);
        let mut call = self.on_device(CallKind::Mount, device).map_err(error)?;
        if superblock::read(&call.head).map(|(found, _)| found) != Some(kind) {
            return Err(error(os(EINVAL)));
        }
        let (options, super_options) = split_options(options);
        let read_only_device = call
            .state
            .mapped
            .get(&call.dev)
            .is_some_and(|m| m.read_only);
        if read_only_device && options[0] != "ro" {
            return Err(error(os(EROFS)));
        }
        let entry = MountEntry {
            dev: call.dev,
            root: "/".into(),
            target: target.to_owned(),
            fs_type: kind.as_str().to_owned(),
            options,
            super_options,
        };
        let dev = call.dev;
        call.state.add_mount(entry, Some(dev), true).map_err(error)
    }

    fn bind(&self, source: &Path, target: &Path, read_only: bool) -> HostResult<()> {
        let error = |error| failed("bind", target, error);
        let mut state = self.on_path(CallKind::Bind, source).map_err(error)?;
        let dev = state.device_at(source).ok_or_else(|| error(os(ENOENT)))?;
        let node = state.node(dev);
        let entry = MountEntry {
            dev: DevNo { major: 0, minor: 5 },
            root: Path::new("/").join(node.strip_prefix("/dev").unwrap_or(&node)),
            target: target.to_owned(),
            fs_type: "devtmpfs".to_owned(),
            options: vec![if read_only { "ro" } else { "rw" }.to_owned()],
            super_options: vec!["rw".to_owned()],
        };
        state.add_mount(entry, None, false).map_err(error)
    }

    fn unmount(&self, target: &Path) -> HostResult<()> {
        let state = self.on_path(CallKind::Unmount, target);
        let mut state = state.map_err(|source| failed("unmount", target, source))?;
        let found = state
            .mounts
            .iter()
            .rposition(|mount| mount.entry.target == target);
        if let Some(index) = found {
            state.mounts.remove(index);
        }
        Ok(())
    }

    fn mounts(&self) -> HostResult<Vec<MountEntry>> {
        let path = Path::new("/proc/self/mountinfo");
        let state = self.on_path(CallKind::Mounts, path);
        let state = state.map_err(|source| failed("read", path, source))?;
        Ok(state
            .mounts
            .iter()
            .map(|mount| mount.entry.clone())
            .collect())
    }

    fn grow(&self, device: &Path, target: &Path, kind: FsKind) -> HostResult<u64> {
        let error = |source| failed("grow", target, source);
        let mut call = self.on_device(CallKind::Grow, device).map_err(error)?;
        let mounted = call.state.mounted_at(target).map_err(error)?.device;
        let (found, size) = superblock::read(&call.head).ok_or_else(|| error(os(EINVAL)))?;
        if mounted != Some(call.dev) || found != kind {
            return Err(error(os(EINVAL)));
        }
        let grown = (call.size / superblock::BLOCK * superblock::BLOCK).max(size);
        call.put_superblock(kind, grown).map_err(error)?;
        Ok(grown)
    }

    fn usage(&self, target: &Path) -> HostResult<FsUsage> {
        let error = |source| failed("statfs", target, source);
        let state = self.on_path(CallKind::Usage, target).map_err(error)?;
        let dev = state
            .mounted_at(target)
            .map_err(error)?
            .device
            .ok_or_else(|| error(os(EINVAL)))?;
        let mut head = vec![0; HEAD];
        state.read(dev, 0, &mut head).map_err(error)?;
        let (kind, total) = superblock::read(&head).ok_or_else(|| error(eio()))?;
        // An empty file system uses something for itself: a fiftieth here.
        let used = total / 50;
        let inodes = if kind == FsKind::Btrfs {
            0
        } else {
            total / 16384
        };
        Ok(FsUsage {
            total_bytes: total,
            available_bytes: total - used,
            used_bytes: used,
            total_inodes: inodes,
            free_inodes: inodes.saturating_sub(11),
        })
    }

    fn make_dir(&self, path: &Path) -> HostResult<()> {
        self.make_path(path, true)
            .map_err(|source| failed("make directory", path, source))
    }

    fn make_file(&self, path: &Path) -> HostResult<()> {
        self.make_path(path, false)
            .map_err(|source| failed("make file", path, source))
    }

    fn remove_path(&self, path: &Path) -> HostResult<()> {
        let error = |source| failed("remove", path, source);
        let mut state = self.on_path(CallKind::RemovePath, path).map_err(error)?;
        let inside = |other: &PathBuf| other != path && other.starts_with(path);
        if state.paths.keys().any(inside) {
            return Err(error(os(ENOTEMPTY)));
        }
        if state.mounts.iter().any(|mount| mount.entry.target == path) {
            return Err(error(os(EBUSY)));
        }
        state.paths.remove(path);
        Ok(())
    }

    fn kind_of(&self, path: &Path) -> HostResult<Option<bool>> {
        let state = self.on_path(CallKind::KindOf, path);
        let state = state.map_err(|source| failed("stat", path, source))?;
        let node = || state.resolve(path).map(|_| false);
        Ok(state.paths.get(path).copied().or_else(node))
    }
}
