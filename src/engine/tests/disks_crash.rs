//! Changes of PVs and VGs that are cut off at every call: the process dies,
//! the machine dies, or a call fails. What is left is a device that is no PV,
//! a PV of no VG, or a member, and asking again finishes the change.

use std::collections::BTreeMap;

use lvm2::ondisk::label;
use lvm2::ondisk::mda::MdaHeader;

use super::disks::*;
use super::*;
use crate::engine::{DiskError, DiskRequest};
use crate::host::sim::{CrashPolicy, Fault};

const ALL: [&str; 3] = ["/dev/sda", "/dev/sdb", "/dev/sdc"];

/// What a disk is to lvm2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Free,
    Member,
}

use Kind::{Free, Member, Nothing};

struct Story {
    name: &'static str,
    /// What is there before, made in order.
    before: fn() -> Vec<DiskRequest>,
    prepare: fn(&SimHost),
    request: fn() -> DiskRequest,
    from: [Kind; 3],
    to: [Kind; 3],
}

fn stories() -> Vec<Story> {
    fn none() -> Vec<DiskRequest> {
        Vec::new()
    }
    fn pv() -> Vec<DiskRequest> {
        vec![create_pv(&["/dev/sda"])]
    }
    fn vg_of_two() -> Vec<DiskRequest> {
        vec![create_vg("data", &["/dev/sda", "/dev/sdb"])]
    }
    fn vg_and_pv() -> Vec<DiskRequest> {
        vec![
            create_pv(&["/dev/sdc"]),
            create_vg("data", &["/dev/sda", "/dev/sdb"]),
        ]
    }
    fn nothing(_: &SimHost) {}
    fn dirty(sim: &SimHost) {
        sim.disk("/dev/sda").write(4086, b"SWAPSPACE2");
        sim.disk("/dev/sda").write(65536 + 64, b"_BHRfS_M");
    }
    fn larger(sim: &SimHost) {
        sim.resize_disk("/dev/sda", 512 * MIB);
    }
    let story = |name, before, prepare, request, from, to| Story {
        name,
        before,
        prepare,
        request,
        from,
        to,
    };
    vec![
        story(
            "pv create",
            none,
            nothing,
            || create_pv(&["/dev/sda", "/dev/sdb"]),
            [Nothing; 3],
            [Free, Free, Nothing],
        ),
        story(
            "pv create with a wipe",
            none,
            dirty,
            || create_pv(&["/dev/sda"]),
            [Nothing; 3],
            [Free, Nothing, Nothing],
        ),
        story(
            "pv create anew",
            pv,
            nothing,
            || create_pv(&["/dev/sda"]),
            [Free, Nothing, Nothing],
            [Free, Nothing, Nothing],
        ),
        story(
            "pv resize",
            pv,
            larger,
            || resize_pv("/dev/sda"),
            [Free, Nothing, Nothing],
            [Free, Nothing, Nothing],
        ),
        story(
            "pv remove",
            pv,
            nothing,
            || DiskRequest::RemovePv {
                devices: paths(&["/dev/sda"]),
            },
            [Free, Nothing, Nothing],
            [Nothing; 3],
        ),
        story(
            "vg create",
            none,
            dirty,
            || create_vg("data", &["/dev/sda", "/dev/sdb"]),
            [Nothing; 3],
            [Member, Member, Nothing],
        ),
        story(
            "vg create of a pv",
            pv,
            nothing,
            || create_vg("data", &["/dev/sda", "/dev/sdb"]),
            [Free, Nothing, Nothing],
            [Member, Member, Nothing],
        ),
        story(
            "vg extend",
            vg_of_two,
            nothing,
            || extend_vg(&["/dev/sdc"]),
            [Member, Member, Nothing],
            [Member; 3],
        ),
        story(
            "vg extend by a pv",
            vg_and_pv,
            nothing,
            || extend_vg(&["/dev/sdc"]),
            [Member, Member, Free],
            [Member; 3],
        ),
        story(
            "vg resize",
            vg_of_two,
            larger,
            || resize_pv("/dev/sda"),
            [Member, Member, Nothing],
            [Member, Member, Nothing],
        ),
        story(
            "vg reduce",
            vg_of_two,
            nothing,
            || reduce_vg(&["/dev/sdb"]),
            [Member, Member, Nothing],
            [Member, Free, Nothing],
        ),
        story(
            "vg remove",
            vg_of_two,
            nothing,
            remove_vg,
            [Member, Member, Nothing],
            [Free, Free, Nothing],
        ),
    ]
}

fn staged(story: &Story) -> SimHost {
    let sim = blank(&ALL);
    for request in (story.before)() {
        engine(sim.host()).change_disks(&request, true).unwrap();
    }
    (story.prepare)(&sim);
    sim.use_devices_file(&ALL);
    sim.make_hints();
    sim
}

/// What each disk is now, by the judgement of a new process and of the bytes.
fn kinds(sim: &SimHost, place: &str) -> [Kind; 3] {
    let engine = engine(sim.host());
    let report = engine.report().unwrap();
    let mut members: BTreeMap<String, bool> = BTreeMap::new();
    for vg in &report.vgs {
        assert_eq!(check::check(&vg.vg), [], "{place}");
        assert!(vg.refusal.is_none(), "{place}: {:?}", vg.refusal);
        let outline = engine.outline(vg.vg.name()).unwrap();
        assert_eq!(outline.hazards, [], "{place}");
        for pv in &vg.pvs {
            let path = pv.device.as_ref().unwrap().path.display().to_string();
            members.insert(path, true);
        }
    }
    ALL.map(|disk| {
        let head = sim.disk(disk).read(0, label::SEARCHED_BYTES);
        assert_eq!(label::damaged(&head), None, "{place}: {disk}");
        let Some(found) = label::find(&head).unwrap() else {
            assert!(
                !members.contains_key(disk),
                "{place}: {disk} is a member without a label"
            );
            return Nothing;
        };
        for area in &found.header.metadata_areas {
            let sector = sim.disk(disk).read(area.offset.0, 512);
            let header = MdaHeader::decode(&sector, area.offset.0);
            assert!(header.is_ok(), "{place}: {disk}: {header:?}");
        }
        if members.contains_key(disk) {
            return Member;
        }
        assert!(
            !found.header.in_use(),
            "{place}: {disk} is in use by nobody"
        );
        Free
    })
}

fn members(kinds: [Kind; 3]) -> [bool; 3] {
    kinds.map(|kind| kind == Member)
}

/// A repeat of a request that had happened already.
fn is_done(error: &EngineError) -> bool {
    match error {
        EngineError::Disk(error) => matches!(
            **error,
            DiskError::VgExists { .. }
                | DiskError::Member { .. }
                | DiskError::NotMember { .. }
                | DiskError::NotPv { .. }
        ),
        EngineError::NoSuchVg { .. } => true,
        _ => false,
    }
}

fn interrupted(story: &Story, stop: u64, fault: Fault, disaster: impl Fn(&SimHost)) {
    let place = format!("{} at {stop} ({fault:?})", story.name);
    let sim = staged(story);
    sim.clear_calls();
    sim.fail_at(stop, fault);
    let outcome = engine(sim.host()).change_disks(&(story.request)(), true);
    disaster(&sim);
    sim.clear_faults();
    let found = kinds(&sim, &place);
    for (index, kind) in found.into_iter().enumerate() {
        let between = story.to[index] == Member && kind == Free
            || story.from[index] == Free && kind == Nothing;
        assert!(
            kind == story.from[index] || kind == story.to[index] || between,
            "{place}: {} is {kind:?}",
            ALL[index]
        );
    }
    let now = members(found);
    assert!(
        now == members(story.from) || now == members(story.to),
        "{place}: half of a VG: {found:?}"
    );
    let wrote = sim.calls().iter().any(|call| {
        use crate::host::sim::CallKind::{Write, Zero};
        matches!(call.kind, Write | Zero)
    });
    if wrote && !story.name.contains("resize") {
        assert!(!sim.has_hints(), "{place}: lvm2 would believe its hints");
    }
    if outcome.is_ok() {
        assert_eq!(found, story.to, "{place} was acknowledged");
    }
    let second = engine(sim.host());
    match second.change_disks(&(story.request)(), true) {
        Ok(_) => {}
        Err(error) if is_done(&error) => {}
        Err(error) => panic!("{place}, again: {error}"),
    }
    assert_eq!(kinds(&sim, &place), story.to, "{place}, again");
    if members(story.to).contains(&true) {
        // The next commit mends what a death left behind.
        run(&second, Request::Create(create("next", 4))).unwrap();
        let problems = second.check(&vg()).unwrap();
        assert_eq!(problems, [], "{place}");
        for (disk, kind) in ALL.into_iter().zip(story.to) {
            if kind == Member {
                let head = sim.disk(disk).read(0, label::SEARCHED_BYTES);
                let header = label::find(&head).unwrap().unwrap().header;
                assert!(
                    header.in_use(),
                    "{place}: {disk} does not say that it is in use"
                );
            }
        }
    }
}

/// Number of calls that a story makes when nothing goes wrong.
fn length(story: &Story) -> u64 {
    let sim = staged(story);
    sim.clear_calls();
    engine(sim.host())
        .change_disks(&(story.request)(), true)
        .unwrap();
    assert_eq!(kinds(&sim, story.name), story.to, "{}", story.name);
    sim.calls().len() as u64
}

#[test]
fn a_process_that_dies_at_any_call_leaves_no_disk_in_between() {
    let mut points = 0;
    for story in stories() {
        for stop in 0..length(&story) {
            interrupted(&story, stop, Fault::Crash, SimHost::kill);
            points += 1;
        }
    }
    assert!(points > 300, "only {points} points");
    lvcsi_kit::proof(&format!("crash points of PV and VG changes: {points}"));
}

#[test]
fn a_power_cut_at_any_call_leaves_no_disk_in_between() {
    let mut points = 0;
    for story in stories() {
        for stop in 0..length(&story) {
            for seed in 0..3 {
                interrupted(&story, stop, Fault::Crash, |sim| {
                    sim.crash(CrashPolicy::Subset { seed })
                });
                points += 1;
            }
            interrupted(&story, stop, Fault::Crash, |sim| {
                sim.crash(CrashPolicy::Drop)
            });
            interrupted(&story, stop, Fault::Crash, |sim| {
                sim.crash(CrashPolicy::Keep)
            });
            points += 2;
        }
    }
    assert!(points > 1500, "only {points} points");
    lvcsi_kit::proof(&format!("crash points of PV and VG changes: {points}"));
}

#[test]
fn a_call_that_fails_leaves_no_disk_in_between() {
    let mut points = 0;
    for story in stories() {
        for stop in 0..length(&story) {
            for fault in [Fault::Eio, Fault::ShortWrite, Fault::Enospc] {
                interrupted(&story, stop, fault, |_| ());
                points += 1;
            }
        }
    }
    assert!(points > 900, "only {points} points");
    lvcsi_kit::proof(&format!("crash points of PV and VG changes: {points}"));
}
