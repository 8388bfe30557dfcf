//! A volume's life as its user sees it: what `cargo xtask cluster demo` runs.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a demonstration that cannot go on stops and says why"
)]

use std::future::Future;
use std::path::Path;
use std::time::Instant;

use lvcsi_cluster::{Cluster, Story, VG, admin};
use lvcsi_kit::{paint, stats};

/// What the samples make.
const CLAIM: &str = "lvm-data";
const POD: &str = "lvm-app";
const CLASS: &str = "lvm";
const LARGER: &str = "2Gi";

#[tokio::main]
async fn main() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples");
    let cluster = Cluster::connect().await;
    let story = cluster.story("demo").await;
    println!(
        "{}\n",
        paint::bold("lvcsi in Kubernetes: the life of a volume")
    );
    show("the cluster and the driver", &["get", "nodes"]);
    show("", &["get", "pods", "-n", "kube-system"]);
    show(
        "the node's volume groups",
        &["get", "lvmnode", "-n", "openebs"],
    );

    let apply = |file: &str| {
        let path = samples.join(file);
        admin(&["-n", "demo", "apply", "-f", path.to_str().expect("a path")]);
    };
    apply("storageclass.yaml");
    step("a PVC and a pod are applied: the pod runs", async {
        apply("pvc.yaml");
        apply("pod.yaml");
        story.running(POD).await;
    })
    .await;
    let pv = story.bound(CLAIM).await;
    let node = story.node_of(&pv).await;
    show("", &["get", "pvc,pod", "-n", "demo"]);
    show("", &["get", "lvmvol", "-n", "openebs"]);
    step("it writes", async {
        story.exec(POD, "seq 100000 >/data/numbers && sync").await;
    })
    .await;
    println!("{}", df(&story).await);
    step("the PVC grows, the pod goes on", async {
        story.grow(CLAIM, LARGER).await;
        story.grown(CLAIM, LARGER).await;
    })
    .await;
    println!("{}", df(&story).await);
    let lines = story.exec(POD, "wc -l </data/numbers").await;
    assert_eq!(lines.trim(), "100000", "the data is there");
    show("what Kubernetes was told", &["get", "events", "-n", "demo"]);
    println!("{}", paint::dim(&node.run(&format!("lvs -o+lv_tags {VG}"))));
    step(
        "pod and PVC are deleted: the PV and the LV are gone",
        async {
            story.remove_pod(POD).await;
            story.remove_claim(CLAIM).await;
        },
    )
    .await;
    assert!(node.lvs(VG).is_empty(), "an LV is left over");
    admin(&["delete", "storageclass", CLASS]);
    story.end().await;
    println!("\n{}", paint::bold("nothing is left over"));
}

async fn df(story: &Story) -> String {
    paint::dim(&story.exec(POD, "df -h /data").await)
}

/// Does something and prints how long it took.
async fn step(what: &str, work: impl Future<Output = ()>) {
    let start = Instant::now();
    work.await;
    println!(
        "{} ({})\n",
        paint::bold(what),
        stats::human(start.elapsed())
    );
}

/// Prints what kubectl says.
fn show(title: &str, args: &[&str]) {
    if !title.is_empty() {
        println!("{}", paint::bold(title));
    }
    println!("{} kubectl {}", paint::dim("$"), args.join(" "));
    println!("{}", admin(args));
}
