//! A real kernel in which parts of a commit, or of what follows it, fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lvcsi::engine::{Engine, EngineConfig, EngineError, Request, Size};
use lvcsi::error::Kind;
use lvcsi_kit::{Disk, LoopVg, VgSpec, decode, host, lvm, run};
use lvm2::name::VgName;
use lvm2::units::Bytes;

use crate::common::{Native, create, extend, lv, machine, tag};
use crate::shim::{Phase, Shim, folder};
use crate::support::{Tidy, all_well};
use crate::tripwire::Tripwire;

const MIB: u64 = 1 << 20;

fn request(name: &str) -> Request {
    create(name, Size::Bytes(Bytes(16 * MIB)))
}

/// The texts by sequence number that any disk ever named: no number may come
/// back with another text.
#[derive(Default)]
struct Texts {
    by_number: BTreeMap<i64, String>,
    /// Numbers of commits that failed while headers were written.
    burnt: BTreeSet<i64>,
}

impl Texts {
    fn look(&mut self, vg: &LoopVg) {
        for path in vg.paths() {
            for mda in decode::pv(path).expect("a PV").mdas {
                let text = mda.text.expect("a text");
                let line = text.lines().find_map(|line| line.strip_prefix("seqno = "));
                let seqno = line.and_then(|n| n.parse().ok()).expect("a number");
                let known = self.by_number.entry(seqno).or_insert_with(|| text.clone());
                assert_eq!(*known, text, "number {seqno} was used for two texts");
                assert!(
                    !self.burnt.contains(&seqno),
                    "number {seqno} may be on a disk already"
                );
            }
        }
    }
}

/// Everything works again: what failed is repeated, and all readers agree.
fn heals(vg: &LoopVg, native: &Native, texts: &mut Texts, name: &str) {
    native.ok(request(name));
    texts.look(vg);
    all_well(vg, native);
    native.remove(name);
    texts.look(vg);
    all_well(vg, native);
}

/// EIO in either phase of a commit, on one PV and on all. A commit whose header
/// reached one PV stands, every other one did not happen.
#[test]
fn pitfall_09_a_phase_of_a_commit_fails_on_one_pv_or_on_all() {
    let _tidy = Tidy::new();
    let folder = folder();
    let shims = Arc::new(["a", "b"].map(|name| Shim::new(folder.path(), name, 64)));
    let vg = Shim::vg(&*shims, &VgSpec::disks(2, 64));
    let (native, tripwire) = wired(&vg);
    let mut texts = Texts::default();
    native.create("old", 16);
    texts.look(&vg);
    for phase in [Phase::Text, Phase::Header] {
        for broken in [1..2, 0..2] {
            let stands = phase == Phase::Header && broken.len() == 1;
            for change in changes() {
                let what = format!("{phase:?} of {} PVs of 2: {change:?}", broken.len());
                let fail = {
                    let (shims, broken) = (Arc::clone(&shims), broken.clone());
                    move || shims[broken].iter().for_each(|shim| shim.fail(phase))
                };
                match phase {
                    Phase::Text => fail(),
                    Phase::Header => tripwire.arm(fail),
                }
                let before = headers(&vg);
                let result = native.run(change);
                assert!(!tripwire.armed(), "{what}: no header was written");
                if stands {
                    let state = result.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(state.changed, "{what}");
                    assert_ne!(headers(&vg)[0], before[0], "{what}");
                    assert_eq!(headers(&vg)[1], before[1], "{what}");
                } else {
                    refused(&vg, &what, &result.expect_err(&what), phase, &mut texts);
                    assert_eq!(headers(&vg), before, "{what}");
                }
                texts.look(&vg);
                nothing_hangs(&vg, &what);
                shims.iter().for_each(Shim::heal);
            }
            // lvm2 reads the newest of what is there.
            let expected: &[&str] = if stands { &["new", "older"] } else { &["old"] };
            assert_eq!(names(&vg), expected);
            if stands {
                native.remove("new");
                native.rename("older", "old");
                native.ok(Request::Tags {
                    name: lv("old"),
                    add: Vec::new(),
                    remove: vec![tag("t")],
                });
            }
            heals(&vg, &native, &mut texts, "again");
        }
    }
    assert_eq!(vg.decode().names(), ["old"]);
    lvcsi_kit::proof(&format!(
        "failures: texts written around failed commits: {}, numbers used twice: 0",
        texts.by_number.len()
    ));
}

/// An error of a commit that did not happen. The number that a header may have
/// had is not used again.
fn refused(vg: &LoopVg, what: &str, error: &EngineError, phase: Phase, texts: &mut Texts) {
    let EngineError::Commit { seqno, .. } = error else {
        panic!("{what}: {error}")
    };
    assert_eq!(error.kind(), Kind::Internal, "{what}: {error}");
    assert!(error.to_string().contains(&vg.name), "{what}: {error}");
    if phase == Phase::Header {
        texts.burnt.insert(i64::from(*seqno));
    }
}

/// The engine on a machine whose disks can be changed between two writes.
fn wired(vg: &LoopVg) -> (Native, Tripwire) {
    // The tables are swapped within a call of the engine, which takes its time.
    let config = EngineConfig {
        io_timeout: Duration::from_secs(120),
        ..EngineConfig::default()
    };
    let mut host = machine(vg);
    let tripwire = Tripwire::new(host.block);
    host.block = Arc::new(tripwire.clone());
    let engine = Engine::start(host, config).expect("the engine");
    let vg = VgName::new(vg.name.clone()).expect("name of a VG");
    (Native { engine, vg }, tripwire)
}

fn headers(vg: &LoopVg) -> Vec<Vec<u8>> {
    let headers = vg.paths().into_iter().map(|path| {
        let mut pv = decode::pv(path).expect("a PV");
        pv.mdas.remove(0).header
    });
    headers.collect()
}

/// Names of the LVs as lvm2 reads them, whatever it complains of.
fn names(vg: &LoopVg) -> Vec<String> {
    let rows = run("lvm", &["lvs", "--noheadings", "-o", "name", &vg.name]).expect_success();
    rows.stdout.split_whitespace().map(str::to_owned).collect()
}

/// A creation, and changes of `old`.
fn changes() -> Vec<Request> {
    vec![
        request("new"),
        extend("old", Size::Bytes(Bytes(4 * MIB)), true),
        Request::Tags {
            name: lv("old"),
            add: vec![tag("t")],
            remove: Vec::new(),
        },
        Request::Rename {
            name: lv("old"),
            to: lv("older"),
        },
    ]
}

/// No device of the VG is suspended or has a table in its inactive slot, and
/// udev has nothing to wait for.
fn nothing_hangs(vg: &LoopVg, what: &str) {
    let columns = "name,suspended,tables_loaded";
    for name in lvm::dm_devices(&vg.name) {
        let ran = run(
            "dmsetup",
            &["info", "-c", "--noheadings", "-o", columns, &name],
        );
        let ran = ran.expect_success();
        assert!(ran.stdout.contains(":Active:Live"), "{what}: {ran}");
    }
}

/// A device that does not answer any more, is changed without by lvm2, and
/// comes back with old metadata.
#[test]
fn pitfall_31_a_pv_that_vanishes_and_comes_back_does_not_win() {
    let _tidy = Tidy::new();
    let folder = folder();
    let shims = ["a", "b"].map(|name| Shim::new(folder.path(), name, 64));
    let vg = Shim::vg(&shims, &VgSpec::disks(2, 64));
    let native = Native::open(&vg);
    let mut texts = Texts::default();
    native.create("one", 16);
    let second = vg.paths()[1].to_str().expect("a path").to_owned();
    vg.lvm.clean(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-L16M", "-n", "far", &vg.name, &second,
    ]);
    texts.look(&vg);

    shims[1].vanish();
    let error = native.run(request("two")).expect_err("a PV is away");
    assert_eq!(error.kind(), Kind::FailedPrecondition, "{error}");
    let error = native
        .run(Request::Activate { name: lv("far") })
        .expect_err("partial");
    assert!(error.to_string().contains("far is partial"), "{error}");
    // What is whole can be used.
    native.deactivate("one");
    native.activate("one");
    nothing_hangs(&vg, "away");
    shims[1].heal();
    // It was not missed: nothing had changed meanwhile.
    native.create("two", 16);
    texts.look(&vg);
    all_well(&vg, &native);

    shims[1].vanish();
    let ran = run("lvm", &["lvremove", "-y", &vg.lv("two")]).expect_success();
    assert!(ran.stdout.contains("removed"), "{ran}");
    shims[1].heal();
    for native in [&native, &Native::open(&vg)] {
        let report = native.engine.vg(&native.vg).expect("the VG");
        assert!(report.vg.lv("two").is_none(), "stale metadata won");
        let error = native.run(request("three")).expect_err("marked as missing");
        assert!(
            error.to_string().contains("vgextend --restoremissing"),
            "{error}"
        );
        let error = native
            .run(Request::Activate { name: lv("far") })
            .expect_err("stale data");
        assert_eq!(error.kind(), Kind::FailedPrecondition, "{error}");
    }
    assert_eq!(names(&vg), ["far", "one"]);
    let ran = run("lvm", &["vgextend", "--restoremissing", &vg.name, &second]).expect_success();
    assert!(ran.stdout.contains("extended"), "{ran}");
    let mut texts = Texts::default();
    heals(&vg, &native, &mut texts, "three");
}

/// A device that is smaller than the metadata says: the kernel refuses the
/// tables that reach beyond its end.
#[test]
fn a_table_that_the_kernel_refuses_leaves_nothing_behind() {
    let _tidy = Tidy::new();
    let folder = folder();
    let shims = [Shim::new(folder.path(), "a", 128)];
    let vg = Shim::vg(&shims, &VgSpec::disks(1, 128));
    let native = Native::open(&vg);
    let mut texts = Texts::default();
    native.create("low", 16);
    vg.lvm.clean(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-L80M", "-n", "high", &vg.name,
    ]);
    texts.look(&vg);
    let before = vg.decode().text;
    shims[0].shrink(64);

    for (what, request) in [
        ("create", request("new")),
        ("extend", extend("low", Size::Bytes(Bytes(8 * MIB)), true)),
        ("activate", Request::Activate { name: lv("high") }),
    ] {
        let error = native.run(request).expect_err(what);
        assert!(error.to_string().contains(&vg.name), "{what}: {error}");
        nothing_hangs(&vg, what);
        assert_eq!(vg.decode().text, before, "{what}");
        let devices = lvm::dm_devices(&vg.name);
        assert_eq!(devices, [format!("{}-low", vg.name)], "{what}: {error}");
    }
    shims[0].heal();
    native.activate("high");
    native.extend("low", 24);
    native.remove("high");
    heals(&vg, &native, &mut texts, "new");
}

/// A thin pool under the PV that has no space left: ENOSPC for what is written
/// where nothing was.
#[test]
fn no_space_under_the_pv() {
    let _tidy = Tidy::new();
    let folder = folder();
    let meta = Disk::new(folder.path(), "meta", 4 * MIB, 0);
    let data = Disk::new(folder.path(), "data", 8 * MIB, 0);
    let names = ["pool", "thin", "filler"].map(|name| format!("t{}{name}", std::process::id()));
    let [pool, thin, filler] = &names;
    let dmsetup = |args: &[&str]| {
        let _ = run("dmsetup", args).expect_success();
        host::settle();
    };
    let pool_path = format!("/dev/mapper/{pool}");
    let sectors = 128 << 11;
    let table = format!(
        "0 16384 thin-pool {} {} 128 0 1 error_if_no_space",
        meta.devno(),
        data.devno()
    );
    dmsetup(&["create", pool, "--table", &table]);
    for (id, name) in [("0", thin), ("1", filler)] {
        dmsetup(&["message", &pool_path, "0", &format!("create_thin {id}")]);
        dmsetup(&[
            "create",
            name,
            "--table",
            &format!("0 {sectors} thin {pool_path} {id}"),
        ]);
    }
    // The PV must not begin where the pool's device does: it would show there.
    let of = format!("of=/dev/mapper/{filler}");
    let _ = run(
        "dd",
        &["if=/dev/urandom", &of, "bs=64k", "count=1", "oflag=direct"],
    )
    .expect_success();
    let path = PathBuf::from(format!("/dev/mapper/{thin}"));
    {
        let vg = LoopVg::on_whole(&[&path], &VgSpec::disks(1, 128));
        let native = Native::open(&vg);
        let before = vg.decode().text;
        // The filler takes what is left; its last writes fail.
        let full = run(
            "dd",
            &[
                "if=/dev/urandom",
                &of,
                "bs=64k",
                "count=128",
                "oflag=direct",
            ],
        );
        assert!(!full.success(), "the pool is full: {full}");
        let error = native.run(request("new")).expect_err("no space");
        assert!(error.to_string().contains(&vg.name), "{error}");
        assert_eq!(vg.decode().text, before, "{error}");
        assert_eq!(lvm::dm_devices(&vg.name), [""; 0], "{error}");
        dmsetup(&["remove", "--retry", filler]);
        dmsetup(&["message", &pool_path, "0", "delete 1"]);
        heals(&vg, &native, &mut Texts::default(), "new");
    }
    for name in [thin, pool] {
        dmsetup(&["remove", "--retry", name]);
    }
}
