//! Ways in which a naive engine corrupts a VG, by their numbers in the table of
//! `docs/testing.md`.

use lvcsi_kit::decode;
use lvcsi_kit::proof::nightly;

use super::stories::stories;
use super::texts::{AREA, AreaWrite, area_write, one_text_for_each_number};
use super::*;
use crate::host::sim::{CallKind, DiskEvent, DiskImage, Fault, VgLayout};

fn images(sim: &SimHost) -> Vec<DiskImage> {
    let disks = DISKS.iter().map(|disk| sim.disk(disk).image());
    disks.map(Option::unwrap).collect()
}

/// Every area's text, by a decoder that shares no code with the engine.
fn texts(image: &DiskImage) -> Vec<(u64, String)> {
    let pv = decode::pv_with(&|offset, length| image.read(offset, length)).unwrap();
    let text = |mda: decode::Mda| (mda.start, mda.text.unwrap());
    pv.mdas.into_iter().map(text).collect()
}

/// A VG on two disks whose PVs have small or several metadata areas.
fn machine_laid_out(data_start: u64, second_area: bool) -> SimHost {
    let sim = SimHost::new();
    for disk in DISKS {
        sim.add_disk(disk, 256 * MIB, 512);
    }
    let layout = VgLayout {
        data_start,
        second_area,
        ..VgLayout::new(ExtentSize::new(Sectors(8192)).unwrap())
    };
    sim.add_vg_with("data", &DISKS, layout).unwrap();
    sim
}

fn tags_request(add: &[String], remove: &[String]) -> Request {
    let list = |texts: &[String]| texts.iter().map(|text| tag(text)).collect();
    Request::Tags {
        name: lv("one"),
        add: list(add),
        remove: list(remove),
    }
}

#[test]
fn pitfall_03_no_header_is_written_before_its_text_is_durable() {
    for story in stories() {
        let sim = machine();
        let engine = engine(sim.host());
        (story.before)(&engine);
        sim.record();
        run(&engine, (story.request)()).unwrap();
        let mut durable: Vec<(String, u32)> = Vec::new();
        let mut cached: Vec<(String, u32)> = Vec::new();
        let mut headers = 0;
        for event in sim.recorded() {
            if let DiskEvent::Flush { disk } = &event {
                durable.extend(cached.extract_if(.., |text| text.0 == *disk));
            }
            let DiskEvent::Write { disk, .. } = &event else {
                continue;
            };
            match area_write(&event) {
                Some(AreaWrite::Text { checksum, .. }) => cached.push((disk.clone(), checksum)),
                Some(AreaWrite::Header { checksum }) => {
                    let text = (disk.clone(), checksum);
                    assert!(durable.contains(&text), "{}: {disk}", story.name);
                    headers += 1;
                }
                None => {}
            }
        }
        assert!(headers >= 2, "{}: {headers} headers", story.name);
    }
}

/// A ring of 60 KiB and hundreds of texts that grow and shrink: up to the header
/// the old text is whole.
#[test]
fn pitfall_04_the_committed_text_is_never_overwritten() {
    let sim = machine_laid_out(64 << 10, false);
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("one", 4))).unwrap();
    let mut now = images(&sim);
    let mut wrapped = 0;
    let mut present: Vec<String> = Vec::new();
    let commits = if nightly() { 1000 } else { 360 };
    for commit in 0..commits {
        // Up to 90 long tags, then fewer again.
        let grow = commit % 180 < 90;
        let request = if grow {
            let text = format!("t{commit}-{}", "x".repeat(200 + commit % 61));
            present.push(text.clone());
            tags_request(&[text], &[])
        } else {
            let gone = present.pop().unwrap();
            tags_request(&[], &[gone])
        };
        sim.record();
        run(&engine, request).unwrap();
        for event in sim.recorded() {
            let DiskEvent::Write { disk, offset, data } = &event else {
                continue;
            };
            let image = now
                .iter_mut()
                .find(|image| image.info().path.to_str() == Some(disk))
                .unwrap();
            let before = texts(image);
            image.write(*offset, data);
            if *offset == AREA {
                assert_ne!(
                    texts(image),
                    before,
                    "commit {commit}: a header without effect"
                );
            } else {
                assert_eq!(
                    texts(image),
                    before,
                    "commit {commit}: the old text is damaged"
                );
            }
        }
        let pv = decode::pv_with(&|offset, length| now[0].read(offset, length)).unwrap();
        wrapped += usize::from(pv.mdas[0].offset + pv.mdas[0].text_size > pv.mdas[0].size);
    }
    assert!(
        wrapped > commits / 10,
        "only {wrapped} texts went over the end"
    );
}

#[test]
fn pitfall_05_a_text_larger_than_half_the_ring_is_refused_and_nothing_is_written() {
    let sim = machine_laid_out(64 << 10, false);
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("one", 4))).unwrap();
    let usage = engine.vg(&vg()).unwrap().metadata;
    let mut last = usage.text;
    for number in 0.. {
        let disks = DISKS.map(|disk| sim.disk(disk).read(0, 64 << 10));
        let text = format!("t{number}-{}", "x".repeat(500));
        match run(&engine, tags_request(&[text], &[])) {
            Ok(_) => {
                last = engine.vg(&vg()).unwrap().metadata.text;
                assert!(last <= usage.max_text);
            }
            Err(error) => {
                let EngineError::MetadataFull { need, max, .. } = &error else {
                    panic!("{error}");
                };
                assert!(*need > *max && *max == usage.max_text, "{error}");
                assert!(error.to_string().contains("metadata of VG data"), "{error}");
                assert_eq!(DISKS.map(|disk| sim.disk(disk).read(0, 64 << 10)), disks);
                break;
            }
        }
    }
    assert!(last.0 + 1024 > usage.max_text.0, "full at {last} already");
    // There is room again when something goes.
    run(&engine, remove("one")).unwrap();
    assert!(sound_lvs(&sim).is_empty());
}

#[test]
fn pitfall_09_every_area_of_every_pv_is_written_and_one_that_fails_is_told_and_healed() {
    let sim = machine_laid_out(MIB, true);
    let engine = engine(sim.host());
    let all = |sim: &SimHost| {
        let all: Vec<String> = images(sim)
            .iter()
            .flat_map(texts)
            .map(|text| text.1)
            .collect();
        assert_eq!(all.len(), 4);
        all
    };
    let are_equal = |sim: &SimHost| all(sim).windows(2).all(|pair| pair[0] == pair[1]);
    for story in stories() {
        let sim = machine_laid_out(MIB, true);
        let engine = super::engine(sim.host());
        (story.before)(&engine);
        run(&engine, (story.request)()).unwrap();
        assert!(are_equal(&sim), "{}", story.name);
    }
    run(&engine, Request::Create(create("one", 4))).unwrap();
    // Four texts, then four headers.
    for write in 0..8 {
        let before = all(&sim);
        sim.on(CallKind::Write, write, Fault::Eio);
        let name = format!("n{write}");
        let answer = run(&engine, Request::Create(create(&name, 4)));
        if write < 4 {
            let error = answer.unwrap_err();
            assert!(error.to_string().contains("/dev/sd"), "{error}");
            assert_eq!(all(&sim), before, "a text that failed");
        } else {
            answer.unwrap();
            assert!(!are_equal(&sim));
            let problems = engine.check(&vg()).unwrap();
            assert_eq!(problems.len(), 1, "{problems:?}");
        }
        run(&engine, tags_request(&[name], &[])).unwrap();
        assert!(are_equal(&sim), "write {write}");
        assert_eq!(engine.check(&vg()).unwrap(), []);
    }
}

#[test]
fn pitfall_11_a_number_is_never_used_for_another_text() {
    for disks in [&DISKS[..1], &DISKS[..]] {
        for fault in [Fault::Eio, Fault::ShortWrite, Fault::LostAnswer] {
            let sim = machine_with(disks);
            let engine = engine(sim.host());
            sim.record();
            let count = disks.len() as u64;
            // Each header in turn, then all of them.
            for header in 0..=count {
                if header < count {
                    sim.on(CallKind::Write, count + header, fault);
                } else {
                    sim.clear_calls();
                    let texts = |call: &crate::host::sim::Call| call.kind == CallKind::Write;
                    run(&engine, Request::Create(create("count", 4))).unwrap();
                    let calls = sim.calls();
                    let writes = (0_u64..).zip(&calls).filter(|(_, call)| texts(call));
                    let numbers: Vec<u64> = writes.map(|(number, _)| number).collect();
                    let first_header = numbers[disks.len()];
                    sim.clear_calls();
                    sim.fail_from(first_header, CallKind::Write, None, fault);
                }
                let name = format!("n{header}");
                // Granted or not: what follows is another text.
                drop(run(&engine, Request::Create(create(&name, 4))));
                sim.clear_faults();
                drop(run(&engine, remove(&name)));
                run(&engine, Request::Create(create(&format!("m{header}"), 4))).unwrap();
                assert_eq!(engine.check(&vg()).unwrap(), []);
            }
            let what = format!("{fault:?} on {disks:?}");
            let numbers = one_text_for_each_number(&sim.recorded(), &what);
            assert!(numbers.len() > 2 * disks.len(), "{what}");
        }
    }
}

#[test]
fn pitfall_36_a_loaded_table_does_not_stay_when_the_change_fails() {
    let steps: [(CallKind, u64); 5] = [
        (CallKind::Write, 0),
        (CallKind::Write, 1),
        (CallKind::Flush, 0),
        (CallKind::Flush, 1),
        (CallKind::DmResume, 0),
    ];
    for (kind, nth) in steps {
        let sim = machine();
        let engine = engine(sim.host());
        run(&engine, Request::Create(create("one", 4))).unwrap();
        sim.on(kind, nth, Fault::Eio);
        run(&engine, extend("one", 8)).unwrap_err();
        let device = engine.vg(&vg()).unwrap().lvs[0].device.clone().unwrap();
        assert!(!device.inactive_table, "{kind:?} {nth}");
        assert!(!device.suspended, "{kind:?} {nth}");
        // What the metadata says comes by the next change of the LV, not by
        // whoever resumes the device.
        let dm = &engine.host().dm;
        let live = dm.table(device.dev, false).unwrap();
        dm.resume(
            device.dev,
            &device.name,
            None,
            crate::host::Exposure::Visible,
        )
        .unwrap();
        assert_eq!(dm.table(device.dev, false).unwrap(), live, "{kind:?} {nth}");
        run(&engine, extend("one", 8)).unwrap();
        assert_eq!(engine.check(&vg()).unwrap(), []);
    }
}

#[test]
fn pitfall_52_a_removal_that_fails_has_not_touched_the_content() {
    let sim = machine();
    let engine = engine(sim.host());
    let made = run(&engine, Request::Create(create("one", 8))).unwrap();
    let block = &engine.host().block;
    let node = block.open_path(made.node.as_deref().unwrap()).unwrap();
    let device = block.open(node.info(), true).unwrap();
    let content: Vec<u8> = (0..=250).cycle().take(8 * MIB_LEN).collect();
    device.write_at(0, &content).unwrap();
    device.flush().unwrap();
    drop((node, device));
    sim.clear_calls();
    // Both headers: nobody takes the new text.
    sim.on(CallKind::Write, 2, Fault::Eio);
    sim.on(CallKind::Write, 3, Fault::Eio);
    let error = run(&engine, remove("one")).unwrap_err();
    assert!(matches!(error, EngineError::Commit { .. }), "{error}");
    let touches = |call: &&crate::host::sim::Call| {
        matches!(call.kind, CallKind::Discard | CallKind::Zero)
            || (call.kind == CallKind::Write && call.offset >= MIB)
    };
    assert_eq!(sim.calls().iter().find(touches), None);
    assert_eq!(sound_lvs(&sim), ["one"]);
    let again = run(&engine, Request::Activate { name: lv("one") }).unwrap();
    let node = block.open_path(again.node.as_deref().unwrap()).unwrap();
    let mut kept = vec![0; content.len()];
    node.read_at(0, &mut kept).unwrap();
    assert!(kept == content, "content of a listed LV is lost");
}
