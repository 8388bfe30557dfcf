//! Where metadata and data of a new PV lie: lvm2's arithmetic.

use super::label::{self, DEFAULT_SECTOR, EXT_VERSION, LabelError, PvHeader};
use super::mda::MdaHeader;
use super::{Area, SECTOR};
use crate::id::PvId;
use crate::units::{Bytes, ExtentSize, Extents, Sectors};

/// Smallest device that lvm2 takes for a PV.
pub const SMALLEST_PV: Bytes = Bytes(2 << 20);

/// Where the first metadata area begins: behind one page.
pub const AREA_START: Bytes = Bytes(4096);

/// Bytes at the head of a metadata area that become zero before its header is
/// written, as lvm2 does it.
pub const AREA_HEAD: Bytes = Bytes(4096);

/// Smallest metadata area, eight pages.
pub const SMALLEST_AREA: Bytes = Bytes(8 * 4096);

/// lvm2's alignment of data where nothing asks for another: 1 MiB.
pub const DEFAULT_ALIGNMENT: Bytes = Bytes(1 << 20);

/// Up to here the metadata area of a new PV reaches on a disk that is large
/// enough. The ring holds two texts, and an LV of this driver with a CSI
/// volume's name and tags takes at most 440 bytes of text, so 16 MiB are room
/// for more than 18 000 LVs, where lvm2's own 1 MiB is room for 1 800.
pub const DEFAULT_DATA_START: Bytes = Bytes(16 << 20);

/// No more than this part of a disk goes to metadata by default.
const LARGEST_PART: u64 = 16;

/// Most extents that lvm2 counts on one PV.
const MOST_EXTENTS: u64 = u32::MAX as u64;

/// What the kernel says about how a device likes to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Unit below which I/O costs extra (`minimum_io_size`); 0 = not told.
    pub minimum_io: Bytes,
    /// Unit of streaming I/O (`optimal_io_size`); 0 = not told.
    pub optimal_io: Bytes,
    /// Bytes from the start of the device to its first aligned block.
    pub alignment_offset: Bytes,
    /// Data in a full stripe of an md array: chunk size times data disks; 0 =
    /// no such array.
    pub stripe: Bytes,
}

/// What an administrator can ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Least size of the metadata area; it is filled up to the data.
    pub metadata_size: Option<Bytes>,
    /// Data begins at a multiple of this, whatever the device likes.
    pub data_alignment: Option<Bytes>,
}

/// Why a device cannot be laid out as a PV.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Smaller than lvm2's smallest PV.
    #[error("{size} bytes are less than the {SMALLEST_PV} bytes of the smallest PV")]
    TooSmall {
        /// Size of the device.
        size: Bytes,
    },
    /// The metadata area asked for is too small for lvm2.
    #[error("a metadata area of {size} bytes is smaller than the least, {SMALLEST_AREA} bytes")]
    SmallArea {
        /// What was asked for.
        size: Bytes,
    },
    /// An alignment that is none.
    #[error("data cannot be aligned to {alignment} bytes: give a multiple of 4 KiB")]
    Alignment {
        /// What was asked for.
        alignment: Bytes,
    },
    /// Nothing is left for data.
    #[error(
        "data would begin at byte {start} of {size}, which leaves no room for it: ask for a smaller metadata area or alignment"
    )]
    NoRoom {
        /// Where data would begin.
        start: Bytes,
        /// Size of the device.
        size: Bytes,
    },
}

/// Where everything of a new PV lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of the device.
    pub size: Bytes,
    /// The metadata area.
    pub metadata: Area,
    /// Where extent 0 begins.
    pub data_start: Bytes,
}

impl Geometry {
    /// Lays out a device of `size` bytes.
    ///
    /// # Errors
    /// When the device is too small for what is asked for, or that makes no
    /// sense.
    pub fn new(size: Bytes, topology: Topology, wish: Wish) -> Result<Self, GeometryError> {
        if size < SMALLEST_PV {
            return Err(GeometryError::TooSmall { size });
        }
        let alignment = match wish.data_alignment {
            // The page that holds the label has to lie before the areas, and
            // the header of an area in a block of its own.
            Some(alignment) if alignment.is_zero() || alignment.0 % AREA_START.0 != 0 => {
                return Err(GeometryError::Alignment { alignment });
            }
            Some(alignment) => alignment,
            None => preferred(topology),
        };
        let metadata = match wish.metadata_size {
            Some(size) if size < SMALLEST_AREA => return Err(GeometryError::SmallArea { size }),
            Some(size) => size,
            None => default_metadata_size(size),
        };
        let no_room = |start| GeometryError::NoRoom { start, size };
        let end = AREA_START.saturating_add(metadata);
        let data_start = end
            .0
            .checked_next_multiple_of(alignment.0)
            .and_then(|aligned| aligned.checked_add(topology.alignment_offset.0))
            .map(Bytes)
            .ok_or_else(|| no_room(end))?;
        if data_start >= size {
            return Err(no_room(data_start));
        }
        Ok(Self {
            size,
            metadata: Area {
                offset: AREA_START,
                size: data_start.saturating_sub(AREA_START),
            },
            data_start,
        })
    }

    /// The PV header of the new PV, which no VG uses yet.
    #[must_use]
    pub fn pv_header(&self, id: PvId) -> PvHeader {
        PvHeader {
            id,
            device_size: self.size,
            data_areas: vec![Area {
                offset: self.data_start,
                size: Bytes::ZERO,
            }],
            metadata_areas: vec![self.metadata],
            ext_version: EXT_VERSION,
            ext_flags: 0,
            bootloader_areas: Vec::new(),
        }
    }

    /// The header of its metadata area, which holds no text yet.
    #[must_use]
    pub fn area_header(&self) -> MdaHeader {
        MdaHeader::empty(self.metadata)
    }

    /// The label's place on the device, and the sector to write there.
    ///
    /// # Errors
    /// None for a geometry made by [`Geometry::new`]: its areas are few and
    /// not at offset 0.
    pub fn label(&self, id: PvId) -> Result<(Bytes, [u8; SECTOR]), LabelError> {
        let sector = label::encode(DEFAULT_SECTOR, &self.pv_header(id))?;
        Ok((Sectors(DEFAULT_SECTOR).bytes(), sector))
    }
}

/// Size of the metadata area where nobody asks for one: up to
/// [`DEFAULT_DATA_START`], less on small disks, never less than lvm2's own.
fn default_metadata_size(device: Bytes) -> Bytes {
    let part = device.0 / LARGEST_PART;
    let mib = DEFAULT_ALIGNMENT.0;
    let end = part
        .saturating_sub(part % mib)
        .clamp(mib, DEFAULT_DATA_START.0);
    Bytes(end).saturating_sub(AREA_START)
}

/// The alignment that a device likes, by lvm2's rule: each of its units takes
/// over unless the alignment so far is a multiple of it.
fn preferred(topology: Topology) -> Bytes {
    [topology.stripe, topology.minimum_io, topology.optimal_io]
        .into_iter()
        .filter(|unit| !unit.is_zero())
        .fold(DEFAULT_ALIGNMENT, |alignment, unit| {
            if alignment.0.is_multiple_of(unit.0) {
                alignment
            } else {
                unit
            }
        })
}

/// Extents between `data_start` and the end of a device: as many whole ones as
/// there are, at most as many as lvm2 counts.
#[must_use]
pub fn extents(size: Bytes, data_start: Bytes, extent: ExtentSize) -> Extents {
    let count = extent.floor(size.saturating_sub(data_start));
    Extents(count.0.min(MOST_EXTENTS))
}
