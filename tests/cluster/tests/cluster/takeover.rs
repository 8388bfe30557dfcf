//! Volumes and objects as the peer leaves them: published, grown and deleted by
//! us; and volumes that we made, in lvm2's hands.

use lvcsi_cluster::{Claim, Class, Cluster, DRIVER, NAMESPACE, Node, Pod, Story, VG, admin, renew};
use serde_json::{Value, json};

const NODE: Node = Node(1);

fn apply(object: &Value) {
    let file = std::env::temp_dir().join(format!("lvcsi-{}.json", std::process::id()));
    std::fs::write(&file, object.to_string()).unwrap();
    admin(&["apply", "-f", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
}

/// What the peer's controller, agent and provisioner leave behind: an LV by
/// lvcreate without a tag, an LVMVolume with its finalizer and label, a PV, and
/// here a claim that is bound to it.
fn lay_down(story: &Story, class: &str, pv: &str, thin: bool) {
    let size = if thin {
        format!("-V 64m --thinpool {VG}_thinpool -L 128m")
    } else {
        "-L 64m".to_owned()
    };
    NODE.run(&format!("lvcreate -q -y -n {pv} {size} {VG}"));
    apply(&json!({
        "apiVersion": "local.openebs.io/v1alpha1", "kind": "LVMVolume",
        "metadata": {
            "name": pv, "namespace": NAMESPACE,
            "finalizers": ["lvm.openebs.io/finalizer"],
            "labels": {"kubernetes.io/nodename": NODE.name()},
        },
        "spec": {
            "capacity": (64 << 20).to_string(), "ownerNodeID": NODE.name(),
            "vgPattern": format!("^{VG}$"), "volGroup": VG,
            "shared": "no", "thinProvision": if thin { "yes" } else { "no" },
        },
        "status": {"state": "Ready"},
    }));
    apply(&json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": pv,
            "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER},
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
        },
        "spec": {
            "capacity": {"storage": "64Mi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": class,
            "claimRef": {"namespace": story.name, "name": "data"},
            "csi": {
                "driver": DRIVER, "volumeHandle": pv, "fsType": "ext4",
                "volumeAttributes": {
                    "openebs.io/cas-type": "localpv-lvm", "openebs.io/volgroup": VG,
                },
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{
                "key": "openebs.io/nodename", "operator": "In", "values": [NODE.name()],
            }]}]}},
        },
    }));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn the_peer_s_volume_lives_on_through_the_switch() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("takeover").await;
    let class = story.class(Class::new("c")).await;
    let pv = "pvc-0d7a1f4e-5a43-4f0e-9d6c-0a1b2c3d4e5f";
    // The peer's pods are gone, its kubelet mount is still there: what writes
    // now must not notice the switch.
    lay_down(&story, &class, pv, false);
    // In the background with streams of its own: the command returns meanwhile.
    NODE.run(&format!(
        "(mkfs.ext4 -q -F -m0 /dev/{VG}/{pv} && mkdir -p /run/peer && mount /dev/{VG}/{pv} \
         /run/peer && exec fio --name=w --directory=/run/peer --size=16m --rw=randwrite --bs=4k \
         --verify=crc32c --do_verify=0 --time_based --runtime=60 --rate_iops=200) \
         >/run/fio.log 2>&1 & echo $! >/run/fio.pid; \
         until mountpoint -q /run/peer; do sleep 0.2; done"
    ));
    renew();
    let verified = "while kill -0 $(cat /run/fio.pid) 2>/dev/null; do sleep 1; done; \
                    grep -q 'err= 0' /run/fio.log && fio --name=w --directory=/run/peer \
                    --size=16m --rw=randwrite --bs=4k --verify=crc32c --verify_only && \
                    cd /run/peer && sha256sum w.0.0 >sums && cd / && umount /run/peer";
    NODE.run(verified);
    story.claim(Claim::new("data", &class, "64Mi")).await;
    assert_eq!(story.bound("data").await, pv);
    let check = "cd /data && sha256sum -c sums && exec sleep 1000000";
    story.pod(Pod::new("reader", check).with("data")).await;
    story.exec("reader", "cd /data && sha256sum -c sums").await;
    story.grow("data", "96Mi").await;
    story.grown("data", "96Mi").await;
    assert!(NODE.lv_size(VG, pv) >= 96 << 20);
    story.remove_pod("reader").await;
    story.remove_claim("data").await;
    story.end().await;
}

/// What we do not make we do not change either; but a pod gets it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn the_peer_s_thin_volume_is_used_as_it_is() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("thin").await;
    let class = story.class(Class::new("c")).await;
    let pv = "pvc-7b1f0c52-5a43-4f0e-9d6c-0a1b2c3d4e60";
    lay_down(&story, &class, pv, true);
    NODE.run(&format!("mkfs.ext4 -q -F -m0 /dev/{VG}/{pv}"));
    story.claim(Claim::new("data", &class, "64Mi")).await;
    assert_eq!(story.bound("data").await, pv);
    let write = "echo kept >/data/file && sync && exec sleep 1000000";
    story.pod(Pod::new("writer", write).with("data")).await;
    story.exec("writer", "grep -q kept /data/file").await;
    let note = story.event_in(NAMESPACE, pv, "AdoptionFailed").await;
    assert!(note.contains("thin"), "{note}");
    let tags = NODE.run(&format!("lvs --noheadings -o lv_tags {VG}/{pv}"));
    assert_eq!(tags.trim(), "");
    story.remove_pod("writer").await;
    // Its removal is lvm2's.
    NODE.run(&format!(
        "lvremove -q -y {VG}/{pv} && lvremove -q -y {VG}/{VG}_thinpool"
    ));
    story.remove_claim("data").await;
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn our_volume_is_usable_by_the_peer_s_commands() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("back").await;
    let class = story.class(Class::new("c").on(Node(1))).await;
    story.claim(Claim::new("data", &class, "64Mi")).await;
    let write = "echo kept >/data/file && sync";
    story.pod(Pod::new("writer", write).with("data")).await;
    story.succeeded("writer").await;
    let pv = story.bound("data").await;
    story.remove_pod("writer").await;
    // What the peer's agent runs to publish, to grow and to look at a volume.
    NODE.run(&format!(
        "lvextend -q -r -L 128m {VG}/{pv} && mkdir -p /run/peer && fsck.ext4 -n /dev/{VG}/{pv} && \
         mount /dev/{VG}/{pv} /run/peer && grep -q kept /run/peer/file && umount /run/peer"
    ));
    let finalizers = cluster
        .volumes()
        .get(&pv)
        .await
        .unwrap()
        .metadata
        .finalizers;
    assert_eq!(finalizers.unwrap(), ["lvm.openebs.io/finalizer"]);
    story.end().await;
}
