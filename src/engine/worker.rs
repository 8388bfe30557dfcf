//! One thread per VG: requests queue up, those that wait together share one
//! lock and one metadata commit.

use std::collections::{HashSet, VecDeque};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};

use lvm2::name::{LvName, VgName};
use tokio::sync::oneshot;

use super::batch::{Batch, Task};
use super::error::EngineError;
use super::prepare::Zero;
use super::registry::Registry;
use super::request::{EngineConfig, Request};
use super::state::LvState;
use super::zeroing::Zeroing;
use crate::host::Host;

/// Where an answer goes. A caller that went away is no reason to stop.
pub(super) type Reply = oneshot::Sender<Result<LvState, EngineError>>;

/// What a worker is told.
pub(super) enum Message {
    /// A request from outside.
    Request(Request, Reply),
    /// All extents of a new LV are zero now, or could not be made so.
    Zeroed(Zero, Result<(), EngineError>, Reply),
    /// End when everything queued is done.
    Close,
}

/// A job in the queue.
pub(super) struct Job {
    pub(super) task: Task,
    pub(super) reply: Reply,
    /// Set after a commit of several jobs did not fit: it then runs alone.
    pub(super) alone: bool,
}

/// The handle of a worker.
pub(super) struct Worker {
    queue: Sender<Message>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(
        vg: VgName,
        host: Host,
        config: EngineConfig,
        registry: Arc<Registry>,
    ) -> std::io::Result<Self> {
        let (queue, inbox) = mpsc::channel();
        let zeroing = Zeroing::new(host.clone(), vg.clone(), queue.clone());
        let name = format!("vg-{vg}");
        let state = State {
            batch: Batch {
                host,
                vg,
                config,
                registry,
            },
            inbox,
            waiting: VecDeque::new(),
            zeroing,
            closing: false,
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || state.run())?;
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }

    /// Queues a request. Gives the reply back if the worker has ended.
    pub(super) fn send(&self, request: Request, reply: Reply) -> Result<(), Reply> {
        self.queue
            .send(Message::Request(request, reply))
            .map_err(|returned| match returned.0 {
                Message::Request(_, reply) | Message::Zeroed(_, _, reply) => reply,
                Message::Close => oneshot::channel().0,
            })
    }
}

/// Lets the worker end once its queue is empty, and waits for that: whoever
/// drops an engine can rely on its devices being closed.
impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that has ended already has nothing left to do.
        let _ = self.queue.send(Message::Close);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a VG worker ended by a panic");
        }
    }
}

struct State {
    batch: Batch,
    inbox: Receiver<Message>,
    waiting: VecDeque<Job>,
    zeroing: Zeroing,
    closing: bool,
}

impl State {
    fn run(mut self) {
        while self.receive() {
            let jobs = self.take_batch();
            if jobs.is_empty() {
                continue;
            }
            let done = self.batch.run(jobs);
            for (zero, guard, reply) in done.zero {
                self.zeroing.start(zero, guard, reply);
            }
            for job in done.again.into_iter().rev() {
                self.waiting.push_front(job);
            }
        }
    }

    /// Moves what has arrived to `waiting`; waits only if there is nothing to
    /// do. False when the worker shall end.
    fn receive(&mut self) -> bool {
        if self.waiting.is_empty() {
            if self.closing && self.zeroing.is_idle() {
                return false;
            }
            match self.inbox.recv() {
                Ok(message) => self.sort(message),
                Err(_) => return false,
            }
        }
        while let Ok(message) = self.inbox.try_recv() {
            self.sort(message);
        }
        true
    }

    fn sort(&mut self, message: Message) {
        let (task, reply) = match message {
            Message::Request(request, reply) => (Task::Request(request), reply),
            Message::Zeroed(zero, outcome, reply) => {
                self.zeroing.ended(&zero);
                match outcome {
                    Ok(()) => (Task::Finish(zero), reply),
                    Err(error) => (Task::Abandon(zero, error), reply),
                }
            }
            Message::Close => {
                self.closing = true;
                return;
            }
        };
        self.waiting.push_back(Job {
            task,
            reply,
            alone: false,
        });
    }

    /// The next jobs that can share a commit: no two about one LV, and nothing
    /// about an LV that is being zeroed.
    fn take_batch(&mut self) -> Vec<Job> {
        let mut taken: Vec<Job> = Vec::new();
        let mut names: HashSet<LvName> = HashSet::new();
        let mut left = VecDeque::new();
        for job in self.waiting.drain(..) {
            let alone = job.alone || taken.iter().any(|job| job.alone);
            let full = taken.len() >= self.batch.config.batch || (alone && !taken.is_empty());
            let own = job.task.names();
            if full || own.iter().any(|name| names.contains(*name)) {
                // What comes later about the same LV must not overtake it.
                names.extend(own.into_iter().cloned());
                left.push_back(job);
                continue;
            }
            if let Task::Request(request) = &job.task
                && self.zeroing.concerns(request)
            {
                let error = EngineError::Incomplete {
                    vg: self.batch.vg.clone(),
                    lv: request.lv().clone(),
                };
                // The caller may have gone; then nobody needs the answer.
                let _ = job.reply.send(Err(error));
                continue;
            }
            names.extend(own.into_iter().cloned());
            taken.push(job);
        }
        self.waiting = left;
        taken
    }
}
