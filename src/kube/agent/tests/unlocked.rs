//! Without the host's lock directory, as in the peer's own manifest.

use super::*;
use crate::csi::node::NodeService;
use crate::csi::proto::node_server::Node;
use crate::csi::proto::volume_capability::{BlockVolume, MountVolume};
use crate::csi::proto::{CapacityRange, NodeExpandVolumeRequest};
use crate::host::sim::CallKind;

const MISSING: &str = "/run/lock/lvm does not exist";

fn mounted() -> AccessType {
    AccessType::Mount(MountVolume {
        fs_type: "ext4".to_owned(),
        ..MountVolume::default()
    })
}

fn expand(volume: &str) -> tonic::Request<NodeExpandVolumeRequest> {
    tonic::Request::new(NodeExpandVolumeRequest {
        volume_id: volume.to_owned(),
        volume_path: format!("/pods/{volume}"),
        capacity_range: Some(CapacityRange {
            required_bytes: 32 << 20,
            limit_bytes: 0,
        }),
        ..NodeExpandVolumeRequest::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_used_and_not_changed() {
    let rig = Rig::new();
    rig.lvcreate("large", "pvc-old", 16);
    rig.lvcreate("large", "pvc-blank", 16);
    // An mkfs of ours was cut short.
    let marks = [Some(owned()), tags::with_value(tags::FORMATTING, "ext4")];
    let half = new_lv("pvc-half", 16, marks.into_iter().flatten().collect());
    let half = rig
        .engine()
        .submit(&vg_name("large"), Request::Create(half));
    half.wait().unwrap();
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
    for (volume, access, not_grown) in [
        ("pvc-1", mounted(), MISSING),
        // Nobody knows what of its growth must be zeroed.
        (
            "pvc-old",
            AccessType::Block(BlockVolume {}),
            "was not made by this driver",
        ),
    ] {
        let published = node.node_publish_volume(publish(volume, access)).await;
        published.unwrap();
        let grown = node.node_expand_volume(expand(volume)).await;
        let message = grown.unwrap_err().message().to_owned();
        assert!(message.contains(not_grown), "{message}");
        let unpublished = node.node_unpublish_volume(unpublish(volume)).await;
        unpublished.unwrap();
    }

    let written = |rig: &Rig| {
        let calls = rig.sim.calls();
        let changes = calls
            .iter()
            .filter(|call| matches!(call.kind, CallKind::Write | CallKind::Zero));
        changes.count()
    };
    let written_before = written(&rig);
    for volume in ["pvc-blank", "pvc-half"] {
        let refused = node.node_publish_volume(publish(volume, mounted())).await;
        let message = refused.unwrap_err().message().to_owned();
        assert!(message.contains(MISSING), "{message}");
    }
    rig.ask("pvc-2", 8, "large");
    let object = rig.state("pvc-2", "Failed").await;
    let message = object["status"]["error"]["message"].as_str().unwrap();
    assert!(message.contains(MISSING), "{message}");
    rig.api.delete(VOLUMES, "pvc-1");
    rig.event("pvc-1", "DeletionFailed").await;
    assert_eq!(written(&rig), written_before);
    assert_eq!(rig.lvs("large"), before);

    // Nobody shall be sent here.
    let no_space = |api: &FakeApi| {
        let object = api.get(LVM_NODES, "n1")?;
        let groups = object["volumeGroups"].as_array()?;
        let none = groups.iter().all(|group| group["free"] == "0");
        (groups.len() == 2 && none).then_some(())
    };
    rig.api.until("no space is offered", no_space).await;
    agent.end().await;
}
