//! Rules about where things lie: in the text and on the PVs.

use std::collections::{HashMap, HashSet};

use crate::model::{Lv, Pv, Vg};

use super::{Report, lv_object, pv_object, vg_object};

/// Keys that lvm2 must meet before the PVs, because it reads no further when
/// it only wants to know what the VG is.
const BEFORE_PVS: &[&str] = &[
    "id",
    "seqno",
    "format",
    "status",
    "flags",
    "system_id",
    "lock_type",
    "extent_size",
];

/// The text is laid out so that lvm2 finds its way without parsing it all: the
/// VG's name in the first byte, the VG's own keys before the PVs, the closing
/// brace on a line of its own, and the lines about the file behind it.
pub(super) fn text(vg: &Vg, report: &mut Report<'_>) {
    let name = vg.name().as_str();
    let items = vg.tree.items();
    let Some(at) = items.iter().position(|item| item.key() == name) else {
        return;
    };
    let (Some(item), Some(section)) = (items.get(at), vg.tree.section(name)) else {
        return;
    };
    if at > 0 || !item.lead().is_empty() {
        let detail = "the text does not begin with the VG's name";
        report.add(vg_object(vg), detail.to_owned());
    }
    let mut pvs_seen = false;
    for key in section.items().iter().map(|item| item.key()) {
        pvs_seen |= key == "physical_volumes";
        if pvs_seen && BEFORE_PVS.contains(&key) {
            report.add(
                vg_object(vg),
                format!("{key} is written after physical_volumes"),
            );
        }
    }
    // lvm2 looks from the end for a brace alone on a line: the VG's own.
    let mut behind = String::new();
    for item in items.iter().skip(at + 1) {
        item.print_into(&mut behind);
    }
    behind.push_str(vg.tree.tail());
    let alone = section.tail().ends_with('\n') && behind.starts_with('\n');
    if !alone || behind.contains("\n}\n") {
        let detail = "its closing brace is not the last one on a line of its own";
        report.add(vg_object(vg), detail.to_owned());
    }
}

/// What a segment builds on is there.
pub(super) fn areas_exist(vg: &Vg, report: &mut Report<'_>) {
    let names: HashSet<&str> = vg.lvs().iter().map(|lv| lv.name.as_str()).collect();
    for lv in vg.lvs() {
        // Foreign types name LVs in ways that we may misread; lvm2 judges those.
        for segment in lv.segments.iter().filter(|s| s.type_is_known()) {
            for missing in segment.refers().filter(|name| !names.contains(name)) {
                report.add(
                    lv_object(vg, lv),
                    format!("it builds on {missing}, which is not there"),
                );
            }
        }
    }
}

/// Extents in use are extents that the PV has.
pub(super) fn extents_in_pv(vg: &Vg, report: &mut Report<'_>) {
    let pvs: HashMap<&str, &Pv> = vg.pvs().iter().map(|pv| (pv.key.as_str(), &**pv)).collect();
    for lv in vg.lvs() {
        for area in known_uses(lv) {
            // An area with the key of no PV is an LV to the parser.
            let Some(pv) = pvs.get(area.key) else {
                continue;
            };
            let end = area.start.saturating_add(area.count);
            if end > pv.pe_count {
                let detail = format!(
                    "uses extents up to {end} of {}, which has {}",
                    pv.key, pv.pe_count
                );
                report.add(lv_object(vg, lv), detail);
            }
        }
    }
}

/// No extent belongs to two segments.
pub(super) fn extents_once(vg: &Vg, report: &mut Report<'_>) {
    let mut used: HashMap<&str, Vec<(u64, u64, &Lv)>> = HashMap::new();
    for lv in vg.lvs() {
        // Empty segments are another rule's business.
        for area in known_uses(lv).filter(|area| !area.count.is_zero()) {
            let end = area.start.saturating_add(area.count);
            used.entry(area.key)
                .or_default()
                .push((area.start.0, end.0, lv));
        }
    }
    for pv in vg.pvs() {
        let mut ranges = used.remove(pv.key.as_str()).unwrap_or_default();
        ranges.sort_unstable_by_key(|(start, end, _)| (*start, *end));
        // The range that reaches furthest so far is the one to run into.
        let mut before: Option<(u64, &Lv)> = None;
        for (start, end, lv) in ranges {
            if let Some((furthest, other)) = before.filter(|(furthest, _)| start < *furthest) {
                let last = furthest.min(end) - 1;
                let detail = format!(
                    "extents {start} to {last} belong to {} and {}",
                    other.name, lv.name
                );
                report.add(pv_object(vg, pv), detail);
            }
            if before.is_none_or(|(furthest, _)| end > furthest) {
                before = Some((end, lv));
            }
        }
    }
}

/// The extents that segments of known types use. How many an unknown type
/// uses is a guess, and no ground for calling a VG damaged.
fn known_uses(lv: &Lv) -> impl Iterator<Item = crate::model::PvExtents<'_>> {
    lv.segments
        .iter()
        .filter(|s| s.type_is_known())
        .flat_map(|s| s.uses())
}
