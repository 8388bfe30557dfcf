//! Ways in which an engine could spoil the work of lvm2, each named after its
//! number in the list of pitfalls.

use lvcsi::engine::{EngineError, Request};
use lvcsi_kit::{LoopVg, VgSpec, host, run};

use crate::common::{Native, create, extend, extents, lv, tag};
use crate::support::{Tidy, all_well};

/// A table is loaded, and then there is no commit: nothing may wait in the
/// inactive slot for the next resume, which may be lvm2's.
#[test]
fn pitfall_36_a_table_that_is_not_committed_is_cleared() {
    let _tidy = Tidy::new();
    let spec = VgSpec::disks(1, 128)
        .pvcreate(0, &["--metadatasize", "32k", "--dataalignment", "64k"])
        .vgcreate(&["-s", "1m"]);
    let vg = LoopVg::with(&spec);
    let native = Native::open(&vg);
    native.create("one", 8);
    native.create("wall", 1);
    let device = vg.device("one");
    let name = device.file_name().unwrap().to_str().unwrap();
    let table = || run("dmsetup", &["table", name]).expect_success().stdout;
    let before = table();

    // Up to the last bytes of the metadata areas.
    let (mut count, mut number) = (64, 0);
    while count > 0 {
        let tags = number..number + count;
        let request = Request::Tags {
            name: lv("wall"),
            add: tags.map(|n| tag(&format!("{n:06}"))).collect(),
            remove: vec![],
        };
        match native.run(request) {
            Ok(_) => number += count,
            Err(EngineError::MetadataFull { .. }) => count /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    let error = native
        .run(extend("one", extents(16), false))
        .expect_err("there is no room for its second segment");
    assert!(matches!(error, EngineError::MetadataFull { .. }), "{error}");
    let info = run(
        "dmsetup",
        &[
            "info",
            "-c",
            "--noheadings",
            "-o",
            "tables_loaded,suspended",
            name,
        ],
    );
    let info = info.expect_success();
    assert_eq!(info.stdout.trim(), "Live:Active", "{info}");
    assert_eq!(table(), before);

    native.ok(Request::Tags {
        name: lv("wall"),
        add: vec![],
        remove: (0..64).map(|n| tag(&format!("{n:06}"))).collect(),
    });
    vg.lvm.clean(&["lvrename", &vg.name, "one", "two"]);
    let device = vg.device("two");
    let name = device.file_name().unwrap().to_str().unwrap();
    let after = run("dmsetup", &["table", name]).expect_success().stdout;
    assert_eq!(after, before, "lvm2 made another table live");
    all_well(&vg, &native);
    native.remove("two");
    native.remove("wall");
}

/// lvm2 wants visible LVs before hidden ones, or `vgchange -an` complains.
#[test]
fn pitfall_55_new_lvs_beside_hidden_ones() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    native.create("origin", 16);
    vg.lvm.clean(&[
        "lvcreate",
        "-y",
        "-s",
        "-L",
        "8M",
        "-n",
        "snap",
        &vg.lv("origin"),
    ]);
    native.create("beside", 16);
    let off = vg.lvm.run(&["vgchange", "-an", &vg.name]).expect_success();
    assert_eq!(off.stderr.trim(), "", "{off}");
    vg.assert_clean();
    vg.lvm.clean(&["lvremove", "-y", &vg.lv("snap")]);
    native.remove("beside");
    native.remove("origin");
    all_well(&vg, &native);
}

/// What lvm2 activates at boot is what it would without us.
#[test]
fn pitfall_58_autoactivation_stays_as_it_was_set() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    if host::has_udev() {
        // The tests' VGs have it switched off there.
        vg.lvm
            .clean(&["vgchange", "--setautoactivation", "y", &vg.name]);
    }
    for name in ["plain", "never", "skipped"] {
        native.create(name, 8);
    }
    vg.lvm
        .clean(&["lvchange", "--setautoactivation", "n", &vg.lv("never")]);
    vg.lvm.clean(&["lvchange", "-ky", &vg.lv("skipped")]);
    // Our commits must keep both marks, on these LVs and beside them.
    native.extend("never", 16);
    native.extend("skipped", 16);
    native.rename("plain", "normal");
    vg.lvm.clean(&["vgchange", "-an", &vg.name]);
    let _ = vg.lvm.run(&["vgchange", "-aay", &vg.name]).expect_success();
    let rows = vg.lvm.lvs(&vg.name);
    let active: Vec<&str> = rows
        .iter()
        .filter(|row| row.attr.as_bytes()[4] == b'a')
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(active, ["normal"]);
    all_well(&vg, &native);
    for name in ["normal", "never", "skipped"] {
        native.remove(name);
    }
}

/// Names at the limit of the kernel's, where every hyphen counts twice.
#[test]
fn pitfall_60_the_longest_names() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    // `VG-LV` and its NUL in 128 bytes, as lvm2 has it; the VG of a test has
    // hyphens of its own.
    let room = 127 - 1 - vg.name.replace('-', "--").len() - 3;
    let longest = format!("{}x", "-".repeat(room / 2)).replacen('-', "a", 1);
    let too_long = "-".repeat(120).replacen('-', "a", 1);
    let made = native.ok(create(&longest, extents(2)));
    assert!(made.dev.is_some());
    all_well(&vg, &native);
    vg.lvm.clean(&["lvextend", "-l", "+1", &vg.lv(&longest)]);
    let error = native.run(create(&too_long, extents(1))).unwrap_err();
    assert!(
        error.to_string().contains("too long") || error.to_string().contains("fit"),
        "{error}"
    );
    let other = longest.replacen('a', "b", 1);
    native.rename(&longest, &other);
    all_well(&vg, &native);
    vg.lvm.clean(&["lvchange", "-an", &vg.lv(&other)]);
    vg.lvm.clean(&["lvremove", "-y", &vg.lv(&other)]);
    all_well(&vg, &native);
}
