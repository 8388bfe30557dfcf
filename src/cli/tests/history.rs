//! `vg history`.

use std::path::Path;

use super::{fails, machine, ok, run};
use crate::host::sim::{CallKind, Fault};

#[test]
fn versions_from_files_and_disks() {
    let sim = machine();
    for name in ["one", "two"] {
        ok(sim.host(), &format!("lv create vg -n {name} -L 4m"));
    }
    let json: serde_json::Value =
        serde_json::from_str(&ok(sim.host(), "vg history vg -o json")).unwrap();
    assert_eq!(json["seqno"], 3);
    let versions = json["versions"].as_array().unwrap();
    let seqnos: Vec<_> = versions
        .iter()
        .map(|v| v["seqno"].as_u64().unwrap())
        .collect();
    assert_eq!(seqnos, [1, 2, 3]);
    assert!(
        versions[0]["files"].as_array().unwrap().is_empty(),
        "older than the copies"
    );
    assert_eq!(
        versions[0]["on_devices"],
        serde_json::json!(["/dev/sda", "/dev/sdb"])
    );
    assert_eq!(versions[1]["lv_count"], 1);
    assert_eq!(versions[1]["files"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&versions[1]["current"], &versions[2]["current"]),
        (&false.into(), &true.into())
    );
    let table = ok(sim.host(), "vg history vg");
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].contains("Seqno") && lines[0].contains("Where"),
        "{table}"
    );
    assert!(
        lines[1].contains("(old text on /dev/sda, /dev/sdb)"),
        "{table}"
    );
    assert!(
        lines[2].contains("Write from lvcsi create vg/one."),
        "{table}"
    );
    assert!(
        lines[3].contains("(current) /var/lib/lvcsi/backup/vg/vg_00003-"),
        "{table}"
    );
    assert!(ok(sim.host(), "vg history vg -o yaml").contains("vg_name: vg\n"));

    let shown = ok(sim.host(), "vg history vg --show 2");
    assert!(
        shown.contains("\tseqno = 2\n") && !shown.contains("two {"),
        "{shown}"
    );
    let file = Path::new(versions[1]["files"][0].as_str().unwrap());
    let content = sim.host().copies.read(file).unwrap().unwrap();
    assert_eq!(shown.as_bytes(), content);
    let diff = ok(sim.host(), "vg history vg --diff 1 3");
    assert!(
        diff.contains("-\tseqno = 1") && diff.contains("+\tseqno = 3"),
        "{diff}"
    );
    assert!(
        diff.contains("+\t\tone {") && diff.contains("+\t\ttwo {"),
        "{diff}"
    );
    assert!(fails(sim.host(), "vg history vg --show 9", 3).contains("no readable version 9"));
    fails(sim.host(), "vg history other", 3);
    fails(sim.host(), "vg history vg --diff 1", 2);
}

#[test]
fn files_outlive_the_disks() {
    let sim = machine();
    ok(sim.host(), "lv create vg -n one -L 4m");
    sim.detach("/dev/sda");
    sim.detach("/dev/sdb");
    let table = ok(sim.host(), "vg history vg");
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(!table.contains("(current)"), "{table}");
}

#[test]
fn a_copy_that_cannot_be_written_is_a_warning() {
    let sim = machine();
    sim.always(
        Some(CallKind::CopyStage),
        "/var/lib/lvcsi/backup/vg",
        Fault::Enospc,
    );
    let done = run(sim.host(), "lv create vg -n one -L 4m");
    assert_eq!(done.status, 0, "{}", done.err);
    assert!(
        done.err
            .contains("warning: VG vg: no copy of the metadata was written"),
        "{}",
        done.err
    );
    sim.clear_faults();
    let table = ok(sim.host(), "vg history vg");
    assert!(
        table.lines().last().unwrap().ends_with("(current)"),
        "{table}"
    );
}
