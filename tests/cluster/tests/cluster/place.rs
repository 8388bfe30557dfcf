//! Where volumes go: the three schedulers, patterns, cordons, VGs that are too
//! small, nodes that are gone.

use lvcsi_cluster::{Claim, Class, Cluster, DRIVER, NAMESPACE, Node, Part, Story, VG, admin};

const ONE: Node = Node(1);
const TWO: Node = Node(2);

/// Makes a claim of a class and returns the node of its volume.
async fn placed(story: &Story, class: &str, name: &str, size: &str) -> Node {
    story.claim(Claim::new(name, class, size)).await;
    let pv = story.bound(name).await;
    story.node_of(&pv).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn schedulers_weigh_volumes_capacity_and_space() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("schedulers").await;
    let first = Class::new("first").immediate().on(ONE);
    let first = story.class(first).await;
    let second = Class::new("second").immediate().on(TWO);
    let second = story.class(second).await;
    assert_eq!(placed(&story, &first, "large", "2Gi").await, ONE);
    for name in ["small-1", "small-2", "small-3"] {
        assert_eq!(placed(&story, &second, name, "32Mi").await, TWO);
    }
    // Space that no volume of ours takes, which lvm2 took.
    TWO.run(&format!("lvcreate -q -n ballast -L 20g {VG}"));
    let by = |scheduler: &str| {
        let name = scheduler.to_lowercase();
        Class::new(&name).immediate().with("scheduler", scheduler)
    };
    let volumes = story.class(by("VolumeWeighted")).await;
    let capacity = story.class(by("CapacityWeighted")).await;
    let space = story.class(by("SpaceWeighted")).await;
    story.reported(TWO, VG, |free| free < 85 << 30).await;
    assert_eq!(placed(&story, &capacity, "c", "32Mi").await, TWO);
    assert_eq!(placed(&story, &volumes, "v", "32Mi").await, ONE);
    assert_eq!(placed(&story, &space, "s", "32Mi").await, ONE);
    TWO.run(&format!("lvremove -q -y {VG}/ballast"));
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn a_pattern_finds_the_only_group_and_a_group_that_grows_is_seen() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("patterns").await;
    TWO.run(
        "pvcreate -q -y --setphysicalvolumesize 100m /dev/vdb && vgcreate -q fast-nvme /dev/vdb",
    );
    let class = Class::new("fast")
        .immediate()
        .with("vgpattern", "^fast-.*$");
    let class = story.class(class).await;
    assert_eq!(placed(&story, &class, "fits", "32Mi").await, TWO);
    assert_eq!(TWO.lvs("fast-nvme").len(), 1);
    // Too large now, and not when lvm2 has made the PV larger.
    story.claim(Claim::new("large", &class, "256Mi")).await;
    let refusal = story.event("large", "ProvisioningFailed").await;
    assert!(refusal.contains("fast-nvme"), "{refusal}");
    TWO.run("pvresize -q -y --setphysicalvolumesize 1g /dev/vdb");
    story.bound("large").await;
    let none = Class::new("none").immediate().with("vgpattern", "^slow$");
    let none = story.class(none).await;
    story.claim(Claim::new("none", &none, "32Mi")).await;
    let refusal = story.event("none", "ProvisioningFailed").await;
    assert!(refusal.contains("slow"), "{refusal}");
    for name in ["fits", "large"] {
        story.remove_claim(name).await;
    }
    TWO.run("vgremove -q fast-nvme && pvremove -q /dev/vdb");
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn a_cordoned_node_gets_no_volume() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("cordon").await;
    let class = story.class(Class::new("any").immediate()).await;
    admin(&["cordon", "node1"]);
    for name in ["a", "b", "c"] {
        assert_eq!(placed(&story, &class, name, "32Mi").await, TWO);
    }
    admin(&["uncordon", "node1"]);
    assert_eq!(placed(&story, &class, "d", "32Mi").await, ONE);
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn a_volume_of_a_node_that_is_gone_can_be_deleted() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("gone").await;
    let class = Class::new("second").immediate().on(TWO);
    let class = story.class(class).await;
    assert_eq!(placed(&story, &class, "data", "32Mi").await, TWO);
    let pv = story.bound("data").await;
    Part::Node(2).stop();
    admin(&["delete", "node", "node2"]);
    story.remove_claim("data").await;
    let object = cluster.volumes().get_opt(&pv).await.unwrap();
    assert!(object.is_none(), "the LVMVolume stays");
    // The node comes back with what was on its disks: that is reported, and kept.
    Part::Node(2).start();
    let orphans = ["-n", NAMESPACE, "get", "events", "-o", "json"];
    story.driver_is_on(TWO, DRIVER).await;
    story.event_in(NAMESPACE, "node2", "OrphanedVolumes").await;
    let events = admin(&orphans);
    assert!(events.contains(&pv), "no Event names {pv}");
    assert_eq!(TWO.lvs(VG), [pv.as_str()]);
    TWO.run(&format!("lvremove -q -y {VG}/{pv}"));
    story.end().await;
}
