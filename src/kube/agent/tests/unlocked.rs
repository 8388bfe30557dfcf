//! Without the host's lock directory, as in the peer's own manifest.

use super::*;
use crate::csi::node::NodeService;
use crate::csi::proto::node_server::Node;
use crate::csi::proto::volume_capability::{BlockVolume, MountVolume};

fn mounted() -> AccessType {
    AccessType::Mount(MountVolume {
        fs_type: "ext4".to_owned(),
        ..MountVolume::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_used_and_not_changed() {
    let rig = Rig::new();
    rig.lvcreate("large", "pvc-old", 16);
    rig.lvcreate("large", "pvc-blank", 16);
    let first = rig.start();
    rig.ask("pvc-1", 8, "large");
    rig.state("pvc-1", "Ready").await;
    let node = NodeService(Arc::clone(&first.driver));
    let published = node.node_publish_volume(publish("pvc-1", mounted())).await;
    published.unwrap();
    let unpublished = node.node_unpublish_volume(unpublish("pvc-1")).await;
    unpublished.unwrap();
    first.end().await;

    rig.sim.hide_locks();
    let before = rig.lvs("large");
    rig.api.put(VOLUMES, ready("pvc-old", 16, "large"));
    rig.api.put(VOLUMES, ready("pvc-blank", 16, "large"));
    let agent = rig.start();
    let note = rig.event("n1", "LockDirectoryMissing").await;
    assert!(note.contains("mount the host's lvm2 lock"), "{note}");
    rig.event("pvc-old", "AdoptionFailed").await;
    let node = NodeService(Arc::clone(&agent.driver));
    for (volume, access) in [
        ("pvc-1", mounted()),
        ("pvc-old", AccessType::Block(BlockVolume {})),
    ] {
        let published = node.node_publish_volume(publish(volume, access)).await;
        published.unwrap();
        let unpublished = node.node_unpublish_volume(unpublish(volume)).await;
        unpublished.unwrap();
    }
    let blank = node.node_publish_volume(publish("pvc-blank", mounted()));
    let message = blank.await.unwrap_err().message().to_owned();
    assert!(
        message.contains("/run/lock/lvm does not exist"),
        "{message}"
    );

    rig.ask("pvc-2", 8, "large");
    let object = rig.state("pvc-2", "Failed").await;
    let message = object["status"]["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("/run/lock/lvm does not exist"),
        "{message}"
    );
    rig.api.delete(VOLUMES, "pvc-1");
    rig.event("pvc-1", "DeletionFailed").await;
    assert_eq!(rig.lvs("large"), before);
    agent.end().await;
}
