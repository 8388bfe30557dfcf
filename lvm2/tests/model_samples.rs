//! Every genuine metadata text becomes a VG and prints as it was.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use lvm2::check::{Identity, Refusal, check, refusal};
use lvm2::model::{AreaRef, SegmentKind, Vg};
use lvm2::units::{Bytes, Extents};

fn sample(name: &str) -> Vg {
    Vg::parse(&std::fs::read(common::data().join(name)).unwrap()).unwrap()
}

fn host(system_id: Option<&str>) -> Identity {
    Identity {
        system_id: system_id.map(str::to_owned),
        extra: Vec::new(),
    }
}

#[test]
fn every_sample_is_a_sound_vg_and_prints_as_it_was() {
    for (name, bytes) in common::texts() {
        let vg = Vg::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(vg.print().as_bytes(), bytes, "{name}");
        let found = check(&vg);
        if name.ends_with(".vg") {
            let rules: Vec<&str> = found.iter().map(|violation| violation.rule).collect();
            assert_eq!(rules, ["text-layout"], "{name}: a backup is no disk's text");
        } else {
            assert_eq!(found, [], "{name}");
        }
        let used: u64 = vg
            .lvs()
            .iter()
            .flat_map(|lv| lv.uses())
            .map(|area| area.count.0)
            .sum();
        let closed: u64 = vg
            .pvs()
            .iter()
            .filter(|pv| !pv.can_allocate())
            .map(|pv| pv.pe_count.0)
            .sum();
        if closed == 0 {
            assert_eq!(vg.free_extents().0 + used, vg.extents_total().0, "{name}");
        }
    }
}

#[test]
fn linear_segments_are_read_as_written() {
    let vg = sample("meta-linear_2seg.txt");
    assert_eq!(vg.name().as_str(), "vgt");
    assert_eq!((vg.seqno(), vg.pvs().len()), (5, 6));
    assert_eq!(vg.extent_size().sectors().0, 8192);
    assert_eq!(vg.creation_host(), Some("uml1"));
    let lv = vg.lv("lin").unwrap();
    assert!(lv.is_native() && lv.visible() && lv.writable());
    assert_eq!((lv.extents(), lv.type_name()), (Extents(11), "linear"));
    let runs: Vec<(u64, u64, &str, u64)> = lv
        .segments
        .iter()
        .flat_map(|segment| segment.uses().map(move |area| (segment, area)))
        .map(|(s, area)| (s.start.0, s.count.0, area.key, area.start.0))
        .collect();
    assert_eq!(runs, [(0, 3, "pv0", 0), (3, 4, "pv0", 5), (7, 4, "pv1", 0)]);
    assert_eq!(vg.lv_by_id(&lv.id).unwrap().name, lv.name);
    assert_eq!(vg.pv_by_id(&vg.pvs()[1].id).unwrap().key, "pv1");
}

#[test]
fn stripes_are_read_as_written() {
    let vg = sample("meta-striped.txt");
    let lv = vg.lv("st").unwrap();
    let SegmentKind::Striped {
        stripe_size,
        stripes,
    } = &lv.segments[0].kind
    else {
        panic!("{:?}", lv.segments)
    };
    assert_eq!((stripe_size.unwrap().0, stripes.len()), (128, 3));
    assert_eq!(lv.type_name(), "striped");
    assert!(lv.uses().all(|area| area.count == Extents(4)));
}

#[test]
fn an_lv_that_is_called_like_a_pv_is_no_pv() {
    let vg = sample("meta-names.txt");
    let lv = vg.lv("pv0").unwrap();
    assert_eq!(lv.tags, ["t1", "a/b=c:d"]);
    assert_eq!(lv.read_ahead, Some(512));
    assert!(lv.is_native());
    assert!(vg.user_of("pv0").is_none(), "the area pv0 is the PV");
    assert_eq!(vg.lv("persist").unwrap().minor, Some(77));
    assert_eq!(vg.allocation_policy(), Some("cling"));
    let ro = vg.lv("ro").unwrap();
    assert!(!ro.writable() && ro.has_flag("NOAUTOACTIVATE"));
    assert!(!vg.pv_by_key("pv5").unwrap().allocatable);
}

#[test]
fn flags_and_tags_are_read_as_written() {
    let vg = sample("meta-sysid.txt");
    assert_eq!(vg.flags(), ["WRITE_LOCKED"]);
    assert_eq!(vg.tags(), [""; 0]);
    let text = sample("meta-linear.txt").print().replacen(
        "extent_size",
        "tags = [\"a\", \"b=c\"]\nextent_size",
        1,
    );
    assert_eq!(Vg::parse(text.as_bytes()).unwrap().tags(), ["a", "b=c"]);
    let vg = sample("meta-names.txt");
    let lv = vg.lv("pv0").unwrap();
    assert!(lv.has_tag("t1") && lv.has_tag("a/b=c:d"));
    assert!(!lv.has_tag("t") && !vg.lv("ro").unwrap().has_tag("t1"));
}

#[test]
fn vgs_are_equal_when_their_texts_are() {
    let vg = sample("meta-linear.txt");
    assert_eq!(vg, sample("meta-linear.txt"));
    let other = vg.print().replacen("uml1", "uml2", 1);
    assert_ne!(vg, Vg::parse(other.as_bytes()).unwrap());
}

#[test]
fn extents_lie_behind_the_start_of_data() {
    let vg = sample("meta-linear.txt");
    let pv = &vg.pvs()[0];
    let at = |pe: u64| pv.offset_of(Extents(pe), vg.extent_size());
    assert_eq!(at(0), Some(Bytes(1 << 20)));
    assert_eq!(at(3), Some(Bytes(13 << 20)));
    assert_eq!(at(1 << 42), None);
    assert_eq!(at(u64::MAX), None);
}

/// What we do not know inside an LV is kept and is no segment.
#[test]
fn only_numbered_sections_are_segments() {
    let text = sample("meta-linear.txt").print();
    for key in ["segments", "segment1x", "other"] {
        let more = text.replacen(
            "segment1 {",
            &format!("{key} {{\nx = 1\n}}\nsegment1 {{"),
            1,
        );
        let vg = Vg::parse(more.as_bytes()).unwrap();
        assert_eq!(vg.lv("lin").unwrap().segments.len(), 1, "{key}");
        assert_eq!(check(&vg), [], "{key}");
        assert_eq!(vg.print(), more);
    }
}

#[test]
fn foreign_types_are_listed_with_what_they_use() {
    let types = |name: &str, lv: &str| {
        let vg = sample(name);
        let lv = vg.lv(lv).unwrap().clone();
        assert!(!lv.is_native(), "{name}");
        let refers: Vec<String> = lv.refers().map(str::to_owned).collect();
        (lv.type_name().to_owned(), refers.join(" "))
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        types("meta-snapshot.txt", "snapshot0"),
        pair("snapshot", "org snap1")
    );
    assert_eq!(
        types("meta-cache.txt", "org"),
        pair("cache", "cp_cpool org_corig")
    );
    assert_eq!(
        types("meta-raid0.txt", "r0"),
        pair("raid0", "r0_rimage_0 r0_rimage_1")
    );
    assert_eq!(
        types("meta-raid1_integrity.txt", "ri_rimage_0"),
        pair("integrity", "ri_rimage_0_iorig ri_rimage_0_imeta")
    );
    assert_eq!(
        types("meta-thin_pending_message.txt", "pool"),
        pair("thin-pool", "pool_tmeta pool_tdata tk0")
    );
    assert_eq!(types("meta-vdo.txt", "vdolv"), pair("vdo", "vpool0"));
}

#[test]
fn pvmove_areas_are_in_use_though_no_image_holds_them() {
    let vg = sample("meta-pvmove.txt");
    let moving: Vec<(&str, u64, u64)> = vg
        .lv("pvmove0")
        .unwrap()
        .uses()
        .map(|area| (area.key, area.start.0, area.count.0))
        .collect();
    assert_eq!(moving, [("pv0", 0, 50), ("pv2", 0, 50)]);
    let lin = vg.lv("lin").unwrap();
    assert!(
        matches!(&lin.segments[0].kind, SegmentKind::Striped { stripes, .. }
        if stripes[0].area == AreaRef::Lv("pvmove0".to_owned(), Extents(0)))
    );
    assert_eq!(lin.foreign_word(), Some("LOCKED"));
}

#[test]
fn write_locked_counts_as_writable() {
    let vg = sample("meta-sysid.txt");
    assert!(vg.writable() && vg.write_locked());
    assert_eq!(refusal(&vg, &host(Some("hostB"))), None);
    assert!(matches!(
        refusal(&vg, &host(Some("hostA"))),
        Some(Refusal::ForeignSystemId { owner, .. }) if owner == "hostB"
    ));
    assert!(matches!(
        refusal(&vg, &host(None)),
        Some(Refusal::ForeignSystemId { .. })
    ));
    let extra = Identity {
        system_id: None,
        extra: vec!["hostB".to_owned()],
    };
    assert_eq!(refusal(&vg, &extra), None);
}

#[test]
fn vgs_of_others_are_refused_with_the_command_that_helps() {
    let refused = |name: &str, word: &str| {
        let reason = refusal(&sample(name), &host(None)).unwrap();
        let text = reason.to_string();
        assert!(text.contains(word), "{name}: {text}");
        reason
    };
    assert!(matches!(
        refused("meta-exported.txt", "vgimport vgt"),
        Refusal::Exported { .. }
    ));
    assert!(matches!(
        refused(
            "meta-locktype_sanlock.txt",
            "--lock-type none --lock-opt force vg1"
        ),
        Refusal::LockType { .. }
    ));
    assert!(matches!(
        refused("meta-missing_pv.txt", "vgextend --restoremissing vg1"),
        Refusal::MissingPv { .. }
    ));
    assert_eq!(refusal(&sample("meta-thin.txt"), &host(None)), None);
}
