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

/// What holds for every allocation: exactly `leg` extents on each of
/// `stripes` legs, all free, none twice, the legs of a segment on different PVs,
/// and no segment that could be part of the one before.
fn sound(
    segments: &[NewSegment],
    free: &BTreeSet<(String, u64)>,
    stripes: u32,
    leg: u64,
) -> Result<(), TestCaseError> {
    let total: u64 = segments.iter().map(|s| s.count.0).sum();
    prop_assert_eq!(total, leg * u64::from(stripes));
    let mut seen = BTreeSet::new();
    for segment in segments {
        prop_assert!(segment.count > Extents(0));
        prop_assert_eq!(segment.stripes.len() as u64, u64::from(stripes));
        prop_assert_eq!(segment.stripe_size.is_some(), stripes > 1);
        prop_assert_eq!(
            segment.leg_extents().0 * u64::from(stripes),
            segment.count.0
        );
        let pvs: BTreeSet<&str> = segment.stripes.iter().map(|s| s.key.as_str()).collect();
        prop_assert_eq!(pvs.len() as u64, u64::from(stripes), "distinct PVs");
        for extent in legs(segment).into_iter().flatten() {
            prop_assert!(free.contains(&extent), "{:?} is in use", extent);
            prop_assert!(seen.insert(extent.clone()), "{:?} twice", extent);
        }
    }
    for pair in segments.windows(2) {
        let ends = legs(&pair[0])
            .into_iter()
            .map(|leg| leg.last().map(|(key, pe)| (key.clone(), pe + 1)));
        let starts = legs(&pair[1]).into_iter().map(|leg| leg.first().cloned());
        prop_assert!(!ends.eq(starts), "{:?} is one segment", pair);
    }
    Ok(())
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
                sound(&segments, &free, stripes, leg)?;
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
    let segments = allocate(&vg, &FreeMap::of(&vg), &want(2, 6)).unwrap();
    sound(&segments, &free_extents(&vg), 2, 6).unwrap();
}

/// A want of `leg` extents on each of `stripes` legs, anywhere.
fn want<'a>(stripes: u32, leg: u64) -> Want<'a> {
    Want {
        extents: Extents(leg * u64::from(stripes)),
        policy: Policy::Normal,
        stripes,
        stripe_size: Sectors(128),
        extend: None,
        pvs: None,
    }
}

/// Where the segments of an allocation lie: key, first extent, length of a leg.
fn places(segments: &[NewSegment]) -> Vec<Vec<(&str, u64, u64)>> {
    let legs = |segment: &NewSegment| segment.leg_extents().0;
    segments
        .iter()
        .map(|segment| {
            let stripes = segment.stripes.iter();
            stripes
                .map(|stripe| (stripe.key.as_str(), stripe.start.0, legs(segment)))
                .collect()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The most that fits is where the simple choice often ends too early.
    #[test]
    fn the_last_extents_are_found(used in used_maps(), stripes in 2u32..5) {
        let vg = vg(&used, &[]);
        let free = free_extents(&vg);
        let most = (1..=free.len() as u64)
            .take_while(|leg| has_room(&free, u64::from(stripes), *leg))
            .last();
        let map = FreeMap::of(&vg);
        if let Some(leg) = most {
            let segments = allocate(&vg, &map, &want(stripes, leg)).unwrap();
            sound(&segments, &free, stripes, leg)?;
        }
        let more = most.unwrap_or(0) + 1;
        prop_assert!(allocate(&vg, &map, &want(stripes, more)).is_err());
    }
}

/// A VG with one PV of the text's letters: `o` is the LV's, `x` another's.
fn map(pvs: &[&str]) -> Vg {
    let used: Vec<Vec<bool>> = pvs
        .iter()
        .map(|pv| pv.chars().map(|c| c != '.').collect())
        .collect();
    let mine: Vec<(usize, usize)> = pvs
        .iter()
        .enumerate()
        .flat_map(|(number, pv)| pv.match_indices('o').map(move |(at, _)| (number, at)))
        .collect();
    vg(&used, &mine)
}

/// PVs as [`map`] draws them, a policy, how much more, and where it goes.
type Growth<'a> = (&'a [&'a str], Policy, u64, &'a [(&'a str, u64, u64)]);

#[test]
fn an_lv_goes_on_where_it_ends_then_on_its_pvs_then_anywhere() {
    let cases: [Growth<'_>; 7] = [
        // A hole that fits better is left alone.
        (&["o....x..x"], Policy::Normal, 2, &[("pv0", 1, 2)]),
        (&["o....x..x"], Policy::Cling, 2, &[("pv0", 1, 2)]),
        (&["o....x..x"], Policy::Contiguous, 4, &[("pv0", 1, 4)]),
        (
            &["o..x....", "........"],
            Policy::Normal,
            5,
            &[("pv0", 1, 2), ("pv0", 4, 3)],
        ),
        (&["....", "ox.."], Policy::Normal, 2, &[("pv1", 2, 2)]),
        (&["....", "ox.."], Policy::Cling, 2, &[("pv1", 2, 2)]),
        (&["....", "ox.."], Policy::Normal, 3, &[("pv0", 0, 3)]),
    ];
    for (pvs, policy, extents, expected) in cases {
        let vg = map(pvs);
        let want = Want {
            policy,
            extend: vg.lv("old").map(|lv| &**lv),
            ..want(1, extents)
        };
        let segments = allocate(&vg, &FreeMap::of(&vg), &want).unwrap();
        let found = places(&segments).concat();
        assert_eq!(found, expected, "{extents} on {pvs:?}, {policy:?}");
    }
}

#[test]
fn a_new_lv_clings_to_the_pvs_that_hold_all_of_it() {
    let vg = map(&["....x....", "......"]);
    let want = Want {
        policy: Policy::Cling,
        ..want(1, 5)
    };
    let segments = allocate(&vg, &FreeMap::of(&vg), &want).unwrap();
    assert_eq!(places(&segments), [[("pv1", 0, 5)]]);
}

#[test]
fn what_is_not_in_one_piece_is_refused_with_the_longest_piece() {
    let vg = map(&["ox.....x", "...x..", "....", "....."]);
    let longest = |stripes: u32, leg: u64, extend: bool| {
        let want = Want {
            policy: Policy::Contiguous,
            extend: vg.lv("old").filter(|_| extend).map(|lv| &**lv),
            ..want(stripes, leg)
        };
        allocate(&vg, &FreeMap::of(&vg), &want).unwrap_err()
    };
    let error = |needed, stripes, longest| AllocError::NotContiguous {
        needed: Extents(needed),
        stripes,
        longest: Extents(longest),
    };
    assert_eq!(longest(1, 6, false), error(6, 1, 5));
    assert_eq!(longest(2, 6, false), error(6, 2, 5));
    assert_eq!(longest(3, 5, false), error(5, 3, 4));
    assert_eq!(longest(4, 5, false), error(5, 4, 3));
    assert_eq!(longest(1, 2, true), error(2, 1, 0));
    let text = map(&["o..x"]);
    let grows = Want {
        policy: Policy::Contiguous,
        extend: text.lv("old").map(|lv| &**lv),
        ..want(1, 3)
    };
    let found = allocate(&text, &FreeMap::of(&text), &grows);
    assert_eq!(found, Err(error(3, 1, 2)));
}

/// A segment has one stripe size, so only legs with the same go on.
#[test]
fn a_striped_lv_goes_on_only_with_the_same_legs() {
    let text = std::fs::read(common::data().join("meta-striped.txt")).unwrap();
    let vg = Vg::parse(&text).unwrap();
    let extend = vg.lv("st").map(|lv| &**lv);
    let grow = |policy, stripes, size| {
        let want = Want {
            policy,
            extend,
            stripe_size: Sectors(size),
            ..want(stripes, 2)
        };
        allocate(&vg, &FreeMap::of(&vg), &want)
    };
    let segments = grow(Policy::Contiguous, 3, 128).unwrap();
    assert_eq!(
        places(&segments),
        [[("pv0", 4, 2), ("pv1", 4, 2), ("pv2", 4, 2)]]
    );
    for (stripes, size) in [(3, 64), (2, 128), (1, 128)] {
        let refused = AllocError::NotContiguous {
            needed: Extents(2),
            stripes,
            longest: Extents(0),
        };
        assert_eq!(grow(Policy::Contiguous, stripes, size), Err(refused));
        assert!(grow(Policy::Normal, stripes, size).is_ok());
    }
}

#[test]
fn extents_that_do_not_divide_among_the_legs_are_refused() {
    let vg = map(&["....", "...."]);
    let odd = Want {
        extents: Extents(3),
        ..want(2, 1)
    };
    assert_eq!(
        allocate(&vg, &FreeMap::of(&vg), &odd),
        Err(AllocError::Uneven {
            extents: Extents(3),
            stripes: 2
        })
    );
    // As many as lvm2 counts are not too many, but there is no room.
    let all = u64::from(u32::MAX);
    let found = allocate(&vg, &FreeMap::of(&vg), &want(1, all));
    assert!(matches!(found, Err(AllocError::NoSpace { .. })));
    let found = allocate(&vg, &FreeMap::of(&vg), &want(1, all + 1));
    assert!(matches!(found, Err(AllocError::TooLong { .. })));
}

#[test]
fn policies_are_read_as_lvm2_writes_them() {
    for policy in [Policy::Contiguous, Policy::Cling, Policy::Normal] {
        assert_eq!(Policy::from_text(policy.as_str()), Some(policy));
    }
    assert_eq!(Policy::from_text("cling_by_tags"), Some(Policy::Cling));
    assert_eq!(Policy::from_text("anywhere"), Some(Policy::Normal));
    assert_eq!(Policy::from_text("inherit"), None);
}
