//! The LVMNode, orphans and the topology.

use super::super::Knowledge;
use super::*;
use crate::csi::Cluster;

/// The VG's entry in an LVMNode.
fn group<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let groups = object["volumeGroups"].as_array().unwrap();
    groups.iter().find(|group| group["name"] == name)
}

/// Waits until the VG has so much free space, and returns the LVMNode.
async fn free_of(rig: &Rig, vg: &str, free: &str) -> Value {
    let what = format!("{vg} has {free} free");
    let found = |api: &FakeApi| {
        let object = api.get(LVM_NODES, "n1")?;
        let right = group(&object, vg)?["free"] == free;
        right.then_some(object)
    };
    rig.api.until(&what, found).await
}

/// Free space of `large` while it holds nothing.
const EMPTY: &str = "1020Mi";

#[tokio::test(flavor = "multi_thread")]
async fn it_is_made_with_the_node_as_owner_and_follows_every_change() {
    let rig = Rig::new();
    let agent = rig.start();
    let object = free_of(&rig, "large", EMPTY).await;
    let owner = &object["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "Node");
    assert_eq!(owner["uid"], "uid-n1");
    assert_eq!(owner["controller"], true);
    let large = group(&object, "large").unwrap();
    for field in [
        "maxLv",
        "maxPv",
        "snapCount",
        "missingPvCount",
        "permissions",
    ] {
        assert_eq!(large[field], 0, "{field}");
    }
    for field in ["metadataCount", "metadataUsedCount", "pvCount"] {
        assert_eq!(large[field], 1, "{field}");
    }
    assert_eq!(large["allocationPolicy"], 0);
    assert_eq!(large["uuid"].as_str().unwrap().len(), 38);
    rig.ask("pvc-1", 20, "large");
    let object = free_of(&rig, "large", "1000Mi").await;
    assert_eq!(group(&object, "large").unwrap()["lvCount"], 1);
    // Another program's change, noticed by the event of its closing the disk.
    rig.lvcreate("small", "by-lvm2", 52);
    rig.sim.touch();
    free_of(&rig, "small", "200Mi").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_written_only_when_it_is_not_right() {
    let rig = Rig::new();
    let agent = rig.start();
    free_of(&rig, "large", EMPTY).await;
    let writes = || rig.api.count("PATCH", "lvmnodes") + rig.api.count("POST", "lvmnodes");
    let before = writes();
    // Several intervals, with an event in each.
    for _ in 0..5 {
        rig.sim.touch();
        tokio::time::sleep(Duration::from_millis(320)).await;
    }
    assert_eq!(writes(), before);
    assert_eq!(rig.api.count("GET", "lvmnodes"), 0);
    // Somebody else's change is put right, and a deleted object comes back.
    let emptied = json!({ "volumeGroups": [] });
    rig.api.change(LVM_NODES, "n1", &emptied);
    free_of(&rig, "large", EMPTY).await;
    rig.api.delete(LVM_NODES, "n1");
    free_of(&rig, "large", EMPTY).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_vg_hides_no_other_and_is_named() {
    let rig = Rig::new();
    rig.sim.add_disk("/dev/sdc", 64 * MIB, 512);
    let extent = ExtentSize::new(Sectors(8192)).unwrap();
    // A second VG of the same name.
    rig.sim.add_vg("small", &["/dev/sdc"], extent).unwrap();
    let agent = rig.start();
    let object = free_of(&rig, "large", EMPTY).await;
    assert!(group(&object, "small").is_none());
    let note = rig.event("n1", "VolumeGroupUnusable").await;
    assert!(note.contains("small"), "{note}");
    rig.ask("pvc-1", 8, "large");
    rig.state("pvc-1", "Ready").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_hosts_vgs_are_not_shown_and_unusable_ones_offer_nothing() {
    let rig = Rig::new();
    let foreign = include_str!("../../../../lvm2/tests/data/meta-sysid.txt");
    rig.sim.add_vg_text(foreign).unwrap();
    let agent = rig.start();
    let object = free_of(&rig, "large", EMPTY).await;
    assert!(group(&object, "vgt").is_none());
    agent.end().await;
    assert!(rig.api.all(EVENTS).is_empty(), "nothing to worry about");
    let rig = Rig::new();
    let exported = include_str!("../../../../lvm2/tests/data/meta-exported.txt");
    rig.sim.add_vg_text(exported).unwrap();
    let agent = rig.start();
    free_of(&rig, "vgt", "0").await;
    let note = rig.event("n1", "VolumeGroupUnusable").await;
    assert!(note.contains("vgimport vgt"), "{note}");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_without_an_object_are_reported_and_stay() {
    let rig = Rig::new();
    let agent = rig.start();
    rig.ask("pvc-1", 8, "large");
    rig.state("pvc-1", "Ready").await;
    let lost = Request::Create(new_lv("lost", 8, vec![owned()]));
    let made = agent.engine.submit(&vg_name("large"), lost);
    tokio::task::block_in_place(|| made.wait()).unwrap();
    let note = rig.event("n1", "OrphanedVolumes").await;
    assert!(note.contains("large/lost"), "{note}");
    assert!(!note.contains("pvc-1"), "{note}");
    assert_eq!(rig.lvs("large").len(), 2);
    let text = agent.metrics.render().unwrap();
    assert!(text.contains("lvcsi_orphaned_volumes 1"), "{text}");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_reported_about_the_object_that_kubectl_describes() {
    let rig = Rig::new();
    let agent = rig.start();
    let object = free_of(&rig, "large", EMPTY).await;
    let lost = Request::Create(new_lv("lost", 8, vec![owned()]));
    let made = agent.engine.submit(&vg_name("large"), lost);
    tokio::task::block_in_place(|| made.wait()).unwrap();
    rig.event("n1", "OrphanedVolumes").await;
    agent.end().await;
    let events = rig.api.all(EVENTS);
    let event = events.iter().find(|e| e["reason"] == "OrphanedVolumes");
    let about = &event.unwrap()["regarding"];
    assert_eq!(about["uid"], object["metadata"]["uid"]);
    assert_eq!(about["kind"], "LVMNode");
}

/// Waits for so many lists of Nodes, and for what follows from the last.
async fn listed(rig: &Rig, lists: usize) {
    let found = |api: &FakeApi| (api.count("LIST", "nodes") >= lists).then_some(());
    rig.api.until("the Nodes are listed", found).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_for_a_node_that_is_gone() {
    for unnoticed in [false, true] {
        let rig = Rig::new();
        let agent = rig.start();
        free_of(&rig, "large", EMPTY).await;
        if unnoticed {
            // The Node goes while the watch is cut.
            rig.api.down(true);
            rig.api.delete(NODES, "n1");
            rig.api.forget_history();
            rig.api.down(false);
            listed(&rig, 2).await;
        } else {
            rig.api.delete(NODES, "n1");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        // As the garbage collector does.
        rig.api.delete(LVM_NODES, "n1");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let made = rig.api.get(LVM_NODES, "n1");
        assert!(made.is_none(), "unnoticed {unnoticed}: {made:?}");
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "n1", "uid": "uid-of-the-second" },
        });
        rig.api.put(NODES, node);
        let object = free_of(&rig, "large", EMPTY).await;
        let owner = &object["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], "uid-of-the-second");
        agent.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thin_pools_are_shown() {
    for (text, free) in [
        (
            include_str!("../../../../lvm2/tests/data/meta-thin.txt"),
            "0",
        ),
        (
            include_str!("../../../../lvm2/tests/data/meta-thin_pool_empty.txt"),
            "64Mi",
        ),
    ] {
        let rig = Rig::new();
        rig.sim.add_vg_text(text).unwrap();
        let agent = rig.start();
        let object = free_of(&rig, "large", EMPTY).await;
        let pools = &group(&object, "vgt").unwrap()["thinPools"];
        assert_eq!(pools.as_array().unwrap().len(), 1, "{pools}");
        assert_eq!(pools[0]["name"], "pool");
        assert_eq!(pools[0]["size"], "64Mi");
        assert_eq!(pools[0]["free"], free);
        let large = group(&object, "large").unwrap();
        assert!(large.get("thinPools").is_none());
        agent.end().await;
    }
}

#[test]
fn the_topology_follows_the_labels_that_are_allowed() {
    let (volumes, _writer) = kube::runtime::reflector::store();
    let knowledge = Knowledge::new("openebs", "n1", vec!["zone".to_owned()], volumes);
    assert_eq!(knowledge.topology(), None, "not known yet");
    let labels = |zone: &str| {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        [pair("zone", zone), pair("x", "y")]
    };
    assert!(knowledge.learn(labels("a")));
    assert!(!knowledge.learn(labels("a")));
    assert!(knowledge.learn(labels("b")));
    let place = knowledge.topology().unwrap();
    assert_eq!((place.len(), place["zone"].as_str()), (1, "b"));
}
