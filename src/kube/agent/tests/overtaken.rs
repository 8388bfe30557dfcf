//! What somebody else does to an object between the disks and its status.

use super::*;

/// A volume that fits nowhere.
const HUGE: &str = "huge";

/// `name` as it goes.
fn going(name: &str) -> Value {
    let mut object = volume(name, 8 * MIB, "large");
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    object
}

/// `name` made again, for another node if it is named.
fn again(name: &str, mib: u64, node: &str) -> Value {
    let mut object = volume(name, mib * MIB, "large");
    object["metadata"]["uid"] = json!("uid-of-the-second");
    object["spec"]["ownerNodeID"] = json!(node);
    object
}

async fn overtaken(rig: &Rig) {
    rig.api
        .until("the status was written", |api| {
            (api.count("PATCH", "lvmvolumes") > 0).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_failure_does_not_meet_another_node_s_object() {
    let rig = Rig::new();
    let agent = rig.start();
    let second = again(HUGE, 4096, "n2");
    rig.api
        .overtake("PATCH", "lvmvolumes", vec![going(HUGE), second]);
    rig.ask(HUGE, 4096, "large");
    overtaken(&rig).await;
    agent.end().await;
    let object = rig.object(HUGE);
    assert_eq!(object["status"]["state"], "Pending", "{object}");
    assert!(object["metadata"]["annotations"].is_null(), "{object}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_for_an_object_that_is_another_node_s_now_is_taken_back() {
    for finalizers in [json!([]), json!(["lvm.openebs.io/finalizer"])] {
        let rig = Rig::new();
        let agent = rig.start();
        let mut second = again("pvc-1", 8, "n2");
        second["metadata"]["finalizers"] = finalizers.clone();
        rig.api
            .overtake("PATCH", "lvmvolumes", vec![going("pvc-1"), second]);
        let mut first = volume("pvc-1", 8 * MIB, "large");
        first["metadata"]["finalizers"] = finalizers;
        rig.api.put(VOLUMES, first);
        overtaken(&rig).await;
        rig.api
            .until("the LV is gone", |_| {
                rig.lvs("large").is_empty().then_some(())
            })
            .await;
        agent.end().await;
        let object = rig.object("pvc-1");
        assert_eq!(object["status"]["state"], "Pending", "{object}");
        assert_eq!(object["spec"]["volGroup"], "", "{object}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_made_again_gets_an_lv_of_its_own() {
    let rig = Rig::new();
    let agent = rig.start();
    let second = again("pvc-1", 40, "n1");
    rig.api
        .overtake("PATCH", "lvmvolumes", vec![going("pvc-1"), second]);
    rig.ask("pvc-1", 8, "large");
    let object = rig.state("pvc-1", "Ready").await;
    assert_eq!(object["metadata"]["uid"], "uid-of-the-second");
    agent.end().await;
    let lvs = rig.lvs("large");
    assert_eq!((lvs.len(), lvs[0].extents().0), (1, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_for_an_object_that_is_given_up_is_taken_back() {
    let mut failed = volume("pvc-1", 8 * MIB, "large");
    failed["metadata"]["uid"] = json!("uid-pvc-1");
    let mut leaving = failed.clone();
    failed["status"]["state"] = json!("Failed");
    // Somebody else's finalizer keeps it.
    leaving["metadata"]["finalizers"] = json!(["example.com/backup"]);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for given_up in [failed, leaving] {
        let rig = Rig::new();
        let agent = rig.start();
        rig.api.overtake("PATCH", "lvmvolumes", vec![given_up]);
        rig.ask("pvc-1", 8, "large");
        overtaken(&rig).await;
        rig.api
            .until("the LV is gone", |_| {
                rig.lvs("large").is_empty().then_some(())
            })
            .await;
        agent.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_no_concern_leaves_the_lv_as_it_was_made() {
    let rig = Rig::new();
    let agent = rig.start();
    let mut labelled = volume("pvc-1", 8 * MIB, "large");
    labelled["metadata"]["uid"] = json!("uid-pvc-1");
    labelled["metadata"]["labels"] = json!({ "by": "somebody" });
    rig.api.overtake("PATCH", "lvmvolumes", vec![labelled]);
    rig.ask("pvc-1", 8, "large");
    let object = rig.state("pvc-1", "Ready").await;
    assert_eq!(object["metadata"]["labels"]["by"], "somebody");
    agent.end().await;
    assert_eq!(rig.lvs("large").len(), 1);
}
