//! etcd restored from an older copy: what the disks contradict is reported, and
//! nothing is destroyed.

use lvcsi_cluster::{Claim, Class, Cluster, NAMESPACE, Node, VG, settled, xtask};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn objects_that_the_disks_contradict_destroy_nothing() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("restored").await;
    let class = Class::new("c").immediate().on(Node(1));
    let class = story.class(class).await;
    for name in ["grown", "deleted"] {
        story.claim(Claim::new(name, &class, "32Mi").block()).await;
    }
    let grown = story.bound("grown").await;
    let deleted = story.bound("deleted").await;
    let node = story.node_of(&grown).await;
    xtask(&["save"]);

    // What the copy does not know.
    story.grow("grown", "64Mi").await;
    story.event("grown", "FileSystemResizeRequired").await;
    story.remove_claim("deleted").await;
    story
        .claim(Claim::new("made", &class, "32Mi").block())
        .await;
    let made = story.bound("made").await;
    let mut disks = [grown.clone(), made.clone()];
    disks.sort();
    assert_eq!(sorted(node), disks);

    xtask(&["restore"]);
    settled();
    story.event_in(NAMESPACE, &grown, "CapacityDiffers").await;
    story.event_in(NAMESPACE, &deleted, "VolumeMissing").await;
    let orphans = story
        .event_in(NAMESPACE, &node.name(), "OrphanedVolumes")
        .await;
    assert!(orphans.contains(&made), "{orphans}");
    assert_eq!(sorted(node), disks, "nothing is made or removed");
    assert_eq!(node.lv_size(VG, &grown), 64 << 20, "nothing shrinks");

    // An administrator gives both up: the claim whose volume is lost, and the
    // volume that nobody claims.
    story.remove_claim("deleted").await;
    story.gone_volume(&deleted).await;
    node.run(&format!("lvremove -q -y {VG}/{made}"));
    story.end().await;
}

fn sorted(node: Node) -> Vec<String> {
    let mut names = node.lvs(VG);
    names.sort();
    names
}
