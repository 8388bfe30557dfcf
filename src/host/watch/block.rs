//! Block devices with a note of every call.

use std::path::Path;
use std::sync::Arc;

use super::Calls;
use crate::host::{
    BlockDevice, BlockDevices, Candidate, DeviceEvents, DeviceInfo, HostResult, Signature, Skipped,
};

/// Discovery and opening.
pub(super) struct Devices {
    inner: Arc<dyn BlockDevices>,
    calls: Arc<Calls>,
}

impl Devices {
    pub(super) fn new(inner: Arc<dyn BlockDevices>, calls: Arc<Calls>) -> Self {
        Self { inner, calls }
    }

    fn open_with(
        &self,
        path: &Path,
        open: impl FnOnce() -> HostResult<Arc<dyn BlockDevice>>,
    ) -> HostResult<Arc<dyn BlockDevice>> {
        let object: Arc<str> = path.to_string_lossy().into();
        let inner = self.calls.during("open", Arc::clone(&object), open)?;
        Ok(Arc::new(Device {
            inner,
            object,
            calls: Arc::clone(&self.calls),
        }))
    }
}

impl BlockDevices for Devices {
    fn discover(&self) -> HostResult<(Vec<DeviceInfo>, Vec<Skipped>)> {
        self.calls
            .during("list", "block devices".into(), || self.inner.discover())
    }

    fn events(&self) -> HostResult<Box<dyn DeviceEvents>> {
        // Waiting is what it is for: no call that could hang.
        self.inner.events()
    }

    fn generation(&self) -> u64 {
        self.inner.generation()
    }

    fn open(&self, device: &DeviceInfo, write: bool) -> HostResult<Arc<dyn BlockDevice>> {
        self.open_with(&device.path, || self.inner.open(device, write))
    }

    fn open_path(&self, path: &Path) -> HostResult<Arc<dyn BlockDevice>> {
        self.open_with(path, || self.inner.open_path(path))
    }

    fn obstacle(&self, path: &Path) -> Option<String> {
        self.inner.obstacle(path)
    }

    fn examine(&self, path: &Path) -> HostResult<Candidate> {
        let object = path.to_string_lossy().into();
        self.calls
            .during("examine", object, || self.inner.examine(path))
    }

    fn open_exclusive(&self, device: &DeviceInfo) -> HostResult<Arc<dyn BlockDevice>> {
        self.open_with(&device.path, || self.inner.open_exclusive(device))
    }

    fn signatures(&self, device: &DeviceInfo) -> HostResult<Vec<Signature>> {
        let object = device.path.to_string_lossy().into();
        self.calls
            .during("probe", object, || self.inner.signatures(device))
    }
}

struct Device {
    inner: Arc<dyn BlockDevice>,
    object: Arc<str>,
    calls: Arc<Calls>,
}

impl Device {
    fn during<T>(&self, op: &'static str, call: impl FnOnce() -> T) -> T {
        self.calls.during(op, Arc::clone(&self.object), call)
    }
}

impl BlockDevice for Device {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> HostResult<()> {
        self.during("read", || self.inner.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> HostResult<()> {
        self.during("write", || self.inner.write_at(offset, data))
    }

    fn zero(&self, offset: u64, length: u64) -> HostResult<()> {
        self.during("zero", || self.inner.zero(offset, length))
    }

    fn discard(&self, offset: u64, length: u64) -> HostResult<()> {
        self.during("discard", || self.inner.discard(offset, length))
    }

    fn flush(&self) -> HostResult<()> {
        self.during("flush", || self.inner.flush())
    }
}
