//! Something that happens to a disk between the texts of a commit and its
//! headers, on a real kernel.

use std::path::Path;
use std::sync::{Arc, Mutex};

use lvcsi::host::{
    BlockDevice, BlockDevices, Candidate, DeviceEvents, DeviceInfo, HostResult, Signature, Skipped,
};

type Hook = Box<dyn FnOnce() + Send>;

/// The machine's block devices, and what happens before the next header.
#[derive(Clone)]
pub(crate) struct Tripwire {
    inner: Arc<dyn BlockDevices>,
    hook: Arc<Mutex<Option<Hook>>>,
}

/// An open device of them.
struct Wired {
    inner: Arc<dyn BlockDevice>,
    hook: Arc<Mutex<Option<Hook>>>,
}

/// Where lvm2 puts the header of the first metadata area, and its length.
const HEADER: (u64, usize) = (4096, 512);

impl Tripwire {
    pub(crate) fn new(inner: Arc<dyn BlockDevices>) -> Self {
        Self {
            inner,
            hook: Arc::default(),
        }
    }

    /// Calls `hook` right before the next write of a header, once.
    pub(crate) fn arm(&self, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock().expect("the hook") = Some(Box::new(hook));
    }

    /// Whether the hook still waits.
    pub(crate) fn armed(&self) -> bool {
        self.hook.lock().expect("the hook").is_some()
    }

    fn wire(&self, inner: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        Arc::new(Wired {
            inner,
            hook: Arc::clone(&self.hook),
        })
    }
}

impl BlockDevices for Tripwire {
    fn discover(&self) -> HostResult<(Vec<DeviceInfo>, Vec<Skipped>)> {
        self.inner.discover()
    }
    fn events(&self) -> HostResult<Box<dyn DeviceEvents>> {
        self.inner.events()
    }
    fn generation(&self) -> u64 {
        self.inner.generation()
    }
    fn open(&self, device: &DeviceInfo, write: bool) -> HostResult<Arc<dyn BlockDevice>> {
        Ok(self.wire(self.inner.open(device, write)?))
    }
    fn open_path(&self, path: &Path) -> HostResult<Arc<dyn BlockDevice>> {
        Ok(self.wire(self.inner.open_path(path)?))
    }
    fn open_exclusive(&self, device: &DeviceInfo) -> HostResult<Arc<dyn BlockDevice>> {
        self.inner.open_exclusive(device)
    }
    fn examine(&self, path: &Path) -> HostResult<Candidate> {
        self.inner.examine(path)
    }
    fn signatures(&self, device: &DeviceInfo) -> HostResult<Vec<Signature>> {
        self.inner.signatures(device)
    }
}

impl BlockDevice for Wired {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> HostResult<()> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> HostResult<()> {
        if (offset, data.len()) == HEADER
            && let Some(hook) = self.hook.lock().expect("the hook").take()
        {
            hook();
        }
        self.inner.write_at(offset, data)
    }
    fn zero(&self, offset: u64, length: u64) -> HostResult<()> {
        self.inner.zero(offset, length)
    }
    fn discard(&self, offset: u64, length: u64) -> HostResult<()> {
        self.inner.discard(offset, length)
    }
    fn flush(&self) -> HostResult<()> {
        self.inner.flush()
    }
}
