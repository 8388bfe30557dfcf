//! Knowing what a thread waits for.
//!
//! A thread inside the kernel that waits for a dead device cannot be called
//! back: not by a time-out, not by a signal. What can be done is to know about
//! it. [`watched`] puts a layer over a [`Host`] that notes every call while it
//! lasts, so that those who wait for the thread can stop waiting and say what
//! holds it up. The call itself goes on, and its thread with it: what it was
//! about to change is changed whenever the device comes back, under the locks
//! that the thread still holds.

mod block;
mod dm;
mod fs;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::{Host, HostResult, LockGuard, LockMode, Locks};

/// A call that has not returned yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// What is done, e.g. `write`, `mount`, `DM_DEV_SUSPEND`.
    pub op: &'static str,
    /// To what.
    pub object: Arc<str>,
    /// Since when.
    pub since: Instant,
    /// How much longer than a call on a device this one may take: a lock is
    /// waited for, mkfs has work to do.
    pub patience: Duration,
}

impl Pending {
    /// Whether it lasts longer than a call on a sound device does.
    #[must_use]
    pub fn overdue(&self, limit: Duration) -> bool {
        self.since.elapsed() >= limit.saturating_add(self.patience)
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.since.elapsed().as_secs();
        write!(
            f,
            "{} {} has been waiting for {seconds} s",
            self.op, self.object
        )
    }
}

/// The calls under way, by thread: a thread is in one call at a time.
#[derive(Debug, Default)]
pub struct Calls(Mutex<HashMap<ThreadId, Pending>>);

impl Calls {
    /// What the thread waits for, if it is in a call.
    #[must_use]
    pub fn of(&self, thread: ThreadId) -> Option<Pending> {
        self.open().get(&thread).cloned()
    }

    /// Every call that lasts longer than `limit`, the oldest first.
    #[must_use]
    pub fn overdue(&self, limit: Duration) -> Vec<Pending> {
        let mut calls: Vec<Pending> = self
            .open()
            .values()
            .filter(|call| call.overdue(limit))
            .cloned()
            .collect();
        calls.sort_by_key(|call| call.since);
        calls
    }

    fn open(&self) -> MutexGuard<'_, HashMap<ThreadId, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call of this thread while `call` runs.
    fn during<T>(&self, op: &'static str, object: Arc<str>, call: impl FnOnce() -> T) -> T {
        self.note(op, object, Duration::ZERO, call)
    }

    fn note<T>(
        &self,
        op: &'static str,
        object: Arc<str>,
        patience: Duration,
        call: impl FnOnce() -> T,
    ) -> T {
        let pending = Pending {
            op,
            object,
            since: Instant::now(),
            patience,
        };
        let _ended = Entered {
            calls: self,
            outer: self.open().insert(std::thread::current().id(), pending),
        };
        call()
    }
}

/// Takes the note away, also if the call panics. A call inside of another
/// leaves that one's note as it was.
struct Entered<'a> {
    calls: &'a Calls,
    outer: Option<Pending>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let thread = std::thread::current().id();
        let mut open = self.calls.open();
        match self.outer.take() {
            Some(outer) => open.insert(thread, outer),
            None => open.remove(&thread),
        };
    }
}

/// `host`, with a note of every call that is under way.
#[must_use]
pub fn watched(host: Host) -> (Host, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let watched = Host {
        block: Arc::new(block::Devices::new(host.block, Arc::clone(&calls))),
        dm: Arc::new(dm::Mapper::new(host.dm, Arc::clone(&calls))),
        locks: Arc::new(WatchedLocks {
            inner: host.locks,
            calls: Arc::clone(&calls),
        }),
        // Files of /run and /etc, with deadlines of their own.
        lvm2: host.lvm2,
        fs: Arc::new(fs::Files::new(host.fs, Arc::clone(&calls))),
        clock: host.clock,
        // Whoever writes copies may hang: nobody waits for that.
        copies: host.copies,
        identity: host.identity,
    };
    (watched, calls)
}

struct WatchedLocks {
    inner: Arc<dyn Locks>,
    calls: Arc<Calls>,
}

impl Locks for WatchedLocks {
    fn lock(
        &self,
        resource: &str,
        mode: LockMode,
        deadline: Duration,
    ) -> HostResult<Box<dyn LockGuard>> {
        self.calls.note("lock", resource.into(), deadline, || {
            self.inner.lock(resource, mode, deadline)
        })
    }

    fn absent(&self) -> Option<PathBuf> {
        // Asks a tmpfs, which no disk can hang.
        self.inner.absent()
    }

    fn leftovers(&self, prefix: &str) -> HostResult<Vec<String>> {
        self.calls.during("list of locks", prefix.into(), || {
            self.inner.leftovers(prefix)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::sim::{CallKind, Fault, SimHost};

    #[test]
    fn a_hanging_call_is_seen_from_outside_and_forgotten_when_it_returns() {
        let sim = SimHost::new();
        sim.add_disk("/dev/sda", 4 << 20, 512);
        let (host, calls) = watched(sim.host());
        let (devices, _) = host.block.discover().unwrap();
        let device = host.block.open(&devices[0], true).unwrap();
        sim.on(CallKind::Write, 0, Fault::Hang);
        let thread = std::thread::spawn(move || device.write_at(0, &[1; 512]));
        let id = thread.thread().id();
        while calls.of(id).is_none() {
            std::thread::yield_now();
        }
        let pending = calls.of(id).unwrap();
        assert_eq!((pending.op, &*pending.object), ("write", "/dev/sda"));
        assert!(pending.overdue(Duration::ZERO) && !pending.overdue(Duration::from_secs(3600)));
        assert_eq!(calls.overdue(Duration::ZERO), [pending]);
        // The call is noted before it begins to hang.
        while sim
            .calls()
            .last()
            .is_none_or(|call| call.kind != CallKind::Write)
        {
            std::thread::yield_now();
        }
        sim.unhang();
        thread.join().unwrap().unwrap();
        assert_eq!(calls.overdue(Duration::ZERO), []);
    }
}
