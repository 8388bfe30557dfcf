//! VGs to which nothing may be written, through the services.

use super::*;
use crate::host::sim::trouble::{self, LV, Trouble, VG};

#[tokio::test(flavor = "multi_thread")]
async fn pitfall_30_each_call_that_changes_is_refused_with_the_rule_and_the_cure() {
    for state in trouble::ALL {
        let rig = Rig::on((state.make)());
        let before = trouble::heads(&rig.sim);
        let in_vg = |request: CreateVolumeRequest| CreateVolumeRequest {
            parameters: [("volgroup".to_owned(), VG.to_owned())].into(),
            ..request
        };
        let mut raw = in_vg(volume("raw", 4 * MIB));
        raw.volume_capabilities = vec![block()];
        let pattern = CreateVolumeRequest {
            parameters: [("vgpattern".to_owned(), "vg.*".to_owned())].into(),
            ..volume("any", 4 * MIB)
        };
        let mut answers = vec![
            (
                "CreateVolume",
                rig.create(in_vg(volume("new", 4 * MIB))).await.map(drop),
            ),
            ("CreateVolume, block", rig.create(raw).await.map(drop)),
        ];
        if state.found {
            answers.push((
                "CreateVolume by pattern",
                rig.create(pattern).await.map(drop),
            ));
            answers.push(("DeleteVolume", rig.delete(LV).await));
            answers.push(("ControllerExpandVolume", grow(&rig).await));
        }
        for (call, answer) in answers {
            refused(state, call, answer);
            assert!(
                trouble::heads(&rig.sim) == before,
                "{}: {call} wrote",
                state.name
            );
        }
        reading(&rig, state).await;
        assert!(
            trouble::heads(&rig.sim) == before,
            "{}: reading wrote",
            state.name
        );
    }
}

fn refused(state: &Trouble, call: &str, answer: Result<(), Status>) {
    let what = state.name;
    let status = answer.expect_err(&format!("{what}: {call}"));
    assert_eq!(
        status.code(),
        Code::FailedPrecondition,
        "{what}: {call}: {status}"
    );
    for part in [VG, state.rule, state.cure] {
        assert!(status.message().contains(part), "{what}: {call}: {status}");
    }
}

async fn grow(rig: &Rig) -> Result<(), Status> {
    let request = ControllerExpandVolumeRequest {
        volume_id: LV.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 64 * MIB,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    let answer = rig
        .controller
        .controller_expand_volume(Request::new(request))
        .await;
    answer.map(drop)
}

/// Such a VG has no capacity to offer, and its volumes are listed all the same.
async fn reading(rig: &Rig, state: &Trouble) {
    let request = GetCapacityRequest {
        parameters: [("volgroup".to_owned(), VG.to_owned())].into(),
        ..Default::default()
    };
    let capacity = rig
        .controller
        .get_capacity(Request::new(request))
        .await
        .unwrap();
    assert_eq!(capacity.get_ref().available_capacity, 0, "{}", state.name);
    let volumes = rig.list().await;
    assert!(
        volumes.iter().all(|volume| volume == LV),
        "{}: {volumes:?}",
        state.name
    );
}

/// A refused VG does not stop volumes in another, and where that one is full
/// the answer is about space and says what is wrong with the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_vg_beside_one_that_may_be_used() {
    let state = trouble::ALL
        .iter()
        .find(|state| state.name == "exported")
        .unwrap();
    let rig = Rig::on((state.make)());
    rig.sim.add_disk("/dev/sda", 64 << 20, 512);
    let extent = ExtentSize::new(Sectors(8192)).unwrap();
    rig.sim.add_vg("vgok", &["/dev/sda"], extent).unwrap();
    let any = |name: &str, size: i64| CreateVolumeRequest {
        parameters: [("vgpattern".to_owned(), "vg".to_owned())].into(),
        ..volume(name, size)
    };
    let made = rig.create(any("a", 40 * MIB)).await.unwrap();
    assert_eq!(made.volume_context["openebs.io/volgroup"], "vgok");
    let status = rig.create(any("b", 40 * MIB)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    for part in ["vgok has", "vgt is exported"] {
        assert!(status.message().contains(part), "{status}");
    }
}

/// LVs that lvm2 works on are no volumes to grow or delete, whatever tags they
/// carry.
#[tokio::test(flavor = "multi_thread")]
async fn pitfall_56_lvs_that_lvm2_works_on_are_left_alone() {
    let text = include_str!("../../../lvm2/tests/data/meta-pvmove.txt");
    let (before, after) = text.split_once("\nlin {\n").unwrap();
    let after = after.replacen("flags = []\n", "flags = []\ntags = [\"lvcsi\"]\n", 1);
    let sim = SimHost::new();
    sim.add_vg_text(&format!("{before}\nlin {{\n{after}"))
        .unwrap();
    let rig = Rig::on(sim);
    let disks = trouble::heads(&rig.sim);
    assert_eq!(
        code(rig.delete("lin").await, "LOCKED"),
        Code::FailedPrecondition
    );
    let request = ControllerExpandVolumeRequest {
        volume_id: "lin".to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 1 << 30,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    let grown = rig
        .controller
        .controller_expand_volume(Request::new(request))
        .await;
    assert_eq!(code(grown, "LOCKED"), Code::FailedPrecondition);
    assert!(trouble::heads(&rig.sim) == disks);
}
