//! Metadata that somebody broke or forged: an error or a finding, no panic.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use lvm2::alloc::FreeMap;
use lvm2::check::{Identity, check, refusal};
use lvm2::edit::{Edit, Layout, apply};
use lvm2::id::LvId;
use lvm2::model::Vg;
use lvm2::name::LvName;
use lvm2::tables::{DevNo, plan, pv_areas, pv_ranges};
use lvm2::units::{Bytes, Extents};
use proptest::prelude::*;

/// What a number, a word or a line of a text becomes.
#[derive(Clone, Debug)]
enum Damage {
    Number(&'static str),
    Word(&'static str),
    Drop,
    Repeat,
}

fn damages() -> impl Strategy<Value = Damage> {
    let numbers = prop::sample::select(vec![
        "0",
        "1",
        "-1",
        "2147483647",
        "2147483648",
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "-9223372036854775808",
        "017",
        "1.5",
        "\"x\"",
        "[]",
    ]);
    let words = prop::sample::select(vec![
        "pv0",
        "pv1",
        "lin",
        "",
        "striped",
        "linear",
        "mirror",
        "raid0",
        "MISSING",
        "LOCKED",
        "WRITE_LOCKED",
        "EXPORTED",
        "sanlock",
        "pv0\\\"",
        "..",
        "snapshot0",
    ]);
    prop_oneof![
        4 => numbers.prop_map(Damage::Number),
        3 => words.prop_map(Damage::Word),
        1 => Just(Damage::Drop),
        1 => Just(Damage::Repeat),
    ]
}

/// Damages the line `at`, counted round, if the damage fits it.
fn damaged(text: &str, damage: &Damage, at: usize) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = at % lines.len();
    let line = lines[at].clone();
    match damage {
        Damage::Number(number) => {
            let end = line
                .rfind(|c: char| c.is_ascii_digit())
                .map_or(0, |end| end + 1);
            let start = line[..end].rfind(' ').map_or(0, |start| start + 1);
            if end > start {
                lines[at].replace_range(start..end, number);
            }
        }
        Damage::Word(word) => {
            let mut quotes = line.match_indices('"').map(|(at, _)| at);
            if let (Some(start), Some(end)) = (quotes.next(), quotes.next()) {
                lines[at].replace_range(start + 1..end, word);
            }
        }
        Damage::Drop => {
            lines.remove(at);
        }
        Damage::Repeat => lines.insert(at, line),
    }
    lines.join("\n") + "\n"
}

/// Does everything with a VG that a listing or a request would.
fn exercise(vg: &Vg) {
    let sound = check(vg).is_empty();
    let identity = Identity::default();
    if refusal(vg, &identity).is_none() {
        assert!(sound, "what is written is sound");
    }
    let free = FreeMap::of(vg);
    assert!(free.longest() <= free.free());
    assert!(vg.free_extents() <= vg.extents_total());
    for lv in vg.lvs() {
        let _ = plan(vg, lv, &|_| Some(DevNo { major: 7, minor: 0 }));
        let _ = pv_areas(vg, lv);
        let _ = pv_ranges(vg, lv, Bytes(0), Bytes(4096));
        let _ = vg.sectors_of(lv);
        let name = &lv.name;
        let layout = Layout::default();
        let to = lv.extents().saturating_add(Extents(1));
        for edit in [
            Edit::Extend {
                name: name.clone(),
                to,
                layout,
            },
            Edit::Remove { name: name.clone() },
            Edit::Rename {
                name: name.clone(),
                to: LvName::new("renamed").unwrap(),
            },
        ] {
            let changed = apply(vg, &edit);
            if let Some(changed) = changed.ok().filter(|_| sound) {
                assert_eq!(check(&changed), [], "{edit:?}");
            }
        }
    }
    let create = Edit::Create {
        name: LvName::new("new").unwrap(),
        id: LvId::from_random([9; 32]),
        extents: Extents(3),
        tags: Vec::new(),
        layout: Layout {
            stripes: Some(2),
            ..Layout::default()
        },
        time: 1,
        host: "node-1".to_owned(),
    };
    if let Some(changed) = apply(vg, &create).ok().filter(|_| sound) {
        assert_eq!(check(&changed), []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn damaged_metadata_is_handled(
        sample in any::<prop::sample::Index>(),
        damages in prop::collection::vec((damages(), any::<usize>()), 1..4),
    ) {
        let texts = common::texts();
        let mut text = String::from_utf8(sample.get(&texts).1.clone()).unwrap();
        for (damage, at) in &damages {
            text = damaged(&text, damage, *at);
        }
        if let Ok(vg) = Vg::parse(text.as_bytes()) {
            prop_assert_eq!(vg.print(), text);
            exercise(&vg);
        }
    }
}

#[test]
fn every_line_of_a_sample_can_be_missing() {
    for (name, bytes) in common::texts() {
        let text = String::from_utf8(bytes).unwrap();
        for at in 0..text.lines().count() {
            if let Ok(vg) = Vg::parse(damaged(&text, &Damage::Drop, at).as_bytes()) {
                assert!(vg.extents_total() > Extents(0), "{name} without line {at}");
                let _ = check(&vg);
            }
        }
    }
}
