//! What edits do to the text: exactly what lvm2 would have written.
//!
//! Expected changes are unified diffs in `data/edit`; `BLESS=1` writes them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use lvm2::alloc::Policy;
use lvm2::check::check;
use lvm2::edit::{Edit, Layout, Stamp, apply, diff, seal};
use lvm2::id::LvId;
use lvm2::model::Vg;
use lvm2::name::{LvName, Tag};
use lvm2::units::{Extents, Sectors};

fn sample(name: &str) -> Vg {
    Vg::parse(&std::fs::read(common::data().join(name)).unwrap()).unwrap()
}

fn name(text: &str) -> LvName {
    LvName::new(text).unwrap()
}

fn tag_list(tags: &[&str]) -> Vec<Tag> {
    tags.iter().map(|tag| Tag::new(*tag).unwrap()).collect()
}

fn create(lv: &str, extents: u64, tags: &[&str], layout: Layout) -> Edit {
    Edit::Create {
        name: name(lv),
        id: LvId::from_random([7; 32]),
        extents: Extents(extents),
        tags: tag_list(tags),
        layout,
        time: 1_796_000_000,
        host: "node-1".to_owned(),
    }
}

fn extend(lv: &str, to: u64, layout: Layout) -> Edit {
    Edit::Extend {
        name: name(lv),
        to: Extents(to),
        layout,
    }
}

fn edit(vg: &Vg, edit: &Edit) -> Vg {
    let changed = apply(vg, edit).unwrap();
    assert_eq!(check(&changed), []);
    let again = Vg::parse(changed.print().as_bytes()).unwrap();
    assert_eq!(again.lvs(), changed.lvs(), "derived as it would be read");
    changed
}

/// Compares the change with the diff in `data/edit`.
fn assert_change(file: &str, old: &Vg, new: &Vg) {
    let path = common::data().join("edit").join(file);
    let found = diff(old, new);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, expected, "{file}");
}

/// Removes an LV and makes it again as the text says it was made.
fn remake(vg: &Vg, lv: &str, layout: Layout) -> (Vg, Vg) {
    let old = vg.lv(lv).unwrap().clone();
    let removed = edit(
        vg,
        &Edit::Remove {
            name: old.name.clone(),
        },
    );
    let made = edit(
        &removed,
        &Edit::Create {
            name: old.name.clone(),
            id: old.id,
            extents: old.extents(),
            tags: old
                .tags
                .iter()
                .map(|tag| Tag::new(tag.as_str()).unwrap())
                .collect(),
            layout,
            time: u64::try_from(old.creation_time.unwrap()).unwrap(),
            host: old.creation_host.clone().unwrap(),
        },
    );
    (removed, made)
}

#[test]
fn a_linear_lv_is_written_as_lvm2_writes_it() {
    let vg = sample("meta-linear.txt");
    let (removed, made) = remake(&vg, "lin", Layout::default());
    assert_eq!(made.print(), vg.print());
    assert!(removed.lvs().is_empty());
    // As in the sample of a VG without LVs.
    assert!(removed.print().contains("}\n}\n\n\n}\n# Generated"));
}

#[test]
fn a_striped_lv_is_written_as_lvm2_writes_it() {
    let vg = sample("meta-striped.txt");
    let layout = Layout {
        stripes: Some(3),
        ..Layout::default()
    };
    assert_eq!(remake(&vg, "st", layout).1.print(), vg.print());
}

#[test]
fn a_policy_that_is_asked_for_is_written_as_lvm2_writes_it() {
    let vg = sample("meta-names.txt");
    let layout = Layout {
        policy: Some(Policy::Contiguous),
        ..Layout::default()
    };
    let made = edit(&vg, &create("new", 2, &[], layout));
    assert_change("create-contiguous.diff", &vg, &made);
}

#[test]
fn several_segments_are_written_as_lvm2_writes_them() {
    let vg = sample("meta-linear_2seg.txt");
    let on = |pv: usize| Layout {
        pvs: Some(vec![vg.pvs()[pv].id]),
        ..Layout::default()
    };
    let old = vg.lv("lin").unwrap();
    let removed = edit(&vg, &Edit::Remove { name: name("lin") });
    let pad = vg.lv("pad").unwrap();
    let emptied = edit(&removed, &Edit::Remove { name: name("pad") });
    let again = |vg: &Vg, lv: &lvm2::model::Lv, extents: u64| {
        edit(
            vg,
            &Edit::Create {
                name: lv.name.clone(),
                id: lv.id,
                extents: Extents(extents),
                tags: Vec::new(),
                layout: Layout::default(),
                time: 1_795_994_512,
                host: "uml1".to_owned(),
            },
        )
    };
    let made = again(&again(&emptied, old, 3), pad, 2);
    let made = edit(&made, &extend("lin", 7, on(0)));
    let made = edit(&made, &extend("lin", 11, on(1)));
    assert_eq!(made.print(), vg.print());
}

#[test]
fn a_new_lv_comes_before_the_hidden_ones() {
    let vg = sample("meta-thin.txt");
    let made = edit(&vg, &create("data", 5, &["a", "b", "a"], Layout::default()));
    assert_change("create-before-hidden.diff", &vg, &made);
    let hidden = made.lvs().iter().position(|lv| !lv.visible()).unwrap();
    assert!(made.lvs()[hidden..].iter().all(|lv| !lv.visible()));
    let back = edit(&made, &Edit::Remove { name: name("data") });
    assert_eq!(back.print(), vg.print());
}

#[test]
fn the_first_lv_of_a_vg_of_one_host_is_write_locked() {
    let vg = sample("meta-sysid.txt");
    let made = edit(&vg, &create("data", 5, &[], Layout::default()));
    assert_change("create-write-locked.diff", &vg, &made);
    assert!(made.lv("data").unwrap().writable());
    let back = edit(&made, &Edit::Remove { name: name("data") });
    assert_eq!(back.print(), vg.print());
}

#[test]
fn what_follows_the_last_segment_makes_it_longer() {
    let vg = sample("meta-striped.txt");
    let grown = edit(&vg, &extend("st", 13, Layout::default()));
    assert_change("extend-striped.diff", &vg, &grown);
    assert_eq!(
        grown.lv("st").unwrap().extents(),
        Extents(15),
        "a multiple of 3"
    );
    let linear = Layout {
        stripes: Some(1),
        ..Layout::default()
    };
    let mixed = edit(&grown, &extend("st", 20, linear));
    assert_change("extend-striped-by-linear.diff", &grown, &mixed);
    let same = edit(&mixed, &extend("st", 20, Layout::default()));
    assert_eq!(same.print(), mixed.print());
}

/// No VG that may be written has one, but the text would be right.
#[test]
fn the_first_segment_of_an_lv_without_any_is_written_as_lvm2_writes_it() {
    let vg = sample("meta-linear.txt");
    let text = vg.print();
    let start = text.find("\n\nsegment1 {").unwrap();
    let end = start + text[start..].find("\n}\n").unwrap() + 2;
    let empty = format!("{}{}", &text[..start], &text[end..]);
    let empty = empty.replacen("segment_count = 1", "segment_count = 0", 1);
    let empty = Vg::parse(empty.as_bytes()).unwrap();
    assert_eq!(empty.lv("lin").unwrap().extents(), Extents(0));
    let size = vg.lv("lin").unwrap().extents().0;
    let grown = edit(&empty, &extend("lin", size, Layout::default()));
    assert_eq!(grown.print(), text);
}

#[test]
fn what_lies_elsewhere_is_a_segment_of_its_own() {
    let vg = sample("meta-linear_2seg.txt");
    let grown = edit(&vg, &extend("pad", 4, Layout::default()));
    assert_change("extend-new-segment.diff", &vg, &grown);
}

/// Joined, it would claim extents that are not its own, or lose what it is.
#[test]
fn what_is_of_another_kind_is_a_segment_of_its_own() {
    let legs = |stripes: u32, size: u64| Layout {
        stripes: Some(stripes),
        stripe_size: Some(Sectors(size)),
        ..Layout::default()
    };
    let linear = sample("meta-linear.txt");
    let size = linear.lv("lin").unwrap().extents().0;
    let tagged = linear.print().replacen(
        "segment_count = 1\n\nsegment1 {\n",
        "segment_count = 1\n\nsegment1 {\ntags = [\"t\"]\n",
        1,
    );
    let tagged = Vg::parse(tagged.as_bytes()).unwrap();
    let striped = sample("meta-striped.txt");
    for (vg, lv, to, layout) in [
        (&linear, "lin", size + 2, legs(2, 128)),
        (&tagged, "lin", size + 2, Layout::default()),
        (&striped, "st", 15, legs(3, 64)),
    ] {
        let last = vg.lv(lv).unwrap().segments[0].clone();
        let grown = edit(vg, &extend(lv, to, layout));
        let segments = &grown.lv(lv).unwrap().segments;
        assert_eq!(segments.len(), 2, "{lv}");
        assert_eq!(segments[0], last);
        let (old, new) = (last.uses().next(), segments[1].uses().next());
        let (old, new) = (old.unwrap(), new.unwrap());
        // It lies right behind all the same.
        assert_eq!((old.key, old.start.0 + old.count.0), (new.key, new.start.0));
    }
}

/// One that is made in pieces is the same as one that grew into them.
#[test]
fn a_new_lv_of_several_segments_is_written_as_lvm2_writes_it() {
    let vg = sample("meta-linear_2seg.txt");
    let pvs = Layout {
        pvs: Some(vg.pvs()[..2].iter().map(|pv| pv.id).collect()),
        ..Layout::default()
    };
    let all = 2 * 127 - 11 - 2;
    let made = edit(&vg, &create("new", all, &[], pvs.clone()));
    let longest = edit(&vg, &create("new", 123, &[], pvs.clone()));
    let grown = edit(&longest, &extend("new", all, pvs));
    assert_eq!(made.lv("new").unwrap().segments.len(), 2);
    assert_eq!(made.print(), grown.print());
}

/// The places of all of an LV's extents, in order.
fn extents(vg: &Vg, lv: &str) -> Vec<(String, u64)> {
    vg.lv(lv)
        .unwrap()
        .uses()
        .flat_map(|area| {
            (area.start.0..area.start.0 + area.count.0).map(move |at| (area.key.to_owned(), at))
        })
        .collect()
}

#[test]
fn an_absorbed_lv_is_the_end_of_the_other() {
    let vg = sample("meta-linear_2seg.txt");
    let absorb = |lv: &str, from: &str| {
        let edit = Edit::Absorb {
            name: name(lv),
            from: name(from),
        };
        self::edit(&vg, &edit)
    };
    let (lin, pad) = (extents(&vg, "lin"), extents(&vg, "pad"));
    let longer = absorb("lin", "pad");
    assert_eq!(extents(&longer, "lin"), [lin.clone(), pad.clone()].concat());
    assert_eq!(longer.lvs().len(), 1);
    assert_eq!(longer.free_extents(), vg.free_extents());
    assert_change("absorb-one-segment.diff", &vg, &longer);
    let other = absorb("pad", "lin");
    assert_eq!(extents(&other, "pad"), [pad, lin].concat());
    assert_eq!(other.free_extents(), vg.free_extents());
    assert_change("absorb-several-segments.diff", &vg, &other);
}

#[test]
fn small_changes_change_few_lines() {
    let vg = sample("meta-names.txt");
    let renamed = edit(
        &vg,
        &Edit::Rename {
            name: name("pv0"),
            to: name("pv1"),
        },
    );
    assert_change("rename.diff", &vg, &renamed);
    assert_eq!(renamed.lv("pv1").unwrap().id, vg.lv("pv0").unwrap().id);
    let tags = |vg: &Vg, lv: &str, add: &[&str], remove: &[&str]| {
        edit(
            vg,
            &Edit::Tags {
                name: name(lv),
                add: tag_list(add),
                remove: tag_list(remove),
            },
        )
    };
    let tagged = tags(&vg, "ro", &["x=1", "y", "x=1"], &["none"]);
    assert_change("tags-first.diff", &vg, &tagged);
    let more = tags(&tagged, "ro", &["z"], &["y"]);
    assert_change("tags-other.diff", &tagged, &more);
    let none = tags(&more, "ro", &[], &["z", "x=1"]);
    assert_eq!(none.print(), vg.print());
    let same = tags(&vg, "pv0", &["t1"], &["t2"]);
    assert_eq!(same.print(), vg.print());
    let removed = edit(&vg, &Edit::Remove { name: name("ro") });
    assert_change("remove.diff", &vg, &removed);
}

#[test]
fn a_seal_is_the_trailer_that_lvm2_writes() {
    for (file, bytes) in common::texts()
        .into_iter()
        .filter(|(file, _)| file.ends_with(".txt"))
    {
        let text = String::from_utf8(bytes).unwrap();
        let vg = Vg::parse(text.as_bytes()).unwrap();
        let before = text.replacen(
            &format!("seqno = {}", vg.seqno()),
            &format!("seqno = {}", vg.seqno() - 1),
            1,
        );
        let generated = text.split("# Generated by ").nth(1).unwrap();
        let kernel = text.split("\t# ").nth(1).unwrap();
        let time = u64::try_from(vg.creation_time().unwrap()).unwrap();
        let stamp = Stamp {
            description: vg.description().unwrap().to_owned(),
            host: vg.creation_host().unwrap().to_owned(),
            host_system_id: vg
                .print()
                .split("creation_host_system_id = \"")
                .nth(1)
                .map(|rest| rest.split('"').next().unwrap().to_owned()),
            time,
            generator: generated.split(": ").next().unwrap().to_owned(),
            kernel: kernel.lines().next().unwrap().to_owned(),
        };
        let sealed = seal(&Vg::parse(before.as_bytes()).unwrap(), &stamp).unwrap();
        assert_eq!(sealed.print(), text, "{file}");
        assert_eq!(sealed.seqno(), vg.seqno());
    }
}

fn stamp(system_id: Option<&str>) -> Stamp {
    Stamp {
        description: "lvcsi: create \"data\"\nand more".to_owned(),
        host: "node-1".to_owned(),
        host_system_id: system_id.map(str::to_owned),
        time: 1_796_000_000,
        generator: "lvcsi 0.1.0".to_owned(),
        kernel: "Linux node-1 6.12.1 #1 SMP\tx86_64".to_owned(),
    }
}

#[test]
fn a_seal_changes_nothing_else() {
    let vg = sample("meta-thin.txt");
    let sealed = seal(&vg, &stamp(Some("hostB"))).unwrap();
    assert_change("seal.diff", &vg, &sealed);
    assert_eq!(sealed.seqno(), vg.seqno() + 1);
    assert_eq!(sealed.description(), Some("lvcsi: create \"data\"and more"));
    assert_eq!(check(&sealed), []);
    let other = seal(&sealed, &stamp(Some("hostC"))).unwrap();
    assert_eq!(
        other.print().matches("creation_host_system_id").count(),
        1,
        "{}",
        other.print()
    );
    assert!(
        other
            .print()
            .contains("\ncreation_host_system_id = \"hostC\"\n")
    );
    let again = seal(&sealed, &stamp(None)).unwrap();
    assert!(!again.print().contains("creation_host_system_id"));
    assert_eq!(
        Vg::parse(again.print().as_bytes()).unwrap().seqno(),
        vg.seqno() + 2
    );
}

/// lvm2 writes blank lines there; a text without them gets them.
#[test]
fn a_seal_sets_the_lines_apart() {
    let vg = sample("meta-linear.txt");
    let mut dense = vg.print();
    for key in ["description", "creation_host"] {
        assert!(dense.contains(&format!("\n\n{key}")));
        dense = dense.replacen(&format!("\n\n{key}"), &format!("\n{key}"), 1);
    }
    let dense = Vg::parse(dense.as_bytes()).unwrap();
    let sealed = |vg: &Vg| seal(vg, &stamp(None)).unwrap().print();
    assert_eq!(sealed(&dense), sealed(&vg));
}

#[test]
fn a_stripe_is_no_larger_than_an_extent() {
    let text = String::from_utf8(std::fs::read(common::data().join("meta-linear.txt")).unwrap());
    let text = text
        .unwrap()
        .replacen("extent_size = 8192", "extent_size = 64", 1);
    let vg = Vg::parse(text.as_bytes()).unwrap();
    let layout = Layout {
        stripes: Some(2),
        ..Layout::default()
    };
    let made = edit(&vg, &create("st", 3, &[], layout));
    let segment = &made.lv("st").unwrap().segments[0];
    assert_eq!(segment.count, Extents(4));
    assert!(matches!(
        segment.kind,
        lvm2::model::SegmentKind::Striped {
            stripe_size: Some(Sectors(64)),
            ..
        }
    ));
}

/// Nobody writes such a text; what comes twice stays where it is.
#[test]
fn a_seal_of_a_text_that_says_things_twice_is_sound() {
    let text = sample("meta-linear.txt").print();
    for again in ["contents = \"x\"\n", "version = 7\n", "creation_time = 5\n"] {
        let vg = Vg::parse(format!("{}\n{again}", text.trim_end()).as_bytes()).unwrap();
        assert_eq!(check(&vg), [], "{again}");
        let sealed = seal(&vg, &stamp(Some("hostB"))).unwrap();
        assert_eq!(check(&sealed), [], "{again}{}", sealed.print());
        let second = seal(&sealed, &stamp(None)).unwrap();
        assert_eq!(check(&second), [], "{again}{}", second.print());
        assert!(second.print().contains(again), "{again}");
    }
}
