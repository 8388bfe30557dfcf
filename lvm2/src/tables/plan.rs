//! From an LV to its table, and from bytes of an LV to bytes of PVs.

use std::fmt::Write as _;

use crate::id::PvId;
use crate::model::{AreaRef, Lv, Pv, Segment, SegmentKind, Stripe, Vg};
use crate::name::{dm_name, dm_uuid};
use crate::units::{Bytes, Extents, Sectors};

use super::{DevNo, Target};

/// A device-mapper device as it has to be for an LV to be active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Kernel name.
    pub name: String,
    /// dm uuid, by which lvm2 knows the LV.
    pub uuid: String,
    /// The table, ascending and without gaps.
    pub table: Vec<Target>,
    /// Load it read-only.
    pub read_only: bool,
}

/// Why there is no table for an LV.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A segment is neither linear nor striped on PVs.
    #[error(
        "LV {vg}/{lv} has a segment of type {type_name}, which is not linear or striped on PVs"
    )]
    NotNative {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// The segment's type.
        type_name: String,
    },
    /// A segment names a PV that the VG does not have.
    #[error("LV {vg}/{lv} uses {key}, which is no PV of the VG")]
    NoSuchPv {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// The key.
        key: String,
    },
    /// No device is known for a PV.
    #[error("LV {vg}/{lv} is partial: PV {pv}, last seen as {hint}, is missing")]
    PvAbsent {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// The PV.
        pv: PvId,
        /// Where the metadata saw it last.
        hint: String,
    },
    /// A striped segment has no stripe size.
    #[error("LV {vg}/{lv} has a striped segment without stripe size")]
    NoStripeSize {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
    },
    /// Bytes were asked for that lie behind the LV's end.
    #[error("LV {vg}/{lv} ends at byte {size}, before byte {end}")]
    BeyondEnd {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// The LV's size.
        size: Bytes,
        /// The end that was asked for.
        end: Bytes,
    },
    /// Sizes in the metadata are beyond 64 bits.
    #[error("LV {vg}/{lv} has sizes beyond 64 bits")]
    Overflow {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
    },
}

/// A range of bytes of an LV on the PV that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PvRange {
    /// The PV.
    pub pv: PvId,
    /// Where it begins on the PV's device.
    pub device_offset: Bytes,
    /// Its length.
    pub len: Bytes,
    /// Where it begins in the LV.
    pub lv_offset: Bytes,
}

/// A range of bytes of a PV's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PvArea {
    /// The PV.
    pub pv: PvId,
    /// Where it begins on the PV's device.
    pub device_offset: Bytes,
    /// Its length.
    pub len: Bytes,
}

/// One leg of a segment with its PV.
struct Leg<'a> {
    pv: &'a Pv,
    /// First sector on the PV's device.
    sector: Sectors,
}

/// An LV with its VG, for errors that name both.
struct Subject<'a> {
    vg: &'a Vg,
    lv: &'a Lv,
}

impl<'a> Subject<'a> {
    fn names(&self) -> (String, String) {
        (self.vg.name().to_string(), self.lv.name.to_string())
    }

    fn overflow(&self) -> TableError {
        let (vg, lv) = self.names();
        TableError::Overflow { vg, lv }
    }

    fn not_native(&self, segment: &Segment) -> TableError {
        let (vg, lv) = self.names();
        TableError::NotNative {
            vg,
            lv,
            type_name: segment.type_name().to_owned(),
        }
    }

    fn sectors(&self, extents: Extents) -> Result<Sectors, TableError> {
        self.vg
            .extent_size()
            .sectors_of(extents)
            .ok_or_else(|| self.overflow())
    }

    /// The legs of a segment and the size of a stripe.
    fn legs(&self, segment: &Segment) -> Result<(Vec<Leg<'a>>, Sectors), TableError> {
        let SegmentKind::Striped {
            stripe_size,
            stripes,
        } = &segment.kind
        else {
            return Err(self.not_native(segment));
        };
        let legs: Result<Vec<_>, _> = stripes.iter().map(|s| self.leg(segment, s)).collect();
        let legs = legs?;
        let stripe_size = match (legs.len(), stripe_size) {
            (0, _) => return Err(self.not_native(segment)),
            (1, _) => self.sectors(segment.count)?,
            (_, Some(size)) if size.0 > 0 => *size,
            _ => {
                let (vg, lv) = self.names();
                return Err(TableError::NoStripeSize { vg, lv });
            }
        };
        Ok((legs, stripe_size))
    }

    fn leg(&self, segment: &Segment, stripe: &Stripe) -> Result<Leg<'a>, TableError> {
        let AreaRef::Pv(key, start) = &stripe.area else {
            return Err(self.not_native(segment));
        };
        let Some(pv) = self.vg.pv_by_key(key) else {
            let (vg, lv) = self.names();
            return Err(TableError::NoSuchPv {
                vg,
                lv,
                key: key.clone(),
            });
        };
        let sector = pv
            .sector_of(*start, self.vg.extent_size())
            .ok_or_else(|| self.overflow())?;
        Ok(Leg { pv, sector })
    }
}

/// The device that activates `lv`: its name, uuid and table, one target a
/// segment. `device_of` tells the device number of a PV.
///
/// # Errors
/// When a segment is not linear or striped on PVs, or a PV has no device.
pub fn plan(
    vg: &Vg,
    lv: &Lv,
    device_of: &dyn Fn(&PvId) -> Option<DevNo>,
) -> Result<Device, TableError> {
    let subject = Subject { vg, lv };
    let mut table = Vec::with_capacity(lv.segments.len());
    for segment in &lv.segments {
        table.push(target(&subject, segment, device_of)?);
    }
    Ok(Device {
        name: dm_name(vg.name().as_str(), lv.name.as_str(), None),
        uuid: dm_uuid(&vg.id(), &lv.id, None),
        table,
        // As lvm2 does it: what is in a read-only VG is read-only.
        read_only: !lv.writable() || !vg.writable(),
    })
}

fn target(
    subject: &Subject<'_>,
    segment: &Segment,
    device_of: &dyn Fn(&PvId) -> Option<DevNo>,
) -> Result<Target, TableError> {
    let (legs, stripe_size) = subject.legs(segment)?;
    let mut params = String::new();
    let mut kind = "linear";
    if legs.len() > 1 {
        kind = "striped";
        // Writing to a string cannot fail.
        let _ = write!(params, "{} {}", legs.len(), stripe_size.0);
    }
    for leg in &legs {
        let Some(device) = device_of(&leg.pv.id) else {
            let (vg, lv) = subject.names();
            let hint = leg.pv.device_hint.clone();
            return Err(TableError::PvAbsent {
                vg,
                lv,
                pv: leg.pv.id,
                hint,
            });
        };
        let space = if params.is_empty() { "" } else { " " };
        let _ = write!(params, "{space}{device} {}", leg.sector.0);
    }
    Ok(Target {
        start: subject.sectors(segment.start)?,
        len: subject.sectors(segment.count)?,
        kind: kind.to_owned(),
        params,
    })
}

/// The whole of `lv` on the PVs, one area for each leg of each segment, in no
/// order that a reader of the LV would see: for discarding and wiping.
///
/// # Errors
/// When a segment is not linear or striped on PVs.
pub fn pv_areas(vg: &Vg, lv: &Lv) -> Result<Vec<PvArea>, TableError> {
    let subject = Subject { vg, lv };
    let mut areas = Vec::new();
    for segment in &lv.segments {
        let len = subject.sectors(segment.leg_extents())?.bytes();
        for leg in subject.legs(segment)?.0 {
            let device_offset = leg.sector.bytes();
            areas.push(PvArea {
                pv: leg.pv.id,
                device_offset,
                len,
            });
        }
    }
    Ok(areas)
}

/// Where the `len` bytes of `lv` from `offset` on lie on the PVs, in the order
/// of the LV; pieces that continue each other on a PV are one. A striped LV
/// has a piece for every stripe: for the whole LV use [`pv_areas`].
///
/// # Errors
/// When the range ends behind the LV, or a segment is not linear or striped
/// on PVs.
pub fn pv_ranges(vg: &Vg, lv: &Lv, offset: Bytes, len: Bytes) -> Result<Vec<PvRange>, TableError> {
    let subject = Subject { vg, lv };
    let end = offset.checked_add(len).ok_or_else(|| subject.overflow())?;
    let size = vg.sectors_of(lv).ok_or_else(|| subject.overflow())?.bytes();
    if end > size {
        let (vg, lv) = subject.names();
        return Err(TableError::BeyondEnd { vg, lv, size, end });
    }
    let mut ranges = Vec::new();
    for segment in &lv.segments {
        let start = subject.sectors(segment.start)?.bytes();
        let stop = start.saturating_add(subject.sectors(segment.count)?.bytes());
        let (from, to) = (offset.max(start), end.min(stop));
        if from < to {
            segment_ranges(&subject, segment, start, from, to, &mut ranges)?;
        }
    }
    Ok(ranges)
}

/// Adds the pieces of `from..to`, bytes of the LV within `segment`, which
/// begins at byte `start`.
fn segment_ranges(
    subject: &Subject<'_>,
    segment: &Segment,
    start: Bytes,
    from: Bytes,
    to: Bytes,
    ranges: &mut Vec<PvRange>,
) -> Result<(), TableError> {
    let (legs, stripe_size) = subject.legs(segment)?;
    let chunk = stripe_size.bytes().0;
    let mut at = from.0;
    while at < to.0 {
        let inside = at - start.0;
        let number = inside / chunk;
        let in_chunk = inside % chunk;
        let row = number / legs.len() as u64;
        let index = usize::try_from(number % legs.len() as u64);
        let Some(leg) = index.ok().and_then(|index| legs.get(index)) else {
            break;
        };
        let len = (chunk - in_chunk).min(to.0 - at);
        let device_offset = leg.sector.0.checked_mul(512).and_then(|base| {
            base.checked_add(row.checked_mul(chunk)?)?
                .checked_add(in_chunk)
        });
        push(
            ranges,
            PvRange {
                pv: leg.pv.id,
                device_offset: Bytes(device_offset.ok_or_else(|| subject.overflow())?),
                len: Bytes(len),
                lv_offset: Bytes(at),
            },
        );
        at += len;
    }
    Ok(())
}

fn push(ranges: &mut Vec<PvRange>, next: PvRange) {
    if let Some(last) = ranges.last_mut() {
        let follows = last.pv == next.pv
            && last.device_offset.checked_add(last.len) == Some(next.device_offset)
            && last.lv_offset.checked_add(last.len) == Some(next.lv_offset);
        if follows {
            last.len = last.len.saturating_add(next.len);
            return;
        }
    }
    ranges.push(next);
}
