//! The jobs under way, and one operation at a time on a volume.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

/// A call that is being worked on.
#[derive(Debug)]
pub(crate) struct Job {
    /// The call.
    pub(crate) rpc: &'static str,
    /// Its volume; empty for calls about the node.
    pub(crate) volume: String,
    begun: Instant,
    thread: OnceLock<ThreadId>,
}

impl Job {
    pub(crate) fn new(rpc: &'static str, volume: &str) -> Arc<Self> {
        Arc::new(Self {
            rpc,
            volume: volume.to_owned(),
            begun: Instant::now(),
            thread: OnceLock::new(),
        })
    }

    /// The calling thread works on it.
    pub(crate) fn starts(&self) {
        // One thread does, once.
        let _ = self.thread.set(std::thread::current().id());
    }

    /// Who works on it, once somebody does.
    pub(crate) fn thread(&self) -> Option<ThreadId> {
        self.thread.get().copied()
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.begun.elapsed().as_secs();
        write!(f, "{} has been worked on for {seconds} s", self.rpc)
    }
}

/// The jobs under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<Jobs>>);

#[derive(Debug, Default)]
struct Jobs {
    next: u64,
    all: HashMap<u64, Arc<Job>>,
    exclusive: HashMap<String, Arc<Job>>,
}

impl InFlight {
    /// Notes the job until the guard is dropped. With a `key` it is the only
    /// one of that key: if there is another already, that one is returned. The
    /// guard belongs into the job, not into the gRPC handler, which is dropped
    /// at the caller's deadline.
    pub(crate) fn enter(&self, job: &Arc<Job>, key: Option<&str>) -> Result<Guard, Arc<Job>> {
        let mut jobs = self.jobs();
        if let Some(other) = key.and_then(|key| jobs.exclusive.get(key)) {
            return Err(Arc::clone(other));
        }
        let number = jobs.next;
        jobs.next += 1;
        jobs.all.insert(number, Arc::clone(job));
        if let Some(key) = key {
            jobs.exclusive.insert(key.to_owned(), Arc::clone(job));
        }
        Ok(Guard {
            jobs: self.clone(),
            number,
            key: key.map(str::to_owned),
        })
    }

    /// The jobs under way, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        let mut all: Vec<_> = self.jobs().all.values().cloned().collect();
        all.sort_by_key(|job| job.begun);
        all
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds a job's place; see [`InFlight::enter`].
#[derive(Debug)]
pub struct Guard {
    jobs: InFlight,
    number: u64,
    key: Option<String>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut jobs = self.jobs.jobs();
        jobs.all.remove(&self.number);
        if let Some(key) = &self.key {
            jobs.exclusive.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_held_until_its_guard_goes() {
        let jobs = InFlight::default();
        let job = Job::new("NodePublishVolume", "a");
        let a = jobs.enter(&job, Some("a")).unwrap();
        let other = jobs.enter(&Job::new("DeleteVolume", "a"), Some("a"));
        assert_eq!(other.unwrap_err().rpc, "NodePublishVolume");
        let b = jobs.enter(&job, Some("b")).unwrap();
        let list = jobs.enter(&Job::new("ListVolumes", ""), None).unwrap();
        assert_eq!(jobs.all().len(), 3);
        drop(a);
        assert!(jobs.enter(&job, Some("a")).is_ok());
        drop((b, list));
        assert!(jobs.all().is_empty());
    }
}
