//! What a driver costs in a cluster, beside one that does nothing: what
//! `cargo xtask cluster bench` runs.
//!
//! `lvcsi-cluster-bench [--rounds N] [--burst LIST] [--json FILE] [--check]`

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on stops and says why"
)]

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Api, DeleteParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use lvcsi_cluster::{Audit, Claim, Class, Cluster, CpuTimes, Node, PATIENCE, Pod, Story, admin};
use lvcsi_kit::stats;
use serde_json::json;

const NULL: &str = "null.csi.test";
const SIZE: &str = "32Mi";
/// The node that the benchmark has.
const NODE: Node = Node(1);
/// Claims of pods that wait for their pod to have a node. The scheduler then
/// looks once a second whether they are bound, for the first time after one.
const WAITING: &str = "lvcsi";
/// Claims of pods that do not.
const IMMEDIATE: &str = "lvcsi, now";
/// Bursts of a size, beside the first.
const BURSTS: usize = 3;
/// Programs that are told of: those that use more than one part of so many.
const SHARE: u32 = 50;

struct Arguments {
    rounds: usize,
    bursts: Vec<usize>,
    json: Option<String>,
    check: bool,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments {
        rounds: 20,
        bursts: vec![20, 100],
        json: None,
        check: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().expect("a value");
        match arg.as_str() {
            "--rounds" => arguments.rounds = value().parse().expect("a number"),
            "--burst" => {
                let list = value();
                let numbers = list.split(',').map(|n| n.parse().expect("a number"));
                arguments.bursts = numbers.collect();
            }
            "--json" => arguments.json = Some(value()),
            "--check" => arguments.check = true,
            other => panic!("unknown option {other:?}"),
        }
    }
    arguments
}

struct Row {
    op: &'static str,
    who: &'static str,
    n: usize,
    times: Vec<Duration>,
}

impl Row {
    fn p50(&self) -> Duration {
        stats::median(&self.times)
    }

    fn max(&self) -> Duration {
        stats::percentile(&self.times, 100)
    }
}

/// What making and deleting volumes at once costs the node.
struct Cost {
    who: &'static str,
    n: usize,
    programs: Vec<(String, Duration)>,
}

impl Cost {
    fn print(&self) {
        let all: Duration = self.programs.iter().map(|(_, time)| *time).sum();
        println!(
            "\nCPU time of the node for {} volumes made and deleted at once, {}: {}",
            self.n,
            self.who,
            stats::human(all)
        );
        for (name, time) in &self.programs {
            if *time * SHARE > all {
                let share = 100.0 * time.as_secs_f64() / all.as_secs_f64();
                println!("{name:<24}{:>12}{share:>5.0} %", stats::human(*time));
            }
        }
    }
}

#[tokio::main]
async fn main() {
    let arguments = arguments();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/null-driver.yaml");
    admin(&["apply", "-f", manifest]);
    let rollout = [
        "-n",
        "kube-system",
        "rollout",
        "status",
        "deployment/null-driver",
    ];
    admin(&[&rollout[..], &["--timeout=240s"]].concat());
    let cluster = Cluster::connect().await;
    let story = cluster.story("bench").await;
    let whos = [
        (
            "null",
            story.class(Class::new("null").of(NULL).immediate()).await,
        ),
        ("lvcsi", story.class(Class::new("lvm").immediate()).await),
    ];
    let mut rows = Vec::new();
    one_at_a_time(&story, &whos, arguments.rounds, &mut rows).await;
    let mut costs = Vec::new();
    for &n in &arguments.bursts {
        at_once(&story, &whos, n, &mut rows, &mut costs).await;
    }
    pods(&story, arguments.rounds.min(10), &mut rows).await;
    story.end().await;
    admin(&["delete", "-f", manifest]);
    print(&rows);
    costs.iter().for_each(Cost::print);
    if let Some(file) = &arguments.json {
        std::fs::write(file, to_json(&rows)).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    let broken = budgets(&rows);
    for line in &broken {
        println!("over budget: {line}");
    }
    if broken.is_empty() {
        println!("all budgets hold");
    }
    std::process::exit(i32::from(arguments.check && !broken.is_empty()));
}

/// The drivers take turns, so that whatever else the machine does meets both.
async fn one_at_a_time(
    story: &Story,
    whos: &[(&'static str, String); 2],
    rounds: usize,
    rows: &mut Vec<Row>,
) {
    let first = rows.len();
    for (who, _) in whos {
        for op in ["bound", "gone"] {
            rows.push(Row {
                op,
                who,
                n: 1,
                times: Vec::new(),
            });
        }
    }
    Audit::quiet().await;
    // The first of each is for the caches.
    for round in 0..=rounds {
        for (place, (_, class)) in whos.iter().enumerate() {
            let names = [format!("one-{round}")];
            let (made, gone) = burst(story, class, &names).await;
            if round > 0 {
                rows[first + 2 * place].times.push(made);
                rows[first + 2 * place + 1].times.push(gone);
            }
        }
    }
}

/// As [`one_at_a_time`], of `n` claims at once.
async fn at_once(
    story: &Story,
    whos: &[(&'static str, String); 2],
    n: usize,
    rows: &mut Vec<Row>,
    costs: &mut Vec<Cost>,
) {
    let names: Vec<String> = (0..n).map(|i| format!("burst-{i}")).collect();
    let first = rows.len();
    for (who, _) in whos {
        for op in ["bound", "gone"] {
            let times = Vec::new();
            rows.push(Row { op, who, n, times });
        }
    }
    for round in 0..=BURSTS {
        for (place, (who, class)) in whos.iter().enumerate() {
            // What one left to do is not the next one's.
            Audit::quiet().await;
            let before = CpuTimes::of(NODE);
            let (made, gone) = burst(story, class, &names).await;
            let programs = CpuTimes::of(NODE).since(&before);
            if round > 0 {
                rows[first + 2 * place].times.push(made);
                rows[first + 2 * place + 1].times.push(gone);
            }
            if round == BURSTS {
                costs.push(Cost { who, n, programs });
            }
        }
    }
}

/// Makes claims at once, waits until all are bound, deletes them, waits until
/// their PVs are gone; both times.
async fn burst(story: &Story, class: &str, names: &[String]) -> (Duration, Duration) {
    let claims = story.claims();
    let config = watcher::Config::default();
    let watch = watcher(claims.clone(), config.clone()).applied_objects();
    let mut watch = pin!(watch);
    let start = Instant::now();
    let make = names
        .iter()
        .map(|name| story.claim(Claim::new(name, class, SIZE)));
    let made = async {
        let mut volumes = std::collections::HashMap::new();
        while volumes.len() < names.len() {
            let Some(Ok(claim)) = watch.next().await else {
                continue;
            };
            if let Some((name, volume)) = bound(&claim).filter(|(name, _)| names.contains(name)) {
                volumes.insert(name, volume);
            }
        }
        (volumes, start.elapsed())
    };
    let both = futures::future::join(futures::future::join_all(make), made);
    let (_, (volumes, made)) = tokio::time::timeout(PATIENCE, both)
        .await
        .expect("all claims are bound in time");
    let pvs: Api<PersistentVolume> = story.cluster.pvs();
    let mut left: Vec<String> = volumes.into_values().collect();
    let mut watch = pin!(watcher(pvs, config));
    // The list of what is there comes first: nothing is deleted before.
    let mut listed = false;
    while !listed {
        listed = matches!(watch.next().await, Some(Ok(watcher::Event::InitDone)));
    }
    let start = Instant::now();
    let params = DeleteParams::default();
    let delete = names.iter().map(|name| claims.delete(name, &params));
    let gone = async {
        while !left.is_empty() {
            if let Some(Ok(watcher::Event::Delete(pv))) = watch.next().await {
                left.retain(|name| pv.metadata.name.as_ref() != Some(name));
            }
        }
        start.elapsed()
    };
    let both = futures::future::join(futures::future::join_all(delete), gone);
    let (deleted, gone) = tokio::time::timeout(PATIENCE, both)
        .await
        .expect("all PVs are gone in time");
    for answer in deleted {
        answer.expect("a claim can be deleted");
    }
    (made, gone)
}

fn bound(claim: &PersistentVolumeClaim) -> Option<(String, String)> {
    let phase = claim.status.as_ref()?.phase.as_deref()?;
    let volume = claim.spec.as_ref()?.volume_name.clone()?;
    (phase == "Bound").then_some((claim.metadata.name.clone()?, volume))
}

/// A pod without a volume beside pods with a new PVC of either binding mode, in
/// turns; and such a pod and its claim deleted, until the PV is gone.
async fn pods(story: &Story, rounds: usize, rows: &mut Vec<Row>) {
    Audit::quiet().await;
    let waiting = story.class(Class::new("pods")).await;
    let immediate = story.class(Class::new("pods-now").immediate()).await;
    let whos = [
        ("no volume", None),
        (WAITING, Some(waiting)),
        (IMMEDIATE, Some(immediate)),
    ];
    let mut running: Vec<Vec<Duration>> = vec![Vec::new(); whos.len()];
    let mut gone = running.clone();
    for round in 0..=rounds {
        for (place, (_, class)) in whos.iter().enumerate() {
            let mut pod = Pod::new("pod", "exec sleep 1000000");
            let begin = Instant::now();
            if let Some(class) = class {
                story.claim(Claim::new("pod", class, SIZE)).await;
                pod = pod.with("pod");
            }
            story.pod(pod).await;
            story.running("pod").await;
            let took = begin.elapsed();
            let end = Instant::now();
            match class {
                Some(_) => {
                    let both = (story.remove_pod("pod"), story.remove_claim("pod"));
                    futures::future::join(both.0, both.1).await;
                }
                None => story.remove_pod("pod").await,
            }
            // The first of each is for the caches.
            if round > 0 {
                running[place].push(took);
                gone[place].push(end.elapsed());
            }
        }
    }
    for (op, times) in [("running", running), ("pod gone", gone)] {
        for ((who, _), times) in whos.iter().zip(times) {
            let n = 1;
            rows.push(Row { op, who, n, times });
        }
    }
}

fn find<'a>(rows: &'a [Row], op: &str, who: &str, n: usize) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row.op == op && row.who == who && row.n == n)
}

fn print(rows: &[Row]) {
    println!(
        "{:<10}{:<12}{:>5}{:>12}{:>12}{:>9}",
        "op", "who", "n", "p50", "max", "ratio"
    );
    for row in rows {
        let base = match row.op {
            "running" | "pod gone" => "no volume",
            _ => "null",
        };
        let base = find(rows, row.op, base, row.n).map_or(row.p50(), Row::p50);
        println!(
            "{:<10}{:<12}{:>5}{:>12}{:>12}{:>9.2}",
            row.op,
            row.who,
            row.n,
            stats::human(row.p50()),
            stats::human(row.max()),
            row.p50().as_secs_f64() / base.as_secs_f64()
        );
    }
}

fn to_json(rows: &[Row]) -> String {
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "op": row.op, "who": row.who, "n": row.n,
                "p50_ms": millis(row.p50()), "max_ms": millis(row.max()),
            })
        })
        .collect();
    serde_json::to_string_pretty(&rows).expect("JSON")
}

/// What must hold, and does not.
fn budgets(rows: &[Row]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut within = |op: &str, pair: [&str; 2], n: usize, limit: &dyn Fn(Duration) -> Duration| {
        let [who, base] = pair;
        if let (Some(ours), Some(base)) = (find(rows, op, who, n), find(rows, op, base, n)) {
            let limit = limit(base.p50());
            if ours.p50() > limit {
                broken.push(format!(
                    "{op}, {who}, {n} at once: {}, at most {}",
                    stats::human(ours.p50()),
                    stats::human(limit)
                ));
            }
        }
    };
    within("bound", ["lvcsi", "null"], 1, &|base| base * 3);
    within("bound", ["lvcsi", "null"], 100, &|base| base * 2);
    for who in [WAITING, IMMEDIATE] {
        within("running", [who, "no volume"], 1, &|base| {
            base + Duration::from_millis(700)
        });
    }
    broken
}
