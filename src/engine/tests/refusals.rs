//! States in which nothing is written.

use super::*;
use crate::error::Kind;
use crate::host::Identity;
use crate::host::sim::trouble;

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
fn another_hosts_vg_is_ours_once_we_are_that_host() {
    let sim = machine();
    let text = String::from_utf8(sim.disk("/dev/sda").read(4096 + 512, 4096)).unwrap();
    let text = text
        .trim_end_matches('\0')
        .replace("max_lv", "system_id = \"elsewhere\"\nmax_lv");
    sim.add_vg_text(&text).unwrap();
    run(&engine(sim.host()), Request::Create(create("x", 4))).unwrap_err();
    let host = sim.host_as(Identity {
        system_id: Some("elsewhere".to_owned()),
        ..Identity::default()
    });
    run(&engine(host), Request::Create(create("x", 4))).unwrap();
}

/// Each kind of change of [`trouble::VG`].
fn changes() -> Vec<Request> {
    let name = || lv(trouble::LV);
    vec![
        Request::Create(create("x", 4)),
        Request::Create(create_block("raw", 4)),
        extend(trouble::LV, 64),
        Request::Remove {
            name: name(),
            must_exist: true,
            require_tag: None,
        },
        Request::Rename {
            name: name(),
            to: lv("other"),
        },
        Request::Tags {
            name: name(),
            add: vec![tag("new")],
            remove: Vec::new(),
        },
        Request::Tags {
            name: name(),
            add: Vec::new(),
            remove: vec![tag(tags::OWNED)],
        },
    ]
}

/// Foreign, exported, clustered and lockd VGs, and everything else that forbids
/// changes: each kind of change is refused for the rule that it breaks.
#[test]
fn pitfall_30_each_state_that_forbids_changes_forbids_each_change() {
    let name = VgName::new(trouble::VG).unwrap();
    for state in trouble::ALL {
        let what = state.name;
        let sim = (state.make)();
        let before = trouble::heads(&sim);
        let engine = engine(sim.host());
        for request in changes() {
            let planned = engine.plan(&name, &request).map(drop);
            let done = engine.submit(&name, request.clone()).wait().map(drop);
            for result in [planned, done] {
                let error = result.expect_err(what);
                let text = error.to_string();
                assert_eq!(error.kind(), Kind::FailedPrecondition, "{what}: {text}");
                assert!(text.contains(trouble::VG), "{what}: {text}");
                assert!(text.contains(state.rule), "{what}: {text}");
                assert!(text.contains(state.cure), "{what}: {text}");
            }
            assert!(trouble::heads(&sim) == before, "{what}: {request:?} wrote");
        }
        assert_eq!(engine.host().dm.list().unwrap(), [], "{what}");
        readable(&engine, &name, state);
        assert!(trouble::heads(&sim) == before, "{what}: reading wrote");
    }
}

/// Reports show the VG and say what is wrong with it.
fn readable(engine: &Engine, name: &VgName, state: &trouble::Trouble) {
    let what = state.name;
    let report = engine.report().unwrap();
    let problems: Vec<_> = report.problems.iter().map(|p| p.detail.as_str()).collect();
    assert!(
        problems.iter().any(|problem| problem.contains(state.rule)),
        "{what}: {problems:?}"
    );
    assert_eq!(
        report.vgs.iter().any(|vg| vg.vg.name() == name),
        state.found,
        "{what}"
    );
    if !state.found {
        assert!(report.orphans.iter().all(|pv| !pv.allocatable), "{what}");
    }
    let checked = engine.check(name).is_ok();
    let alone = state.found && report.vgs.len() == 1;
    assert_eq!(checked, alone, "{what}");
    assert_eq!(engine.vg(name).is_ok(), alone, "{what}");
}

/// As lvm2 does it: devices of a VG that is another's are not made, others are
/// as far as they need nothing that is missing or doubtful.
#[test]
fn activation_is_refused_where_lvm2_refuses_it() {
    let name = VgName::new(trouble::VG).unwrap();
    for state in trouble::ALL {
        let sim = (state.make)();
        let engine = engine(sim.host());
        let what = state.name;
        let activate = |lv_name: &str| {
            let name = lv(lv_name);
            engine
                .submit(
                    &VgName::new(trouble::VG).unwrap(),
                    Request::Activate { name },
                )
                .wait()
        };
        match activate(trouble::LV) {
            Ok(_) => assert!(state.activates, "{what}"),
            Err(error) => {
                assert!(!state.activates, "{what}: {error}");
                assert_eq!(error.kind(), Kind::FailedPrecondition, "{what}: {error}");
                assert!(error.to_string().contains(state.rule), "{what}: {error}");
                assert_eq!(engine.host().dm.list().unwrap(), [], "{what}");
            }
        }
        if state.activates {
            let report = engine.vg(&name).unwrap();
            let place = report
                .vg
                .lvs()
                .iter()
                .position(|l| l.name == trouble::LV)
                .unwrap();
            let device = report.lvs[place].device.clone().unwrap();
            assert_eq!(device.read_only, state.name == "read-only", "{what}");
            let deactivate = Request::Deactivate {
                name: lv(trouble::LV),
            };
            engine.submit(&name, deactivate).wait().unwrap();
        }
        if state.rule.contains("miss") {
            let error = activate("lin").unwrap_err();
            assert_eq!(error.kind(), Kind::FailedPrecondition, "{what}: {error}");
            assert!(error.to_string().contains("vgt/lin is partial"), "{error}");
            assert_eq!(engine.host().dm.list().unwrap(), [], "{what}");
        }
    }
}

/// LVs that lvm2 works on, or that others build on, in VGs that may be written.
#[test]
fn pitfall_56_lvs_that_lvm2_works_on_are_left_alone() {
    macro_rules! sample {
        ($name:literal) => {
            include_str!(concat!("../../../lvm2/tests/data/meta-", $name, ".txt"))
        };
    }
    for (text, vg, locked) in [
        (sample!("pvmove"), "vg1", &["lin", "pvmove0"][..]),
        (sample!("snap_merging"), "vg1", &["orgb", "s1b"]),
        (sample!("snapshot"), "vgt", &["org", "snap1"]),
        (sample!("thin_merging"), "vg1", &["th1", "pool", "sk"]),
        (sample!("raid1_trackchanges"), "vg1", &["r1", "r1_rimage_1"]),
        (sample!("cachevol"), "vgt", &["org", "cv_cvol"]),
    ] {
        let sim = SimHost::new();
        sim.add_vg_text(text).unwrap();
        let engine = engine(sim.host());
        let name = VgName::new(vg).unwrap();
        let before = trouble::heads(&sim);
        for lv_name in locked {
            for request in [
                extend(lv_name, 1000),
                Request::Remove {
                    name: lv(lv_name),
                    must_exist: true,
                    require_tag: None,
                },
                Request::Rename {
                    name: lv(lv_name),
                    to: lv("other"),
                },
                Request::Tags {
                    name: lv(lv_name),
                    add: vec![tag("new")],
                    remove: Vec::new(),
                },
                Request::Activate { name: lv(lv_name) },
                Request::Deactivate { name: lv(lv_name) },
            ] {
                let error = engine.submit(&name, request.clone()).wait();
                let error = error.expect_err(&format!("{request:?}"));
                assert_eq!(
                    error.kind(),
                    Kind::FailedPrecondition,
                    "{request:?}: {error}"
                );
                assert!(error.to_string().contains(lv_name), "{request:?}: {error}");
                assert!(trouble::heads(&sim) == before, "{request:?} wrote");
            }
        }
        assert_eq!(engine.host().dm.list().unwrap(), []);
    }
}
