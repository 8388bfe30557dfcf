//! Copies of metadata as files, so that a VG whose disks were overwritten can
//! be restored by `vgcfgrestore`.
//!
//! They are written by a thread of their own, after the commit and without its
//! lock: a slow or full disk under them neither delays nor fails an operation.
//! Of commits that follow each other quickly only the last is written.

mod files;
pub(super) mod history;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lvm2::backup;
use lvm2::model::Vg;
use lvm2::name::VgName;

use super::error::EngineError;
use super::visit::Visitor;

pub(super) use files::{lvm2_seqno, newest_seqno};

/// Least time between two copies of one VG, unless a caller waits for them.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long after a failure the same copy is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// How long an answer, or the end of the process, waits for a copy.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where copies of metadata go, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupConfig {
    /// Has a directory for each VG.
    pub dir: PathBuf,
    /// Most copies that are kept of a VG.
    pub count: usize,
    /// Older copies are removed, but for the newest ten.
    pub age: Duration,
    /// Answer a request only when the copy of its commit was written (or
    /// could not be).
    pub wait: bool,
    /// Keep lvm2's own backup file up to date, where lvm2 keeps one.
    pub lvm2: bool,
}

impl Default for BackupConfig {
    fn default() -> Self {
        Self {
            dir: "/var/lib/lvcsi/backup".into(),
            count: 64,
            age: Duration::from_secs(90 * 24 * 60 * 60),
            wait: false,
            lvm2: true,
        }
    }
}

/// What became of the copies of this process's commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupStats {
    /// Copies that were written.
    pub written: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Commits without a copy of their own, because another followed at once.
    pub coalesced: u64,
    /// VGs whose newest copy is not written yet, or failed, with the reason
    /// of the last failure.
    pub behind: BTreeMap<VgName, Option<String>>,
}

/// Takes the new metadata of each commit and has it written.
pub(super) struct Backups {
    shared: Option<Arc<Shared>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    visitor: Visitor,
    config: BackupConfig,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pending: BTreeMap<VgName, Pending>,
    progress: BTreeMap<VgName, Progress>,
    stats: BackupStats,
    closing: bool,
    ended: bool,
}

struct Pending {
    vg: Arc<Vg>,
    due: Instant,
    number: u64,
}

#[derive(Default)]
struct Progress {
    /// Number of the last commit.
    offered: u64,
    /// Number of the last commit whose copy was written, or failed.
    settled: u64,
    /// When a copy was written last.
    last: Option<Instant>,
    /// Whether the last attempt failed: then the next is no news.
    failing: bool,
}

impl Backups {
    /// No copies are kept without `config`.
    pub(super) fn new(visitor: Visitor, config: Option<BackupConfig>) -> Self {
        let shared = config.map(|config| {
            Arc::new(Shared {
                visitor,
                config,
                state: Mutex::default(),
                changed: Condvar::new(),
            })
        });
        Self {
            shared,
            thread: Mutex::new(None),
        }
    }

    /// `vg` was committed.
    pub(super) fn offer(&self, vg: &Arc<Vg>) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.state();
        let now = Instant::now();
        let progress = state.progress.entry(vg.name().clone()).or_default();
        progress.offered += 1;
        let number = progress.offered;
        let due = match progress.last {
            Some(last) if !shared.config.wait => now.max(last + INTERVAL),
            _ => now,
        };
        let pending = Pending {
            vg: Arc::clone(vg),
            due,
            number,
        };
        if state.pending.insert(vg.name().clone(), pending).is_some() {
            state.stats.coalesced += 1;
        }
        drop(state);
        self.start(shared);
        shared.changed.notify_all();
    }

    /// Waits for the copies of what was offered of this VG, if answers shall
    /// wait for them. Whether they were written is not the request's matter.
    pub(super) fn wait(&self, vg: &VgName) {
        if let Some(shared) = &self.shared
            && shared.config.wait
        {
            shared.settle(vg);
        }
    }

    /// Has the present metadata written at once and tells how that ended.
    pub(super) fn write_now(&self, vg: &Arc<Vg>) -> Result<(), EngineError> {
        match &self.shared {
            Some(shared) => shared.write(vg),
            None => Ok(()),
        }
    }

    /// What became of the copies.
    pub(super) fn stats(&self) -> BackupStats {
        let Some(shared) = &self.shared else {
            return BackupStats::default();
        };
        let state = shared.state();
        let mut stats = state.stats.clone();
        for vg in state.pending.keys() {
            stats.behind.entry(vg.clone()).or_default();
        }
        stats
    }

    /// Writes what is still to be written and ends.
    pub(super) fn close(&self) {
        let Some(shared) = &self.shared else { return };
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(thread) = thread else { return };
        let mut state = shared.state();
        state.closing = true;
        shared.changed.notify_all();
        let until = Instant::now() + PATIENCE;
        while !state.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // It hangs in a dead file system: the process ends without it.
                tracing::warn!("copies of metadata are still not written after {PATIENCE:?}");
                return;
            }
            state = shared.wait_for(state, left);
        }
        drop(state);
        if thread.join().is_err() {
            tracing::error!("the writer of metadata copies ended by a panic");
        }
    }

    fn start(&self, shared: &Arc<Shared>) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return;
        }
        let ended = Ended(Arc::clone(shared));
        let spawned = std::thread::Builder::new()
            .name("backup".to_owned())
            .spawn(move || ended.0.run());
        match spawned {
            Ok(handle) => *thread = Some(handle),
            Err(error) => {
                shared.state().stats.failed += 1;
                tracing::warn!(%error, "cannot start a thread: no copy of the metadata is written");
            }
        }
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        self.close();
    }
}

/// Says that the thread is no more, however it ends.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.state().ended = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.changed
            .wait_timeout(state, time)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let closing = state.closing;
            let next = state
                .pending
                .iter()
                .min_by_key(|(_, pending)| pending.due)
                .map(|(vg, pending)| (vg.clone(), pending.due));
            let Some((name, due)) = next else {
                if closing {
                    return;
                }
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if due > now && !closing {
                state = self.wait_for(state, due - now);
                continue;
            }
            let Some(pending) = state.pending.remove(&name) else {
                continue;
            };
            state.stats.behind.entry(name.clone()).or_default();
            drop(state);
            let outcome = self.write(&pending.vg);
            state = self.state();
            state.ended(&name, pending, outcome);
            self.changed.notify_all();
        }
    }

    fn write(&self, vg: &Vg) -> Result<(), EngineError> {
        let text = backup::file(vg);
        let own = files::write(&self.visitor.watch.host, &self.config, vg, &text);
        // The one must not suffer from the other.
        let lvm2 = if self.config.lvm2 {
            files::write_lvm2(&self.visitor, vg, &text)
        } else {
            Ok(())
        };
        own.and(lvm2)
    }

    fn settle(&self, vg: &VgName) {
        let until = Instant::now() + PATIENCE;
        let mut state = self.state();
        let Some(number) = state.progress.get(vg).map(|progress| progress.offered) else {
            return;
        };
        loop {
            let settled = state.progress.get(vg).is_none_or(|p| p.settled >= number);
            let left = until.saturating_duration_since(Instant::now());
            if settled || state.ended || left.is_zero() {
                return;
            }
            state = self.wait_for(state, left);
        }
    }
}

impl State {
    fn ended(&mut self, name: &VgName, pending: Pending, outcome: Result<(), EngineError>) {
        let now = Instant::now();
        let progress = self.progress.entry(name.clone()).or_default();
        progress.settled = progress.settled.max(pending.number);
        let was_failing = progress.failing;
        progress.failing = outcome.is_err();
        match outcome {
            Ok(()) => {
                progress.last = Some(now);
                self.stats.written += 1;
                self.stats.behind.remove(name);
                if was_failing {
                    tracing::info!(vg = %name, "copies of the metadata are written again");
                }
            }
            Err(error) => {
                self.stats.failed += 1;
                let reason = error.to_string();
                if was_failing {
                    tracing::debug!(vg = %name, %error, "still no copy of the metadata");
                } else {
                    tracing::warn!(vg = %name, %error, "no copy of the metadata was written; it is tried again");
                }
                self.stats.behind.insert(name.clone(), Some(reason));
                if !self.closing {
                    let again = Pending {
                        due: now + RETRY,
                        ..pending
                    };
                    self.pending.entry(name.clone()).or_insert(again);
                }
            }
        }
    }
}
