//! Deletion by finalizer.

use super::*;
use crate::csi::node::NodeService;
use crate::csi::proto::node_server::Node;
use crate::csi::proto::volume_capability::MountVolume;

fn ext4() -> AccessType {
    AccessType::Mount(MountVolume {
        fs_type: "ext4".to_owned(),
        ..Default::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lv_goes_and_then_our_finalizer() {
    let rig = Rig::new();
    let agent = rig.start();
    rig.ask("pvc-1", 8, "large");
    rig.state("pvc-1", "Ready").await;
    let both = json!(["example.com/backup", "lvm.openebs.io/finalizer"]);
    let change = json!({ "metadata": { "finalizers": both } });
    rig.api.change(VOLUMES, "pvc-1", &change);
    rig.api.delete(VOLUMES, "pvc-1");
    rig.api
        .until("our finalizer is gone", |api| {
            let object = api.get(VOLUMES, "pvc-1")?;
            let left = &object["metadata"]["finalizers"];
            (*left == json!(["example.com/backup"])).then_some(())
        })
        .await;
    assert!(rig.lvs("large").is_empty());
    rig.event("pvc-1", "Deleted").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_volume_stays_until_it_is_unpublished() {
    let rig = Rig::new();
    let agent = rig.start();
    let node = NodeService(Arc::clone(&agent.driver));
    rig.ask("pvc-1", 64, "large");
    rig.state("pvc-1", "Ready").await;
    node.node_publish_volume(publish("pvc-1", ext4()))
        .await
        .unwrap();
    rig.api.delete(VOLUMES, "pvc-1");
    let note = rig.event("pvc-1", "VolumeInUse").await;
    assert!(note.contains("/pods/pvc-1"), "{note}");
    assert_eq!(rig.lvs("large").len(), 1);
    let again = node.node_publish_volume(publish("pvc-1", ext4())).await;
    let refused = again.unwrap_err();
    assert!(refused.message().contains("being deleted"), "{refused}");
    // The kubelet asks again when another call has the volume, and so do we.
    while let Err(busy) = node.node_unpublish_volume(unpublish("pvc-1")).await {
        assert_eq!(busy.code(), tonic::Code::Aborted, "{busy}");
        tokio::task::yield_now().await;
    }
    rig.gone("pvc-1").await;
    assert!(rig.lvs("large").is_empty());
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_lv_that_is_not_the_object_s_is_never_removed() {
    let rig = Rig::new();
    rig.lvcreate("large", "data", 8);
    let before = rig.lvs("large");
    let agent = rig.start();
    // Never Ready, yet somebody put the finalizer on it.
    let mut object = ready("data", 16, "large");
    object["status"]["state"] = json!("Failed");
    rig.api.put(VOLUMES, object);
    rig.api.delete(VOLUMES, "data");
    rig.gone("data").await;
    assert_eq!(rig.lvs("large"), before);
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vg_that_cannot_be_seen_keeps_the_object() {
    let rig = Rig::new();
    let agent = rig.start();
    rig.ask("pvc-1", 8, "small");
    rig.state("pvc-1", "Ready").await;
    rig.sim.detach("/dev/sda");
    rig.api.delete(VOLUMES, "pvc-1");
    let note = rig.event("pvc-1", "VolumeGroupMissing").await;
    assert!(note.contains("kubectl patch lvmvol pvc-1"), "{note}");
    rig.sim.attach("/dev/sda");
    rig.gone("pvc-1").await;
    assert!(rig.lvs("small").is_empty());
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_before_the_status_could_say_so_goes_too() {
    let rig = Rig::new();
    rig.api.fail("PATCH", "lvmvolumes", 500);
    let agent = rig.start();
    // With the finalizer from the start, as our controller makes it.
    let mut object = volume("pvc-1", 8 * MIB, "large");
    object["metadata"]["finalizers"] = json!(["lvm.openebs.io/finalizer"]);
    rig.api.put(VOLUMES, object);
    rig.api
        .until("the status is refused", |api| {
            (api.count("PATCH", "lvmvolumes") > 0).then_some(())
        })
        .await;
    agent.die().await;
    assert_eq!(rig.lvs("large").len(), 1);
    rig.api.delete(VOLUMES, "pvc-1");
    let again = rig.start();
    rig.gone("pvc-1").await;
    assert!(rig.lvs("large").is_empty());
    again.end().await;
}
