//! The label that makes a device a PV, and the PV header in it.

use super::bytes::{Reader, Writer};
use super::{Area, SECTOR};
use crate::crc::crc;
use crate::id::{IdError, PvId};
use crate::units::Bytes;

/// A label is looked for in this many sectors at the start of a device.
pub const SEARCHED: usize = 4;

/// Bytes at the start of a device that can hold a label.
pub const SEARCHED_BYTES: usize = SEARCHED * SECTOR;

/// The sector where new labels go.
pub const DEFAULT_SECTOR: u64 = 1;

/// Bit of [`PvHeader::ext_flags`]: a VG uses this PV.
pub const FLAG_IN_USE: u32 = 1;

/// Version of the extension that has flags, which new PVs get.
pub const EXT_VERSION: u32 = 2;

const MAGIC: &[u8; 8] = b"LABELONE";
const TYPE: &[u8; 8] = b"LVM2 001";
/// Where the checksum is, and from where on it is taken.
const CRC_AT: usize = 16;
const CRC_FROM: usize = 20;
/// Where the type is.
const TYPE_AT: usize = 24;
/// Length of the label proper, behind which we put the PV header.
const HEADER: u32 = 32;

/// Why a label cannot be used or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Less than the first four sectors were given.
    #[error("a label is looked for in {SEARCHED_BYTES} bytes, not in {len}")]
    Short {
        /// Bytes that were given.
        len: usize,
    },
    /// The label claims to be in another sector: a copy of another place.
    #[error("the label in sector {sector} says it belongs to sector {claimed}")]
    Sector {
        /// Where it was found.
        sector: u64,
        /// Where it claims to be.
        claimed: u64,
    },
    /// Damaged, or written by something else.
    #[error("the label in sector {sector} has checksum {found:#010x} but says {stored:#010x}")]
    Checksum {
        /// Where it was found.
        sector: u64,
        /// What it says.
        stored: u32,
        /// What its bytes give.
        found: u32,
    },
    /// A label of another format.
    #[error("the label in sector {sector} is of the unknown type {found:?}")]
    Type {
        /// Where it was found.
        sector: u64,
        /// Its type.
        found: String,
    },
    /// The PV header does not fit in the sector.
    #[error("the PV header in sector {sector} runs past the end of the sector")]
    Truncated {
        /// Where the label is, or would be.
        sector: u64,
    },
    /// The PV's identifier is none.
    #[error("the PV header in sector {sector}: {source}")]
    Id {
        /// Where the label was found.
        sector: u64,
        /// What is wrong.
        source: IdError,
    },
    /// An area at offset 0, which on the disk means the end of the list.
    #[error("an area of {size} bytes at offset 0 cannot be written to a PV header")]
    AreaAtZero {
        /// The size of the area.
        size: Bytes,
    },
}

/// What a PV says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PvHeader {
    /// Its identifier.
    pub id: PvId,
    /// Size of the device when the PV was made or resized.
    pub device_size: Bytes,
    /// Where extents are: normally one, with size zero for up to the end.
    pub data_areas: Vec<Area>,
    /// Where metadata is: none, one or two.
    pub metadata_areas: Vec<Area>,
    /// Version of the extension: 0 without one, 1 without flags, else 2.
    pub ext_version: u32,
    /// Flags of the extension, such as [`FLAG_IN_USE`].
    pub ext_flags: u32,
    /// Space that is kept for a boot loader: none or one.
    pub bootloader_areas: Vec<Area>,
}

impl PvHeader {
    /// Whether the PV says that a VG uses it. Before version 2 of the
    /// extension it could not say.
    #[must_use]
    pub fn in_use(&self) -> bool {
        self.ext_version >= 2 && self.ext_flags & FLAG_IN_USE != 0
    }

    /// The same PV, saying that a VG uses it or that none does. A header of an
    /// older version gets the extension, for without it could not say so.
    #[must_use]
    pub fn with_in_use(&self, in_use: bool) -> Self {
        let mut header = self.clone();
        if header.ext_version < EXT_VERSION {
            header.ext_version = EXT_VERSION;
            header.ext_flags = 0;
        }
        if in_use {
            header.ext_flags |= FLAG_IN_USE;
        } else {
            header.ext_flags &= !FLAG_IN_USE;
        }
        header
    }

    fn decode(bytes: &[u8], sector: u64) -> Result<Self, LabelError> {
        let truncated = LabelError::Truncated { sector };
        let mut reader = Reader::new(bytes);
        let id: [u8; 32] = reader.array().ok_or_else(|| truncated.clone())?;
        let id = PvId::parse(&String::from_utf8_lossy(&id))
            .map_err(|source| LabelError::Id { sector, source })?;
        let mut rest = || -> Option<Self> {
            let device_size = Bytes(reader.u64()?);
            let data_areas = areas(&mut reader)?;
            let metadata_areas = areas(&mut reader)?;
            let ext_version = reader.u32()?;
            let (ext_flags, bootloader_areas) = if ext_version == 0 {
                (0, Vec::new())
            } else {
                (reader.u32()?, areas(&mut reader)?)
            };
            Some(Self {
                id,
                device_size,
                data_areas,
                metadata_areas,
                ext_version,
                ext_flags,
                bootloader_areas,
            })
        };
        rest().ok_or(truncated)
    }
}

/// Areas up to the first at offset 0, or nothing when the list does not end.
fn areas(reader: &mut Reader<'_>) -> Option<Vec<Area>> {
    let mut found = Vec::new();
    loop {
        let (offset, size) = (Bytes(reader.u64()?), Bytes(reader.u64()?));
        if offset.is_zero() {
            return Some(found);
        }
        found.push(Area { offset, size });
    }
}

/// A valid label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLabel {
    /// The sector it is in.
    pub sector: u64,
    /// The PV header.
    pub header: PvHeader,
    /// Sectors with further labels that would be valid and are ignored.
    pub further: Vec<u64>,
}

/// One sector that begins like a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The sector it is in.
    pub sector: u64,
    /// The PV header, or what is wrong with it or the label.
    pub outcome: Result<PvHeader, LabelError>,
}

/// All sectors that begin like a label, valid or not. `head` is the start of a
/// device.
///
/// # Errors
/// [`LabelError::Short`].
pub fn candidates(head: &[u8]) -> Result<Vec<Candidate>, LabelError> {
    let Some(head) = head.get(..SEARCHED_BYTES) else {
        return Err(LabelError::Short { len: head.len() });
    };
    let (sectors, _) = head.as_chunks::<SECTOR>();
    let candidate = |(sector, bytes): (u64, &[u8; SECTOR])| {
        bytes.starts_with(MAGIC).then(|| Candidate {
            sector,
            outcome: decode(bytes, sector),
        })
    };
    Ok((0..).zip(sectors).filter_map(candidate).collect())
}

/// Looks for the label in the start of a device: the first valid one counts.
/// Like for LVM2, a label with a wrong checksum or sector or of another format
/// is no label; [`candidates`] tells about such.
///
/// # Errors
/// [`LabelError::Short`], or what is wrong with the PV header in a label whose
/// checksum is right.
pub fn find(head: &[u8]) -> Result<Option<FoundLabel>, LabelError> {
    let mut found: Option<FoundLabel> = None;
    for Candidate { sector, outcome } in candidates(head)? {
        match (&mut found, outcome) {
            (Some(first), Ok(_)) => first.further.push(sector),
            (None, Ok(header)) => {
                found = Some(FoundLabel {
                    sector,
                    header,
                    further: Vec::new(),
                });
            }
            (None, Err(error @ (LabelError::Truncated { .. } | LabelError::Id { .. }))) => {
                return Err(error);
            }
            (_, Err(_)) => {}
        }
    }
    Ok(found)
}

/// What is wrong with a label that is damaged but has LVM2's type still: that
/// of a PV that somebody may miss. wipefs takes the type away.
#[must_use]
pub fn damaged(head: &[u8]) -> Option<LabelError> {
    let typed = |sector: u64| {
        let at = usize::try_from(sector).ok()?.checked_mul(SECTOR)?;
        head.get(at..)?
            .get(TYPE_AT..)?
            .starts_with(TYPE)
            .then_some(())
    };
    candidates(head).ok()?.into_iter().find_map(|candidate| {
        typed(candidate.sector)?;
        candidate.outcome.err()
    })
}

fn decode(bytes: &[u8; SECTOR], sector: u64) -> Result<PvHeader, LabelError> {
    let mut reader = Reader::new(bytes);
    let mut fields = || {
        let _magic: [u8; 8] = reader.array()?;
        let claimed = reader.u64()?;
        let stored = reader.u32()?;
        let offset = reader.u32()?;
        Some((claimed, stored, offset, reader.array::<8>()?))
    };
    let (claimed, stored, offset, kind) = fields().ok_or(LabelError::Truncated { sector })?;
    if claimed != sector {
        return Err(LabelError::Sector { sector, claimed });
    }
    let found = crc(bytes.get(CRC_FROM..).unwrap_or_default());
    if found != stored {
        return Err(LabelError::Checksum {
            sector,
            stored,
            found,
        });
    }
    if kind != *TYPE {
        return Err(LabelError::Type {
            sector,
            found: String::from_utf8_lossy(&kind).into_owned(),
        });
    }
    let content = usize::try_from(offset)
        .ok()
        .and_then(|offset| bytes.get(offset..))
        .ok_or(LabelError::Truncated { sector })?;
    PvHeader::decode(content, sector)
}

/// The sector of a label: to be written to sector number `sector`.
///
/// # Errors
/// When the areas are too many for one sector, or one is at offset 0.
pub fn encode(sector: u64, header: &PvHeader) -> Result<[u8; SECTOR], LabelError> {
    let mut writer = Writer::new();
    writer.bytes(MAGIC);
    writer.u64(sector);
    writer.u32(0);
    writer.u32(HEADER);
    writer.bytes(TYPE);
    writer.bytes(header.id.as_bytes());
    writer.u64(header.device_size.0);
    encode_areas(&mut writer, &header.data_areas)?;
    encode_areas(&mut writer, &header.metadata_areas)?;
    writer.u32(header.ext_version);
    if header.ext_version > 0 {
        writer.u32(header.ext_flags);
        encode_areas(&mut writer, &header.bootloader_areas)?;
    }
    writer
        .seal(CRC_AT, CRC_FROM)
        .ok_or(LabelError::Truncated { sector })
}

fn encode_areas(writer: &mut Writer, areas: &[Area]) -> Result<(), LabelError> {
    for area in areas {
        if area.offset.is_zero() {
            return Err(LabelError::AreaAtZero { size: area.size });
        }
        writer.u64(area.offset.0);
        writer.u64(area.size.0);
    }
    writer.bytes(&[0; 16]);
    Ok(())
}
