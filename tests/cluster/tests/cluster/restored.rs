//! Objects of an older state than the disks', as after a restore of etcd: what
//! the disks contradict is reported, and nothing is destroyed.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use lvcsi_cluster::{Claim, Class, Cluster, NAMESPACE, Node, VG};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn objects_that_the_disks_contradict_destroy_nothing() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("restored").await;
    let class = Class::new("c").immediate().on(Node(1));
    let class = story.class(class).await;
    for name in ["grown", "deleted"] {
        story.claim(Claim::new(name, &class, "32Mi")).await;
    }
    let grown = story.bound("grown").await;
    let deleted = story.bound("deleted").await;
    let volumes = cluster.volumes();
    let mut old = volumes.get(&deleted).await.unwrap();
    let node = story.node_of(&grown).await;
    story.grow("grown", "64Mi").await;
    story.event("grown", "FileSystemResizeRequired").await;
    story.remove_claim("deleted").await;
    node.run(&format!(
        "for i in $(seq 120); do lvs --noheadings --units m -o lv_size {VG}/{grown} | grep -q 64.00m \
         && exit 0; sleep 0.5; done; exit 1"
    ));

    // What etcd knew before both.
    let patch = Patch::Merge(json!({"spec": {"capacity": (32 << 20).to_string()}}));
    volumes
        .patch(&grown, &PatchParams::default(), &patch)
        .await
        .unwrap();
    old.metadata.resource_version = None;
    old.metadata.uid = None;
    volumes.create(&PostParams::default(), &old).await.unwrap();
    story.event_in(NAMESPACE, &grown, "CapacityDiffers").await;
    story.event_in(NAMESPACE, &deleted, "VolumeMissing").await;
    assert_eq!(node.lvs(VG), [grown.as_str()], "nothing is made or removed");
    assert_eq!(node.lv_size(VG, &grown), 64 << 20, "nothing shrinks");

    // An administrator gives the lost one up.
    volumes
        .delete(&deleted, &DeleteParams::default())
        .await
        .unwrap();
    story.gone_volume(&deleted).await;
    story.end().await;
}
