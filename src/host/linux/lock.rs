//! lvm2's lock files, by lvm2's protocol.
//!
//! Every acquisition goes through `FILE:aux` first: a writer keeps it while it
//! waits for the file itself, so that readers who come later queue behind it.
//! Lock files are unlinked on release; a lock counts only if the path still
//! leads to the locked inode.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::lock_holders::holders;
use crate::host::{HostError, HostResult, LockGuard, LockMode, Locks};

/// From when on a lock file that nobody holds is one that nobody will.
const SETTLED: Duration = Duration::from_secs(60);

/// The lock directory and the waiters that gave up.
#[derive(Debug)]
pub(super) struct LinuxLocks {
    dir: PathBuf,
    /// Whether an absent `dir` may be made.
    may_create: bool,
    waiters: Arc<Waiters>,
}

impl LinuxLocks {
    /// Locks in `dir`. If it is absent when the first lock is taken it is made
    /// (0700, as lvm2 does) when `may_create` is set and its parent exists.
    #[must_use]
    pub(super) fn new(dir: PathBuf, may_create: bool) -> Self {
        Self {
            dir,
            may_create,
            waiters: Arc::default(),
        }
    }

    fn take(&self, path: &Path, mode: LockMode, until: Instant) -> HostResult<Option<Held>> {
        match self.waiters.take(path, mode, until) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_dir()?;
                self.waiters.take(path, mode, until)
            }
            result => result,
        }
        .map_err(|source| HostError::Path {
            op: "lock",
            path: path.to_owned(),
            source,
        })
    }

    fn make_dir(&self) -> HostResult<()> {
        let absent = || HostError::NoLockDirectory {
            path: self.dir.clone(),
        };
        if !self.may_create {
            return Err(absent());
        }
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(_) => Err(absent()),
        }
    }
}

impl Locks for LinuxLocks {
    fn lock(
        &self,
        resource: &str,
        mode: LockMode,
        deadline: Duration,
    ) -> HostResult<Box<dyn LockGuard>> {
        let until = Instant::now() + deadline;
        let path = self.dir.join(resource);
        let aux_path = self.dir.join(format!("{resource}:aux"));
        let timeout = |at: &Path| HostError::LockTimeout {
            resource: resource.to_owned(),
            holder: holders(at),
            after: deadline,
        };
        let aux = self
            .take(&aux_path, LockMode::Exclusive, until)?
            .ok_or_else(|| timeout(&aux_path))?;
        let held = match mode {
            LockMode::Shared => {
                drop(aux);
                self.take(&path, mode, until)?
            }
            LockMode::Exclusive => {
                let held = self.take(&path, mode, until)?;
                // Also when we give up: nobody else may be kept waiting for us.
                drop(aux);
                held
            }
        };
        match held {
            Some(held) => Ok(Box::new(held)),
            None => Err(timeout(&path)),
        }
    }

    fn absent(&self) -> Option<PathBuf> {
        let given = self.may_create || self.dir.is_dir();
        (!given).then(|| self.dir.clone())
    }

    fn leftovers(&self, prefix: &str) -> HostResult<Vec<String>> {
        let failed = |source| HostError::Path {
            op: "list",
            path: self.dir.clone(),
            source,
        };
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // The file of a lock that is being taken is a moment old.
            let old = entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .ok()
                .and_then(|modified| modified.elapsed().ok())
                .is_some_and(|age| age > SETTLED);
            if name.starts_with(prefix) && old && holders(&entry.path()).is_empty() {
                found.push(name);
            }
        }
        found.sort();
        Ok(found)
    }
}

/// A locked file that its path leads to.
#[derive(Debug)]
struct Held {
    file: File,
    path: PathBuf,
    inode: (u64, u64),
    mode: LockMode,
}

impl LockGuard for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        // The last holder unlinks the file. A shared holder knows that it is
        // the last by getting the exclusive lock at once.
        let alone = self.mode == LockMode::Exclusive || self.file.try_lock().is_ok();
        if alone && inode_at(&self.path).is_ok_and(|inode| inode == Some(self.inode)) {
            // Whoever waits for this inode finds it unlinked and starts again.
            let _ = std::fs::remove_file(&self.path);
        }
        // Closing the only descriptor releases the lock.
    }
}

enum Attempt {
    Held(Held),
    Contended,
    /// Locked an inode that had been unlinked meanwhile.
    Stale,
}

fn attempt(path: &Path, mode: LockMode, wait: bool) -> io::Result<Attempt> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o777)
        .open(path)?;
    if wait {
        loop {
            let locked = match mode {
                LockMode::Shared => file.lock_shared(),
                LockMode::Exclusive => file.lock(),
            };
            match locked {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    } else {
        let locked = match mode {
            LockMode::Shared => file.try_lock_shared(),
            LockMode::Exclusive => file.try_lock(),
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Attempt::Contended),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let metadata = file.metadata()?;
    let inode = (metadata.dev(), metadata.ino());
    if inode_at(path)? != Some(inode) {
        return Ok(Attempt::Stale);
    }
    Ok(Attempt::Held(Held {
        file,
        path: path.to_owned(),
        inode,
        mode,
    }))
}

fn inode_at(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

type Key = (PathBuf, bool);

/// Threads that wait in flock(2), which has no time-out. Who gives up leaves
/// the thread behind: it releases the lock the moment it gets it, unless a
/// later call for the same lock has adopted it by then. So calls that are
/// repeated do not pile up threads, and they keep their place in the queue.
#[derive(Debug, Default)]
struct Waiters {
    abandoned: Mutex<HashMap<Key, Vec<Arc<Slot>>>>,
}

#[derive(Debug, Default)]
struct Slot {
    state: Mutex<SlotState>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    wanted: bool,
    result: Option<io::Result<Held>>,
}

impl Waiters {
    /// Locks `path`; nothing if it was not to be had until `until`.
    fn take(
        self: &Arc<Self>,
        path: &Path,
        mode: LockMode,
        until: Instant,
    ) -> io::Result<Option<Held>> {
        loop {
            match attempt(path, mode, false)? {
                Attempt::Held(held) => return Ok(Some(held)),
                Attempt::Stale => {}
                Attempt::Contended => return self.wait(path, mode, until),
            }
        }
    }

    fn wait(
        self: &Arc<Self>,
        path: &Path,
        mode: LockMode,
        until: Instant,
    ) -> io::Result<Option<Held>> {
        let key = (path.to_owned(), mode == LockMode::Exclusive);
        let slot = match self.adopt(&key) {
            Some(slot) => slot,
            None => self.spawn(key.clone(), mode)?,
        };
        let mut state = unpoisoned(&slot.state);
        loop {
            if let Some(result) = state.result.take() {
                return result.map(Some);
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                break;
            };
            state = slot
                .done
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        drop(state);
        // Same order of mutexes as in `deliver`: the map, then the slot.
        let mut abandoned = unpoisoned(&self.abandoned);
        let mut state = unpoisoned(&slot.state);
        if let Some(result) = state.result.take() {
            return result.map(Some);
        }
        state.wanted = false;
        abandoned.entry(key).or_default().push(Arc::clone(&slot));
        Ok(None)
    }

    fn adopt(&self, key: &Key) -> Option<Arc<Slot>> {
        let mut abandoned = unpoisoned(&self.abandoned);
        let slots = abandoned.get_mut(key)?;
        let slot = slots.pop()?;
        if slots.is_empty() {
            abandoned.remove(key);
        }
        unpoisoned(&slot.state).wanted = true;
        Some(slot)
    }

    fn spawn(self: &Arc<Self>, key: Key, mode: LockMode) -> io::Result<Arc<Slot>> {
        let slot = Arc::new(Slot::default());
        unpoisoned(&slot.state).wanted = true;
        let (waiters, for_thread) = (Arc::clone(self), Arc::clone(&slot));
        std::thread::Builder::new()
            .name("lock-wait".to_owned())
            .stack_size(128 << 10)
            .spawn(move || {
                let result = loop {
                    match attempt(&key.0, mode, true) {
                        Ok(Attempt::Held(held)) => break Ok(held),
                        Ok(Attempt::Stale | Attempt::Contended) => {}
                        Err(error) => break Err(error),
                    }
                };
                waiters.deliver(&key, &for_thread, result);
            })?;
        Ok(slot)
    }

    /// Hands the lock over, or releases it if nobody wants it any more.
    fn deliver(&self, key: &Key, slot: &Arc<Slot>, result: io::Result<Held>) {
        let mut abandoned = unpoisoned(&self.abandoned);
        let mut state = unpoisoned(&slot.state);
        if state.wanted {
            state.result = Some(result);
            slot.done.notify_one();
            return;
        }
        if let Some(slots) = abandoned.get_mut(key) {
            slots.retain(|other| !Arc::ptr_eq(other, slot));
            if slots.is_empty() {
                abandoned.remove(key);
            }
        }
        drop((state, abandoned));
        drop(result);
    }
}

/// No code that may panic runs under these mutexes.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
