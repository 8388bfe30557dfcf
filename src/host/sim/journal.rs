//! A record of what the disks were told, and copies of disks.
//!
//! From the two a test can build every content that a power cut could have
//! left, and start a machine on it.

use std::path::Path;

use lvm2::tables::DevNo;

use super::disk::{Data, Disk};
use super::pages::{Pages, index};
use super::{RawDisk, SimHost};
use crate::host::DeviceInfo;

/// What a disk was told, in the order over all disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskEvent {
    /// Bytes that went into the disk's cache.
    Write {
        /// Node of the disk.
        disk: String,
        /// Byte offset.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Zeros that went into the disk's cache.
    Zero {
        /// Node of the disk.
        disk: String,
        /// Byte offset.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// All of the above became durable.
    Flush {
        /// Node of the disk.
        disk: String,
    },
    /// A write that was answered by an error. What of it reached the disk
    /// precedes it.
    Failed {
        /// Node of the device.
        disk: String,
        /// Byte offset.
        offset: u64,
        /// What should have been written.
        data: Vec<u8>,
    },
    /// A note of the test, such as an answer that it got.
    Mark(String),
}

impl DiskEvent {
    pub(super) fn write(disk: &Disk, offset: u64, data: &Data) -> Self {
        let disk = node(&disk.info.path);
        match data {
            Data::Bytes(bytes) => Self::Write {
                disk,
                offset,
                data: bytes.clone(),
            },
            Data::Zeros(len) => Self::Zero {
                disk,
                offset,
                len: *len,
            },
        }
    }

    pub(super) fn flush(disk: &Disk) -> Self {
        Self::Flush {
            disk: node(&disk.info.path),
        }
    }

    pub(super) fn failed(path: &Path, offset: u64, data: &[u8]) -> Self {
        Self::Failed {
            disk: node(path),
            offset,
            data: data.to_vec(),
        }
    }
}

fn node(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A disk with its content, apart from any machine. Copies share what is equal.
#[derive(Clone)]
pub struct DiskImage {
    info: DeviceInfo,
    pages: Pages,
}

impl DiskImage {
    /// Node, number, size and sectors.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The `len` bytes at `offset`.
    #[must_use]
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        self.pages.read(offset, &mut buf);
        buf
    }

    /// Puts `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.pages.write(offset, data);
    }

    /// The parts that may differ from zero, as offset and bytes.
    pub fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.parts()
    }

    /// Whether `len` bytes at `offset` are zero. Holes cost no time.
    #[must_use]
    pub fn is_zero(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        let mut parts = self
            .pages
            .parts_from(offset)
            .take_while(|(at, _)| *at < end);
        parts.all(|(at, bytes)| {
            let from = index(offset.saturating_sub(at)).min(bytes.len());
            let to = index(end.saturating_sub(at)).min(bytes.len());
            bytes
                .get(from..to)
                .is_none_or(|part| part.iter().all(|byte| *byte == 0))
        })
    }
}

impl RawDisk {
    /// A copy of the disk as the machine sees it now; `None` if there is no
    /// such disk.
    #[must_use]
    pub fn image(&self) -> Option<DiskImage> {
        let state = self.sim.machine.state();
        let disk = state
            .disks
            .values()
            .find(|disk| disk.info.path == Path::new(&self.path))?;
        Some(DiskImage {
            info: disk.info.clone(),
            pages: disk.content().clone(),
        })
    }
}

impl SimHost {
    /// Adds a disk with the node, size and content of `image`; all of it is
    /// durable.
    pub fn add_image(&self, image: &DiskImage) -> DevNo {
        let path = node(&image.info.path);
        let devno = self.add_disk(&path, image.info.size, image.info.block_size);
        if let Some(disk) = self.machine.state().disks.get_mut(&devno) {
            disk.restore(image.pages.clone());
        }
        devno
    }

    /// Starts to record what the disks are told.
    pub fn record(&self) {
        self.machine.state().journal = Some(Vec::new());
    }

    /// Puts a note into the record.
    pub fn mark(&self, note: &str) {
        self.machine
            .state()
            .note(|| DiskEvent::Mark(note.to_owned()));
    }

    /// What was recorded since [`record`](Self::record), which ends.
    #[must_use]
    pub fn recorded(&self) -> Vec<DiskEvent> {
        self.machine.state().journal.take().unwrap_or_default()
    }
}
