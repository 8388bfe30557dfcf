//! Work that nobody waits for: whatever is due is done, at
//! most a few at a time, and later again if it failed.

use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::metrics::Metrics;

/// Jobs at a time.
const AT_ONCE: usize = 16;
/// First wait after a failure; it doubles up to [`SLOWEST`].
const FIRST: Duration = Duration::from_millis(200);
/// Longest wait after a failure.
const SLOWEST: Duration = Duration::from_secs(60);
/// First wait after a success that the watch does not show yet. It doubles too: a
/// machine that is late with its watches is not helped by doing it all again.
const SHOWN: Duration = Duration::from_secs(2);

/// Something to do, not before a time.
pub(super) struct Due<K, V> {
    /// What it is about: one job a key at a time.
    pub(super) key: K,
    /// What the job needs to know.
    pub(super) about: V,
    /// Not before.
    pub(super) from: Option<Instant>,
}

/// Jobs for one key since it is due.
#[derive(Default)]
struct Attempts {
    failed: u32,
    done: u32,
    next: Option<Instant>,
    running: bool,
}

/// Does what `due` names with `job`, a kind of object being `what`, whenever `changes` tells that something
/// may be, for as long as it is polled. Jobs under way end with it.
pub(super) async fn work<K, V, E, F>(
    what: &'static str,
    metrics: &Metrics,
    mut changes: watch::Receiver<u64>,
    due: impl Fn() -> Vec<Due<K, V>>,
    job: impl Fn(K, V) -> F,
) where
    K: Clone + Debug + Eq + Hash + Send + 'static,
    E: Display + Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
{
    let mut attempts: HashMap<K, Attempts> = HashMap::new();
    let mut jobs: JoinSet<(K, Result<(), E>, Duration)> = JoinSet::new();
    loop {
        changes.mark_unchanged();
        let now = Instant::now();
        let mut wake: Option<Instant> = None;
        let all = due();
        attempts.retain(|key, a| a.running || all.iter().any(|due| due.key == *key));
        for Due { key, about, from } in all {
            let known = attempts.entry(key.clone()).or_default();
            let not_before = from.max(known.next);
            if let Some(later) = not_before.filter(|time| *time > now) {
                wake = Some(wake.map_or(later, |wake| wake.min(later)));
            } else if !known.running && jobs.len() < AT_ONCE {
                known.running = true;
                let doing = job(key.clone(), about);
                jobs.spawn(async move {
                    let begun = Instant::now();
                    (key, doing.await, begun.elapsed())
                });
            }
        }
        let timer = async {
            match wake {
                Some(time) => tokio::time::sleep_until(time.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ended) = jobs.join_next() => match ended {
                Ok((key, result, took)) => {
                    let failed = result.as_ref().err().map(|_| "error");
                    metrics.reconciled(what, failed, took);
                    let known = attempts.entry(key.clone()).or_default();
                    known.running = false;
                    match result {
                        Ok(()) => {
                            let wait = SHOWN.saturating_mul(1 << known.done.min(10)).min(SLOWEST);
                            known.failed = 0;
                            known.done += 1;
                            known.next = Some(Instant::now() + wait);
                        }
                        Err(error) => {
                            let wait = FIRST.saturating_mul(1 << known.failed.min(10)).min(SLOWEST);
                            known.failed += 1;
                            known.next = Some(Instant::now() + wait);
                            tracing::warn!(what, ?key, %error, ?wait, "again later");
                        }
                    }
                }
                Err(stopped) => {
                    tracing::error!(what, %stopped, "a job ended early");
                    // Which one is not known: none of them is held up.
                    attempts.values_mut().for_each(|known| known.running = false);
                }
            },
            changed = changes.changed() => if changed.is_err() {
                return;
            },
            () = timer => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_is_done_is_not_done_again_because_the_watch_is_late() {
        let metrics = Metrics::new().unwrap();
        let (told, changes) = watch::channel(0);
        let runs = AtomicU32::new(0);
        let due = || {
            vec![Due {
                key: "claim",
                about: (),
                from: None,
            }]
        };
        let job = |_, ()| {
            runs.fetch_add(1, Ordering::Relaxed);
            async { Ok::<(), Infallible>(()) }
        };
        let changing = async {
            for number in 1..100 {
                tokio::time::sleep(Duration::from_millis(5)).await;
                told.send_replace(number);
            }
        };
        tokio::select! {
            () = work("Claim", &metrics, changes, due, job) => {}
            () = changing => {}
        }
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }
}
