//! Taking over what the peer made.

use lvm2::units::Extents;

use super::*;
use crate::csi::node::NodeService;
use crate::csi::proto::node_server::Node;
use crate::csi::proto::volume_capability::BlockVolume;
use crate::host::sim::CallKind;

#[tokio::test(flavor = "multi_thread")]
async fn the_peer_s_volumes_are_taken_over_as_they_are() {
    let rig = Rig::new();
    rig.lvcreate("large", "pvc-old", 16);
    let before = rig.lvs("large");
    rig.api.put(VOLUMES, ready("pvc-old", 16, "large"));
    let agent = rig.start();
    rig.event("pvc-old", "Adopted").await;
    let after = rig.lvs("large");
    assert_eq!(after[0].id, before[0].id);
    assert_eq!(after[0].segments, before[0].segments);
    assert_eq!(after[0].tags, ["lvcsi", "lvcsi.use-unknown"]);
    // Nothing of the object had to change.
    assert_eq!(rig.api.count("PATCH", "lvmvolumes"), 0);
    // And deletion is ours now.
    rig.api.delete(VOLUMES, "pvc-old");
    rig.gone("pvc-old").await;
    assert!(rig.lvs("large").is_empty());
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expansion_that_the_peer_promised_is_made() {
    let rig = Rig::new();
    rig.lvcreate("large", "pvc-old", 16);
    rig.api.put(VOLUMES, ready("pvc-old", 24, "large"));
    let agent = rig.start();
    rig.event("pvc-old", "Resized").await;
    assert_eq!(rig.lvs("large")[0].extents(), Extents(6));
    // A pod may see it as a raw device: what it grew by is nobody's data.
    let zeroed = rig
        .sim
        .calls()
        .iter()
        .any(|call| call.kind == CallKind::Zero);
    assert!(zeroed);
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_peer_made_before_it_died_is_found() {
    let rig = Rig::new();
    rig.lvcreate("large", "pvc-old", 16);
    // The peer names the VG before it calls lvcreate.
    let mut object = volume("pvc-old", 16 * MIB, "large");
    object["spec"]["volGroup"] = json!("large");
    rig.api.put(VOLUMES, object);
    let agent = rig.start();
    rig.state("pvc-old", "Ready").await;
    assert_eq!(rig.lvs("large").len(), 1);
    let note = rig.event("pvc-old", "Adopted").await;
    assert!(note.contains("taken over"), "{note}");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_the_disks_contradict_are_reported_and_nothing_is_destroyed() {
    let rig = Rig::new();
    rig.lvcreate("large", "grown", 32);
    rig.api.put(VOLUMES, ready("grown", 16, "large"));
    rig.api.put(VOLUMES, ready("lost", 16, "large"));
    let agent = rig.start();
    let grown = rig.event("grown", "CapacityDiffers").await;
    assert!(grown.contains("never shrunk"), "{grown}");
    let lost = rig.event("lost", "VolumeMissing").await;
    assert!(lost.contains("large/lost"), "{lost}");
    let lvs = rig.lvs("large");
    assert_eq!((lvs.len(), lvs[0].extents()), (1, Extents(8)));
    for name in ["grown", "lost"] {
        assert_eq!(rig.object(name)["status"]["state"], "Ready");
    }
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_volume_is_published_and_its_use_is_remembered() {
    let rig = Rig::new();
    rig.lvcreate("large", "pvc-old", 16);
    rig.api.put(VOLUMES, ready("pvc-old", 16, "large"));
    let agent = rig.start();
    rig.event("pvc-old", "Adopted").await;
    let node = NodeService(Arc::clone(&agent.driver));
    let block = AccessType::Block(BlockVolume {});
    node.node_publish_volume(publish("pvc-old", block))
        .await
        .unwrap();
    assert_eq!(rig.lvs("large")[0].tags, ["lvcsi", "lvcsi.access=block"]);
    node.node_unpublish_volume(unpublish("pvc-old"))
        .await
        .unwrap();
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_a_kind_that_we_do_not_drive_stays_and_is_reported() {
    let rig = Rig::new();
    let text = include_str!("../../../../lvm2/tests/data/meta-thin.txt");
    rig.sim.add_vg_text(text).unwrap();
    let before = rig.lvs("vgt");
    let mut object = ready("th1", 16, "vgt");
    object["spec"]["thinProvision"] = json!("yes");
    rig.api.put(VOLUMES, object);
    let agent = rig.start();
    let note = rig.event("th1", "AdoptionFailed").await;
    assert!(note.contains("th1"), "{note}");
    assert_eq!(rig.lvs("vgt"), before);
    assert_eq!(rig.object("th1")["status"]["state"], "Ready");
    agent.end().await;
}

/// A device may outlive the move of its disks to another host.
#[tokio::test(flavor = "multi_thread")]
async fn an_active_lv_that_nobody_marked_is_published_unless_its_vg_is_another_host_s() {
    let own = include_str!("../../../../lvm2/tests/data/meta-thin.txt").to_owned();
    let moved = own.replace("max_lv", "system_id = \"elsewhere\"\nmax_lv");
    for (text, refusal) in [(own, None), (moved, Some("elsewhere"))] {
        let rig = Rig::new();
        rig.sim.add_vg_text(&text).unwrap();
        let vg = rig.engine().outline(&vg_name("vgt")).unwrap().vg;
        let id = vg.lv("th1").unwrap().id;
        let uuid = lvm2::name::dm_uuid(&vg.id(), &id, None);
        rig.sim.host().dm.create("vgt-th1", &uuid).unwrap();
        let mut object = ready("th1", 16, "vgt");
        object["spec"]["thinProvision"] = json!("yes");
        rig.api.put(VOLUMES, object);
        let agent = rig.start();
        rig.event("th1", "AdoptionFailed").await;
        let node = NodeService(Arc::clone(&agent.driver));
        let block = AccessType::Block(BlockVolume {});
        let published = node.node_publish_volume(publish("th1", block)).await;
        match refusal {
            None => {
                published.unwrap();
            }
            Some(why) => {
                let message = published.unwrap_err().message().to_owned();
                assert!(message.contains(why), "{message}");
            }
        }
        agent.end().await;
    }
}
