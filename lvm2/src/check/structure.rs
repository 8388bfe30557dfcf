//! Rules about the parts of a VG, each on its own.

use std::collections::HashSet;

use crate::alloc::MAX_LV_EXTENTS;
use crate::model::{LV_STATUS, PV_STATUS, SegmentKind, VG_STATUS, Vg};
use crate::name::check_pair;
use crate::units::{Extents, Sectors};

use super::{Report, lv_object, pv_object, vg_object};

/// A VG that was committed has a number.
pub(super) fn seqno(vg: &Vg, report: &mut Report<'_>) {
    if vg.seqno() == 0 {
        report.add(vg_object(vg), "seqno is 0".to_owned());
    }
}

/// lvm2 reads no VG with a status word that it does not know.
pub(super) fn status_words(vg: &Vg, report: &mut Report<'_>) {
    for (object, word) in unknown_status(vg) {
        report.add(object, format!("unknown status {word:?}"));
    }
}

/// Unknown status words with what has them.
pub(super) fn unknown_status(vg: &Vg) -> impl Iterator<Item = (String, &str)> {
    let of_vg = unknown(vg.status(), VG_STATUS).map(move |word| (vg_object(vg), word));
    let of_pvs = vg.pvs().iter().flat_map(move |pv| {
        unknown(&pv.status, PV_STATUS).map(move |word| (pv_object(vg, pv), word))
    });
    let of_lvs = vg.lvs().iter().flat_map(move |lv| {
        unknown(&lv.status, LV_STATUS).map(move |word| (lv_object(vg, lv), word))
    });
    of_vg.chain(of_pvs).chain(of_lvs)
}

fn unknown<'a>(status: &'a [String], known: &'static [&str]) -> impl Iterator<Item = &'a str> {
    status
        .iter()
        .map(String::as_str)
        .filter(|word| !known.contains(word))
}

/// A PV is in a VG once, under one key.
pub(super) fn pv_unique(vg: &Vg, report: &mut Report<'_>) {
    let mut ids = HashSet::new();
    let mut keys = HashSet::new();
    for pv in vg.pvs() {
        if !ids.insert(pv.id) {
            report.add(pv_object(vg, pv), "the PV is listed twice".to_owned());
        }
        if !keys.insert(pv.key.as_str()) {
            report.add(
                pv_object(vg, pv),
                format!("{} is the key of two PVs", pv.key),
            );
        }
    }
}

/// The extents of a PV lie on its device, as far as its size is known.
pub(super) fn pv_size(vg: &Vg, report: &mut Report<'_>) {
    for pv in vg.pvs() {
        let end = pv.sector_of(pv.pe_count, vg.extent_size());
        // Bytes, because that is what every read and write is given.
        let Some(end) = end.filter(|end| end.0.checked_mul(512).is_some()) else {
            report.add(
                pv_object(vg, pv),
                "its extents end beyond 64 bits".to_owned(),
            );
            continue;
        };
        // pvresize writes a size that lacks what lies before the extents.
        let fits = |size: &Sectors| size.saturating_add(pv.pe_start) >= end;
        if let Some(size) = pv.dev_size.filter(|size| !fits(size)) {
            report.add(
                pv_object(vg, pv),
                format!("its extents end at sector {end}, its device at {size}"),
            );
        }
    }
}

/// Names and identities of LVs are unique, also against those of removed LVs
/// that the VG keeps a record of.
pub(super) fn lv_unique(vg: &Vg, report: &mut Report<'_>) {
    let mut ids = HashSet::new();
    let mut names: HashSet<&str> = vg.historical().iter().map(String::as_str).collect();
    for lv in vg.lvs() {
        if !names.insert(lv.name.as_str()) {
            report.add(lv_object(vg, lv), "the name is used twice".to_owned());
        }
        if !ids.insert(lv.id) {
            report.add(lv_object(vg, lv), format!("the id {} is used twice", lv.id));
        }
    }
}

/// The names of VG and LV fit into a device-mapper name.
pub(super) fn name_length(vg: &Vg, report: &mut Report<'_>) {
    for lv in vg.lvs() {
        if let Err(error) = check_pair(vg.name(), &lv.name) {
            report.add(lv_object(vg, lv), error.to_string());
        }
    }
}

/// Time and host of creation come together: lvm2 rejects one without the other.
pub(super) fn creation(vg: &Vg, report: &mut Report<'_>) {
    for lv in vg.lvs() {
        let detail = match (lv.creation_time, &lv.creation_host) {
            (Some(_), None) => "creation_time without creation_host",
            (None, Some(_)) => "creation_host without creation_time",
            _ => continue,
        };
        report.add(lv_object(vg, lv), detail.to_owned());
    }
}

/// An LV has the segments that it says it has, and at least one.
pub(super) fn segment_count(vg: &Vg, report: &mut Report<'_>) {
    for lv in vg.lvs() {
        let found = lv.segments.len();
        if u64::try_from(lv.segment_count) != Ok(found as u64) {
            let detail = format!(
                "segment_count is {}, segments are {found}",
                lv.segment_count
            );
            report.add(lv_object(vg, lv), detail);
        }
        if found == 0 {
            report.add(lv_object(vg, lv), "no segments".to_owned());
        }
    }
}

/// Segments ascend without a gap from 0, none is empty, and lvm2 can count
/// their extents.
pub(super) fn segment_order(vg: &Vg, report: &mut Report<'_>) {
    for lv in vg.lvs() {
        let mut next = Extents(0);
        for segment in &lv.segments {
            if segment.start != next {
                let detail = format!(
                    "a segment starts at extent {}, not at {next}",
                    segment.start
                );
                report.add(lv_object(vg, lv), detail);
            }
            if segment.count.is_zero() {
                let detail = format!("the segment at extent {} is empty", segment.start);
                report.add(lv_object(vg, lv), detail);
            }
            next = segment.end().unwrap_or(Extents(u64::MAX));
        }
        if next.0 > MAX_LV_EXTENTS {
            report.add(
                lv_object(vg, lv),
                format!("{next} extents are over lvm2's limit"),
            );
        }
    }
}

/// Striped segments have legs of equal length and a stripe size.
pub(super) fn stripes(vg: &Vg, report: &mut Report<'_>) {
    let limit = vg.extent_size().sectors();
    for lv in vg.lvs() {
        for segment in &lv.segments {
            let SegmentKind::Striped {
                stripe_size,
                stripes,
            } = &segment.kind
            else {
                continue;
            };
            let legs = stripes.len() as u64;
            let detail = if legs == 0 {
                "no areas".to_owned()
            } else if !segment.count.0.is_multiple_of(legs) {
                format!("{} extents do not divide among {legs} legs", segment.count)
            } else if legs == 1 {
                continue;
            } else {
                match stripe_size {
                    Some(size) if size.0.is_power_of_two() && *size <= limit => continue,
                    Some(size) => format!("stripe_size {size} is no power of two up to {limit}"),
                    None => format!("{legs} legs without stripe_size"),
                }
            };
            let detail = format!("segment at extent {}: {detail}", segment.start);
            report.add(lv_object(vg, lv), detail);
        }
    }
}
