//! Tables and byte ranges of LVs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use lvm2::id::PvId;
use lvm2::model::Vg;
use lvm2::tables::{DevNo, Device, PvRange, TableError, plan, pv_areas, pv_ranges};
use lvm2::units::Bytes;
use proptest::prelude::*;

fn sample(name: &str) -> Vg {
    Vg::parse(&std::fs::read(common::data().join(name)).unwrap()).unwrap()
}

/// PV n is loop device 7:n, as when the samples were made.
fn planned(vg: &Vg, lv: &str) -> Result<Device, TableError> {
    let device_of = |id: &PvId| {
        let at = vg.pvs().iter().position(|pv| pv.id == *id)?;
        Some(DevNo {
            major: 7,
            minor: u32::try_from(at).ok()?,
        })
    };
    plan(vg, vg.lv(lv).unwrap(), &device_of)
}

fn table(vg: &Vg, lv: &str) -> Vec<String> {
    planned(vg, lv)
        .unwrap()
        .table
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn tables_are_what_lvm2_loads() {
    assert_eq!(
        table(&sample("meta-linear_2seg.txt"), "lin"),
        [
            "0 24576 linear 7:0 2048",
            "24576 32768 linear 7:0 43008",
            "57344 32768 linear 7:1 2048",
        ]
    );
    assert_eq!(
        table(&sample("meta-striped.txt"), "st"),
        ["0 98304 striped 3 128 7:0 2048 7:1 2048 7:2 2048",]
    );
}

#[test]
fn a_device_is_named_as_lvm2_names_it() {
    let vg = sample("meta-names.txt");
    let device = planned(&vg, "a-b.c_d+e").unwrap();
    assert_eq!(device.name, "vgt-a--b.c_d+e");
    assert_eq!(
        device.uuid,
        "LVM-VX5vBQ8Yjmku97ADYdrGMZkAarSAX8kk4g8vyfSqZLglAJwCJkgdOozV8VzjMGCA"
    );
    assert!(!device.read_only);
    assert!(planned(&vg, "ro").unwrap().read_only);
    let locked = sample("meta-sysid.txt");
    assert!(locked.writable());
}

#[test]
fn what_has_no_plain_table_is_refused() {
    assert!(matches!(planned(&sample("meta-thin.txt"), "pool"),
        Err(TableError::NotNative { type_name, .. }) if type_name == "thin-pool"));
    assert!(matches!(planned(&sample("meta-pvmove.txt"), "lin"),
        Err(TableError::NotNative { type_name, .. }) if type_name == "linear"));
    let vg = sample("meta-linear.txt");
    let lv = vg.lv("lin").unwrap();
    let error = plan(&vg, lv, &|_| None).unwrap_err();
    assert!(error.to_string().contains("/dev/loop0"), "{error}");
}

#[test]
fn no_legs_and_no_stripe_size_make_no_table() {
    let striped = sample("meta-striped.txt").print();
    let (before, legs) = striped.split_once("stripes = [").unwrap();
    let (_, behind) = legs.split_once(']').unwrap();
    let no_legs =
        format!("{before}stripes = []{behind}").replacen("stripe_count = 3", "stripe_count = 0", 1);
    let zero = striped.replacen("stripe_size = 128", "stripe_size = 0", 1);
    let none = striped.replacen("stripe_size = 128\n", "", 1);
    let errors = |text: &str| {
        let vg = Vg::parse(text.as_bytes()).unwrap();
        let lv = vg.lv("st").unwrap();
        [
            planned(&vg, "st").unwrap_err(),
            pv_areas(&vg, lv).unwrap_err(),
            pv_ranges(&vg, lv, Bytes(0), Bytes(1)).unwrap_err(),
        ]
    };
    for error in errors(&no_legs) {
        assert!(matches!(&error, TableError::NotNative { lv, .. } if lv == "st"));
    }
    for error in [zero, none].iter().flat_map(|text| errors(text)) {
        let text = error.to_string();
        assert_eq!(text, "LV vgt/st has a striped segment without stripe size");
    }
}

#[test]
fn device_numbers_are_read_and_written() {
    let device: DevNo = "253:17\n".parse().unwrap();
    assert_eq!(
        device,
        DevNo {
            major: 253,
            minor: 17
        }
    );
    assert_eq!(device.to_string(), "253:17");
    assert!("253".parse::<DevNo>().is_err());
    assert!("253:x".parse::<DevNo>().is_err());
}

/// Where a byte of an LV lies, by its own arithmetic.
fn byte_at(vg: &Vg, lv: &str, at: u64) -> (PvId, u64) {
    const EXTENT: u64 = 4 << 20;
    const CHUNK: u64 = 64 << 10;
    const PE_START: u64 = 1 << 20;
    let lv = vg.lv(lv).unwrap();
    let extent = at / EXTENT;
    let segment = lv
        .segments
        .iter()
        .find(|s| (s.start.0..s.end().unwrap().0).contains(&extent))
        .unwrap();
    let inside = at - segment.start.0 * EXTENT;
    let legs: Vec<_> = segment.uses().collect();
    let (leg, in_leg) = if legs.len() == 1 {
        (0, inside)
    } else {
        let chunk = inside / CHUNK;
        let leg = usize::try_from(chunk).unwrap() % legs.len();
        (leg, chunk / legs.len() as u64 * CHUNK + inside % CHUNK)
    };
    let pv = vg.pv_by_key(legs[leg].key).unwrap();
    (pv.id, PE_START + legs[leg].start.0 * EXTENT + in_leg)
}

proptest! {
    #[test]
    fn ranges_are_where_the_bytes_are(striped: bool, from: u64, len in 0u64..10_000_000) {
        let (file, lv) = if striped {
            ("meta-striped.txt", "st")
        } else {
            ("meta-linear_2seg.txt", "lin")
        };
        let vg = sample(file);
        let size = vg.sectors_of(vg.lv(lv).unwrap()).unwrap().bytes().0;
        let from = from % size;
        let len = len.min(size - from);
        let ranges = pv_ranges(&vg, vg.lv(lv).unwrap(), Bytes(from), Bytes(len)).unwrap();
        let mut next = from;
        for PvRange { pv, device_offset, len, lv_offset } in ranges {
            prop_assert_eq!(lv_offset.0, next);
            prop_assert!(len.0 > 0);
            prop_assert_eq!(byte_at(&vg, lv, next), (pv, device_offset.0));
            let last = byte_at(&vg, lv, next + len.0 - 1);
            prop_assert_eq!(last, (pv, device_offset.0 + len.0 - 1));
            next += len.0;
        }
        prop_assert_eq!(next, from + len);
    }
}

#[test]
fn segments_that_lie_one_behind_the_other_are_one_range() {
    let text = sample("meta-linear_2seg.txt").print();
    // The second segment of lin then begins where the first ends.
    let joined = text.replacen("\"pv0\", 5", "\"pv0\", 3", 1);
    let lens = |text: &str| -> Vec<u64> {
        let vg = Vg::parse(text.as_bytes()).unwrap();
        let lv = vg.lv("lin").unwrap();
        let ranges = pv_ranges(&vg, lv, Bytes(0), Bytes(11 * (4 << 20))).unwrap();
        ranges.iter().map(|range| range.len.0 >> 22).collect()
    };
    assert_eq!(lens(&text), [3, 4, 4]);
    assert_eq!(lens(&joined), [7, 4]);
}

#[test]
fn only_segments_in_the_range_must_be_plain() {
    const MIB: u64 = 1 << 20;
    let text = sample("meta-linear_2seg.txt").print();
    let (before, last) = text.split_once("segment3 {").unwrap();
    let last = last.replacen("\"striped\"", "\"zero\"", 1);
    let vg = Vg::parse(format!("{before}segment3 {{{last}").as_bytes()).unwrap();
    let lv = vg.lv("lin").unwrap();
    let ranges = |len: u64| pv_ranges(&vg, lv, Bytes(0), Bytes(len));
    assert_eq!(ranges(28 * MIB).unwrap().len(), 2);
    let error = ranges(28 * MIB + 1).unwrap_err().to_string();
    assert!(
        error.starts_with("LV vgt/lin has a segment of type zero"),
        "{error}"
    );
}

#[test]
fn a_range_ends_where_the_lv_ends() {
    let vg = sample("meta-striped.txt");
    let lv = vg.lv("st").unwrap();
    let size = vg.sectors_of(lv).unwrap().bytes();
    assert_eq!(pv_ranges(&vg, lv, size, Bytes(0)).unwrap(), []);
    for (offset, len) in [(size, Bytes(1)), (Bytes(0), Bytes(size.0 + 1))] {
        assert!(matches!(
            pv_ranges(&vg, lv, offset, len),
            Err(TableError::BeyondEnd { .. })
        ));
    }
    assert!(matches!(
        pv_ranges(&vg, lv, Bytes(u64::MAX), Bytes(2)),
        Err(TableError::Overflow { .. })
    ));
}

#[test]
fn all_of_an_lv_is_one_area_a_leg() {
    let vg = sample("meta-striped.txt");
    let areas = pv_areas(&vg, vg.lv("st").unwrap()).unwrap();
    assert_eq!(areas.len(), 3);
    for (area, pv) in areas.iter().zip(vg.pvs()) {
        assert_eq!(
            (area.pv, area.device_offset, area.len),
            (pv.id, Bytes(1 << 20), Bytes(16 << 20))
        );
    }
}
