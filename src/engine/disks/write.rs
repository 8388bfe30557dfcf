//! Writes to the part of a disk that is LVM2's: the label's sectors and the
//! heads of metadata areas. They are listed before any is carried out, so that
//! a dry run tells exactly what a real one does.

use std::sync::Arc;

use lvm2::ondisk::geometry::{AREA_HEAD, Geometry};
use lvm2::ondisk::label::{self, LabelError, PvHeader};
use lvm2::ondisk::mda::MdaHeader;
use lvm2::ondisk::{Area, SECTOR};
use lvm2::units::{Bytes, Sectors};

use crate::host::{BlockDevice, HostResult, Signature};

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Zeros.
    Zero {
        offset: u64,
        length: u64,
        what: String,
    },
    /// One sector.
    Sector {
        offset: u64,
        bytes: Box<[u8; SECTOR]>,
        what: &'static str,
    },
    /// Everything before is durable before anything behind it begins.
    Flush,
}

impl Write {
    fn zero(area: Area, what: &str) -> Self {
        Self::Zero {
            offset: area.offset.0,
            length: area.size.0,
            what: what.to_owned(),
        }
    }

    fn run(&self, device: &dyn BlockDevice) -> HostResult<()> {
        match self {
            Self::Zero { offset, length, .. } => device.zero(*offset, *length),
            Self::Sector { offset, bytes, .. } => device.write_at(*offset, &bytes[..]),
            Self::Flush => device.flush(),
        }
    }

    /// The write as a sentence for a dry run.
    pub(super) fn describe(&self, device: &dyn BlockDevice) -> String {
        let path = device.info().path.display();
        match self {
            Self::Zero {
                offset,
                length,
                what,
            } => format!(
                "{path}: zero bytes {offset}..{} ({what})",
                offset.saturating_add(*length)
            ),
            Self::Sector { offset, what, .. } => {
                format!("{path}: write the sector at byte {offset} ({what})")
            }
            Self::Flush => format!("{path}: flush"),
        }
    }
}

/// Carries out writes in order, up to the first that fails.
pub(super) fn run(device: &Arc<dyn BlockDevice>, writes: &[Write]) -> HostResult<()> {
    writes
        .iter()
        .try_for_each(|write| write.run(device.as_ref()))
}

/// Wipes what a former user left, as far as it tells where that is.
pub(super) fn wipe(signatures: &[Signature]) -> Vec<Write> {
    signatures
        .iter()
        .filter_map(|signature| {
            let (offset, length) = signature.magic?;
            Some(Write::Zero {
                offset,
                length,
                what: signature.to_string(),
            })
        })
        .collect()
}

/// Makes room for a new PV: no old label, no old area header.
///
/// The old label goes first and durably, so that a machine that dies behind
/// this has a device that is no PV, and never a PV with damaged areas.
pub(super) fn clear(geometry: &Geometry) -> Vec<Write> {
    let labels = Area {
        offset: Bytes::ZERO,
        size: Bytes(label::SEARCHED_BYTES as u64),
    };
    let head = Area {
        offset: geometry.metadata.offset,
        size: AREA_HEAD,
    };
    vec![
        Write::zero(labels, "the sectors of labels"),
        Write::Flush,
        Write::zero(head, "head of the metadata area"),
        Write::Flush,
    ]
}

/// Makes a PV of no VG of a device that was cleared. The label comes last: a
/// machine that dies before has a device that is no PV, and one sector is
/// written or it is not.
pub(super) fn create(geometry: &Geometry, header: &PvHeader) -> Result<Vec<Write>, LabelError> {
    Ok(vec![
        area_header(&geometry.area_header()),
        Write::Flush,
        label(label::DEFAULT_SECTOR, header, "label")?,
        Write::Flush,
    ])
}

/// Writes a label.
pub(super) fn label(
    sector: u64,
    header: &PvHeader,
    what: &'static str,
) -> Result<Write, LabelError> {
    Ok(Write::Sector {
        offset: Sectors(sector).bytes().0,
        bytes: Box::new(label::encode(sector, header)?),
        what,
    })
}

/// Makes a metadata area hold no text.
pub(super) fn area_header(header: &MdaHeader) -> Write {
    Write::Sector {
        offset: header.start,
        bytes: Box::new(header.encode()),
        what: "metadata area header without a text",
    }
}

/// Removes every label, valid or not, from the sectors where one is looked
/// for. `sectors` are those that begin like one.
pub(super) fn unlabel(sectors: &[u64]) -> Vec<Write> {
    let mut writes: Vec<Write> = sectors
        .iter()
        .map(|sector| {
            let area = Area {
                offset: Sectors(*sector).bytes(),
                size: Bytes(SECTOR as u64),
            };
            Write::zero(area, "label")
        })
        .collect();
    writes.push(Write::Flush);
    writes
}
