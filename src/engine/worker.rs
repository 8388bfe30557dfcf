//! One thread per VG: requests queue up, those that wait together share one
//! lock and one metadata commit.

use std::collections::{HashSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, mpsc};

use lvm2::name::{LvName, VgName};
use tokio::sync::oneshot;

use super::activity::{Activity, Asked, Obstacle, Watch};
use super::backup::Backups;
use super::batch::{Batch, Task};
use super::error::EngineError;
use super::observe::Meter;
use super::prepare::Zero;
use super::registry::Registry;
use super::request::{EngineConfig, Request};
use super::state::LvState;
use super::zeroing::Zeroing;
use crate::host::{Host, LockGuard};

type Answer = Result<LvState, EngineError>;

/// Where an answer goes. A caller that went away is no reason to stop.
pub(super) struct Reply {
    sender: oneshot::Sender<Answer>,
    meter: Meter,
    /// Until the answer is given the LV counts as being worked on.
    _asked: Asked,
}

impl Reply {
    /// Answers. A caller that went away needs no answer, or asks again; its job
    /// is done all the same.
    pub(super) fn send(self, answer: Answer) {
        let result = answer.as_ref().map(|_| ()).map_err(EngineError::kind);
        self.meter.stop(result);
        let _ = self.sender.send(answer);
    }
}

/// What a worker is told.
pub(super) enum Message {
    /// A request from outside.
    Request(Request, Reply),
    /// All extents of a new LV are zero now, or could not be made so.
    /// The claim on it goes along: other processes must not take it for a
    /// leftover before the second commit.
    Zeroed(Zero, Result<(), EngineError>, Reply, Box<dyn LockGuard>),
    /// End when everything queued is done.
    Close,
}

/// A job in the queue.
pub(super) struct Job {
    pub(super) task: Task,
    pub(super) reply: Reply,
    /// Set after a commit of several jobs did not fit: it then runs alone.
    pub(super) alone: bool,
    /// Held while the job is about an incomplete LV of ours.
    pub(super) claim: Option<Box<dyn LockGuard>>,
}

/// The handle of a worker.
pub(super) struct Worker {
    vg: VgName,
    host: Host,
    registry: Arc<Registry>,
    queue: Sender<Message>,
    activity: Arc<Activity>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Closes when the thread ends.
    ended: Receiver<()>,
}

impl Worker {
    pub(super) fn start(
        vg: VgName,
        config: EngineConfig,
        registry: Arc<Registry>,
        watch: Watch,
        backups: Arc<Backups>,
    ) -> std::io::Result<Self> {
        let (queue, inbox) = mpsc::channel();
        let host = watch.host.clone();
        let activity = Arc::new(Activity::new(vg.clone(), watch));
        let zeroing = Zeroing::new(
            host.clone(),
            vg.clone(),
            queue.clone(),
            Arc::clone(&activity),
        );
        let name = format!("vg-{vg}");
        let own_host = host.clone();
        let own_registry = Arc::clone(&registry);
        let state = State {
            batch: Batch {
                host,
                vg: vg.clone(),
                config,
                registry,
                activity: Arc::clone(&activity),
                backups,
            },
            inbox,
            waiting: VecDeque::new(),
            zeroing,
            closing: false,
        };
        let (ends, ended) = mpsc::channel();
        let own = Arc::clone(&activity);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            own.begins();
            state.run();
            drop(ends);
        })?;
        Ok(Self {
            vg,
            host: own_host,
            registry: own_registry,
            queue,
            activity,
            thread: Some(thread),
            ended,
        })
    }

    /// What the worker does.
    pub(super) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Queues a request. If the worker has ended the receiver is told so, for
    /// its sender is dropped.
    pub(super) fn send(&self, request: Request) -> oneshot::Receiver<Answer> {
        let (sender, answer) = oneshot::channel();
        let names = request.names().into_iter().cloned().collect();
        let reply = Reply {
            sender,
            meter: Meter::start(request.verb(), &self.host, &self.registry),
            _asked: self.activity.ask(names),
        };
        let _ = self.queue.send(Message::Request(request, reply));
        answer
    }

    /// Lets the worker end once its queue is empty, and waits for that, but not
    /// for a device that hangs: then the worker is left behind, and this is
    /// what it waits for.
    pub(super) fn end(&mut self) -> Option<Obstacle> {
        let thread = self.thread.take()?;
        // A worker that has ended already has nothing left to do.
        let _ = self.queue.send(Message::Close);
        while let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout(self.activity.tick()) {
            if let Some(obstacle) = self.activity.any_obstacle() {
                tracing::warn!(vg = %self.vg, %obstacle, "left behind; it ends when the device answers");
                return Some(obstacle);
            }
        }
        if thread.join().is_err() {
            tracing::error!("a VG worker ended by a panic");
        }
        None
    }
}

/// Whoever drops an engine can rely on its devices being closed, unless one
/// hangs.
impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
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
        let job = |task, reply, claim| Job {
            task,
            reply,
            alone: false,
            claim,
        };
        match message {
            Message::Request(request, reply) => {
                self.waiting
                    .push_back(job(Task::Request(request), reply, None));
            }
            Message::Zeroed(zero, outcome, reply, claim) => {
                self.zeroing.ended(&zero);
                let task = match outcome {
                    Ok(()) => Task::Finish(zero),
                    Err(error) => Task::Abandon(zero, error),
                };
                // Before what came meanwhile: a request about this LV was not
                // refused yet, and must find it finished.
                self.waiting.push_front(job(task, reply, Some(claim)));
            }
            Message::Close => self.closing = true,
        }
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
                job.reply.send(Err(error));
                continue;
            }
            names.extend(own.into_iter().cloned());
            taken.push(job);
        }
        self.waiting = left;
        taken
    }
}
