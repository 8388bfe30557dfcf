//! DeleteVolume, and objects of nodes that are gone.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_when_the_agent_has_removed_the_lv() {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    assert_eq!(rig.agents.lvs("n1", "data"), 1);
    controller.delete("pvc-1").await.unwrap();
    assert_eq!(rig.agents.lvs("n1", "data"), 0);
    assert!(rig.volume("pvc-1").is_none());
    // What is gone, or never was, is deleted.
    controller.delete("pvc-1").await.unwrap();
    controller.delete("never").await.unwrap();
    assert_eq!(code(controller.delete("").await).0, Code::InvalidArgument);
    assert_eq!(rig.api.count("DELETE", "lvmvolumes"), 1);
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_keep_their_volume() {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    rig.api
        .put(SNAPSHOTS, snapshot("snapshot-1", "pvc-1", "n1"));
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    for (result, expected) in [
        (controller.delete("pvc-1").await, Code::FailedPrecondition),
        (
            controller.expand("pvc-1", 2 * GIB).await.map(drop),
            Code::Internal,
        ),
    ] {
        let (code, message) = code(result);
        assert_eq!(code, expected);
        assert!(message.contains("snapshot-1"), "{message}");
    }
    assert_eq!(rig.api.count("DELETE", "lvmvolumes"), 0);
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_agent_is_named_and_the_next_call_goes_on() {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    rig.agents.pause("n1", true);
    let soon = Duration::from_millis(500);
    let (code, message) = code(controller.delete_within("pvc-1", soon).await);
    assert_eq!(code, Code::DeadlineExceeded);
    assert!(message.contains("agent of node n1"), "{message}");
    rig.agents.pause("n1", false);
    rig.api.put(PODS, pod("n1", "True"));
    controller.delete("pvc-1").await.unwrap();
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_when_the_node_is_gone() {
    let rig = Rig::new(&[("n1", &[("data", 20)]), ("n2", &[("data", 10)])]);
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    controller.create(ask("pvc-2", 1)).await.unwrap();
    rig.api
        .put(SNAPSHOTS, snapshot("snapshot-1", "pvc-9", "n1"));
    rig.agents.pause("n1", true);
    // Not ready is not gone.
    let mut dead = node_object("n1", &json!({}));
    dead["status"]["conditions"][0]["status"] = json!("Unknown");
    rig.api.put(NODES, dead);
    let (code, message) = code(
        controller
            .delete_within("pvc-1", Duration::from_secs(2))
            .await,
    );
    assert_eq!(code, Code::DeadlineExceeded);
    assert!(message.contains("the node is not ready"), "{message}");
    assert!(rig.volume("pvc-1").is_some());
    rig.api.delete(NODES, "n1");
    rig.api.delete(SNAPSHOTS, "snapshot-1");
    controller.delete("pvc-1").await.unwrap();
    let note = rig.event("NodeGone").await;
    assert!(note.contains("data/pvc-1"), "{note}");
    let gone = |api: &FakeApi| api.get(SNAPSHOTS, "snapshot-1").is_none().then_some(());
    rig.api.until("the snapshot is gone", gone).await;
    // Nobody asked for the other's deletion.
    assert!(rig.volume("pvc-2").is_some());
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_while_the_finalizer_is_taken_costs_time_only() {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    rig.agents.pause("n1", true);
    rig.api.fail("PATCH", "lvmvolumes", 409);
    rig.api.fail("PATCH", "lvmvolumes", 500);
    rig.api.delete(NODES, "n1");
    controller.delete("pvc-1").await.unwrap();
    controller.end().await;
}

fn snapshot(name: &str, volume: &str, node: &str) -> Value {
    json!({
        "apiVersion": "local.openebs.io/v1alpha1", "kind": "LVMSnapshot",
        "metadata": {
            "name": name, "namespace": "openebs",
            "labels": { "openebs.io/persistent-volume": volume },
            "finalizers": ["lvm.openebs.io/finalizer"],
        },
        "spec": { "ownerNodeID": node, "volGroup": "data" },
        "status": { "state": "Ready" },
    })
}
