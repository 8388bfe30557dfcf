//! A claim that is deleted while its volume is being made leaves no volume; a
//! controller that dies meanwhile makes no second one.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;
use kube::core::DynamicObject;
use lvcsi_cluster::{Claim, Class, Cluster, Node, SYSTEM, Story, VG, admin, nodes};

const FINALIZER: &str = "local.csi.openebs.io/csi-leak-protection";
const DEPLOYMENT: &str = "deployment/openebs-lvm-controller";

/// Stops the agents where they are: their pods still count as well for a while.
fn halt_agents() {
    for node in nodes() {
        node.run("pkill -STOP -f 'lvcsi agent'");
    }
}

fn let_agents_go_on() {
    for node in nodes() {
        node.run("pkill -CONT -f 'lvcsi agent'");
    }
}

/// Makes a claim while no agent works; returns its volume's name once there is
/// an object that waits for one.
async fn begin(story: &Story) -> String {
    let class = story.class(Class::new("c").immediate()).await;
    story.claim(Claim::new("data", &class, "32Mi")).await;
    let claim = story.claims().get("data").await.unwrap();
    let pv = format!("pvc-{}", claim.metadata.uid.unwrap());
    let exists = |object: Option<&DynamicObject>| object.is_some();
    story.until_volume("it is being made", &pv, exists).await;
    pv
}

fn scale(replicas: &str) {
    admin(&["-n", SYSTEM, "scale", DEPLOYMENT, replicas]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn a_claim_that_is_deleted_too_early_takes_its_volume_along() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("leak").await;
    halt_agents();
    let pv = begin(&story).await;
    scale("--replicas=0");
    story.no_pods(SYSTEM, "app=openebs-lvm-controller").await;
    let_agents_go_on();
    let ready = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["state"] == "Ready")
    };
    story
        .until_volume("the agent has made it", &pv, ready)
        .await;
    let claims = story.claims();
    let deleted = claims.delete("data", &DeleteParams::default()).await;
    deleted.unwrap();
    let held = |claim: Option<&PersistentVolumeClaim>| {
        let meta = claim.map(|claim| &claim.metadata);
        meta.is_some_and(|meta| {
            let finalizers = meta.finalizers.iter().flatten();
            meta.deletion_timestamp.is_some() && finalizers.into_iter().any(|f| f == FINALIZER)
        })
    };
    story
        .until("the claim is held", story.claims(), "data", held)
        .await;
    scale("--replicas=2");
    story
        .gone("the claim is gone", story.claims(), "data")
        .await;
    let gone = |object: Option<&DynamicObject>| object.is_none();
    story.until_volume("the volume is gone", &pv, gone).await;
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn a_controller_that_dies_in_a_create_makes_no_second_volume() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("failover").await;
    halt_agents();
    let pv = begin(&story).await;
    // Whoever leads, and its sidecars with it: all of them, one after the other.
    let selector = "app=openebs-lvm-controller";
    let kill = [
        "-n",
        SYSTEM,
        "delete",
        "pod",
        "-l",
        selector,
        "--grace-period=0",
        "--force",
    ];
    admin(&kill);
    let_agents_go_on();
    assert_eq!(story.bound("data").await, pv);
    let made: usize = nodes()
        .into_iter()
        .map(|node: Node| node.lvs(VG).len())
        .sum();
    assert_eq!(made, 1);
    story.end().await;
}
