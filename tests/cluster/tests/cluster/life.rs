//! A volume's life, for each kind of content and each time of binding.

use lvcsi_cluster::{Claim, Class, Cluster, Pod, VG, sized};

/// Writes random data of so many MiB with its checksum, and waits.
const WRITE: &str = "dd if=/dev/urandom of=/data/random bs=1M count=16 && cd /data && \
                     sha256sum random >sums && sync && exec sleep 1000000";
/// Checks them.
const CHECK: &str = "cd /data && sha256sum -c sums";
/// The same on a device.
const WRITE_BLOCK: &str = "dd if=/dev/urandom of=/random bs=1M count=16 && \
                           dd if=/random of=/data bs=1M conv=fsync && \
                           exec sleep 1000000";
const SUM_BLOCK: &str = "dd if=/data bs=1M count=16 2>/dev/null | sha256sum";

struct Kind {
    name: &'static str,
    fs: Option<&'static str>,
    size: &'static str,
    larger: &'static str,
    largest: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "ext4",
        fs: Some("ext4"),
        size: "64Mi",
        larger: "160Mi",
        largest: "256Mi",
    },
    Kind {
        name: "xfs",
        fs: Some("xfs"),
        size: "320Mi",
        larger: "512Mi",
        largest: "640Mi",
    },
    Kind {
        name: "btrfs",
        fs: Some("btrfs"),
        size: "256Mi",
        larger: "384Mi",
        largest: "512Mi",
    },
    Kind {
        name: "block",
        fs: None,
        size: "32Mi",
        larger: "64Mi",
        largest: "100Mi",
    },
];

/// Data written by one pod is read by the next, through growth with a pod and
/// without one.
async fn life(kind: &Kind, immediate: bool) {
    let cluster = Cluster::connect().await;
    let mode = if immediate { "now" } else { "later" };
    let story = cluster.story(&format!("life-{}-{mode}", kind.name)).await;
    let mut class = Class::new("c");
    if let Some(fs) = kind.fs {
        class = class.with("fsType", fs);
    }
    if immediate {
        class = class.immediate();
    }
    let class = story.class(class).await;
    let block = kind.fs.is_none();
    let mut claim = Claim::new("data", &class, kind.size);
    if block {
        claim = claim.block();
    }
    story.claim(claim).await;
    if immediate {
        story.bound("data").await;
    }
    let pod = |name: &'static str, script: &'static str| {
        let pod = Pod::new(name, script).with("data");
        if block { pod.block() } else { pod }
    };
    story
        .pod(pod("writer", if block { WRITE_BLOCK } else { WRITE }))
        .await;
    story.running("writer").await;
    let pv = story.bound("data").await;
    let node = story.node_of(&pv).await;
    assert_eq!(node.lvs(VG), [pv.as_str()]);
    let written = if block {
        // The pod runs before it has written.
        let ready = "until [ \"$(sha256sum </random)\" = \
                     \"$(dd if=/data bs=1M count=16 2>/dev/null | sha256sum)\" ]; do sleep 1; done";
        story.exec("writer", ready).await;
        story.exec("writer", SUM_BLOCK).await
    } else {
        story
            .exec("writer", "until [ -s /data/sums ]; do sleep 1; done")
            .await
    };
    // With a pod.
    story.grow("data", kind.larger).await;
    story.grown("data", kind.larger).await;
    assert!(node.lv_size(VG, &pv) >= sized(kind.larger));
    if block {
        let size = story.exec("writer", "blockdev --getsize64 /data").await;
        assert!(size.trim().parse::<u64>().unwrap() >= sized(kind.larger));
    } else {
        let blocks = story.exec("writer", "df -k /data | tail -1").await;
        let kib: u64 = blocks.split_whitespace().nth(1).unwrap().parse().unwrap();
        // What the file system keeps for itself is not much.
        assert!(kib * 1024 > sized(kind.larger) / 10 * 8, "{blocks}");
    }
    story.remove_pod("writer").await;
    // Without one: the claim follows when the next pod comes.
    story.grow("data", kind.largest).await;
    let reader = if block { "exec sleep 1000000" } else { CHECK };
    story.pod(pod("reader", reader)).await;
    if block {
        story.running("reader").await;
        assert_eq!(story.exec("reader", SUM_BLOCK).await, written);
    } else {
        story.succeeded("reader").await;
    }
    story.grown("data", kind.largest).await;
    assert!(node.lv_size(VG, &pv) >= sized(kind.largest));
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn ext4_made_at_once() {
    life(&KINDS[0], true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn ext4_made_for_the_first_pod() {
    life(&KINDS[0], false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn xfs_made_for_the_first_pod() {
    life(&KINDS[1], false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn btrfs_made_for_the_first_pod() {
    life(&KINDS[2], false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn block_made_at_once() {
    life(&KINDS[3], true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn block_made_for_the_first_pod() {
    life(&KINDS[3], false).await;
}
