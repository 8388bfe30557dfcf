//! Locks that exclude across processes and threads.

use std::path::PathBuf;
use std::time::Instant;
use std::{fmt, time::Duration};

use super::fault::CallKind;
use super::machine::{Process, State};
use crate::host::{HostError, HostResult, LockGuard, LockMode, Locks};

/// Who holds a lock.
pub(super) struct Holder {
    pub(super) process: u64,
    id: u64,
    mode: LockMode,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (sim)", self.process)
    }
}

struct Guard {
    process: Process,
    resource: String,
    id: u64,
}

impl LockGuard for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = self.process.machine.state();
        if let Some(holders) = state.locks.get_mut(&self.resource) {
            let held = holders.len();
            holders.retain(|holder| holder.id != self.id);
            // Whoever lets go of a lock removes its file; the dead leave it.
            if holders.len() < held && holders.is_empty() {
                state.locks.remove(&self.resource);
            }
        }
        self.process.machine.changed.notify_all();
    }
}

impl State {
    fn compatible(&self, resource: &str, mode: LockMode) -> bool {
        let holders = self
            .locks
            .get(resource)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let shared = mode == LockMode::Shared;
        holders
            .iter()
            .all(|holder| shared && holder.mode == LockMode::Shared)
    }
}

impl Locks for Process {
    fn lock(
        &self,
        resource: &str,
        mode: LockMode,
        deadline: Duration,
    ) -> HostResult<Box<dyn LockGuard>> {
        let failed = |source| HostError::Path {
            op: "lock",
            path: resource.into(),
            source,
        };
        let mut state = self
            .enter(CallKind::Lock, resource, 0, 0)
            .map_err(failed)?
            .state;
        if let Some(path) = state.no_locks.clone() {
            return Err(HostError::NoLockDirectory { path });
        }
        // Real time: the holder is another thread, and ends when it ends.
        let start = Instant::now();
        while !state.compatible(resource, mode) {
            let left = deadline.saturating_sub(start.elapsed());
            if left.is_zero() {
                let holders = state
                    .locks
                    .get(resource)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                return Err(HostError::LockTimeout {
                    resource: resource.to_owned(),
                    holder: holders.iter().map(ToString::to_string).collect(),
                    after: deadline,
                });
            }
            state = self.machine.wait_for(state, left);
            state.alive(self.id).map_err(failed)?;
        }
        let id = state.id();
        let holder = Holder {
            process: self.id,
            id,
            mode,
        };
        state
            .locks
            .entry(resource.to_owned())
            .or_default()
            .push(holder);
        Ok(Box::new(Guard {
            process: self.clone(),
            resource: resource.to_owned(),
            id,
        }))
    }

    fn absent(&self) -> Option<PathBuf> {
        self.machine.state().no_locks.clone()
    }

    fn leftovers(&self, prefix: &str) -> HostResult<Vec<String>> {
        let state = self.machine.state();
        let dead = state.locks.iter().filter(|(_, holders)| holders.is_empty());
        Ok(dead
            .map(|(name, _)| name.clone())
            .filter(|name| name.starts_with(prefix))
            .collect())
    }
}
