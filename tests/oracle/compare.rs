//! lvm2, our engine and the independent decoder must read the same.

use std::collections::BTreeSet;

use lvcsi_kit::lvm::LvRow;
use lvcsi_kit::text::{self, Node};
use lvcsi_kit::{LoopVg, decode};
use lvm2::model::{AreaRef, Lv, SegmentKind};

use crate::common::Native;
use crate::edits::{Edit, Model};

/// Panics unless all readers agree with `model`; returns what is on the disks.
pub(crate) fn all_agree(vg: &LoopVg, native: &Native, model: &Model, what: &str) -> decode::Vg {
    let decoded = vg.decode();
    let on_disk: Model = decoded
        .lvs
        .iter()
        .map(|lv| {
            (
                lv.name.clone(),
                (lv.extents() as u64, lv.tags.iter().cloned().collect()),
            )
        })
        .collect();
    assert_eq!(on_disk, *model, "on disk after {what}");

    let rows = vg.lvm.lvs(&vg.name);
    let bytes = decoded.extent_size as u64 * 512;
    let theirs: Model = rows
        .iter()
        .map(|row| {
            assert_eq!(row.size % bytes, 0, "{what}: size of {}", row.name);
            let tags: BTreeSet<_> = row.tags.iter().cloned().collect();
            (row.name.clone(), (row.size / bytes, tags))
        })
        .collect();
    assert_eq!(theirs, *model, "lvm2 after {what}");

    let report = native
        .engine
        .vg(&native.vg)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(
        report.refusal.is_none(),
        "{what}: we refuse: {:?}",
        report.refusal
    );
    assert_eq!(
        i64::from(report.vg.seqno()),
        decoded.seqno,
        "{what}: our seqno"
    );
    assert_eq!(
        report.vg.lvs().len(),
        model.len(),
        "{what}: our number of LVs"
    );
    let devices: Vec<(String, String)> = report
        .vg
        .pvs()
        .iter()
        .zip(&report.pvs)
        .map(|(pv, seen)| {
            let device = seen
                .device
                .as_ref()
                .unwrap_or_else(|| panic!("{what}: a PV is missing"));
            (pv.key.clone(), device.path.display().to_string())
        })
        .collect();
    for lv in report.vg.lvs() {
        let row = rows.iter().find(|row| row.name == lv.name.as_str());
        same_lv(
            lv,
            row.unwrap_or_else(|| panic!("{what}: {}", lv.name)),
            &devices,
            what,
        );
    }
    decoded
}

fn same_lv(ours: &Lv, theirs: &LvRow, devices: &[(String, String)], what: &str) {
    let name = &ours.name;
    assert_eq!(ours.id.to_string(), theirs.uuid, "{what}: id of {name}");
    let tags: BTreeSet<_> = ours.tags.iter().collect();
    assert_eq!(tags, theirs.tags.iter().collect(), "{what}: tags of {name}");
    assert_eq!(
        ours.segments.len(),
        theirs.segments.len(),
        "{what}: segments of {name}"
    );
    for (segment, row) in ours.segments.iter().zip(&theirs.segments) {
        assert_eq!(
            (segment.start.0, segment.count.0),
            (row.start, row.count),
            "{what}: {name}"
        );
        let SegmentKind::Striped { stripes, .. } = &segment.kind else {
            panic!("{what}: {name} has a segment that is not striped: {segment:?}");
        };
        let each = segment.count.0 / stripes.len() as u64;
        let ranges: Vec<String> = stripes
            .iter()
            .map(|stripe| {
                let AreaRef::Pv(key, first) = &stripe.area else {
                    panic!("{what}: {name} lies on an LV");
                };
                let device = devices
                    .iter()
                    .find(|(pv, _)| pv == key)
                    .map(|(_, path)| path);
                let device = device.unwrap_or_else(|| panic!("{what}: {name}: no {key}"));
                format!("{device}:{}-{}", first.0, first.0 + each - 1)
            })
            .collect();
        assert_eq!(ranges, row.ranges, "{what}: extents of {name}");
    }
}

/// A change by us: every line of the text but those of the LVs that it is
/// about, the sequence number and the trailer stays as it was.
pub(crate) fn only_meant(before: &decode::Vg, after: &decode::Vg, edit: &Edit) {
    let touched = edit.touches();
    assert_eq!(
        after.seqno,
        before.seqno + 1,
        "{edit:?}: one edit is one commit"
    );
    let (old, new) = (
        text::parse(&before.text).unwrap(),
        text::parse(&after.text).unwrap(),
    );
    let (old, new) = (
        old.section(&before.name).unwrap(),
        new.section(&before.name).unwrap(),
    );
    let others = |vg: &Node| {
        let lvs = vg
            .section("logical_volumes")
            .cloned()
            .unwrap_or(Node::Section(Vec::new()));
        without(&lvs, &touched)
    };
    assert_eq!(others(old), others(new), "{edit:?}: other LVs");
    let rest = |vg: &Node| without(vg, &["seqno", "logical_volumes"]);
    assert_eq!(rest(old), rest(new), "{edit:?}: the VG");

    // Not only the meaning: the text itself.
    let lines = |vg: &decode::Vg| -> Vec<String> {
        let at = vg.text.find("\n# Generated by").expect("a trailer");
        vg.text[..at].lines().map(str::to_owned).collect()
    };
    let (old, new) = (lines(before), lines(after));
    let head = old
        .iter()
        .zip(&new)
        .take_while(|(a, b)| a == b || a.starts_with("seqno = "));
    let head = head.count();
    let tail = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let changed = new.len().saturating_sub(head + tail);
    // The longest change: a new LV of some segments, or an LV that moves in
    // the text because of its name.
    assert!(changed <= 120, "{edit:?}: {changed} lines changed");
}

fn without(node: &Node, keys: &[&str]) -> Vec<(String, Node)> {
    let Node::Section(items) = node else {
        panic!("a section")
    };
    items
        .iter()
        .filter(|(key, _)| !keys.contains(&key.as_str()))
        .cloned()
        .collect()
}
