//! States in which nothing is written.

use super::*;
use crate::error::Kind;
use crate::host::Identity;

fn digest(sim: &SimHost) -> Vec<Vec<u8>> {
    DISKS
        .iter()
        .map(|disk| sim.disk(disk).read(0, MIB_LEN))
        .collect()
}

fn refused(sim: &SimHost, host: Host, names: &str) {
    let before = digest(sim);
    let engine = engine(host);
    let error = run(&engine, Request::Create(create("x", 4))).unwrap_err();
    assert_eq!(error.kind(), Kind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains(names), "{error}");
    assert_eq!(digest(sim), before);
}

#[test]
fn a_missing_pv() {
    let sim = machine();
    sim.detach("/dev/sdb");
    refused(&sim, sim.host(), "missing");
}

#[test]
fn a_pv_that_comes_back_heals_the_vg() {
    let sim = machine();
    let engine = engine(sim.host());
    sim.detach("/dev/sdb");
    run(&engine, Request::Create(create("x", 4))).unwrap_err();
    sim.attach("/dev/sdb");
    run(&engine, Request::Create(create("x", 4))).unwrap();
}

#[test]
fn a_copy_of_a_pv() {
    let sim = machine();
    sim.add_disk("/dev/sdc", 256 * MIB, 512);
    let head = sim.disk("/dev/sdb").read(0, MIB_LEN);
    sim.disk("/dev/sdc").write(0, &head);
    refused(&sim, sim.host(), "/dev/sdc");
}

#[test]
fn a_damaged_copy_of_the_metadata() {
    let sim = machine();
    sim.disk("/dev/sdb").write(4096 + 512 + 40, b"damage");
    refused(&sim, sim.host(), "vgck --updatemetadata");
}

#[test]
fn a_damaged_metadata_header() {
    let sim = machine();
    sim.disk("/dev/sda").write(4096 + 100, b"damage");
    refused(&sim, sim.host(), "/dev/sda");
}

#[test]
fn what_is_not_there() {
    let sim = machine();
    let engine = engine(sim.host());
    let none = VgName::new("none").unwrap();
    let error = engine.submit(&none, remove("x")).wait().unwrap_err();
    assert!(matches!(error, EngineError::NoSuchVg { .. }));
    let zero = CreateLv {
        size: Size::Bytes(Bytes(0)),
        ..create("x", 1)
    };
    let error = run(&engine, Request::Create(zero)).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidArgument, "{error}");
    let reserved = create("snapshot1", 4);
    let error = run(&engine, Request::Create(reserved)).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidArgument, "{error}");
}

#[test]
fn an_lv_without_the_tag_that_is_asked_for() {
    let sim = machine();
    let engine = engine(sim.host());
    let foreign = CreateLv {
        tags: Vec::new(),
        ..create("theirs", 4)
    };
    run(&engine, Request::Create(foreign)).unwrap();
    let remove = Request::Remove {
        name: lv("theirs"),
        must_exist: false,
        require_tag: Some(tag(tags::OWNED)),
    };
    let error = run(&engine, remove).unwrap_err();
    assert!(matches!(error, EngineError::NotOurs { .. }), "{error}");
    assert_eq!(sound_lvs(&sim), ["theirs"]);
}

#[test]
fn another_hosts_vg() {
    let sim = machine();
    let text = String::from_utf8(sim.disk("/dev/sda").read(4096 + 512, 4096)).unwrap();
    let text = text
        .trim_end_matches('\0')
        .replace("max_lv", "system_id = \"elsewhere\"\nmax_lv");
    sim.add_vg_text(&text).unwrap();
    refused(&sim, sim.host(), "elsewhere");
    let host = sim.host_as(Identity {
        system_id: Some("elsewhere".to_owned()),
        ..Identity::default()
    });
    run(&engine(host), Request::Create(create("x", 4))).unwrap();
}
