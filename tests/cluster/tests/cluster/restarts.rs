//! Programs that are killed, and an API server that is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use lvcsi_cluster::{Claim, Class, Cluster, Node, Part, Pod, Story, VG, admin, nodes, renew};
use lvcsi_kit::proof::{nightly, proof};
use lvcsi_kit::rng::Rng;

/// Lives that go on at the same time.
const AT_ONCE: usize = 8;

/// Ends the kills, also if a life fails: nobody else would.
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One claim's life; every sixth has a pod that writes.
async fn life(story: &Story, class: &str, number: usize) {
    let name = format!("life-{number}");
    story.claim(Claim::new(&name, class, "32Mi")).await;
    if number.is_multiple_of(6) {
        let write = "seq 10000 >/data/numbers && sync && wc -l </data/numbers";
        story.pod(Pod::new(&name, write).with(&name)).await;
        story.succeeded(&name).await;
        story.remove_pod(&name).await;
    } else {
        story.bound(&name).await;
    }
    story.remove_claim(&name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn lives_go_on_while_agents_and_controllers_are_killed() {
    let cluster = Cluster::connect().await;
    let story = Arc::new(cluster.story("killed").await);
    let class = story.class(Class::new("c").immediate()).await;
    let lives = if nightly() { 200 } else { 24 };
    let ended = Arc::new(AtomicBool::new(false));
    let ending = Ending(Arc::clone(&ended));
    let killer = tokio::task::spawn_blocking({
        let ended = Arc::clone(&ended);
        move || {
            let mut rng = Rng::from_env("lives_go_on");
            let mut kills = 0;
            let (_hold, pause) = std::sync::mpsc::channel::<()>();
            while !ended.load(Ordering::Relaxed) {
                // The time between two kills is the subject, not a wait. A kubelet
                // waits longer and longer before it starts a container again.
                let _ = pause.recv_timeout(Duration::from_secs(10 + rng.below(30)));
                let node = Node(1 + u16::try_from(rng.below(2)).unwrap());
                let role = if rng.below(2) == 0 {
                    "agent"
                } else {
                    "controller"
                };
                // None may be there just now: it was killed a moment ago.
                let _ = node.try_run(&format!("pkill -KILL -f 'lvcsi {role}'"));
                kills += 1;
            }
            kills
        }
    });
    let worker = async |first: usize| {
        for number in (first..lives).step_by(AT_ONCE) {
            life(&story, &class, number).await;
        }
    };
    join_all((0..AT_ONCE).map(worker)).await;
    drop(ending);
    let kills = killer.await.unwrap();
    // What was killed often is started late: minutes for nothing.
    renew();
    let story = Arc::into_inner(story).unwrap();
    story.end().await;
    proof(&format!("cluster lives: {lives}, kills: {kills}"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn pods_write_and_go_while_the_api_server_is_away() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("away").await;
    let class = story.class(Class::new("c").on(Node(1))).await;
    let node = nodes()[0];
    for name in ["stays", "goes"] {
        story.claim(Claim::new(name, &class, "64Mi")).await;
        let write = "while true; do date >>/data/dates && sync; sleep 1; done";
        story.pod(Pod::new(name, write).with(name)).await;
        story.running(name).await;
    }
    let stays = story.bound("stays").await;
    let goes = story.bound("goes").await;
    // Its kubelet knows that it shall end; the rest happens without the server.
    let id = story.container("goes").await;
    admin(&[
        "-n",
        "away",
        "delete",
        "pod",
        "goes",
        "--grace-period=3",
        "--wait=false",
    ]);
    Part::Api.stop();
    let unmounted = format!(
        "for i in $(seq 240); do grep -q {goes} /proc/self/mountinfo || exit 0; sleep 0.5; done; exit 1"
    );
    node.run(&unmounted);
    assert!(
        !node.run("ctr -n k8s.io task ls").contains(&id),
        "it still runs"
    );
    // The other pod's data goes on growing; the agent is restarted meanwhile and
    // unmounts nothing.
    let lines = format!(
        "wc -l <$(grep -m1 -o '/var/lib/kubelet/pods/[^ ]*{stays}/mount' /proc/self/mountinfo)/dates"
    );
    let before: u64 = node.run(&lines).trim().parse().unwrap();
    node.run("pkill -KILL -f 'lvcsi agent'");
    let away = if nightly() { 120 } else { 20 };
    node.run(&format!("sleep {away}"));
    let after: u64 = node.run(&lines).trim().parse().unwrap();
    assert!(after > before, "{before} lines, then {after}");
    Part::Api.start();
    story.gone("the pod is gone", story.pods(), "goes").await;
    story.exec("stays", "tail -1 /data/dates").await;
    assert_eq!(node.lvs(VG).len(), 2);
    story.end().await;
}
