//! What the driver costs when nothing happens, and what a request costs the API
//! server.

use std::time::Duration;

use lvcsi_cluster::{Audit, Claim, Class, Cluster, nodes};

/// Of agent and controller: what they allocate. The budget of 25 MiB is for a
/// release with its text; here the text of a build for tests lies in a tmpfs, and is
/// as large again.
const ANONYMOUS_KIB: u64 = 13 * 1024;
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn nothing_is_listed_or_asked_again_for_a_request() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("requests").await;
    let class = story.class(Class::new("c").immediate()).await;
    // The first one may find caches empty.
    story.claim(Claim::new("first", &class, "32Mi")).await;
    story.bound("first").await;
    let audit = Audit::begin();
    // No pod has to come for a device to grow.
    story
        .claim(Claim::new("data", &class, "32Mi").block())
        .await;
    story.bound("data").await;
    story.grow("data", "64Mi").await;
    // The rest waits for a pod.
    story.event("data", "FileSystemResizeRequired").await;
    story.remove_claim("data").await;
    let requests = audit.of_driver();
    println!("{}", requests.join("\n"));
    let reads = |request: &&String| {
        let verb = request.split(' ').nth(1);
        matches!(verb, Some("list" | "get"))
    };
    let reads: Vec<_> = requests.iter().filter(reads).collect();
    assert!(reads.is_empty(), "{reads:?}");
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn an_idle_minute_costs_one_write_at_most_and_little_memory() {
    for node in nodes() {
        let sizes =
            node.run("for pid in $(pgrep -x lvcsi); do grep RssAnon /proc/$pid/status; done");
        assert!(!sizes.is_empty(), "{} runs no lvcsi", node.name());
        for line in sizes.lines() {
            println!("{}: {line}", node.name());
            let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            assert!(kib <= ANONYMOUS_KIB, "{line}");
        }
    }
    let audit = Audit::begin();
    tokio::time::sleep(MINUTE).await;
    let mut writes = std::collections::BTreeMap::new();
    for request in audit.of_driver() {
        let mut words = request.split(' ');
        let (who, verb) = (words.next().unwrap(), words.next().unwrap());
        if !matches!(verb, "get" | "list" | "watch") {
            *writes.entry(who.to_owned()).or_insert(0) += 1;
        }
    }
    println!("{writes:?}");
    // Two agents and two controllers, of which one leads.
    for (who, count) in writes {
        assert!(count <= 2, "{who}: {count} writes in a minute");
    }
}
