//! The ends of what the format can hold: rings that are nearly full, disks of
//! many TiB, thousands of LVs.

use std::time::{Duration, Instant};

use lvcsi::engine::{CreateLv, EngineError, Request, Size};
use lvcsi::error::Kind;
use lvcsi_kit::{LoopVg, VgSpec, decode};
use lvm2::units::Bytes;

use crate::common::{Native, create, extend, extents, lv, tag};

/// A metadata area of 60 KiB.
const SMALL: [&str; 4] = ["--metadatasize", "16k", "--dataalignment", "64k"];

fn inactive(name: &str, size: Size) -> Request {
    let Request::Create(new) = create(name, size) else {
        unreachable!("a creation")
    };
    Request::Create(CreateLv {
        activate: false,
        ..new
    })
}

fn add_tag(name: &str, text: &str) -> Request {
    Request::Tags {
        name: lv(name),
        add: vec![tag(text)],
        remove: Vec::new(),
    }
}

fn remove_tag(name: &str, text: &str) -> Request {
    Request::Tags {
        name: lv(name),
        add: Vec::new(),
        remove: vec![tag(text)],
    }
}

/// On disks with sectors of 4096 bytes a header is a part of a block that holds
/// the beginning of the ring too. Two hundred commits go several times around
/// the ring: each leaves the text before it as it was.
#[test]
fn pitfall_12_a_header_in_a_block_of_4096_bytes_spares_the_text_behind_it() {
    let mut spec = VgSpec::disks(2, 64).block_size(4096);
    spec = spec.pvcreate(0, &SMALL).pvcreate(1, &SMALL);
    let vg = LoopVg::with(&spec);
    let native = Native::open(&vg);
    native.ok(inactive("a", extents(1)));
    let mut before = decode::pv(vg.paths()[0]).expect("a PV").mdas.remove(0);
    let first = vg.decode().seqno;
    let (mut behind_header, mut wrapped) = (0, 0);
    for n in 0..200 {
        let text = format!("tag{}", n / 2 % 7);
        native.ok(if n % 2 == 0 {
            add_tag("a", &text)
        } else {
            remove_tag("a", &text)
        });
        let after = decode::pv(vg.paths()[0]).expect("a PV").mdas.remove(0);
        let wraps = before.offset + before.text_size > before.size;
        wrapped += usize::from(wraps);
        if !wraps {
            let length = before.text_size as usize - 1;
            let old = decode::read(vg.paths()[0], before.start + before.offset, length);
            let old = String::from_utf8(old.expect("a disk")).expect("text");
            assert_eq!(
                Some(old),
                before.text,
                "commit {n} damaged the text before it"
            );
            behind_header += usize::from(before.offset < 4096);
        }
        assert_ne!(after.offset, before.offset);
        before = after;
    }
    assert_eq!(vg.decode().seqno, first + 200);
    assert!(
        behind_header > 3,
        "{behind_header} texts lay in the header's block"
    );
    assert!(wrapped > 0, "no text wrapped");
    vg.assert_clean();
}

/// A text that does not fit is refused by us where lvm2 refuses it, with the
/// numbers; nothing changes, and less fits again.
#[test]
fn a_ring_that_is_full() {
    let vg = LoopVg::with(&VgSpec::disks(1, 64).pvcreate(0, &SMALL));
    let native = Native::open(&vg);
    native.ok(inactive("a", extents(1)));
    let long = |n: usize| format!("{n:03}{}", "x".repeat(997));
    let mut fitted = 0;
    let error = loop {
        let before = vg.digest();
        let report = native.engine.vg(&native.vg).expect("the VG");
        match native.run(add_tag("a", &long(fitted))) {
            Ok(_) => fitted += 1,
            Err(error) => {
                assert_eq!(vg.digest(), before, "a text that does not fit was written");
                assert!(
                    report.metadata.free() < Bytes(1536),
                    "{:?}",
                    report.metadata
                );
                break error;
            }
        }
        assert!(fitted < 100, "60 KiB hold no end of tags");
    };
    assert_eq!(error.kind(), Kind::ResourceExhausted, "{error}");
    let EngineError::MetadataFull {
        need,
        used,
        max,
        area,
        ..
    } = error.clone()
    else {
        panic!("{error}")
    };
    let pv = decode::pv(vg.paths()[0]).expect("a PV");
    assert_eq!((used.0, area.0), (pv.mdas[0].text_size, pv.mdas[0].size));
    assert!(
        used <= max && max < need && need.0 < used.0 + 1100,
        "{error}"
    );
    for part in ["full", "lvcsi vgs", "pvcreate --metadatasize", &vg.name] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(vg.decode().lvs[0].tags.len(), fitted);

    // lvm2 takes no more of them than we.
    let theirs = vg
        .lvm
        .run(&["lvchange", "--addtag", &long(fitted), &vg.lv("a")]);
    assert!(
        !theirs.success()
            && theirs
                .stderr
                .contains("exceeds maximum metadata size (29952 bytes)"),
        "{theirs}"
    );
    vg.assert_clean();
    // What it takes away we give back. (Its own text would be longer by the
    // command line, which it writes down.)
    vg.lvm
        .clean(&["lvchange", "--deltag", &long(0), &vg.lv("a")]);
    native.ok(add_tag("a", &long(0)));
    // How much is free is the same to both, but for the rounding.
    let rows = vg.lvm.report("vgs", "vg_mda_size,vg_mda_free", &[&vg.name]);
    let number = |key: &str| rows[0][key].as_str().and_then(|n| n.parse::<u64>().ok());
    let usage = native.engine.vg(&native.vg).expect("the VG").metadata;
    assert_eq!(number("vg_mda_size"), Some(usage.size.0));
    let free = number("vg_mda_free").expect("a number");
    assert!(free.abs_diff(usage.free().0) <= 1536, "{free} {usage:?}");

    // Less is possible, and then something else.
    native.ok(remove_tag("a", &long(0)));
    native.ok(remove_tag("a", &long(1)));
    native.ok(inactive("b", extents(1)));
    vg.assert_clean();
}

/// Sizes beyond 32 bits: sectors in a disk of 20 TiB, and numbers of extents
/// beyond 31 bits.
#[test]
fn pitfall_16_disks_of_20_tib() {
    const TIB: u64 = 1 << 40;
    for (extent, bytes) in [("4m", 4_u64 << 20), ("8k", 8 << 10)] {
        let mut spec = VgSpec::disks(1, 1).vgcreate(&["-s", extent]);
        spec.disks = vec![20 * TIB];
        let vg = LoopVg::with(&spec);
        let native = Native::open(&vg);
        native.ok(inactive("large", Size::Bytes(Bytes(10 * TIB))));
        native.ok(inactive("behind", Size::Bytes(Bytes(TIB))));
        native.ok(extend("large", Size::Bytes(Bytes(18 * TIB)), false));
        vg.lvm.clean(&[
            "lvcreate", "-y", "-an", "-Zn", "-Wn", "-r", "none", "-l1", "-n", "theirs", &vg.name,
        ]);
        native.ok(add_tag("theirs", "ours"));
        let text = vg.text();
        assert!(text.contains("read_ahead = "), "{text}");
        let rows = vg.lvm.lvs(&vg.name);
        let size = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.size);
        assert_eq!(size("large"), Some(18 * TIB));
        assert_eq!(size("behind"), Some(TIB));
        let decoded = vg.decode();
        assert_eq!(
            decoded.lv("large").expect("the LV").extents() as u64,
            18 * TIB / bytes
        );
        let report = native.engine.vg(&native.vg).expect("the VG");
        let theirs = report.vg.lv("large").expect("the LV").extents();
        assert_eq!(report.vg.extent_size().bytes_of(theirs), Bytes(18 * TIB));
        let none = vg.lvm.report("lvs", "lv_read_ahead", &[&vg.lv("theirs")]);
        assert_eq!(
            none[0]["lv_read_ahead"], "0",
            "no read-ahead, as lvm2 wrote it"
        );
        let too_large = native.run(inactive("more", Size::Bytes(Bytes(2 * TIB))));
        assert_eq!(
            too_large.expect_err("no room").kind(),
            Kind::ResourceExhausted
        );
        native.remove("large");
        vg.assert_clean();
    }
}

/// Median time of some calls.
fn median(mut call: impl FnMut(usize)) -> Duration {
    let mut times: Vec<Duration> = (0..5)
        .map(|n| {
            let begun = Instant::now();
            call(n);
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// Times of a creation, a growth, a removal and a listing.
fn times(native: &Native, prefix: &str) -> [Duration; 4] {
    let name = |n: usize| format!("{prefix}{n}");
    [
        median(|n| _ = native.ok(inactive(&name(n), extents(1)))),
        median(|n| _ = native.ok(extend(&name(n), extents(2), false))),
        median(|n| _ = native.remove(&name(n))),
        median(|_| _ = native.engine.report().expect("a report")),
    ]
}

/// Two thousand LVs in one VG: all there for everybody, and one more is still
/// made, grown and removed.
#[test]
fn two_thousand_lvs() {
    const LVS: usize = 2000;
    let mut spec = VgSpec::disks(1, 1024).vgcreate(&["-s", "64k"]);
    spec = spec.pvcreate(0, &["--metadatasize", "8m"]);
    let vg = LoopVg::with(&spec);
    let native = Native::open(&vg);
    let empty = times(&native, "first");
    let tickets: Vec<_> = (0..LVS)
        .map(|n| {
            native
                .engine
                .submit(&native.vg, inactive(&format!("lv{n}"), extents(1)))
        })
        .collect();
    for ticket in tickets {
        ticket.wait().expect("one of two thousand");
    }
    let full = times(&native, "last");
    let decoded = vg.decode();
    assert_eq!(decoded.lvs.len(), LVS);
    let rows = vg.lvm.report("lvs", "lv_name", &[&vg.name]);
    assert_eq!(rows.len(), LVS);
    vg.assert_clean();
    vg.lvm.clean(&["lvremove", "-y", &vg.lv("lv1000")]);
    native.ok(extend("lv999", extents(3), false));
    vg.assert_clean();
    assert_eq!(vg.decode().lvs.len(), LVS - 1);
    let ratio = |index: usize| {
        let times = full[index].as_secs_f64() / empty[index].as_secs_f64();
        format!(
            "{times:.1} times as long ({:.1} ms)",
            full[index].as_secs_f64() * 1e3
        )
    };
    lvcsi_kit::proof(&format!(
        "oracle: 2000 LVs against none: creation {}, growth {}, removal {}, listing {}",
        ratio(0),
        ratio(1),
        ratio(2),
        ratio(3)
    ));
}
