//! Threads that can be left behind.
//!
//! Looking at a device may never end. Whoever must not wait for that has the
//! look taken by a thread of a lane: if it does not come back in time the
//! thread is left behind, and its lane is closed until it has come back. So
//! a dead device costs one time-out and a bounded number of threads, however
//! often it is asked about. Only looks are taken this way: a change is made by
//! a thread that keeps the lock for as long as the change takes.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use lvm2::name::VgName;
use lvm2::tables::DevNo;

/// Threads of one lane at a time.
const WIDTH: usize = 8;
/// Threads that are kept for the next look.
const SPARE: usize = 4;

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The list of block devices.
    List,
    /// One device, during a scan.
    Device(DevNo),
    /// The metadata areas of a VG that is known.
    Metadata(VgName),
    /// The devices of a VG's LVs in device-mapper.
    Mapped(VgName),
}

/// A look that did not come back in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Late {
    /// The thread that has not come back, if one was found to start.
    pub(super) thread: Option<ThreadId>,
    /// When it set out.
    pub(super) since: Instant,
}

/// The threads and who has not come back.
#[derive(Default)]
pub(super) struct Lanes {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A thread came back.
    back: Condvar,
}

#[derive(Default)]
struct State {
    away: HashMap<Key, Vec<Away>>,
    next: u64,
    spare: Vec<Spare>,
    closed: bool,
}

struct Away {
    number: u64,
    thread: ThreadId,
    since: Instant,
}

type Work = Box<dyn FnOnce() + Send>;

struct Spare {
    thread: ThreadId,
    work: Sender<Work>,
}

/// A look that was begun.
pub(super) struct Begun<T> {
    answer: Receiver<T>,
    thread: ThreadId,
    since: Instant,
    until: Instant,
}

impl<T> Begun<T> {
    /// Waits for the end of the look.
    pub(super) fn wait(self) -> Result<T, Late> {
        let left = self.until.saturating_duration_since(Instant::now());
        self.answer.recv_timeout(left).map_err(|error| {
            if error == RecvTimeoutError::Disconnected {
                tracing::error!("a look at a device ended by a panic");
            }
            Late {
                thread: Some(self.thread),
                since: self.since,
            }
        })
    }
}

impl Lanes {
    /// Begins a look that may take `limit`. Fails at once if an earlier one on
    /// this lane is late already.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        key: Key,
        limit: Duration,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Begun<T>, Late> {
        let since = Instant::now();
        let until = since + limit;
        let mut state = self.shared.state();
        loop {
            let away = state.away.get(&key).map_or(&[][..], Vec::as_slice);
            if let Some(late) = away.iter().find(|away| away.since.elapsed() >= limit) {
                return Err(Late {
                    thread: Some(late.thread),
                    since: late.since,
                });
            }
            if away.len() < WIDTH {
                break;
            }
            let oldest = away.first().map_or(since, |away| away.since);
            let left = limit.saturating_sub(oldest.elapsed());
            state = self
                .shared
                .back
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let none = Late {
            thread: None,
            since,
        };
        let (sender, answer) = sync_channel(1);
        let number = state.next;
        state.next += 1;
        let (shared, lane) = (Arc::clone(&self.shared), key.clone());
        let work = Box::new(move || {
            let back = Back {
                shared,
                key: lane,
                number,
            };
            let result = look();
            drop(back);
            // After the time-out nobody listens.
            let _ = sender.send(result);
        });
        let thread = self.shared.start(&mut state, work).ok_or(none)?;
        state.away.entry(key).or_default().push(Away {
            number,
            thread,
            since,
        });
        Ok(Begun {
            answer,
            thread,
            since,
            until,
        })
    }

    /// [`begin`](Self::begin) and [`wait`](Begun::wait).
    pub(super) fn run<T: Send + 'static>(
        &self,
        key: Key,
        limit: Duration,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Late> {
        self.begin(key, limit, look)?.wait()
    }

    /// Number of threads that have not come back.
    #[cfg(test)]
    pub(super) fn away(&self) -> usize {
        self.shared.state().away.values().map(Vec::len).sum()
    }
}

/// Spare threads end; those that are away end when they come back.
impl Drop for Lanes {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed = true;
        state.spare.clear();
    }
}

/// Says that a thread is back, however its look ended.
struct Back {
    shared: Arc<Shared>,
    key: Key,
    number: u64,
}

impl Drop for Back {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(away) = state.away.get_mut(&self.key) {
            away.retain(|away| away.number != self.number);
            if away.is_empty() {
                state.away.remove(&self.key);
            }
        }
        self.shared.back.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the work to a spare thread, or to a new one.
    fn start(self: &Arc<Self>, state: &mut State, mut work: Work) -> Option<ThreadId> {
        while let Some(spare) = state.spare.pop() {
            match spare.work.send(work) {
                Ok(()) => return Some(spare.thread),
                Err(returned) => work = returned.0,
            }
        }
        let shared = Arc::downgrade(self);
        let spawned = std::thread::Builder::new()
            .name("look".to_owned())
            .spawn(move || {
                let mut work = work;
                loop {
                    work();
                    let (sender, inbox) = channel();
                    {
                        let Some(shared) = shared.upgrade() else {
                            return;
                        };
                        let mut state = shared.state();
                        if state.closed || state.spare.len() >= SPARE {
                            return;
                        }
                        state.spare.push(Spare {
                            thread: std::thread::current().id(),
                            work: sender,
                        });
                    }
                    match inbox.recv() {
                        Ok(next) => work = next,
                        Err(_) => return,
                    }
                }
            });
        match spawned {
            Ok(thread) => Some(thread.thread().id()),
            Err(error) => {
                tracing::error!(%error, "cannot start a thread to look at a device");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    #[test]
    fn a_look_that_hangs_closes_its_lane_until_it_is_back() {
        let lanes = Lanes::default();
        let (release, hang) = channel::<()>();
        let tries = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&tries);
        let late = lanes
            .run(Key::List, SOON, move || {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = hang.recv();
            })
            .unwrap_err();
        assert!(late.thread.is_some());
        for _ in 0..20 {
            let count = Arc::clone(&tries);
            let again = lanes.run(Key::List, SOON, move || {
                count.fetch_add(1, Ordering::SeqCst)
            });
            assert_eq!(again, Err(late), "at once, and no further thread");
        }
        assert_eq!((tries.load(Ordering::SeqCst), lanes.away()), (1, 1));
        // Another lane is free.
        let far = Duration::from_secs(60);
        assert_eq!(
            lanes.run(Key::Device(DevNo { major: 8, minor: 0 }), far, || 7),
            Ok(7)
        );
        drop(release);
        while lanes.away() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(lanes.run(Key::List, far, || 8), Ok(8));
    }

    #[test]
    fn many_at_once_wait_for_each_other_and_all_are_answered() {
        let lanes = Arc::new(Lanes::default());
        let threads: Vec<_> = (0..100)
            .map(|n| {
                let lanes = Arc::clone(&lanes);
                std::thread::spawn(move || lanes.run(Key::List, Duration::from_secs(60), move || n))
            })
            .collect();
        for (n, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), Ok(n));
        }
        assert!(lanes.shared.state().spare.len() <= SPARE);
        assert_eq!(lanes.away(), 0);
    }
}
