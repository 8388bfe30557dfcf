//! What is going on in a VG, for those who wait for it.
//!
//! A worker that hangs in a dead device keeps the VG lock: its write may still
//! land, and nobody may commit anything before it has. Its callers are told
//! so, later ones at once, and the worker goes on when the device does.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use lvm2::name::{LvName, VgName};

use super::error::EngineError;
use super::lanes::Late;
use crate::host::{Calls, Host, Pending};

/// Why there is no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The call that has not returned.
    pub pending: Pending,
    /// Why, where the kernel tells.
    pub cause: Option<String>,
    /// The VG lock that is held for it, and since when.
    pub locked: Option<(String, Instant)>,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pending)?;
        if let Some(cause) = &self.cause {
            write!(f, " ({cause})")?;
        }
        if let Some((lock, since)) = &self.locked {
            let seconds = since.elapsed().as_secs();
            write!(f, "; lock {lock} has been held for it for {seconds} s")?;
        }
        Ok(())
    }
}

/// The calls of a host, with what is long for one of them.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) calls: Arc<Calls>,
    pub(super) host: Host,
    pub(super) limit: Duration,
}

impl Watch {
    /// The call in which a thread hangs.
    pub(super) fn overdue(&self, thread: ThreadId) -> Option<Pending> {
        self.calls
            .of(thread)
            .filter(|pending| pending.overdue(self.limit))
    }

    /// Who does not come back from a look at `object`.
    pub(super) fn stuck(&self, object: String, late: Late) -> EngineError {
        let obstacle = Arc::new(self.obstacle(&object, late));
        EngineError::Stuck { object, obstacle }
    }

    /// What a look at `object` hangs in.
    pub(super) fn obstacle(&self, object: &str, late: Late) -> Obstacle {
        let pending = late.thread.and_then(|thread| self.calls.of(thread));
        let pending = pending.unwrap_or_else(|| Pending {
            op: "a look at",
            object: object.into(),
            since: late.since,
            patience: Duration::ZERO,
        });
        Obstacle {
            cause: self.cause(&pending),
            pending,
            locked: None,
        }
    }

    /// What keeps the call from returning, where the kernel tells.
    pub(super) fn cause(&self, pending: &Pending) -> Option<String> {
        let path = Path::new(pending.object.as_ref());
        // Anything else could hang in its turn.
        let node = path.starts_with("/dev");
        node.then(|| self.host.block.obstacle(path))?
    }
}

/// What the worker of one VG does.
pub(super) struct Activity {
    vg: VgName,
    watch: Watch,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    worker: Option<ThreadId>,
    /// Since when the worker holds the VG lock.
    locked: Option<Instant>,
    /// Requests without an answer, by LV.
    asked: HashMap<LvName, usize>,
    /// Threads that zero an LV, by every LV that waits for it.
    zeroing: HashMap<LvName, ThreadId>,
}

impl Activity {
    pub(super) fn new(vg: VgName, watch: Watch) -> Self {
        Self {
            vg,
            watch,
            state: Mutex::default(),
        }
    }

    /// The calling thread is the worker.
    pub(super) fn begins(&self) {
        self.state().worker = Some(std::thread::current().id());
    }

    /// The worker holds the VG lock from now on, until the guard is dropped.
    pub(super) fn locked(self: &Arc<Self>) -> Locked {
        self.state().locked = Some(Instant::now());
        Locked(Arc::clone(self))
    }

    /// The calling thread zeroes for these LVs, until the guard is dropped.
    pub(super) fn zeroes(self: &Arc<Self>, names: Vec<LvName>) -> Zeroes {
        let thread = std::thread::current().id();
        let pairs = names.iter().map(|name| (name.clone(), thread));
        self.state().zeroing.extend(pairs);
        Zeroes {
            activity: Arc::clone(self),
            names,
        }
    }

    /// A request about these LVs waits for its answer, until the guard is
    /// dropped.
    pub(super) fn ask(self: &Arc<Self>, names: Vec<LvName>) -> Asked {
        let mut state = self.state();
        for name in &names {
            *state.asked.entry(name.clone()).or_default() += 1;
        }
        Asked {
            activity: Arc::clone(self),
            names,
        }
    }

    /// Whether a request about this LV has not been answered yet.
    pub(super) fn concerns(&self, lv: &LvName) -> bool {
        self.state().asked.contains_key(lv)
    }

    /// What the worker hangs in, if it does.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        let (worker, locked) = {
            let state = self.state();
            (state.worker?, state.locked)
        };
        let pending = self.watch.overdue(worker)?;
        Some(self.describe(pending, locked))
    }

    /// What keeps a request about `lv` from its answer.
    pub(super) fn obstacle_of(&self, lv: &LvName) -> Option<Obstacle> {
        let zeroing = self.state().zeroing.get(lv).copied();
        self.obstacle().or_else(|| self.hangs(zeroing?))
    }

    /// What the worker or a thread that zeroes hangs in.
    pub(super) fn any_obstacle(&self) -> Option<Obstacle> {
        let zeroing: Vec<ThreadId> = self.state().zeroing.values().copied().collect();
        let mut zeroing = zeroing.into_iter();
        self.obstacle()
            .or_else(|| zeroing.find_map(|thread| self.hangs(thread)))
    }

    fn hangs(&self, thread: ThreadId) -> Option<Obstacle> {
        let pending = self.watch.overdue(thread)?;
        Some(self.describe(pending, None))
    }

    fn describe(&self, pending: Pending, locked: Option<Instant>) -> Obstacle {
        Obstacle {
            cause: self.watch.cause(&pending),
            pending,
            locked: locked.map(|since| (format!("V_{}", self.vg), since)),
        }
    }

    /// How often to look whether somebody hangs: the kernel has no event for
    /// something that does not happen.
    pub(super) fn tick(&self) -> Duration {
        const LONGEST: Duration = Duration::from_millis(500);
        const SHORTEST: Duration = Duration::from_millis(5);
        (self.watch.limit / 8).clamp(SHORTEST, LONGEST)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Activity::locked`].
pub(super) struct Locked(Arc<Activity>);

impl Drop for Locked {
    fn drop(&mut self) {
        self.0.state().locked = None;
    }
}

/// See [`Activity::zeroes`].
pub(super) struct Zeroes {
    activity: Arc<Activity>,
    names: Vec<LvName>,
}

impl Drop for Zeroes {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        for name in &self.names {
            state.zeroing.remove(name);
        }
    }
}

/// See [`Activity::ask`].
pub(super) struct Asked {
    activity: Arc<Activity>,
    names: Vec<LvName>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        for name in &self.names {
            if let Some(count) = state.asked.get_mut(name) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    state.asked.remove(name);
                }
            }
        }
    }
}
