//! Long random histories of a VG: always sound, always what would be read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::sync::Arc;

use lvm2::alloc::Policy;
use lvm2::check::check;
use lvm2::edit::{Edit, Layout, Stamp, apply, diff, seal};
use lvm2::id::LvId;
use lvm2::model::{Lv, Vg};
use lvm2::name::{LvName, Tag};
use lvm2::units::Extents;
use proptest::prelude::*;

fn sample(name: &str) -> Vg {
    Vg::parse(&std::fs::read(common::data().join(name)).unwrap()).unwrap()
}

fn name(number: u8) -> LvName {
    LvName::new(format!("lv{number}")).unwrap()
}

fn tag(number: u8) -> Tag {
    Tag::new(format!("tag={number}")).unwrap()
}

fn stamp(description: &str) -> Stamp {
    Stamp {
        description: description.to_owned(),
        host: "node-1".to_owned(),
        host_system_id: None,
        time: 1_796_000_000,
        generator: "lvcsi 0.1.0".to_owned(),
        kernel: "Linux node-1 6.12.1 x86_64".to_owned(),
    }
}

fn layouts() -> impl Strategy<Value = Layout> {
    let policy = prop_oneof![
        Just(None),
        Just(Some(Policy::Normal)),
        Just(Some(Policy::Cling)),
        Just(Some(Policy::Contiguous)),
    ];
    (policy, prop::option::weighted(0.3, 1u32..4)).prop_map(|(policy, stripes)| Layout {
        policy,
        stripes,
        ..Layout::default()
    })
}

fn edits() -> impl Strategy<Value = Edit> {
    let lv = 0u8..12;
    prop_oneof![
        4 => (lv.clone(), any::<[u8; 32]>(), 1u64..40, prop::collection::vec(0u8..5, 0..3), layouts())
            .prop_map(|(lv, id, extents, tags, layout)| Edit::Create {
                name: name(lv),
                id: LvId::from_random(id),
                extents: Extents(extents),
                tags: tags.into_iter().map(tag).collect(),
                layout,
                time: 1_796_000_000,
                host: "node-1".to_owned(),
            }),
        3 => (lv.clone(), 1u64..80, layouts())
            .prop_map(|(lv, to, layout)| Edit::Extend { name: name(lv), to: Extents(to), layout }),
        2 => lv.clone().prop_map(|lv| Edit::Remove { name: name(lv) }),
        1 => (lv.clone(), lv.clone())
            .prop_map(|(lv, from)| Edit::Absorb { name: name(lv), from: name(from) }),
        1 => (lv.clone(), lv.clone())
            .prop_map(|(lv, to)| Edit::Rename { name: name(lv), to: name(to) }),
        2 => (lv, prop::collection::vec(0u8..5, 0..3), prop::collection::vec(0u8..5, 0..3))
            .prop_map(|(lv, add, remove)| Edit::Tags {
                name: name(lv),
                add: add.into_iter().map(tag).collect(),
                remove: remove.into_iter().map(tag).collect(),
            }),
    ]
}

/// Whether the edit is meant to change the LV.
fn meant(edit: &Edit, lv: &LvName) -> bool {
    match edit {
        Edit::Create { name, .. }
        | Edit::Extend { name, .. }
        | Edit::Remove { name }
        | Edit::Rename { name, .. }
        | Edit::Tags { name, .. } => name == lv,
        Edit::Absorb { name, from } => name == lv || from == lv,
        _ => false,
    }
}

/// Applies one diff line by line, as `patch` would.
fn patched(old: &str, diff: &str) -> String {
    let lines: Vec<&str> = old.lines().collect();
    let (mut out, mut at) = (String::new(), 0);
    for line in diff.lines() {
        if let Some(hunk) = line.strip_prefix("@@ -") {
            let start: usize = hunk.split(',').next().unwrap().parse().unwrap();
            for kept in &lines[at..start - 1] {
                out.push_str(kept);
                out.push('\n');
            }
            at = start - 1;
            continue;
        }
        let (mark, text) = line.split_at(1);
        if mark != "+" {
            assert_eq!(lines[at], text);
            at += 1;
        }
        if mark != "-" {
            out.push_str(text);
            out.push('\n');
        }
    }
    for kept in &lines[at..] {
        out.push_str(kept);
        out.push('\n');
    }
    out
}

fn assert_reads_back(vg: &Vg) {
    let again = Vg::parse(vg.print().as_bytes()).unwrap();
    assert_eq!(again.lvs(), vg.lvs());
    assert_eq!(again.pvs(), vg.pvs());
    assert_eq!(again.seqno(), vg.seqno());
    assert_eq!(again.print(), vg.print());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_vg_stays_sound_through_any_history(
        file in prop::sample::select(vec![
            "meta-linear.txt", "meta-names.txt", "meta-thin.txt", "meta-sysid.txt",
            "meta-snapshot.txt", "meta-raid1_integrity.txt", "meta-striped_ext.txt",
        ]),
        history in prop::collection::vec(edits(), 1..40),
    ) {
        let start = sample(file);
        let mut vg = start.clone();
        for edit in history {
            let Ok(next) = apply(&vg, &edit) else { continue };
            let next = seal(&next, &stamp("random edit")).unwrap();
            prop_assert_eq!(check(&next), []);
            assert_reads_back(&next);
            prop_assert_eq!(next.seqno(), vg.seqno() + 1);
            if let Edit::Absorb { name, from } = &edit {
                let extents = |vg: &Vg, lv: &LvName| vg.lv(lv.as_str()).unwrap().extents();
                let both = extents(&vg, name).saturating_add(extents(&vg, from));
                prop_assert_eq!(extents(&next, name), both);
                prop_assert_eq!(next.free_extents(), vg.free_extents());
            }
            // What was not meant is the very same object.
            for lv in vg.lvs() {
                let same = next.lv_by_id(&lv.id);
                prop_assert!(meant(&edit, &lv.name) || same.is_some_and(|same| Arc::ptr_eq(same, lv)));
            }
            prop_assert_eq!(patched(&vg.print(), &diff(&vg, &next)), next.print());
            vg = next;
        }
        // Undoing everything gives the text of the beginning but for the seal.
        let names: Vec<LvName> = vg.lvs().iter()
            .filter(|lv| start.lv_by_id(&lv.id).is_none())
            .map(|lv| lv.name.clone())
            .collect();
        for name in names {
            vg = apply(&vg, &Edit::Remove { name }).unwrap();
        }
        prop_assert_eq!(sealed_body(&vg), sealed_body(&start));
    }
}

/// The text without what a seal changes.
fn sealed_body(vg: &Vg) -> String {
    let seqno = format!("\nseqno = {}\n", vg.seqno());
    let text = vg.print().replacen(&seqno, "\n", 1);
    text.split("\n# Generated by").next().unwrap().to_owned()
}

#[test]
fn an_edit_in_a_large_vg_derives_one_lv_again() {
    let text = std::fs::read_to_string(common::data().join("meta-linear.txt")).unwrap();
    let mut vg = Vg::parse(
        text.replacen("pe_count = 127", "pe_count = 100000", 1)
            .replacen("dev_size = 1048576\n", "", 1)
            .as_bytes(),
    )
    .unwrap();
    for number in 0u32..2000 {
        let mut id = [0u8; 32];
        id[..4].copy_from_slice(&number.to_le_bytes().map(|b| b % 16));
        id[4] = u8::try_from(number % 61).unwrap();
        id[5] = u8::try_from(number / 61).unwrap();
        vg = apply(
            &vg,
            &Edit::Create {
                name: LvName::new(format!("pvc-{number:05}")).unwrap(),
                id: LvId::from_random(id),
                extents: Extents(2),
                tags: Vec::new(),
                layout: Layout::default(),
                time: 1_796_000_000,
                host: "node-1".to_owned(),
            },
        )
        .unwrap();
    }
    assert_eq!(check(&vg), []);
    assert_reads_back(&vg);
    let derived = |edit: &Edit| {
        let next = apply(&vg, edit).unwrap();
        let known = |lv: &&Arc<Lv>| vg.lv_by_id(&lv.id).is_some_and(|old| Arc::ptr_eq(old, lv));
        let new = next.lvs().iter().filter(|lv| !known(lv)).count();
        let sealed = seal(&next, &stamp("edit")).unwrap();
        let shared = sealed
            .lvs()
            .iter()
            .zip(next.lvs())
            .all(|(a, b)| Arc::ptr_eq(a, b));
        assert!(shared, "a seal touches no LV");
        // Seqno, trailer and the one LV: the rest of 40000 lines is as it was.
        let lines = diff(&vg, &sealed)
            .lines()
            .filter(|l| l.starts_with(['+', '-']))
            .count();
        assert!(lines < 60, "{lines} lines");
        new
    };
    let lv = |number: u32| LvName::new(format!("pvc-{number:05}")).unwrap();
    let layout = Layout::default();
    assert_eq!(
        derived(&Edit::Extend {
            name: lv(1000),
            to: Extents(3),
            layout
        }),
        1
    );
    assert_eq!(
        derived(&Edit::Tags {
            name: lv(7),
            add: vec![tag(1)],
            remove: Vec::new()
        }),
        1
    );
    assert_eq!(
        derived(&Edit::Rename {
            name: lv(7),
            to: lv(9999)
        }),
        1
    );
    assert_eq!(derived(&Edit::Remove { name: lv(1999) }), 0);
}
