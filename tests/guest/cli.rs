//! The tool on the node says what lvm2 says, and ends with the documented
//! status.

use lvcsi_kit::LoopVg;
use serde_json::Value;

use crate::common::Native;
use crate::support::{Tidy, all_well, lvcsi};

#[test]
fn reports_equal_lvm2_s() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    native.create("one", 32);
    vg.lvm.clean(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-L16M", "-n", "two", &vg.name,
    ]);
    for (command, key, columns) in [
        ("lvs", "lv", "lv_name,vg_name,lv_attr,lv_size"),
        (
            "vgs",
            "vg",
            "vg_name,pv_count,lv_count,snap_count,vg_attr,vg_size,vg_free",
        ),
        (
            "pvs",
            "pv",
            "pv_name,vg_name,pv_fmt,pv_attr,pv_size,pv_free",
        ),
    ] {
        let ran = lvcsi(&[command, "--units", "b", "-o", "json"]).expect_success();
        let tree: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran}"));
        let ours = tree["report"][0][key]
            .as_array()
            .unwrap_or_else(|| panic!("{ran}"))
            .clone();
        let theirs = vg.lvm.report(command, columns, &[]);
        let field = |row: &Value, column: &str| {
            // lvm2 is asked for no suffix.
            row[column]
                .as_str()
                .unwrap_or_default()
                .trim_end_matches('B')
                .to_owned()
        };
        let table = |rows: &[Value]| {
            let mut table: Vec<Vec<String>> = rows
                .iter()
                .filter(|row| field(row, "vg_name") == vg.name)
                .map(|row| {
                    columns
                        .split(',')
                        .map(|column| field(row, column))
                        .collect()
                })
                .collect();
            table.sort();
            table
        };
        assert_eq!(table(&ours), table(&theirs), "{command}");
    }
    native.remove("one");
    native.remove("two");
}

#[test]
fn a_life_by_hand() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    let before = vg.digest();
    let dry = lvcsi(&[
        "lv",
        "create",
        "--dry-run",
        "-n",
        "hand",
        "-L",
        "32M",
        &vg.name,
    ]);
    assert!(
        dry.clone().expect_success().stdout.contains("+hand {"),
        "{dry}"
    );
    assert_eq!(vg.digest(), before, "a dry run has written");

    let one = vg.lv("hand");
    let two = vg.lv("foot");
    for args in [
        vec![
            "lv", "create", "-n", "hand", "-L", "32M", "--tag", "by-hand", &vg.name,
        ],
        vec!["lv", "extend", "-L", "+16M", &one],
        vec!["lv", "deactivate", &one],
        vec!["lv", "activate", &one],
        vec!["lv", "rename", &one, "foot"],
        vec!["check", &vg.name],
    ] {
        let _ = lvcsi(&args).expect_success();
        all_well(&vg, &native);
    }
    let rows = vg.lvm.lvs(&vg.name);
    assert_eq!((rows[0].name.as_str(), rows[0].size >> 20), ("foot", 48));
    assert_eq!(rows[0].tags, ["by-hand"]);
    let _ = lvcsi(&["lv", "remove", "-y", &two]).expect_success();
    all_well(&vg, &native);
}

#[test]
fn exit_statuses() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    native.create("one", 16);
    let before = vg.digest();
    let one = vg.lv("one");
    let none = vg.lv("none");
    let file = vg.dir().join("no-pv");
    std::fs::write(&file, vec![0; 4 << 20]).unwrap();
    let disk = lvcsi_kit::Disk::new(vg.dir(), "blank", 8 << 20, 0);
    for (status, names, args) in [
        (
            2,
            "size",
            vec!["lv", "create", "-n", "x", "-L", "0", &vg.name],
        ),
        (
            2,
            "12Q",
            vec!["lv", "create", "-n", "x", "-L", "12Q", &vg.name],
        ),
        (
            2,
            "a/b",
            vec!["lv", "create", "-n", "a/b", "-L", "4M", &vg.name],
        ),
        (
            2,
            "snapshot",
            vec!["lv", "create", "-n", "snapshot1", "-L", "4M", &vg.name],
        ),
        (
            3,
            "nosuchvg",
            vec!["lv", "create", "-n", "x", "-L", "4M", "nosuchvg"],
        ),
        (3, "none", vec!["lv", "remove", "-y", &none]),
        (
            4,
            "one",
            vec!["lv", "create", "-n", "one", "-L", "32M", &vg.name],
        ),
        (
            6,
            "x",
            vec!["lv", "create", "-n", "x", "-L", "1T", &vg.name],
        ),
        (5, "", vec!["inspect", disk.path().to_str().unwrap()]),
        (2, "", vec!["lv", "extend", "-L", "8M"]),
    ] {
        let ran = lvcsi(&args);
        assert!(ran.stderr.contains(names), "does not name {names:?}: {ran}");
        if args[0] == "inspect" {
            assert!(!ran.success() && !ran.stderr.is_empty(), "{ran}");
        } else {
            assert_eq!(ran.status, Some(status), "{ran}");
        }
        assert_eq!(
            vg.digest(),
            before,
            "refused, yet the disks have changed: {ran}"
        );
    }
    let inspect = lvcsi(&["inspect", vg.paths()[0].to_str().unwrap(), "--text"]).expect_success();
    let id = vg.decode().lvs[0].id.clone();
    assert!(inspect.stdout.contains(&id), "the text is shown: {inspect}");
    // Open: somebody uses it.
    let open = std::fs::File::open(native.activate("one").node.unwrap()).unwrap();
    let busy = lvcsi(&["lv", "remove", "-y", &one]);
    assert_eq!(busy.status, Some(5), "{busy}");
    drop(open);
    let _ = lvcsi(&["lv", "remove", "-y", &one]).expect_success();
    all_well(&vg, &native);
}
