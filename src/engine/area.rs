//! Reading and writing one metadata area of one PV.

use std::sync::{Arc, OnceLock};

use lvm2::crc::crc;
use lvm2::id::PvId;
use lvm2::ondisk::mda::{MdaError, MdaHeader, RawLocn};
use lvm2::ondisk::ring::{self, Placement, RingError};

use crate::host::{BlockDevice, BlockDevices, DeviceInfo, HostError};

/// A PV's device with its open handles.
///
/// The handle for writing is opened at the first write and kept: udev looks
/// at a device again each time a writable handle closes.
pub(super) struct PvDevice {
    pub(super) id: PvId,
    pub(super) reader: Arc<dyn BlockDevice>,
    writer: OnceLock<Arc<dyn BlockDevice>>,
    devices: Arc<dyn BlockDevices>,
}

impl PvDevice {
    pub(super) fn new(
        id: PvId,
        reader: Arc<dyn BlockDevice>,
        devices: Arc<dyn BlockDevices>,
    ) -> Self {
        Self {
            id,
            reader,
            writer: OnceLock::new(),
            devices,
        }
    }

    /// A device that is open already; `writable` if that handle may write.
    pub(super) fn claimed(
        id: PvId,
        handle: Arc<dyn BlockDevice>,
        writable: bool,
        devices: Arc<dyn BlockDevices>,
    ) -> Self {
        let pv = Self::new(id, Arc::clone(&handle), devices);
        if writable {
            // The cell is empty: it was made a line above.
            let _ = pv.writer.set(handle);
        }
        pv
    }

    pub(super) fn info(&self) -> &DeviceInfo {
        self.reader.info()
    }

    /// The handle for writing.
    pub(super) fn writer(&self) -> Result<&Arc<dyn BlockDevice>, HostError> {
        if let Some(writer) = self.writer.get() {
            return Ok(writer);
        }
        let opened = self.devices.open(self.info(), true)?;
        Ok(self.writer.get_or_init(|| opened))
    }
}

/// Where a metadata area lies.
#[derive(Clone)]
pub(super) struct Area {
    pub(super) pv: Arc<PvDevice>,
    /// Bytes from the start of the device.
    pub(super) start: u64,
    /// Bytes, header included.
    pub(super) size: u64,
}

/// Why a metadata area cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum AreaError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("metadata area header: {0}")]
    Header(#[from] MdaError),
    #[error("metadata text: {0}")]
    Ring(#[from] RingError),
    #[error("metadata text has checksum {found:#010x}, its header says {expected:#010x}")]
    Checksum { expected: u32, found: u32 },
}

/// The length of a metadata area header in bytes.
const HEADER: usize = 512;

impl Area {
    pub(super) fn read_header(&self) -> Result<MdaHeader, AreaError> {
        let mut bytes = [0; HEADER];
        self.pv.reader.read_at(self.start, &mut bytes)?;
        Ok(MdaHeader::decode(&bytes, self.start)?)
    }

    /// The text that `locn` names, checked, without its NUL.
    pub(super) fn read_text(&self, locn: &RawLocn) -> Result<Vec<u8>, AreaError> {
        let pieces = ring::pieces(self.size, locn.offset, locn.size)?;
        let length = pieces.last().map_or(0, |piece| piece.range.end);
        let mut text = vec![0; length];
        for piece in pieces {
            if let Some(part) = text.get_mut(piece.range.clone()) {
                self.pv
                    .reader
                    .read_at(self.start.saturating_add(piece.offset_in_mda), part)?;
            }
        }
        let found = crc(&text);
        if found != locn.checksum {
            return Err(AreaError::Checksum {
                expected: locn.checksum,
                found,
            });
        }
        while text.last() == Some(&0) {
            text.pop();
        }
        Ok(text)
    }

    /// Writes `text` (with its NUL) where `placement` says. Nothing refers to
    /// it until a header does. Not durable before a flush.
    pub(super) fn write_text(&self, placement: &Placement, text: &[u8]) -> Result<(), HostError> {
        let writer = self.pv.writer()?;
        for piece in &placement.pieces {
            let Some(part) = text.get(piece.range.clone()) else {
                continue;
            };
            let offset = self.start.saturating_add(piece.offset_in_mda);
            let end = piece.offset_in_mda.saturating_add(part.len() as u64);
            let whole = part.len().next_multiple_of(512);
            if whole == part.len() || end >= self.size {
                writer.write_at(offset, part)?;
            } else {
                let mut padded = Vec::with_capacity(whole);
                padded.extend_from_slice(part);
                padded.resize(whole, 0);
                writer.write_at(offset, &padded)?;
            }
        }
        Ok(())
    }

    /// Writes the header: one sector, so the old one or the new one.
    pub(super) fn write_header(&self, header: &MdaHeader) -> Result<(), HostError> {
        self.pv.writer()?.write_at(self.start, &header.encode())
    }

    pub(super) fn flush(&self) -> Result<(), HostError> {
        self.pv.writer()?.flush()
    }
}
