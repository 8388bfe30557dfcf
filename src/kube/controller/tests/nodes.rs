//! Which nodes are left out, and what happens when one does not do.

use super::*;

fn three() -> Rig {
    Rig::new(&[
        ("n1", &[("data", 40)]),
        ("n2", &[("data", 30)]),
        ("n3", &[("data", 20)]),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_cannot_serve_are_left_out() {
    let rig = Rig::new(&[
        ("cordoned", &[("data", 90)]),
        ("dead", &[("data", 80)]),
        ("unknown", &[("data", 70)]),
        ("agentless", &[("data", 60)]),
        ("other", &[("system", 50)]),
        ("full", &[("data", 1)]),
        ("good", &[("data", 10)]),
    ]);
    rig.api.put(
        NODES,
        node_object("cordoned", &json!({ "unschedulable": true })),
    );
    let mut dead = node_object("dead", &json!({}));
    dead["status"]["conditions"][0]["status"] = json!("Unknown");
    rig.api.put(NODES, dead);
    let none = json!({ "metadata": { "name": "unknown" }, "spec": { "drivers": [] } });
    rig.api.put(KUBELETS, none);
    rig.api.put(PODS, pod("agentless", "False"));
    let controller = rig.start("a");
    let volume = controller.create(ask("pvc-1", 5)).await.unwrap();
    assert_eq!(node_of(&volume), "good");
    let (code, message) = code(controller.create(ask("pvc-2", 9)).await);
    assert_eq!(code, Code::ResourceExhausted);
    for words in [
        "cordoned: the node is cordoned",
        "dead: the node is not ready",
        "unknown: the kubelet does not know this driver",
        "agentless: the agent of this driver is not ready",
        "other: no VG that the class names",
        "full: VG data has 1.00g free",
        "good: VG data has 5.00g free",
    ] {
        assert!(message.contains(words), "{words:?} is not in {message}");
    }
    // Without a report of its VGs a node is none either.
    rig.agents.mute("good");
    rig.api.delete(LVM_NODES, "good");
    let noticed = async {
        let mut changes = controller.shared.cluster.changes();
        while controller.shared.cluster.obstacle("good").is_none() {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENT, noticed).await.unwrap();
    let (_, message) = super::code(controller.create(ask("pvc-3", 2)).await);
    let words = "good: its agent has not reported";
    assert!(message.contains(words), "{message}");
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topology_follows_the_labels_as_they_are() {
    let rig = three();
    let controller = rig.start("a");
    let in_zone = |name: &str, zone: &str| at(ask(name, 1), &[&[("zone", zone)]]);
    let volume = controller.create(in_zone("pvc-1", "z-n3")).await.unwrap();
    assert_eq!(node_of(&volume), "n3");
    let only = at(
        ask("pvc-2", 1),
        &[&[(NODE_TOPOLOGY, "n2")], &[(NODE_TOPOLOGY, "n3")]],
    );
    assert_eq!(node_of(&controller.create(only).await.unwrap()), "n2");
    let (code, message) = code(controller.create(in_zone("pvc-3", "moon")).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(message.contains("topology admits no node"), "{message}");
    let moved = json!({ "metadata": { "labels": { "zone": "moon" } } });
    rig.api.change(NODES, "n2", &moved);
    let there = async {
        loop {
            if let Ok(volume) = controller.create(in_zone("pvc-3", "moon")).await {
                return volume;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let volume = tokio::time::timeout(PATIENT, there).await.unwrap();
    assert_eq!(node_of(&volume), "n2");
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_turns_out_full_is_followed_by_the_next() {
    let rig = three();
    rig.claim("web", "0f8fad5b-d9cb-469f-a165-70867728950e");
    rig.agents
        .fail("n1", "ResourceExhausted", "VG data has 0 bytes free");
    rig.agents.fail("n2", "FailedPrecondition", "VG data hangs");
    let controller = rig.start("a");
    let name = "pvc-0f8fad5b-d9cb-469f-a165-70867728950e";
    let volume = controller
        .create(for_claim(ask(name, 1), "web"))
        .await
        .unwrap();
    assert_eq!(node_of(&volume), "n3");
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 3);
    assert_eq!(rig.agents.made().len(), 1);
    for (node, why) in [("node n1", "0 bytes free"), ("node n2", "VG data hangs")] {
        let about = |note: &str| note.contains(node);
        let note = rig.event_that("VolumeMoved", about).await;
        assert!(note.contains(why), "{note}");
    }
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_is_tried_twice_and_the_error_says_why() {
    let rig = three();
    for node in ["n1", "n2", "n3"] {
        rig.agents
            .fail(node, "ResourceExhausted", &format!("{node} is full"));
    }
    let controller = rig.start("a");
    let (first, message) = code(controller.create(ask("pvc-1", 1)).await);
    assert_eq!(first, Code::ResourceExhausted);
    for node in ["n1", "n2", "n3"] {
        assert!(message.contains(&format!("{node} is full")), "{message}");
    }
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 3);
    assert!(rig.volume("pvc-1").is_none(), "nothing is left behind");
    // A repeated call does not go round again either: nothing has changed.
    let (second, _) = code(controller.create(ask("pvc-1", 1)).await);
    assert_eq!(second, Code::ResourceExhausted);
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 3);
    // Another volume is tried, and this one once the VG has changed.
    code(
        controller
            .create(at(ask("pvc-2", 1), &[&[(NODE_TOPOLOGY, "n3")]]))
            .await,
    );
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 4);
    rig.agents.extend("n1", "data", 10);
    let tried = async {
        while rig.api.count("POST", "lvmvolumes") == 4 {
            code(controller.create(ask("pvc-1", 1)).await);
        }
    };
    tokio::time::timeout(PATIENT, tried).await.unwrap();
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_node_can_do_is_not_tried_elsewhere() {
    let rig = three();
    rig.agents.fail(
        "n1",
        "AlreadyExists",
        "LV data/pvc-1 exists and is left alone",
    );
    let controller = rig.start("a");
    let (code, message) = code(controller.create(ask("pvc-1", 1)).await);
    assert_eq!(code, Code::AlreadyExists);
    assert!(
        message.contains("agent of node n1") && message.contains("left alone"),
        "{message}"
    );
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 1);
    assert!(rig.volume("pvc-1").is_none());
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_does_not_wait_for_a_dead_node() {
    let rig = three();
    // As an earlier process left it, long ago.
    rig.agents.pause("n1", true);
    let mut old = ask_object("pvc-1", "n1");
    old["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    rig.api.put(VOLUMES, old);
    rig.api.put(PODS, pod("n1", "False"));
    let controller = rig.start("a");
    let volume = controller.create(ask("pvc-1", 1)).await.unwrap();
    assert_eq!(node_of(&volume), "n2");
    // The scheduler chose another node meanwhile.
    rig.agents.pause("n2", true);
    rig.api.put(VOLUMES, ask_object("pvc-2", "n2"));
    let moved = at(ask("pvc-2", 1), &[&[(NODE_TOPOLOGY, "n3")]]);
    let made = |api: &FakeApi| api.get(VOLUMES, "pvc-2");
    rig.api.until("the object is seen", made).await;
    let volume = controller.create(moved).await.unwrap();
    assert_eq!(node_of(&volume), "n3");
    controller.end().await;
}

/// A Pending object as this controller makes it.
fn ask_object(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "local.openebs.io/v1alpha1", "kind": "LVMVolume",
        "metadata": { "name": name, "namespace": "openebs" },
        "spec": {
            "ownerNodeID": node, "volGroup": "", "vgPattern": "^data$",
            "capacity": GIB.to_string(), "shared": "no", "thinProvision": "no",
        },
        "status": { "state": "Pending" },
    })
}
