//! Many claims at once: exactly as many volumes as fit.

use futures::future::join_all;
use lvcsi_cluster::{Claim, Class, Cluster, nodes};

/// As many as fit, on both nodes together.
const FIT: usize = 60;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn sixty_claims_fill_both_nodes_and_no_extent_is_promised_twice() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("crowd").await;
    for node in nodes() {
        // 30 volumes of 8 extents each, and not one more.
        node.run(
            "pvcreate -q -y --setphysicalvolumesize 961m /dev/vdb && vgcreate -q crowd /dev/vdb",
        );
        assert_eq!(node.vg_free("crowd"), 960 << 20);
    }
    let class = Class::new("all").immediate().with("volgroup", "crowd");
    let class = story.class(class).await;
    let names: Vec<String> = (0..=FIT).map(|n| format!("claim-{n}")).collect();
    let claims = names[..FIT]
        .iter()
        .map(|name| story.claim(Claim::new(name, &class, "32Mi")));
    join_all(claims).await;
    join_all(names[..FIT].iter().map(|name| story.bound(name))).await;
    for node in nodes() {
        assert_eq!(node.lvs("crowd").len(), FIT / 2, "{}", node.name());
        assert_eq!(node.vg_free("crowd"), 0, "{}", node.name());
    }
    // The next one is told why, and made when there is room.
    story.claim(Claim::new(&names[FIT], &class, "32Mi")).await;
    let refusal = story.event(&names[FIT], "ProvisioningFailed").await;
    assert!(refusal.contains("crowd"), "{refusal}");
    story.remove_claim(&names[0]).await;
    story.bound(&names[FIT]).await;
    join_all(names[1..].iter().map(|name| story.remove_claim(name))).await;
    for node in nodes() {
        node.run("vgremove -q crowd && pvremove -q /dev/vdb");
    }
    story.end().await;
}
