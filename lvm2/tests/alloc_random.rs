//! Whatever a VG looks like, what is allocated is free, exact and allowed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use lvm2::alloc::{AllocError, FreeMap, NewSegment, Policy, Want, allocate};
use lvm2::model::Vg;
use lvm2::units::{Extents, Sectors};
use proptest::prelude::*;

/// A VG of PVs with the given maps of used extents; the LV `old` has the
/// extents of `mine`, one segment each.
fn vg(used: &[Vec<bool>], mine: &[(usize, usize)]) -> Vg {
    let id = |n: usize| lvm2::id::PvId::from_random([u8::try_from(n).unwrap(); 32]);
    let mut text = format!(
        "vg {{\nid = \"{}\"\nseqno = 1\nstatus = [\"READ\", \"WRITE\"]\nflags = []\n\
         extent_size = 8192\n\nphysical_volumes {{\n",
        id(60)
    );
    for (pv, extents) in used.iter().enumerate() {
        write!(
            text,
            "\npv{pv} {{\nid = \"{}\"\nstatus = [\"ALLOCATABLE\"]\nflags = []\n\
             pe_start = 2048\npe_count = {}\n}}\n",
            id(pv),
            extents.len()
        )
        .unwrap();
    }
    text.push_str("}\n\nlogical_volumes {\n");
    let theirs: Vec<(usize, usize)> = used
        .iter()
        .enumerate()
        .flat_map(|(pv, extents)| {
            extents
                .iter()
                .enumerate()
                .map(move |(pe, used)| (pv, pe, used))
        })
        .filter(|(pv, pe, used)| **used && !mine.contains(&(*pv, *pe)))
        .map(|(pv, pe, _)| (pv, pe))
        .collect();
    for (number, (name, extents)) in [("old", mine), ("fill", &theirs)].into_iter().enumerate() {
        if extents.is_empty() {
            continue;
        }
        write!(
            text,
            "\n{name} {{\nid = \"{}\"\nstatus = [\"READ\", \"WRITE\", \"VISIBLE\"]\nflags = []\n\
             segment_count = {}\n",
            id(50 + number),
            extents.len()
        )
        .unwrap();
        for (n, (pv, pe)) in extents.iter().enumerate() {
            write!(
                text,
                "\nsegment{} {{\nstart_extent = {n}\nextent_count = 1\ntype = \"striped\"\n\
                 stripe_count = 1\nstripes = [\"pv{pv}\", {pe}]\n}}\n",
                n + 1
            )
            .unwrap();
        }
        text.push_str("}\n");
    }
    text.push_str("}\n\n}\n\ncontents = \"Text Format Volume Group\"\nversion = 1\n");
    let vg = Vg::parse(text.as_bytes()).unwrap();
    assert_eq!(lvm2::check::check(&vg), []);
    vg
}

fn free_extents(vg: &Vg) -> BTreeSet<(String, u64)> {
    let mut free = BTreeSet::new();
    for pv in vg.pvs() {
        free.extend((0..pv.pe_count.0).map(|pe| (pv.key.clone(), pe)));
    }
    for lv in vg.lvs() {
        for area in lv.uses() {
            for pe in area.start.0..area.start.0 + area.count.0 {
                free.remove(&(area.key.to_owned(), pe));
            }
        }
    }
    free
}

/// The physical extents of a segment, leg by leg.
fn legs(segment: &NewSegment) -> Vec<Vec<(String, u64)>> {
    let run = |start: u64| start..start + segment.leg_extents().0;
    let legs = segment.stripes.iter();
    legs.map(|s| run(s.start.0).map(|pe| (s.key.clone(), pe)).collect())
        .collect()
}

/// Whether a VG has room for legs on distinct PVs: a PV gives each height of
/// the legs one extent at most, so no more than a leg's length in all.
fn has_room(free: &BTreeSet<(String, u64)>, stripes: u64, leg: u64) -> bool {
    let mut by_pv: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, _) in free {
        *by_pv.entry(key).or_default() += 1;
    }
    by_pv.values().map(|count| leg.min(*count)).sum::<u64>() >= stripes * leg
}

fn used_maps() -> impl Strategy<Value = Vec<Vec<bool>>> {
    prop::collection::vec(
        prop_oneof![
            prop::collection::vec(any::<bool>(), 0..24),
            prop::collection::vec(prop::bool::weighted(0.15), 0..40),
            (0usize..30).prop_map(|n| vec![false; n]),
        ],
        1..6,
    )
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::Contiguous),
        Just(Policy::Cling),
        Just(Policy::Normal)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pitfall_19_what_is_allocated_is_free_exact_and_allowed(
        used in used_maps(),
        mine in 0usize..4,
        grow: bool,
        policy in policies(),
        stripes in 1u32..4,
        leg in 1u64..20,
    ) {
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for (pv, extents) in used.iter().enumerate() {
            taken.extend(extents.iter().enumerate().filter(|(_, u)| **u).map(|(pe, _)| (pv, pe)));
        }
        taken.truncate(mine);
        let vg = vg(&used, &taken);
        let extend = vg.lv("old").filter(|_| grow).map(|lv| &**lv);
        let extents = Extents(leg * u64::from(stripes));
        let map = FreeMap::of(&vg);
        let free = free_extents(&vg);
        prop_assert_eq!(map.free().0, free.len() as u64);
        let want = Want {
            extents, policy, stripes, stripe_size: Sectors(128), extend, pvs: None,
        };
        match allocate(&vg, &map, &want) {
            Ok(segments) => {
                let total: u64 = segments.iter().map(|s| s.count.0).sum();
                prop_assert_eq!(total, extents.0);
                let mut seen = BTreeSet::new();
                for segment in &segments {
                    prop_assert_eq!(segment.stripes.len() as u64, u64::from(stripes));
                    prop_assert_eq!(segment.stripe_size.is_some(), stripes > 1);
                    prop_assert_eq!(segment.leg_extents().0 * u64::from(stripes), segment.count.0);
                    let pvs: BTreeSet<&str> =
                        segment.stripes.iter().map(|s| s.key.as_str()).collect();
                    prop_assert_eq!(pvs.len() as u64, u64::from(stripes), "distinct PVs");
                    for extent in legs(segment).into_iter().flatten() {
                        prop_assert!(free.contains(&extent), "{:?} is in use", extent);
                        prop_assert!(seen.insert(extent.clone()), "{:?} twice", extent);
                    }
                }
                let pvs: BTreeSet<&str> =
                    segments.iter().flat_map(|s| &s.stripes).map(|s| s.key.as_str()).collect();
                match (policy, extend) {
                    (Policy::Contiguous, None) => prop_assert_eq!(segments.len(), 1),
                    (Policy::Contiguous, Some(lv)) => {
                        prop_assert_eq!(segments.len(), 1);
                        let last = lv.segments.last().unwrap().uses().next().unwrap();
                        let first = &segments[0].stripes[0];
                        prop_assert_eq!(last.key, &first.key);
                        prop_assert_eq!(last.start.0 + last.count.0, first.start.0);
                    }
                    (Policy::Cling, None) => prop_assert!(pvs.len() as u64 <= u64::from(stripes)),
                    (Policy::Cling, Some(lv)) => {
                        let old: BTreeSet<&str> = lv.uses().map(|area| area.key).collect();
                        prop_assert!(pvs.is_subset(&old));
                    }
                    (Policy::Normal, _) => {}
                }
            }
            Err(error) => {
                let expected = matches!(error, AllocError::NoSpace { .. }
                    | AllocError::NotContiguous { .. } | AllocError::TooFewPvs { .. });
                prop_assert!(expected, "{}", error);
                if policy == Policy::Normal {
                    prop_assert!(!has_room(&free, u64::from(stripes), leg), "{}", error);
                }
                if policy == Policy::Contiguous && extend.is_none() {
                    let fitting = map.pvs().iter()
                        .filter(|pv| pv.areas.iter().any(|area| area.count.0 >= leg))
                        .count() as u64;
                    prop_assert!(fitting < u64::from(stripes), "{}", error);
                }
            }
        }
    }
}

#[test]
fn a_new_lv_goes_to_the_first_pv_that_holds_all_of_it() {
    let tight = vec![vec![false; 4], vec![false; 20], vec![false; 10]];
    let vg = vg(&tight, &[]);
    let place = |extents: u64| {
        let want = Want {
            extents: Extents(extents),
            policy: Policy::Normal,
            stripes: 1,
            stripe_size: Sectors(0),
            extend: None,
            pvs: None,
        };
        let segments = allocate(&vg, &FreeMap::of(&vg), &want).unwrap();
        let runs: Vec<(String, u64, u64)> = segments
            .iter()
            .map(|s| (s.stripes[0].key.clone(), s.stripes[0].start.0, s.count.0))
            .collect();
        runs
    };
    let run = |key: &str, start, count| (key.to_owned(), start, count);
    assert_eq!(place(4), [run("pv0", 0, 4)]);
    assert_eq!(place(5), [run("pv1", 0, 5)]);
    assert_eq!(place(22), [run("pv1", 0, 20), run("pv0", 0, 2)]);
    assert_eq!(
        place(34),
        [run("pv1", 0, 20), run("pv2", 0, 10), run("pv0", 0, 4)]
    );
}

#[test]
fn the_smallest_area_that_fits_is_taken() {
    let mut holes = vec![true; 30];
    for free in [2, 3, 4, 5, 6, 7, 10, 11, 12, 20, 21, 22, 23, 24] {
        holes[free] = false;
    }
    let vg = vg(&[holes], &[]);
    let map = FreeMap::of(&vg);
    assert_eq!(map.longest(), Extents(6));
    let want = Want {
        extents: Extents(4),
        policy: Policy::Contiguous,
        stripes: 1,
        stripe_size: Sectors(0),
        extend: None,
        pvs: None,
    };
    let segments = allocate(&vg, &map, &want).unwrap();
    assert_eq!(segments[0].stripes[0].start, Extents(20));
}

#[test]
fn legs_are_found_where_greed_finds_none() {
    // The greedy choice takes pv0 and pv1 and leaves pv2 alone with 4.
    let vg = vg(&[vec![false; 4], vec![false; 4], vec![false; 4]], &[]);
    let want = Want {
        extents: Extents(12),
        policy: Policy::Normal,
        stripes: 2,
        stripe_size: Sectors(128),
        extend: None,
        pvs: None,
    };
    let segments = allocate(&vg, &FreeMap::of(&vg), &want).unwrap();
    assert_eq!(segments.iter().map(|s| s.count.0).sum::<u64>(), 12);
}
