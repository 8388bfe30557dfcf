//! From Pending to Ready or Failed.

use lvm2::units::Extents;

use super::*;
use crate::csi::node::NodeService;
use crate::csi::proto::node_server::Node;
use crate::csi::proto::volume_capability::MountVolume;

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_made_where_it_fits_best() {
    let rig = Rig::new();
    let agent = rig.start();
    rig.ask("pvc-1", 100, "small|large");
    let object = rig.state("pvc-1", "Ready").await;
    let vg = &object["spec"]["volGroup"];
    assert_eq!(vg, "small", "the least free space that is enough");
    let metadata = &object["metadata"];
    assert_eq!(metadata["finalizers"], json!(["lvm.openebs.io/finalizer"]));
    assert_eq!(metadata["labels"]["kubernetes.io/nodename"], "n1");
    assert!(object["status"]["error"].is_null());
    assert_eq!(object["spec"]["somethingNewer"]["kept"], true);
    let lvs = rig.lvs("small");
    assert_eq!((lvs.len(), lvs[0].extents()), (1, Extents(25)));
    assert_eq!(lvs[0].tags, ["lvcsi", "lvcsi.use-unknown"]);
    let note = rig.event("pvc-1", "Provisioned").await;
    assert!(note.contains("small/pvc-1"), "{note}");
    rig.ask("pvc-2", 200, "small|large");
    let second = rig.state("pvc-2", "Ready").await;
    assert_eq!(second["spec"]["volGroup"], "large");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_list_a_watch_and_one_write_a_volume() {
    let rig = Rig::new();
    let agent = rig.start();
    for n in 0..20 {
        rig.ask(&format!("pvc-{n}"), 8, "large");
    }
    for n in 0..20 {
        rig.state(&format!("pvc-{n}"), "Ready").await;
    }
    assert_eq!(rig.api.count("PATCH", "lvmvolumes"), 20);
    // The question whether volumes can be selected, and the watch's own.
    assert_eq!(rig.api.count("LIST", "lvmvolumes"), 2);
    assert_eq!(rig.api.count("GET", "lvmvolumes"), 0);
    assert_eq!(rig.lvs("large").len(), 20);
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_and_access_go_into_the_tags() {
    let rig = Rig::new();
    let agent = rig.start();
    let mut object = volume("pvc-1", 8 * MIB, "large");
    object["spec"]["shared"] = json!("yes");
    object["metadata"]["annotations"] = json!({ "local.csi.openebs.io/access": "mount" });
    rig.api.put(VOLUMES, object);
    rig.state("pvc-1", "Ready").await;
    let lvs = rig.lvs("large");
    for tag in ["lvcsi", "lvcsi.shared", "lvcsi.access=mount"] {
        assert!(lvs[0].has_tag(tag), "{tag}");
    }
    assert!(!lvs[0].has_tag("lvcsi.use-unknown"));
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_made_fails_with_code_and_reason() {
    let rig = Rig::new();
    rig.lvcreate("large", "taken", 8);
    let before = rig.lvs("large");
    let agent = rig.start();
    rig.ask("huge", 4096, "large");
    rig.ask("nowhere", 8, "nothing-like-it");
    rig.ask("taken", 16, "large");
    rig.ask("any", 8, "");
    rig.ask("odd", 8, "(");
    rig.ask("zero", 0, "large");
    let mut thin = volume("thin", 8 * MIB, "large");
    thin["spec"]["thinProvision"] = json!("yes");
    rig.api.put(VOLUMES, thin);
    // Named, of the right name and of another size.
    let mut other = volume("taken", 16 * MIB, "large");
    other["spec"]["volGroup"] = json!("large");
    for (name, code, words) in [
        ("huge", "InsufficientCapacity", "bytes free"),
        ("nowhere", "Internal", "large, small"),
        ("taken", "Internal", "left alone"),
        ("any", "Internal", "--allow-any-vg"),
        ("odd", "Internal", "regular expression"),
        ("thin", "Internal", "thin"),
        ("zero", "Internal", "spec.capacity"),
    ] {
        let object = rig.state(name, "Failed").await;
        assert_eq!(object["status"]["error"]["code"], code, "{name}");
        let message = object["status"]["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{name}: {message}");
        assert!(object["metadata"]["finalizers"].is_null(), "{name}");
    }
    rig.api.put(VOLUMES, other);
    let object = rig.state("taken", "Failed").await;
    let message = object["status"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("8388608 bytes"), "{message}");
    assert_eq!(rig.lvs("large"), before, "nothing on the disks changed");
    let note = rig.event("huge", "InsufficientCapacity").await;
    assert!(note.contains("large"), "{note}");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_nodes_volumes_are_left_alone_with_either_definition() {
    for selectable in [true, false] {
        let rig = Rig::new();
        if !selectable {
            rig.api.not_selectable();
        }
        let mut other = volume("other", 8 * MIB, "large");
        other["spec"]["ownerNodeID"] = json!("n2");
        rig.api.put(VOLUMES, other);
        let agent = rig.start();
        rig.ask("ours", 8, "large");
        rig.state("ours", "Ready").await;
        assert_eq!(rig.lvs("large").len(), 1);
        assert_eq!(rig.object("other")["status"]["state"], "Pending");
        agent.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_larger_capacity_makes_the_lv_grow() {
    let rig = Rig::new();
    let agent = rig.start();
    rig.ask("pvc-1", 8, "large");
    rig.state("pvc-1", "Ready").await;
    let capacity = |mib: u64| json!({ "spec": { "capacity": (mib * MIB).to_string() } });
    rig.api.change(VOLUMES, "pvc-1", &capacity(30));
    rig.event("pvc-1", "Resized").await;
    assert_eq!(rig.lvs("large")[0].extents(), Extents(8));
    rig.api.change(VOLUMES, "pvc-1", &capacity(4096));
    rig.event("pvc-1", "ResizeFailed").await;
    let state = &rig.object("pvc-1")["status"]["state"];
    assert_eq!(state, "Ready", "the volume is as good as before");
    assert_eq!(rig.lvs("large")[0].extents(), Extents(8));
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_between_disk_and_status_is_repaired() {
    let rig = Rig::new();
    rig.api.fail("PATCH", "lvmvolumes", 500);
    let agent = rig.start();
    rig.ask("pvc-1", 8, "large");
    rig.api
        .until("the status is refused", |api| {
            (api.count("PATCH", "lvmvolumes") > 0).then_some(())
        })
        .await;
    agent.die().await;
    let made = rig.lvs("large");
    assert_eq!(made.len(), 1);
    let again = rig.start();
    let object = rig.state("pvc-1", "Ready").await;
    assert_eq!(object["spec"]["volGroup"], "large");
    assert_eq!(rig.lvs("large")[0].id, made[0].id, "the same LV");
    again.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_and_lost_watches_only_cost_time() {
    let rig = Rig::new();
    let agent = rig.start();
    rig.api.fail("PATCH", "lvmvolumes", 409);
    rig.ask("pvc-1", 8, "large");
    rig.state("pvc-1", "Ready").await;
    rig.api.cut_watches();
    rig.ask("pvc-2", 8, "large");
    rig.state("pvc-2", "Ready").await;
    rig.api.forget_history();
    rig.ask("pvc-3", 8, "large");
    rig.state("pvc-3", "Ready").await;
    assert_eq!(rig.lvs("large").len(), 3);
    let text = agent.metrics.render().unwrap();
    let line = r#"lvcsi_reconcile_errors_total{kind="LVMVolume",reason="conflict"} 1"#;
    assert!(text.contains(line), "{text}");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_for_an_object_that_is_gone_is_taken_back() {
    let rig = Rig::new();
    let agent = rig.start();
    rig.api.fail("PATCH", "lvmvolumes", 404);
    rig.ask("pvc-1", 8, "large");
    rig.api
        .until("the LV is gone", |api| {
            (api.count("PATCH", "lvmvolumes") > 0 && rig.lvs("large").is_empty()).then_some(())
        })
        .await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_device_of_a_file_system_follows_and_that_of_a_raw_volume_is_there() {
    let rig = Rig::new();
    let agent = rig.start();
    let dev = |name: &str| {
        let found = agent.engine.find(&LvName::new(name).unwrap()).unwrap();
        found.into_iter().find_map(|lv| lv.dev)
    };
    for (name, access) in [
        ("used", "mount"),
        ("unused", "mount"),
        ("deleted", "mount"),
        ("raw", "block"),
    ] {
        let mut object = volume(name, 8 * MIB, "large");
        object["metadata"]["annotations"] = json!({ "local.csi.openebs.io/access": access });
        rig.api.put(VOLUMES, object);
        rig.state(name, "Ready").await;
    }
    assert!(dev("raw").is_some());
    let mount = AccessType::Mount(MountVolume::default());
    let node = NodeService(Arc::clone(&agent.driver));
    let published = node.node_publish_volume(publish("used", mount)).await;
    published.unwrap();
    assert!(dev("used").is_some());
    rig.api.delete(VOLUMES, "deleted");
    rig.gone("deleted").await;
    let follows = async {
        while dev("unused").is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, follows).await.unwrap();
    agent.end().await;
}
