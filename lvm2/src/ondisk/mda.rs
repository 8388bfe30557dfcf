//! The header sector of a metadata area: which text in its ring counts.

use super::bytes::{Reader, Writer};
use super::{Area, SECTOR};
use crate::crc::crc;

/// Length of the header, and where the ring begins in the area.
pub const HEADER: u64 = 512;

const MAGIC: &[u8; 16] = b" LVM2 x[5A%r0N*>";
const VERSION: u32 = 1;
/// From where on the checksum is taken; it stands before that.
const CRC_FROM: usize = 4;
/// Bit of a location's flags: the area is not in use.
const IGNORED: u32 = 1;

/// Why a header cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MdaError {
    /// Less than a sector was given.
    #[error("a metadata area header has {SECTOR} bytes, not {len}")]
    Short {
        /// Bytes that were given.
        len: usize,
    },
    /// Damaged, or no header.
    #[error("checksum is {found:#010x} but the header says {stored:#010x}")]
    Checksum {
        /// What the header says.
        stored: u32,
        /// What its bytes give.
        found: u32,
    },
    /// No LVM2 metadata area.
    #[error("the header has not LVM2's magic bytes")]
    Magic,
    /// A format that we do not know.
    #[error("version {found} is unknown")]
    Version {
        /// What the header says.
        found: u32,
    },
    /// A copy of another place.
    #[error("the header is at byte {expected} but says it belongs to byte {found}")]
    Start {
        /// Where the PV header says the area starts.
        expected: u64,
        /// What the header says.
        found: u64,
    },
    /// No room for even the header.
    #[error("the area has only {found} bytes")]
    Size {
        /// What the header says.
        found: u64,
    },
}

/// Where a text is in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawLocn {
    /// Distance from the start of the area in bytes, at least 512.
    pub offset: u64,
    /// Length in bytes, with the NUL at the end.
    pub size: u64,
    /// Checksum of exactly `size` bytes.
    pub checksum: u32,
    /// Whether the area is not in use. The text is then stale, or absent when
    /// `offset` is 0.
    pub ignored: bool,
    /// Flags that we do not know; without the bit of `ignored`.
    pub flags: u32,
}

/// The header of a metadata area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdaHeader {
    /// Where the area is on the device, in bytes.
    pub start: u64,
    /// Length of the area in bytes, header included.
    pub size: u64,
    /// The text that counts; nothing on an orphan PV.
    pub committed: Option<RawLocn>,
    /// A text that is about to count, while its writer is at work. Readers
    /// take no notice of it.
    pub precommitted: Option<RawLocn>,
}

impl MdaHeader {
    /// The header of an area that holds no text: that of a new PV, or of one
    /// that was taken out of its VG.
    #[must_use]
    pub fn empty(area: Area) -> Self {
        Self {
            start: area.offset.0,
            size: area.size.0,
            committed: None,
            precommitted: None,
        }
    }

    /// Reads a header sector that was found at byte `expected_start`.
    ///
    /// # Errors
    /// When it is not a valid header of an area at this place.
    pub fn decode(bytes: &[u8], expected_start: u64) -> Result<Self, MdaError> {
        let short = || MdaError::Short { len: bytes.len() };
        let bytes = bytes.first_chunk::<SECTOR>().ok_or_else(short)?;
        let mut reader = Reader::new(bytes);
        let stored = reader.u32().ok_or_else(short)?;
        let found = crc(bytes.get(CRC_FROM..).unwrap_or_default());
        if found != stored {
            return Err(MdaError::Checksum { stored, found });
        }
        if reader.array::<16>().ok_or_else(short)? != *MAGIC {
            return Err(MdaError::Magic);
        }
        let version = reader.u32().ok_or_else(short)?;
        if version != VERSION {
            return Err(MdaError::Version { found: version });
        }
        let start = reader.u64().ok_or_else(short)?;
        if start != expected_start {
            return Err(MdaError::Start {
                expected: expected_start,
                found: start,
            });
        }
        let size = reader.u64().ok_or_else(short)?;
        if size < HEADER {
            return Err(MdaError::Size { found: size });
        }
        Ok(Self {
            start,
            size,
            committed: RawLocn::decode(&mut reader).ok_or_else(short)?,
            precommitted: RawLocn::decode(&mut reader).ok_or_else(short)?,
        })
    }

    /// The header sector.
    #[must_use]
    pub fn encode(&self) -> [u8; SECTOR] {
        let mut writer = Writer::new();
        writer.u32(0);
        writer.bytes(MAGIC);
        writer.u32(VERSION);
        writer.u64(self.start);
        writer.u64(self.size);
        RawLocn::encode(self.committed.as_ref(), &mut writer);
        RawLocn::encode(self.precommitted.as_ref(), &mut writer);
        // The fields have a fixed length that fits.
        writer.seal(0, CRC_FROM).unwrap_or([0; SECTOR])
    }

    /// Whether the area is marked as not in use: its text is stale and new
    /// texts do not go there.
    #[must_use]
    pub fn ignored(&self) -> bool {
        self.committed.is_some_and(|locn| locn.ignored)
    }
}

impl RawLocn {
    /// The outer option: the bytes are there. The inner one: so is a text, or
    /// the mark that the area is ignored.
    fn decode(reader: &mut Reader<'_>) -> Option<Option<Self>> {
        let (offset, size) = (reader.u64()?, reader.u64()?);
        let (checksum, flags) = (reader.u32()?, reader.u32()?);
        let ignored = flags & IGNORED != 0;
        Some((offset != 0 || ignored).then_some(Self {
            offset,
            size,
            checksum,
            ignored,
            flags: flags & !IGNORED,
        }))
    }

    fn encode(locn: Option<&Self>, writer: &mut Writer) {
        let Some(locn) = locn else {
            writer.bytes(&[0; 24]);
            return;
        };
        writer.u64(locn.offset);
        writer.u64(locn.size);
        writer.u32(locn.checksum);
        writer.u32(if locn.ignored {
            locn.flags | IGNORED
        } else {
            locn.flags & !IGNORED
        });
    }
}
