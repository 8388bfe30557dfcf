//! Wrong StorageClasses end in an Event on the PVC that says what to write.

use lvcsi_cluster::{Claim, Class, Cluster};

/// A class with this parameter ends in an Event with these words.
async fn refused(name: &str, key: &str, value: &str, words: &[&str]) {
    let cluster = Cluster::connect().await;
    let story = cluster.story(&format!("wrong-{name}")).await;
    let class = Class::new("c").immediate().with(key, value);
    let class = story.class(class).await;
    story.claim(Claim::new("data", &class, "32Mi")).await;
    let event = story.event("data", "ProvisioningFailed").await;
    for word in words {
        assert!(event.contains(word), "no {word:?} in {event:?}");
    }
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn a_word_that_is_not_allowed() {
    let words = ["thinProvision", "maybe", "yes", "no"];
    refused("enum", "thinProvision", "maybe", &words).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn a_regular_expression_that_is_none() {
    refused("regex", "vgpattern", "lvm(vg", &["vgpattern", "lvm(vg"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn an_unknown_file_system() {
    let words = ["ntfs", "ext4", "xfs", "btrfs"];
    refused("fs", "fsType", "ntfs", &words).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn an_unknown_scheduler() {
    let words = [
        "scheduler",
        "SpaceWeighted",
        "CapacityWeighted",
        "VolumeWeighted",
    ];
    refused("scheduler", "scheduler", "Fastest", &words).await;
}
