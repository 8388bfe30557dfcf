//! States in which nothing may be written, made by stock lvm2 where it makes
//! them. lvm2 refuses to change such a VG too, and the command that our error
//! names is the one that helps.

use lvcsi::engine::{EngineError, Request, Size};
use lvcsi::error::Kind;
use lvcsi_kit::{Disk, LoopVg, Lvm, VgSpec, complaints, decode};
use lvm2::units::Bytes;

use crate::common::{Native, create, extend, lv, tag};
use crate::forge;

/// A state, and how it comes and goes.
struct Case {
    what: &'static str,
    make: fn(&mut LoopVg),
    /// A word of the rule in our error.
    rule: &'static str,
    /// The command in our error; `VG` stands for the VG.
    cure: &'static str,
    /// Runs that command, or undoes what cannot be cured.
    heal: fn(&mut LoopVg),
    /// Whether lvm2 refuses `lvcreate` too.
    lvm2_refuses: bool,
}

const CASES: &[Case] = &[
    Case {
        what: "exported",
        make: |vg| _ = vg.lvm.clean(&["vgexport", &vg.name]),
        rule: "exported",
        cure: "vgimport VG",
        heal: |vg| _ = vg.lvm.clean(&["vgimport", &vg.name]),
        lvm2_refuses: true,
    },
    Case {
        what: "of another host",
        make: |vg| {
            let args = ["vgchange", "-q", "-y", "--systemid", "elsewhere", &vg.name];
            // It warns that the VG is out of reach now.
            _ = vg.lvm.run(&args).expect_success();
        },
        rule: "system id elsewhere",
        cure: "vgchange --yes --config 'global {system_id_source = \"lvmlocal\"} local {system_id = \
               \"elsewhere\"}' --systemid '' VG",
        heal: |vg| {
            let args = ["vgchange", "-q", "--yes", "--systemid", "", &vg.name];
            let config =
                "global {system_id_source = \"lvmlocal\"} local {system_id = \"elsewhere\"}";
            _ = vg.lvm.with_config(config).run(&args).expect_success();
        },
        lvm2_refuses: true,
    },
    Case {
        what: "of a lock manager",
        make: |vg| {
            let locked = "\nlock_type = \"sanlock\"\nlock_args = \"1.0.0:lvmlock\"\nextent_size";
            forge::replace(vg, "\nextent_size", locked);
        },
        rule: "lvmlockd",
        cure: "vgchange --lock-type none --lock-opt force VG",
        heal: |vg| {
            let mut args = vec!["vgchange", "-q", "-y", "--lock-type", "none"];
            args.extend(["--lock-opt", "force", &vg.name]);
            _ = vg.lvm.run(&args).expect_success();
        },
        lvm2_refuses: true,
    },
    Case {
        what: "clustered",
        make: |vg| forge::replace(vg, "[\"RESIZEABLE\"", "[\"RESIZEABLE\", \"CLUSTERED\""),
        rule: "clustered",
        cure: "vgchange --lock-type none --lock-opt force VG",
        heal: |vg| {
            let mut args = vec!["vgchange", "-q", "-y", "--lock-type", "none"];
            args.extend(["--lock-opt", "force", &vg.name]);
            _ = vg.lvm.run(&args).expect_success();
        },
        lvm2_refuses: true,
    },
    Case {
        what: "read-only",
        make: |vg| forge::replace(vg, "\"READ\", \"WRITE\"]", "\"READ\"]"),
        rule: "read-only",
        cure: "vgcfgrestore -f FILE VG",
        heal: |vg| {
            let file = vg.dir().join("backup");
            let file = file.to_str().expect("a path");
            _ = vg.lvm.clean(&["vgcfgbackup", "-f", file, &vg.name]);
            let text = std::fs::read_to_string(file).expect("a backup");
            let text = text.replacen("\"READ\"]", "\"READ\", \"WRITE\"]", 1);
            std::fs::write(file, text).expect("a backup");
            _ = vg
                .lvm
                .run(&["vgcfgrestore", "-f", file, &vg.name])
                .expect_success();
        },
        lvm2_refuses: true,
    },
    Case {
        what: "a status that nobody knows",
        make: |vg| forge::replace(vg, "\"VISIBLE\"]", "\"VISIBLE\", \"ENCHANTED\"]"),
        rule: "\"ENCHANTED\"",
        cure: "vgck VG",
        heal: |vg| forge::replace(vg, ", \"ENCHANTED\"", ""),
        lvm2_refuses: true,
    },
    Case {
        what: "a segment type that nobody knows",
        make: |vg| forge::replace(vg, "\"striped\"", "\"raid99\""),
        rule: "raid99",
        cure: "lvs --segments VG/old",
        heal: |vg| forge::replace(vg, "\"raid99\"", "\"striped\""),
        lvm2_refuses: true,
    },
    Case {
        what: "a PV that is away",
        make: |vg| unplug(vg, 1),
        rule: "missing",
        cure: "vgreduce --removemissing VG",
        heal: |vg| plug(vg, 1),
        lvm2_refuses: true,
    },
    Case {
        what: "an unreadable copy",
        make: |vg| {
            let mda = decode::pv(vg.paths()[1]).expect("a PV").mdas.remove(0);
            forge::write(vg.paths()[1], mda.start + mda.offset + 40, b"damage");
        },
        rule: "unreadable",
        cure: "vgck --updatemetadata VG",
        heal: |vg| {
            _ = vg
                .lvm
                .run(&["vgck", "--updatemetadata", &vg.name])
                .expect_success()
        },
        // It goes on with the other copy, whichever is newer.
        lvm2_refuses: false,
    },
    Case {
        what: "a copy of a PV",
        make: |vg| {
            let source = std::fs::read(vg.disks[1].file()).expect("a disk");
            let copy = vg.dir().join("copy");
            std::fs::write(&copy, source).expect("a copy");
            let copy = Disk::new(vg.dir(), "copy", 64 << 20, 0);
            vg.disks.push(copy);
            vg.lvm = Lvm::on(&vg.paths());
        },
        rule: "appears on",
        cure: "exclude them in lvm.conf",
        heal: |vg| {
            drop(vg.disks.pop());
            vg.lvm = Lvm::on(&vg.paths());
        },
        lvm2_refuses: true,
    },
];

/// The label of disk `index` becomes zeros: it is no PV any more. (The rest of
/// its head stays, and so the label can be written again.)
fn unplug(vg: &LoopVg, index: usize) {
    let head = decode::read(vg.paths()[index], 0, 4096).expect("a disk");
    std::fs::write(vg.dir().join("head"), head).expect("a file");
    forge::write(vg.paths()[index], 0, &[0; 4096]);
}

fn plug(vg: &LoopVg, index: usize) {
    let head = std::fs::read(vg.dir().join("head")).expect("what unplug saved");
    forge::write(vg.paths()[index], 0, &head);
}

/// Two disks, LV `old` on the first.
fn two_disks() -> LoopVg {
    let vg = LoopVg::with(&VgSpec::disks(2, 64));
    vg.lvm.clean(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-L16M", "-n", "old", &vg.name,
    ]);
    vg
}

fn changes() -> Vec<Request> {
    vec![
        create("new", Size::Bytes(Bytes(4 << 20))),
        extend("old", Size::Bytes(Bytes(24 << 20)), false),
        Request::Remove {
            name: lv("old"),
            must_exist: true,
            require_tag: None,
        },
        Request::Rename {
            name: lv("old"),
            to: lv("other"),
        },
        Request::Tags {
            name: lv("old"),
            add: vec![tag("new")],
            remove: Vec::new(),
        },
    ]
}

/// Each change is refused with an error that has all of `parts`.
fn refused(vg: &LoopVg, what: &str, parts: &[&str]) {
    let native = Native::open(vg);
    let before = vg.digest();
    for request in changes() {
        let error: EngineError = native.run(request.clone()).expect_err(what);
        let text = error.to_string();
        assert_eq!(error.kind(), Kind::FailedPrecondition, "{what}: {text}");
        for part in parts {
            assert!(
                text.contains(part),
                "{what}: {request:?}: {part:?} not in: {text}"
            );
        }
        assert_eq!(vg.digest(), before, "{what}: {request:?} wrote");
    }
    let report = native.engine.report().expect("a report");
    let seen = report
        .problems
        .iter()
        .any(|problem| problem.detail.contains(parts[0]));
    assert!(seen, "{what}: {:?}", report.problems);
    assert_eq!(vg.digest(), before, "{what}: reading wrote");
}

/// Our engine works on the VG, and lvm2 is content.
fn works(vg: &LoopVg, what: &str) {
    let native = Native::open(vg);
    let Request::Create(mut new) = create("new", Size::Bytes(Bytes(4 << 20))) else {
        unreachable!()
    };
    new.activate = false;
    let made = native.run(Request::Create(new));
    made.unwrap_or_else(|error| panic!("{what}, healed: {error}"));
    vg.assert_clean();
    assert!(vg.decode().names().contains(&"new"), "{what}");
}

#[test]
fn pitfall_30_lvm2_refuses_too_and_the_command_that_we_name_helps() {
    for case in CASES {
        let mut vg = two_disks();
        (case.make)(&mut vg);
        let cure = case.cure.replace("VG", &vg.name);
        refused(&vg, case.what, &[case.rule, &cure, &vg.name]);
        let args = [
            "lvcreate", "-y", "-an", "-Zn", "-Wn", "-l1", "-n", "theirs", &vg.name,
        ];
        if case.lvm2_refuses {
            let before = vg.digest();
            let ran = vg.lvm.run(&args);
            assert!(!ran.success(), "{}: lvm2 does it: {ran}", case.what);
            assert!(!complaints(&ran).is_empty(), "{}: {ran}", case.what);
            // It may take the opportunity to write MISSING flags.
            if !case.rule.contains("missing") {
                assert_eq!(vg.digest(), before, "{}: lvm2 wrote: {ran}", case.what);
            }
        }
        (case.heal)(&mut vg);
        works(&vg, case.what);
    }
    lvcsi_kit::proof(&format!("oracle: refused states: {}", CASES.len()));
}

/// A PV that was away while lvm2 changed the VG: lvm2 has marked it as missing,
/// and what it holds is stale. It counts again when an administrator says so.
#[test]
fn pitfall_31_a_pv_that_comes_back_with_stale_metadata_does_not_win() {
    let vg = two_disks();
    let head = decode::read(vg.paths()[1], 0, 1 << 20).expect("a disk");
    let used = vg.name.clone();
    vg.lvm.clean(&[
        "lvcreate",
        "-y",
        "-an",
        "-Zn",
        "-Wn",
        "-l100%PVS",
        "-n",
        "second",
        &used,
        vg.paths()[1].to_str().expect("a path"),
    ]);
    let stale = decode::read(vg.paths()[1], 0, 1 << 20).expect("a disk");
    unplug(&vg, 1);
    refused(&vg, "away", &["missing", &vg.name]);
    // lvm2 changes the VG without it.
    let ran = vg
        .lvm
        .run(&["lvremove", "-y", &vg.lv("old")])
        .expect_success();
    assert!(ran.stdout.contains("removed"), "{ran}");
    let seqno = decode::pv(vg.paths()[0]).expect("a PV").mdas[0]
        .text
        .clone();
    let seqno = seqno.expect("a text");
    assert!(seqno.contains("flags = [\"MISSING\"]"), "{seqno}");
    forge::write(vg.paths()[1], 0, &stale);

    // The newest metadata counts, on every reader's side.
    let native = Native::open(&vg);
    let report = native.engine.vg(&native.vg).expect("the VG");
    assert!(report.vg.lv("old").is_none(), "stale metadata won");
    let theirs = vg
        .lvm
        .run(&["lvs", "--noheadings", "-o", "name", &vg.name])
        .expect_success();
    assert_eq!(
        theirs.stdout.split_whitespace().collect::<Vec<_>>(),
        ["second"]
    );
    drop(native);
    refused_missing(&vg);
    let device = vg.paths()[1].to_str().expect("a path").to_owned();
    let ran = vg
        .lvm
        .run(&["vgextend", "--restoremissing", &vg.name, &device])
        .expect_success();
    assert!(ran.stdout.contains("extended"), "{ran}");
    works(&vg, "restored");
    assert_ne!(head, stale);
}

fn refused_missing(vg: &LoopVg) {
    let native = Native::open(vg);
    let before = vg.digest();
    let cure = format!("vgextend --restoremissing {}", vg.name);
    let error = native
        .run(create("new", Size::Bytes(Bytes(4 << 20))))
        .expect_err("missing");
    assert_eq!(error.kind(), Kind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains(&cure), "{error}");
    assert_eq!(vg.digest(), before);
}

/// lvm2 makes two VGs of one name if it sees one at a time; both are readable,
/// neither is changed, and `vgrename` by id ends it.
#[test]
fn two_vgs_of_one_name() {
    let mut vg = LoopVg::with(&VgSpec::disks(1, 64));
    let other = Disk::new(vg.dir(), "other", 64 << 20, 0);
    let path = other.path().to_str().expect("a path").to_owned();
    let theirs = Lvm::on(&[other.path()]);
    theirs.clean(&["pvcreate", "-q", "-y", &path]);
    theirs.clean(&["vgcreate", "-q", "-y", &vg.name, &path]);
    let mut args = vec!["lvcreate", "-y", "-an", "-Zn", "-Wn", "-l1", "-n", "old"];
    args.push(&vg.name);
    theirs.clean(&args);
    vg.lvm.clean(&args);
    vg.disks.push(other);
    vg.lvm = Lvm::on(&vg.paths());

    refused(&vg, "two VGs", &["is used by 2 VGs", "vgrename", &vg.name]);
    let native = Native::open(&vg);
    let report = native.engine.report().expect("a report");
    let twins: Vec<_> = report
        .vgs
        .iter()
        .filter(|twin| twin.vg.name() == vg.name.as_str())
        .collect();
    assert_eq!(twins.len(), 2, "both are shown");
    assert_ne!(twins[0].vg.id(), twins[1].vg.id());
    let id = twins[0].vg.id().to_string();
    let error = native
        .run(create("new", Size::Bytes(Bytes(4 << 20))))
        .expect_err("two VGs");
    assert!(
        error
            .to_string()
            .contains(&format!("vgrename {id} NEWNAME")),
        "{error}"
    );
    drop(native);
    let renamed = format!("{}renamed", vg.name);
    _ = vg.lvm.run(&["vgrename", &id, &renamed]).expect_success();
    let native = Native::open(&vg);
    assert_eq!(
        native.engine.vg(&native.vg).expect("one VG").vg.lvs().len(),
        1
    );
}
