//! The layouts of disks on which the edits run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use lvcsi::engine::Request;
use lvcsi_kit::proof::nightly;
use lvcsi_kit::{LoopVg, Rng, VgSpec, decode, proof};

use crate::common::{Native, lv, tag};
use crate::compare;
use crate::edits::{Edit, Limits, Model};

fn edits() -> usize {
    let usual = if nightly() { 400 } else { 45 };
    std::env::var("LVCSI_OPS").map_or(usual, |ops| ops.parse().expect("LVCSI_OPS is a number"))
}

/// Operations that were judged, and the judgements that differ.
#[derive(Default)]
struct Count {
    operations: usize,
    disagreements: usize,
}

/// Runs random edits and calls `after` on each state of the disks. What the
/// readers do not agree on ends the run: the states behind it mean nothing.
fn run(test: &str, spec: &VgSpec, limits: &Limits, after: impl FnMut(&LoopVg)) {
    let mut count = Count::default();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        interleave(test, spec, limits, after, &mut count.operations);
    }));
    if ran.is_err() {
        // The operation that is not counted yet is the one.
        count.operations += 1;
        count.disagreements += 1;
    }
    proof(&format!(
        "oracle: {} operations, disagreements: {}",
        count.operations, count.disagreements
    ));
    if let Err(panic) = ran {
        resume_unwind(panic);
    }
}

fn interleave(
    test: &str,
    spec: &VgSpec,
    limits: &Limits,
    mut after: impl FnMut(&LoopVg),
    judged: &mut usize,
) {
    let mut rng = Rng::from_env(test);
    let vg = LoopVg::with(spec);
    let native = Native::open(&vg);
    let mut model = Model::new();
    let mut before = compare::all_agree(&vg, &native, &model, "vgcreate");
    let (mut ours, mut theirs) = (0, 0);
    for n in 0..edits() {
        let edit = Edit::random(&mut rng, &model, limits);
        let us = rng.below(2) == 0;
        let what = format!("edit {n} by {}: {edit:?}", if us { "us" } else { "lvm2" });
        if us {
            edit.by_us(&native);
            ours += 1;
        } else {
            edit.by_lvm2(&vg);
            theirs += 1;
        }
        // A tag that is there, or one that is not: no change, no commit by us.
        let changes = {
            let old = model.clone();
            edit.apply(&mut model);
            old != model
        };
        let now = compare::all_agree(&vg, &native, &model, &what);
        if us && changes {
            compare::only_meant(&before, &now, &edit);
        } else if us {
            assert_eq!(
                now.text, before.text,
                "{what}: nothing to do, yet something was written"
            );
        } else {
            assert!(now.seqno >= before.seqno, "{what}: seqno went back");
        }
        if n % 10 == 9 {
            vg.assert_clean();
        }
        after(&vg);
        before = now;
        *judged += 1;
    }
    vg.assert_clean();
    println!(
        "{test}: {ours} edits by us, {theirs} by lvm2, seqno {}",
        before.seqno
    );
    assert!(ours > 0 && theirs > 0, "both must have had a turn");
}

#[test]
fn plain_two_disks() {
    let limits = Limits {
        extents: 55,
        stripes: 2,
    };
    run("plain_two_disks", &VgSpec::disks(2, 256), &limits, |_| {});
}

#[test]
fn sectors_of_4096_bytes() {
    let spec = VgSpec::disks(2, 256).block_size(4096);
    run(
        "sectors_of_4096_bytes",
        &spec,
        &Limits {
            extents: 55,
            stripes: 2,
        },
        |_| {},
    );
}

/// One PV, nearly full: LVs in many pieces.
#[test]
fn fragmented() {
    let spec = VgSpec::disks(1, 128).vgcreate(&["-s", "1m"]);
    run(
        "fragmented",
        &spec,
        &Limits {
            extents: 70,
            stripes: 1,
        },
        |_| {},
    );
}

/// A metadata area of 60 KiB: the text wraps at its end again and again.
#[test]
fn ring_wraps() {
    let args = ["--metadatasize", "16k", "--dataalignment", "64k"];
    let mut spec = VgSpec::disks(2, 128).pvcreate(0, &args).pvcreate(1, &args);
    // 8 KiB of text: every seventh commit meets the end of the area.
    for letter in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        spec = spec.vgcreate(&["--addtag", &letter.repeat(1000)]);
    }
    let mut wrapped = 0;
    run(
        "ring_wraps",
        &spec,
        &Limits {
            extents: 30,
            stripes: 2,
        },
        |vg| {
            for path in vg.paths() {
                let pv = decode::pv(path).unwrap();
                assert!(
                    pv.mdas[0].size <= 64 << 10,
                    "a small area: {}",
                    pv.mdas[0].size
                );
                wrapped += usize::from(pv.mdas[0].offset + pv.mdas[0].text_size > pv.mdas[0].size);
            }
        },
    );
    println!("ring_wraps: {wrapped} texts wrapped");
    assert!(wrapped > 0 || edits() < 40, "no text wrapped");
}

/// A PV with two metadata areas beside one with one.
#[test]
fn pitfall_09_two_areas_on_one_disk() {
    let spec = VgSpec::disks(2, 256).pvcreate(0, &["--pvmetadatacopies", "2"]);
    run(
        "pitfall_09_two_areas_on_one_disk",
        &spec,
        &Limits {
            extents: 55,
            stripes: 2,
        },
        |vg| {
            // `decode` has compared the texts of all areas already.
            assert_eq!(decode::pv(vg.paths()[0]).unwrap().mdas.len(), 2);
        },
    );
}

/// Ignored areas keep their stale text and are never written.
#[test]
fn pitfall_08_ignored_areas() {
    let spec = VgSpec::disks(3, 128).vgcreate(&["--vgmetadatacopies", "1"]);
    let mut first: Option<Vec<Vec<u8>>> = None;
    run(
        "pitfall_08_ignored_areas",
        &spec,
        &Limits {
            extents: 40,
            stripes: 2,
        },
        |vg| {
            let ignored: Vec<Vec<u8>> = vg
                .paths()
                .iter()
                .flat_map(|path| decode::pv(path).unwrap().mdas)
                .filter(|mda| mda.ignored)
                .map(|mda| mda.header)
                .collect();
            assert_eq!(ignored.len(), 2, "two of three areas are ignored");
            let rows = vg
                .lvm
                .report("vgs", "vg_mda_count,vg_mda_used_count", &[&vg.name]);
            assert_eq!(
                (&rows[0]["vg_mda_count"], &rows[0]["vg_mda_used_count"]),
                (&"3".into(), &"1".into())
            );
            let first = first.get_or_insert_with(|| ignored.clone());
            assert_eq!(*first, ignored, "an ignored area was written");
        },
    );
}

/// Both writers take texts up to the same size, and refuse the next longer one
/// without a change.
#[test]
fn pitfall_05_both_writers_meet_the_same_limit() {
    let args = ["--metadatasize", "16k", "--dataalignment", "64k"];
    let spec = VgSpec::disks(1, 64).pvcreate(0, &args);
    let largest = |by_us: bool| {
        let vg = LoopVg::with(&spec);
        let native = Native::open(&vg);
        vg.lvm.clean(&[
            "lvcreate", "-y", "-an", "-Zn", "-Wn", "-l", "1", "-n", "full", &vg.name,
        ]);
        let mut step = 1000;
        let mut number = 0;
        loop {
            let before = (vg.digest(), vg.text());
            let text = format!("n{number}{}", "x".repeat(step));
            number += 1;
            let taken = if by_us {
                let request = Request::Tags {
                    name: lv("full"),
                    add: vec![tag(&text)],
                    remove: Vec::new(),
                };
                native.run(request).is_ok()
            } else {
                let lv = vg.lv("full");
                vg.lvm.run(&["lvchange", "--addtag", &text, &lv]).success()
            };
            if !taken {
                assert_eq!(vg.text(), before.1, "a refused text is not there");
                assert!(!by_us || vg.digest() == before.0, "we wrote something");
                vg.assert_clean();
                if step == 1 {
                    return vg.text().len();
                }
                step = (step / 4).max(1);
            }
        }
    };
    let (ours, theirs) = (largest(true), largest(false));
    println!("largest texts: {ours} bytes by us, {theirs} by lvm2");
    assert!(ours.abs_diff(theirs) <= 512, "{ours} and {theirs}");
}

/// Data areas that begin elsewhere on each PV, and extents whose size is no
/// power of two.
#[test]
fn data_that_begins_late_and_odd_extents() {
    let spec = VgSpec::disks(2, 256)
        .pvcreate(0, &["--dataalignment", "3m", "--dataalignmentoffset", "1m"])
        .pvcreate(1, &["--dataalignment", "8m"])
        .vgcreate(&["-s", "1152k"]);
    let limits = Limits {
        extents: 150,
        stripes: 2,
    };
    run(
        "data_that_begins_late_and_odd_extents",
        &spec,
        &limits,
        |vg| {
            let starts = vg
                .paths()
                .into_iter()
                .map(|path| decode::pv(path).unwrap().data_start);
            assert_eq!(starts.collect::<Vec<_>>(), [4 << 20, 8 << 20]);
        },
    );
}

/// Extents of 4 KiB, the smallest for which a stripe can be.
#[test]
fn smallest_extents() {
    let spec = VgSpec::disks(2, 64).vgcreate(&["-s", "4k"]);
    let limits = Limits {
        extents: 4000,
        stripes: 1,
    };
    run("smallest_extents", &spec, &limits, |_| {});
}
