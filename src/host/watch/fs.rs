//! File systems with a note of every call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Calls;
use crate::host::{Filesystems, FsKind, FsUsage, HostResult, MountEntry, Probe};

/// What mkfs and fsck may take before those who wait are told.
const PROGRAM: Duration = Duration::from_secs(60);

/// Mounts and file systems.
pub(super) struct Files {
    inner: Arc<dyn Filesystems>,
    calls: Arc<Calls>,
}

impl Files {
    pub(super) fn new(inner: Arc<dyn Filesystems>, calls: Arc<Calls>) -> Self {
        Self { inner, calls }
    }

    fn during<T>(&self, op: &'static str, path: &Path, call: impl FnOnce() -> T) -> T {
        self.calls.during(op, path.to_string_lossy().into(), call)
    }
}

impl Filesystems for Files {
    fn probe(&self, device: &Path) -> HostResult<Probe> {
        self.during("look for signatures on", device, || {
            self.inner.probe(device)
        })
    }

    fn make(&self, device: &Path, kind: FsKind, options: &[String]) -> HostResult<()> {
        let object = device.to_string_lossy().into();
        self.calls.note("mkfs of", object, PROGRAM, || {
            self.inner.make(device, kind, options)
        })
    }

    fn check(&self, device: &Path, kind: FsKind) -> HostResult<()> {
        let object = device.to_string_lossy().into();
        self.calls.note("fsck of", object, PROGRAM, || {
            self.inner.check(device, kind)
        })
    }

    fn mount(
        &self,
        device: &Path,
        target: &Path,
        kind: FsKind,
        options: &[String],
    ) -> HostResult<()> {
        let object = format!("{} at {}", device.display(), target.display());
        self.calls.during("mount of", object.into(), || {
            self.inner.mount(device, target, kind, options)
        })
    }

    fn bind(&self, source: &Path, target: &Path, read_only: bool) -> HostResult<()> {
        self.during("bind mount at", target, || {
            self.inner.bind(source, target, read_only)
        })
    }

    fn unmount(&self, target: &Path) -> HostResult<()> {
        self.during("unmount of", target, || self.inner.unmount(target))
    }

    fn mounts(&self) -> HostResult<Vec<MountEntry>> {
        self.during("read", Path::new("the mount table"), || self.inner.mounts())
    }

    fn grow(&self, device: &Path, target: &Path, kind: FsKind) -> HostResult<u64> {
        self.during("growth of the file system at", target, || {
            self.inner.grow(device, target, kind)
        })
    }

    fn usage(&self, target: &Path) -> HostResult<FsUsage> {
        self.during("statfs of", target, || self.inner.usage(target))
    }

    fn make_dir(&self, path: &Path) -> HostResult<()> {
        self.during("make", path, || self.inner.make_dir(path))
    }

    fn make_file(&self, path: &Path) -> HostResult<()> {
        self.during("make", path, || self.inner.make_file(path))
    }

    fn remove_path(&self, path: &Path) -> HostResult<()> {
        self.during("remove", path, || self.inner.remove_path(path))
    }

    fn resolve(&self, path: &Path) -> HostResult<PathBuf> {
        self.during("resolve", path, || self.inner.resolve(path))
    }

    fn kind_of(&self, path: &Path) -> HostResult<Option<bool>> {
        self.during("look at", path, || self.inner.kind_of(path))
    }
}
