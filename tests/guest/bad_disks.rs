//! Disks that are damaged or incomplete: nothing is written to them.

use lvcsi::engine::{EngineError, Request, Size};
use lvcsi::error::Kind;
use lvcsi_kit::{Driver, LoopVg, VgSpec, decode, host, run};
use lvm2::units::Bytes;

use crate::common::{Native, create, extend, lv};
use crate::support::{MIB, Tidy, read_at, write_at};

/// Exit status of a command that the state of a VG forbids.
const FORBIDDEN: Option<i32> = Some(5);

/// All changes fail for the state of the VG, through the engine, the command
/// line and CSI; reports work and say what is wrong; no disk changes by a byte.
fn refuses(vg: &LoopVg) {
    let before = vg.digest();
    let native = Native::open(vg);
    for request in [
        create("new", Size::Bytes(Bytes(16 << 20))),
        extend("old", Size::Bytes(Bytes(64 << 20)), false),
        Request::Remove {
            name: lv("old"),
            must_exist: true,
            require_tag: None,
        },
        Request::Rename {
            name: lv("old"),
            to: lv("other"),
        },
    ] {
        let what = format!("{request:?}");
        let error: EngineError = native.run(request).expect_err(&what);
        assert_eq!(error.kind(), Kind::FailedPrecondition, "{what}: {error}");
        assert!(
            error.to_string().contains(&vg.name),
            "{what} names the VG: {error}"
        );
        assert_eq!(vg.digest(), before, "{what}: the disks have changed");
    }
    let driver = Driver::start(vg.dir());
    let status = driver
        .csi()
        .create(&vg.name, "pvc", 16 * MIB, "ext4")
        .expect_err("CreateVolume");
    assert_eq!(status.code(), tonic::Code::FailedPrecondition, "{status}");
    assert!(
        status.message().contains(&vg.name),
        "names the VG: {status}"
    );
    assert_eq!(vg.digest(), before, "CreateVolume: the disks have changed");
    drop(driver);
    on_the_command_line(vg);
    assert_eq!(vg.digest(), before, "commands: the disks have changed");
}

fn on_the_command_line(vg: &LoopVg) {
    let lvcsi = |args: &[&str]| run(host::binary("lvcsi").to_str().expect("a path"), args);
    let old = vg.lv("old");
    for args in [
        &["lv", "create", &vg.name, "-n", "new", "-L", "16m"][..],
        &["lv", "extend", &old, "-L", "64m"],
        &["lv", "remove", "--yes", &old],
        &["lv", "rename", &old, "other"],
        &["check", &vg.name],
    ] {
        let ran = lvcsi(args);
        assert_eq!(ran.status, FORBIDDEN, "{ran}");
        assert!(
            ran.stderr.contains(&vg.name) || ran.stdout.contains(&vg.name),
            "{ran}"
        );
    }
    for command in ["pvs", "vgs", "lvs"] {
        let ran = lvcsi(&[command]).expect_success();
        assert!(ran.stderr.contains("warning"), "says what is wrong: {ran}");
    }
    let _ = lvcsi(&["inspect", vg.paths()[0].to_str().expect("a path")]).expect_success();
}

/// A VG of two disks with one inactive LV on the first.
fn two_disks() -> LoopVg {
    let vg = LoopVg::with(&VgSpec::disks(2, 128));
    vg.lvm.clean(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-L16M", "-n", "old", &vg.name,
    ]);
    vg
}

#[test]
fn corrupt_label() {
    let _tidy = Tidy::new();
    let vg = two_disks();
    // One bit in the label of the second disk: it is no PV any more.
    let label = read_at(vg.disks[1].file(), 512, 512);
    write_at(vg.disks[1].path(), 512 + 200, &[label[200] ^ 1]);
    assert!(matches!(
        decode::pv(vg.paths()[1]),
        Err(decode::Defect::LabelChecksum)
    ));
    refuses(&vg);
    write_at(vg.disks[1].path(), 512, &label);
    repaired(&vg);
}

#[test]
fn missing_disk() {
    let _tidy = Tidy::new();
    let vg = two_disks();
    let label = read_at(vg.disks[1].file(), 0, 4096);
    write_at(vg.disks[1].path(), 0, &[0; 4096]);
    refuses(&vg);
    write_at(vg.disks[1].path(), 0, &label);
    repaired(&vg);
}

#[test]
fn corrupt_area_header() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(128);
    vg.lvm.clean(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-L16M", "-n", "old", &vg.name,
    ]);
    let header = read_at(vg.disks[0].file(), 4096, 512);
    write_at(vg.disks[0].path(), 4096 + 48, &[header[48] ^ 1]);
    assert!(matches!(
        decode::pv(vg.paths()[0]),
        Err(decode::Defect::HeaderChecksum(4096))
    ));
    refuses(&vg);
    write_at(vg.disks[0].path(), 4096, &header);
    repaired(&vg);
}

/// The only copy of the text is cut off by zeros.
#[test]
fn truncated_text() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(128);
    vg.lvm.clean(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-L16M", "-n", "old", &vg.name,
    ]);
    let mda = decode::pv(vg.paths()[0]).unwrap().mdas.remove(0);
    let middle = mda.start + mda.offset + mda.text_size / 2;
    let rest = read_at(vg.disks[0].file(), middle, (mda.text_size / 2) as usize);
    write_at(vg.disks[0].path(), middle, &vec![0; rest.len()]);
    assert!(matches!(
        decode::pv(vg.paths()[0]),
        Err(decode::Defect::TextChecksum(_))
    ));
    refuses(&vg);
    write_at(vg.disks[0].path(), middle, &rest);
    repaired(&vg);
}

/// Header of an area whose text would reach beyond its end twice.
#[test]
fn ring_beyond_its_end() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(128);
    vg.lvm.clean(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-L16M", "-n", "old", &vg.name,
    ]);
    let good = read_at(vg.disks[0].file(), 4096, 512);
    let mut bad = good.clone();
    bad[48..56].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
    let crc = decode::crc(&bad[4..]);
    bad[..4].copy_from_slice(&crc.to_le_bytes());
    write_at(vg.disks[0].path(), 4096, &bad);
    refuses(&vg);
    write_at(vg.disks[0].path(), 4096, &good);
    repaired(&vg);
}

#[test]
fn a_vg_that_was_exported() {
    let _tidy = Tidy::new();
    let vg = two_disks();
    vg.lvm.clean(&["lvchange", "-an", &vg.lv("old")]);
    vg.lvm.clean(&["vgexport", &vg.name]);
    refuses(&vg);
    vg.lvm.clean(&["vgimport", &vg.name]);
    repaired(&vg);
}

/// A VG of another machine: `--systemid` in its metadata.
#[test]
fn a_vg_of_another_machine() {
    let _tidy = Tidy::new();
    let vg = two_disks();
    vg.lvm
        .run(&["vgchange", "-y", "--systemid", "another-host", &vg.name])
        .expect_success()
        .stdout
        .clear();
    refuses(&vg);
}

/// After the damage is undone everything works again, also for an engine that
/// has seen the damage.
fn repaired(vg: &LoopVg) {
    let native = Native::open(vg);
    native.create("new", 16);
    native.extend("old", 32);
    native.remove("new");
    native.remove("old");
    vg.assert_clean();
}
