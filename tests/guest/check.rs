//! `check` and `check --repair` on faults that dmsetup makes, and beside an
//! lvm2 that works.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lvcsi::engine::{CreateLv, Engine, Request, Size, Wipe};
use lvcsi_kit::{LoopVg, VgSpec, host, run};
use lvm2::edit::Layout;
use lvm2::units::Bytes;
use serde_json::Value;

use crate::common::{Native, lv, tag};
use crate::support::{Tidy, all_well, check_pattern, lvcsi, write_pattern};

fn dmsetup(args: &[&str]) -> String {
    run("dmsetup", args).expect_success().stdout
}

/// An active LV with the driver's tag.
fn ours(native: &Native, name: &str, mib: u64) {
    native.ok(Request::Create(CreateLv {
        name: lv(name),
        size: Size::Bytes(Bytes(mib << 20)),
        tags: vec![tag("lvcsi")],
        layout: Layout::default(),
        wipe: Wipe::Signatures,
        activate: true,
    }));
}

/// Exit status, and the codes of what was found, mended and left.
fn check(vg: &str, options: &[&str]) -> (Option<i32>, [Vec<String>; 3]) {
    let mut args = vec!["check", vg, "-o", "json", "--no-backup"];
    args.extend(options);
    let ran = lvcsi(&args);
    let tree: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran}"));
    let codes = |list: &Value| -> Vec<String> {
        let list = list.as_array().cloned().unwrap_or_default();
        let code = |entry: &Value| entry["code"].as_str().unwrap().to_owned();
        list.iter().map(code).collect()
    };
    let repair = &tree["repair"];
    let lists = [&tree["findings"], &repair["repaired"], &repair["left"]];
    (ran.status, lists.map(codes))
}

/// The fault is found, a dry run leaves it, the repair mends it.
fn mended(vg: &str, codes: &[&str]) {
    assert_eq!(check(vg, &[]), (Some(5), [codes_of(codes), vec![], vec![]]));
    let dry = check(vg, &["--repair", "--dry-run"]);
    assert_eq!(dry, (Some(5), [vec![], codes_of(codes), vec![]]));
    let repair = check(vg, &["--repair"]);
    assert_eq!(repair, (Some(0), [vec![], codes_of(codes), vec![]]));
    assert_eq!(check(vg, &[]), (Some(0), [vec![], vec![], vec![]]));
}

/// The fault is found, and left to a person.
fn left(vg: &str, codes: &[&str]) {
    let repair = check(vg, &["--repair"]);
    assert_eq!(repair, (Some(5), [vec![], vec![], codes_of(codes)]));
    assert_eq!(check(vg, &[]), (Some(5), [codes_of(codes), vec![], vec![]]));
}

fn codes_of(codes: &[&str]) -> Vec<String> {
    codes.iter().map(|code| (*code).to_owned()).collect()
}

#[test]
fn faults_that_dmsetup_makes() {
    let _tidy = Tidy::new();
    let vg = LoopVg::with(&VgSpec::disks(2, 256));
    let native = Native::open(&vg);
    ours(&native, "one", 32);
    vg.lvm
        .clean(&["lvcreate", "-y", "-L", "16M", "-n", "theirs", &vg.name]);
    let device = vg.device("one");
    let name = device.file_name().unwrap().to_str().unwrap().to_owned();
    write_pattern(&device, 8, 3);
    let right = dmsetup(&["table", &name]);
    assert_eq!(check(&vg.name, &[]).0, Some(0));

    let _ = dmsetup(&["suspend", &name]);
    mended(&vg.name, &["suspended"]);
    check_pattern(&device, 8, 3);

    let _ = dmsetup(&["load", &name, "--table", "0 8192 zero"]);
    mended(&vg.name, &["inactive-table"]);
    let _ = dmsetup(&["load", &name, "--table", "0 8192 zero"]);
    let _ = dmsetup(&["suspend", &name]);
    mended(&vg.name, &["inactive-table", "suspended"]);
    assert_eq!(dmsetup(&["table", &name]), right);
    check_pattern(&device, 8, 3);

    // As after a crash between the commit and the resume of an extension.
    let short = right.replacen("0 65536 ", "0 32768 ", 1);
    assert_ne!(short, right, "{right}");
    let _ = dmsetup(&["load", &name, "--table", short.trim()]);
    let _ = dmsetup(&["resume", &name]);
    mended(&vg.name, &["table-short"]);
    assert_eq!(dmsetup(&["table", &name]), right);
    check_pattern(&device, 8, 3);

    let _ = dmsetup(&["load", &name, "--table", "0 65536 zero"]);
    let _ = dmsetup(&["resume", &name]);
    left(&vg.name, &["table-differs"]);
    let _ = dmsetup(&["load", &name, "--table", right.trim()]);
    let _ = dmsetup(&["resume", &name]);

    // Not made by us: only a table that ends early is refreshed.
    let theirs = vg.device("theirs");
    let theirs = theirs.file_name().unwrap().to_str().unwrap();
    let _ = dmsetup(&["suspend", theirs]);
    left(&vg.name, &["suspended"]);
    let _ = dmsetup(&["resume", theirs]);

    if !host::has_udev() {
        std::fs::remove_file(Path::new("/dev").join(&vg.name).join("one")).unwrap();
        mended(&vg.name, &["link"]);
        assert!(Path::new("/dev").join(&vg.name).join("one").exists());
    }
    check_pattern(&device, 8, 3);
    all_well(&vg, &native);
    native.remove("one");
    native.remove("theirs");
}

#[test]
fn devices_without_lv() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    ours(&native, "one", 16);
    let device = vg.device("one");
    let uuid = dmsetup(&[
        "info",
        "-c",
        "--noheadings",
        "-o",
        "uuid",
        device.file_name().unwrap().to_str().unwrap(),
    ]);
    let uuid = uuid.trim();
    let vg_part = &uuid[..4 + 32];
    let orphan = |name: &str, vg_part: &str, lv: char| {
        let uuid = format!("{vg_part}{}", lv.to_string().repeat(32));
        let _ = dmsetup(&["create", name, "-u", &uuid, "--table", "0 8192 zero"]);
    };
    orphan("orphan-closed", vg_part, 'a');
    mended(&vg.name, &["orphan-device"]);
    assert!(!Path::new("/dev/mapper/orphan-closed").exists());

    orphan("orphan-open", vg_part, 'b');
    let open = std::fs::File::open("/dev/mapper/orphan-open").unwrap();
    left(&vg.name, &["orphan-device"]);
    drop(open);
    mended(&vg.name, &["orphan-device"]);

    // Of a VG that is not here: never ours to touch.
    orphan("orphan-foreign", &format!("LVM-{}", "c".repeat(32)), 'c');
    assert_eq!(
        check(&vg.name, &["--repair"]),
        (Some(0), [vec![], vec![], vec![]])
    );
    let _ = dmsetup(&["remove", "orphan-foreign"]);
    native.remove("one");
    all_well(&vg, &native);
}

/// Whatever lvm2 is at, a repair takes nothing of it for a fault.
#[test]
fn repairing_all_the_time_disturbs_no_lvm2() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(512);
    let native = Native::open(&vg);
    ours(&native, "ours", 16);
    let stop = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let repairing = scope.spawn(|| repair_until(&native.engine, &vg, &stop));
        for n in 0..4 {
            let name = format!("theirs{n}");
            let one = vg.lv(&name);
            vg.lvm
                .clean(&["lvcreate", "-y", "-L", "8M", "-n", &name, &vg.name]);
            vg.lvm.clean(&["lvextend", "-L", "+8M", &one]);
            vg.lvm.clean(&["lvchange", "-an", &one]);
            vg.lvm.clean(&["lvchange", "-ay", &one]);
            vg.lvm.clean(&["lvremove", "-y", &one]);
        }
        stop.store(true, Ordering::SeqCst);
        repairing.join().expect("the repairs")
    });
    println!("{rounds} repairs beside 20 commands of lvm2");
    assert!(rounds >= 4, "only {rounds} repairs");
    assert_eq!(vg.decode().names(), ["ours"]);
    all_well(&vg, &native);
    native.remove("ours");
}

fn repair_until(engine: &Engine, vg: &LoopVg, stop: &AtomicBool) -> usize {
    let name = lvm2::name::VgName::new(vg.name.clone()).unwrap();
    let mut rounds = 0;
    while !stop.load(Ordering::SeqCst) {
        let repair = engine.repair(&name, false).expect("a repair");
        assert_eq!(repair, lvcsi::engine::Repair::default());
        assert_eq!(engine.check(&name).expect("a check"), []);
        rounds += 1;
    }
    rounds
}
