//! Edits that would hurt somebody are refused for a reason that names him.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use lvm2::alloc::AllocError;
use lvm2::edit::{Edit, EditError, Layout, Stamp, apply, editable, seal};
use lvm2::id::LvId;
use lvm2::model::Vg;
use lvm2::name::{LvName, NameError};
use lvm2::units::{Extents, Sectors};

fn text(name: &str) -> String {
    std::fs::read_to_string(common::data().join(name)).unwrap()
}

fn sample(name: &str) -> Vg {
    Vg::parse(text(name).as_bytes()).unwrap()
}

fn name(text: &str) -> LvName {
    LvName::new(text).unwrap()
}

fn create(lv: &str, extents: u64, layout: Layout) -> Edit {
    Edit::Create {
        name: name(lv),
        // One id for each first letter.
        id: LvId::from_random([lv.as_bytes()[0]; 32]),
        extents: Extents(extents),
        tags: Vec::new(),
        layout,
        time: 1,
        host: "node-1".to_owned(),
    }
}

fn extend(lv: &str, to: u64) -> Edit {
    Edit::Extend {
        name: name(lv),
        to: Extents(to),
        layout: Layout::default(),
    }
}

fn absorb(lv: &str, from: &str) -> Edit {
    Edit::Absorb {
        name: name(lv),
        from: name(from),
    }
}

fn refused(vg: &Vg, edit: &Edit) -> EditError {
    let before = vg.print();
    let error = apply(vg, edit).unwrap_err();
    assert_eq!(vg.print(), before);
    error
}

/// Every edit that an LV can be the object of.
fn edits_of(lv: &str) -> Vec<Edit> {
    vec![
        extend(lv, 100),
        Edit::Reduce {
            name: name(lv),
            to: Extents(1),
        },
        Edit::Remove { name: name(lv) },
        Edit::Rename {
            name: name(lv),
            to: name("other"),
        },
        Edit::Tags {
            name: name(lv),
            add: Vec::new(),
            remove: Vec::new(),
        },
    ]
}

#[test]
fn only_a_users_own_plain_lvs_are_changed() {
    type Expected = fn(&EditError) -> bool;
    let origin: Expected =
        |e| matches!(e, EditError::Origin { snapshot, .. } if snapshot == "snapshot0");
    let locked: Expected = |e| matches!(e, EditError::Locked { .. });
    let foreign: Expected = |e| matches!(e, EditError::NotNative { .. });
    let in_use: Expected = |e| matches!(e, EditError::InUse { .. });
    let hidden: Expected = |e| matches!(e, EditError::Hidden { .. });
    let cases = [
        ("meta-snapshot.txt", "org", origin),
        ("meta-snapshot.txt", "snap1", origin),
        ("meta-snapshot.txt", "snapshot0", foreign),
        ("meta-snap_merging.txt", "orgb", |e: &EditError| {
            matches!(e, EditError::Origin { .. })
        }),
        ("meta-pvmove.txt", "lin", locked),
        ("meta-pvmove.txt", "pvmove0", locked),
        ("meta-thin.txt", "pool", foreign),
        ("meta-thin.txt", "th1", foreign),
        ("meta-thin.txt", "pool_tdata", in_use),
        ("meta-thin.txt", "lvol0_pmspare", hidden),
        ("meta-raid1.txt", "r1_rimage_0", in_use),
        ("meta-cachevol.txt", "cv_cvol", locked),
        ("meta-cache.txt", "org_corig", in_use),
        ("meta-error_zero.txt", "er", foreign),
    ];
    for (file, lv, expected) in cases {
        let vg = sample(file);
        for edit in edits_of(lv) {
            let error = refused(&vg, &edit);
            assert!(expected(&error), "{file} {lv}: {error}");
            assert!(error.to_string().contains(lv), "{error}");
        }
        // What is asked before a change answers as the change would.
        let error = editable(&vg, &name(lv)).unwrap_err();
        assert!(expected(&error), "{file} {lv}: {error}");
        // Nor does it become the end of another LV, or get one.
        let vg = apply(&vg, &create("plain", 1, Layout::default())).unwrap();
        assert_eq!(editable(&vg, &name("plain")), Ok(()));
        for (to, from) in [("plain", lv), (lv, "plain")] {
            let error = refused(&vg, &absorb(to, from));
            assert!(expected(&error), "{file} {to} {from}: {error}");
        }
    }
}

/// Such extents are not the LV's own, even where no status word says so.
#[test]
fn an_lv_that_lies_on_an_lv_is_not_changed() {
    let text = text("meta-pvmove.txt").replacen("\"VISIBLE\", \"LOCKED\"", "\"VISIBLE\"", 1);
    let nowhere = text.replacen("\"pvmove0\", 0\n", "", 1);
    let nowhere = nowhere.replacen("stripe_count = 1", "stripe_count = 0", 1);
    for text in [text, nowhere] {
        let vg = Vg::parse(text.as_bytes()).unwrap();
        let lin = vg.lv("lin").unwrap();
        assert!(lin.foreign_word().is_none() && !lin.is_native());
        for edit in edits_of("lin") {
            assert!(matches!(refused(&vg, &edit), EditError::NotNative { .. }));
        }
    }
}

#[test]
fn an_lv_does_not_absorb_itself() {
    let vg = sample("meta-linear_2seg.txt");
    assert!(matches!(
        refused(&vg, &absorb("lin", "lin")),
        EditError::LvExists { lv, .. } if lv == "lin"
    ));
    assert!(matches!(
        refused(&vg, &absorb("lin", "none")),
        EditError::NoSuchLv { lv, .. } if lv == "none"
    ));
}

#[test]
fn no_lv_becomes_shorter() {
    let vg = sample("meta-linear_2seg.txt");
    for edit in [
        extend("lin", 10),
        Edit::Reduce {
            name: name("lin"),
            to: Extents(10),
        },
    ] {
        assert_eq!(
            refused(&vg, &edit),
            EditError::WouldReduce {
                vg: "vgt".to_owned(),
                lv: "lin".to_owned(),
                from: Extents(11),
                to: Extents(10),
            }
        );
    }
}

#[test]
fn names_are_lvm2s_and_unique() {
    let vg = sample("meta-linear_2seg.txt");
    assert!(matches!(refused(&vg, &create("pad", 1, Layout::default())),
        EditError::LvExists { lv, .. } if lv == "pad"));
    for reserved in ["snapshot1", "pvmove9", "a_tmeta", "x_rimage_0"] {
        assert!(
            matches!(
                refused(&vg, &create(reserved, 1, Layout::default())),
                EditError::Name(NameError::Reserved { .. })
            ),
            "{reserved}"
        );
    }
    let long = "x".repeat(124);
    assert!(matches!(
        refused(&vg, &create(&long, 1, Layout::default())),
        EditError::Name(NameError::PairTooLong { .. })
    ));
    let rename = |to: &str| Edit::Rename {
        name: name("lin"),
        to: name(to),
    };
    assert!(matches!(
        refused(&vg, &rename("pad")),
        EditError::LvExists { .. }
    ));
    assert!(matches!(
        refused(&vg, &rename("a_cvol")),
        EditError::Name(_)
    ));
    assert_eq!(apply(&vg, &rename("lin")).unwrap().print(), vg.print());
    let past = sample("meta-history.txt");
    assert!(matches!(
        refused(&past, &create("th2", 1, Layout::default())),
        EditError::LvExists { .. }
    ));
    for edit in edits_of("none") {
        assert!(matches!(refused(&vg, &edit), EditError::NoSuchLv { .. }));
    }
}

#[test]
fn an_id_is_used_once() {
    let vg = apply(
        &sample("meta-linear.txt"),
        &create("a", 1, Layout::default()),
    )
    .unwrap();
    assert!(matches!(
        refused(&vg, &create("also", 1, Layout::default())),
        EditError::IdExists { .. }
    ));
}

#[test]
fn a_limit_on_lvs_is_kept() {
    let limited = text("meta-linear.txt").replacen("max_lv = 0", "max_lv = 2", 1);
    let vg = Vg::parse(limited.as_bytes()).unwrap();
    let vg = apply(&vg, &create("a", 1, Layout::default())).unwrap();
    assert!(matches!(
        refused(&vg, &create("b", 1, Layout::default())),
        EditError::TooManyLvs { max: 2, .. }
    ));
}

#[test]
fn what_cannot_be_placed_is_refused_with_the_numbers() {
    let vg = sample("meta-linear_2seg.txt");
    let free = vg.free_extents();
    let no_space = |edit: Edit| match refused(&vg, &edit) {
        EditError::NoSpace { source, .. } => source,
        other => panic!("{other}"),
    };
    assert_eq!(
        no_space(create("a", 0, Layout::default())),
        AllocError::Nothing
    );
    assert!(
        matches!(no_space(create("a", free.0 + 1, Layout::default())),
        AllocError::NoSpace { needed, free: found, .. }
            if needed.0 == free.0 + 1 && found == free)
    );
    assert!(matches!(
        no_space(create("a", u64::from(u32::MAX) + 1, Layout::default())),
        AllocError::TooLong { .. }
    ));
    assert!(matches!(
        no_space(create("a", u64::MAX, Layout::default())),
        AllocError::TooLong { .. }
    ));
    let striped = |stripes: u32, size: u64| Layout {
        stripes: Some(stripes),
        stripe_size: Some(Sectors(size)),
        ..Layout::default()
    };
    assert!(matches!(
        no_space(create("a", u64::MAX, striped(2, 128))),
        AllocError::TooLong { .. }
    ));
    assert!(matches!(
        no_space(create("a", 7, striped(7, 128))),
        AllocError::TooFewPvs { stripes: 7, pvs: 6 }
    ));
    for size in [0, 4, 100, 16384] {
        assert!(
            matches!(
                no_space(create("a", 2, striped(2, size))),
                AllocError::StripeSize { .. }
            ),
            "{size}"
        );
    }
    assert!(matches!(
        no_space(create("a", 2, striped(0, 128))),
        AllocError::Uneven { .. }
    ));
    assert!(matches!(
        no_space(Edit::Extend {
            name: name("pad"),
            to: Extents(3),
            layout: Layout {
                policy: Some(lvm2::alloc::Policy::Contiguous),
                ..Layout::default()
            }
        }),
        AllocError::NotContiguous { .. }
    ));
    let strange = Layout {
        pvs: Some(vec![lvm2::id::PvId::from_random([1; 32])]),
        ..Layout::default()
    };
    assert!(matches!(
        no_space(create("a", 1, strange)),
        AllocError::UnknownPv(_)
    ));
    let all = apply(&vg, &create("a", free.0, Layout::default())).unwrap();
    assert_eq!(all.free_extents(), Extents(0));
}

#[test]
fn a_policy_that_is_written_is_kept() {
    let own = "creation_time = 1795994512\n";
    let policy = |of_vg: &str, of_lv: &str| {
        let text = text("meta-linear_2seg.txt")
            .replacen("metadata_copies", &format!("{of_vg}metadata_copies"), 1)
            .replace(own, &format!("{of_lv}{own}"));
        Vg::parse(text.as_bytes()).unwrap()
    };
    // pad can go on nowhere, so it grows under the policy normal only.
    let (contiguous, normal) = (
        "allocation_policy = \"contiguous\"\n",
        "allocation_policy = \"normal\"\n",
    );
    for (of_vg, of_lv, grows) in [
        ("", "", true),
        (contiguous, "", false),
        ("", contiguous, false),
        (contiguous, normal, true),
        (normal, contiguous, false),
    ] {
        let grown = apply(&policy(of_vg, of_lv), &extend("pad", 3));
        assert_eq!(grown.is_ok(), grows, "{of_vg} {of_lv}: {grown:?}");
    }
}

#[test]
fn nothing_is_taken_from_a_missing_or_closed_pv() {
    let missing = sample("meta-missing_pv.txt");
    let lost = missing.pvs().iter().find(|pv| pv.missing).unwrap();
    let made = apply(
        &missing,
        &create("a", missing.free_extents().0, Layout::default()),
    )
    .unwrap();
    assert!(
        made.lv("a")
            .unwrap()
            .uses()
            .all(|area| area.key != lost.key)
    );
    let closed = sample("meta-names.txt");
    let only = Layout {
        pvs: Some(vec![closed.pvs()[5].id]),
        ..Layout::default()
    };
    assert!(matches!(
        refused(&closed, &create("a", 1, only)),
        EditError::NoSpace {
            source: AllocError::NoSpace {
                free: Extents(0),
                ..
            },
            ..
        }
    ));
}

#[test]
fn text_that_would_break_the_layout_is_refused() {
    let vg = sample("meta-linear.txt");
    let mut edit = create("a", 1, Layout::default());
    if let Edit::Create { host, .. } = &mut edit {
        *host = "a\n}\nb".to_owned();
    }
    assert!(matches!(refused(&vg, &edit), EditError::Text { .. }));
    let mut edit = create("a", 1, Layout::default());
    if let Edit::Create { time, .. } = &mut edit {
        *time = u64::MAX;
    }
    assert!(matches!(refused(&vg, &edit), EditError::Time { .. }));
}

#[test]
fn what_cannot_be_the_next_commit_is_not_sealed() {
    let stamp = Stamp {
        description: "test".to_owned(),
        host: "node-1".to_owned(),
        host_system_id: None,
        time: 1,
        generator: "lvcsi".to_owned(),
        kernel: "Linux".to_owned(),
    };
    let last = text("meta-linear.txt").replacen("seqno = 2", "seqno = 4294967295", 1);
    let last = Vg::parse(last.as_bytes()).unwrap();
    assert!(matches!(seal(&last, &stamp), Err(EditError::Seqno { .. })));
    let backup = sample("backup-vg1.vg");
    assert!(matches!(
        seal(&backup, &stamp),
        Err(EditError::Layout { .. })
    ));
    let late = Stamp {
        time: u64::MAX,
        ..stamp
    };
    assert!(matches!(
        seal(&sample("meta-linear.txt"), &late),
        Err(EditError::Time { .. })
    ));
}
