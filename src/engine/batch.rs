//! One turn of a VG's worker: lock, read, plan all, commit once, activate.

use std::collections::HashMap;
use std::sync::Arc;

use lvm2::edit::{EditError, Stamp};
use lvm2::id::LvId;
use lvm2::model::Vg;
use lvm2::name::{LvName, VgName};

use super::activation;
use super::activity::Activity;
use super::area::PvDevice;
use super::backup::Backups;
use super::commit::{self, Committed};
use super::disks::mark_members;
use super::error::EngineError;
use super::execute::Execution;
use super::loaded::Loaded;
use super::permit::{self, writable};
use super::prepare::{self, Context, Planned, Zero};
use super::registry::Registry;
use super::request::{EngineConfig, Request};
use super::state::LvState;
use super::step::Step;
use super::worker::{Job, Reply};
use super::zeroing::Claim;
use crate::host::{Host, LockMode};

/// What a job does.
pub(super) enum Task {
    /// A request from outside.
    Request(Request),
    /// The extents of an LV are zero: make it usable.
    Finish(Zero),
    /// They are not: drop the LV, and answer with this error.
    Abandon(Zero, EngineError),
}

impl Task {
    /// The LVs that the task is about.
    pub(super) fn names(&self) -> Vec<&LvName> {
        match self {
            Self::Request(request) => request.names(),
            Self::Finish(zero) | Self::Abandon(zero, _) => zero.names(),
        }
    }

    fn lv(&self) -> &LvName {
        match self {
            Self::Request(request) => request.lv(),
            Self::Finish(zero) | Self::Abandon(zero, _) => &zero.lv,
        }
    }

    fn verb(&self) -> &'static str {
        match self {
            Self::Request(request) => request.verb(),
            Self::Finish(_) => "finish",
            Self::Abandon(..) => "abandon",
        }
    }

    /// Tasks that free extents are planned last: extents that a task frees
    /// belong to their old LV until the commit, and nobody may wipe them.
    fn frees(&self) -> bool {
        matches!(
            self,
            Self::Request(Request::Remove { .. }) | Self::Abandon(..)
        )
    }
}

/// What a turn leaves to do.
#[derive(Default)]
pub(super) struct Done {
    /// LVs that are committed and have to be zeroed now.
    pub(super) zero: Vec<(Zero, Claim, Reply)>,
    /// Jobs for the next turn.
    pub(super) again: Vec<Job>,
}

/// The parts that every turn of a worker uses.
pub(super) struct Batch {
    pub(super) host: Host,
    pub(super) vg: VgName,
    pub(super) config: EngineConfig,
    pub(super) registry: Arc<Registry>,
    pub(super) activity: Arc<Activity>,
    pub(super) backups: Arc<Backups>,
}

/// A job whose plan stands and whose steps before the commit are done.
struct Accepted {
    job: Job,
    planned: Planned,
    /// The metadata changes.
    commits: bool,
    /// A device was changed before the commit.
    device_changed: bool,
}

impl Accepted {
    /// The LV that this job makes, and that goes again if it does not come up.
    fn made(&self) -> Option<&LvName> {
        match (&self.planned.zero, &self.job.task) {
            _ if !self.commits => None,
            (Some(zero), _) => Some(&zero.lv),
            (None, Task::Request(Request::Create(create))) => Some(&create.name),
            _ => None,
        }
    }
}

impl Batch {
    /// Runs `jobs` under one lock and with one commit.
    pub(super) fn run(&self, mut jobs: Vec<Job>) -> Done {
        jobs.sort_by_key(|job| job.task.frees());
        let observer = self.registry.observer();
        let asked = self.host.clock.monotonic();
        let lock = self.host.locks.lock(
            &format!("V_{}", self.vg),
            LockMode::Exclusive,
            self.config.lock_deadline,
        );
        let waited = self.host.clock.monotonic().saturating_sub(asked);
        observer.lock_waited(&self.vg, waited);
        let guard = match lock {
            Ok(guard) => guard,
            Err(source) => {
                let error = self.host_error(source);
                return answer_all(jobs, &error);
            }
        };
        let held = self.activity.locked();
        let mut done = Done::default();
        let answers = match self.registry.load(&self.vg) {
            Ok(loaded) => self.locked(jobs, &loaded, &mut done),
            Err(error) => jobs
                .into_iter()
                .map(|job| (job.reply, Err(error.clone())))
                .collect(),
        };
        drop(guard);
        drop(held);
        self.backups.wait(&self.vg);
        for (reply, answer) in answers {
            reply.send(answer);
        }
        done
    }

    fn locked(&self, jobs: Vec<Job>, loaded: &Arc<Loaded>, done: &mut Done) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut execution = Execution::new(&self.host);
        let mut accepted: Vec<Accepted> = Vec::new();
        let mut vg = Arc::clone(&loaded.vg);
        let frees = jobs.iter().any(|job| job.task.frees());
        for job in jobs {
            match self.accept(&job.task, &vg, loaded, &mut execution) {
                Ok(planned) => {
                    let commits = !Arc::ptr_eq(&vg, &planned.vg);
                    let device_changed = execution.changed();
                    vg = Arc::clone(&planned.vg);
                    accepted.push(Accepted {
                        job,
                        planned,
                        commits,
                        device_changed,
                    });
                }
                // The space may be there once this turn's removals are committed.
                Err(error) if frees && is_no_space(&error) => done.again.push(job),
                Err(error) => give_up(job, error, done, &mut answers),
            }
        }
        let current = if Arc::ptr_eq(&vg, &loaded.vg) {
            self.renewed(loaded, &accepted)
        } else {
            match self.commit(&vg, loaded, &accepted, execution.wiped()) {
                Ok(committed) => committed,
                Err(error) => {
                    execution.undo();
                    reject(accepted, &error, done, &mut answers);
                    return answers;
                }
            }
        };
        let mut broken = Vec::new();
        for accepted in accepted {
            match self.complete(&accepted, &current, &mut execution) {
                Ok(Completed::State(state)) => {
                    answers.push((accepted.job.reply, answer(accepted.job.task, state)));
                }
                Ok(Completed::Zero(zero, claim)) => {
                    done.zero.push((zero, claim, accepted.job.reply));
                }
                Err(error) => {
                    broken.extend(accepted.made().cloned());
                    answers.push((accepted.job.reply, Err(error)));
                }
            }
        }
        self.drop_broken(&broken, &current);
        answers
    }

    /// The VG as it is, and if a cut between two headers left an older text in an
    /// area, written to all of them again: lvm2 complains of such a VG, and a
    /// disk that is lost could be the one with the newer text. Requests that
    /// change nothing do not fail because that fails.
    fn renewed(&self, loaded: &Arc<Loaded>, accepted: &[Accepted]) -> Arc<Loaded> {
        let wanted = !accepted.is_empty() && !loaded.outdated.is_empty();
        if !wanted || writable(loaded, &self.host).is_err() {
            return Arc::clone(loaded);
        }
        self.commit(&loaded.vg, loaded, accepted, &[])
            .unwrap_or_else(|error| {
                tracing::warn!(vg = %self.vg, %error, "cannot refresh an older metadata copy");
                Arc::clone(loaded)
            })
    }

    /// Plans a task and does what must succeed before the commit.
    fn accept(
        &self,
        task: &Task,
        vg: &Arc<Vg>,
        loaded: &Loaded,
        execution: &mut Execution<'_>,
    ) -> Result<Planned, EngineError> {
        let planned = match task {
            Task::Request(request) => {
                let plan = prepare::plan(vg, request, &Context::of(&self.host));
                permit::planned(loaded, &self.host, plan)?
            }
            Task::Finish(zero) => prepare::plan_finish(vg, zero)?,
            Task::Abandon(zero, _) => {
                let request = Request::Remove {
                    name: zero.lv.clone(),
                    must_exist: false,
                    require_tag: lvm2::name::Tag::new(super::tags::INCOMPLETE).ok(),
                };
                prepare::plan(vg, &request, &Context::of(&self.host))?
            }
        };
        permit::check(loaded, &self.host, vg, &planned)?;
        let object = format!("{}/{}", self.vg, task.lv());
        let zeroed = planned.zero.as_ref().map(|zero| zero.id);
        for id in planned.instead_of.into_iter().chain(zeroed) {
            execution.claim(id, &object)?;
        }
        let deactivates = planned
            .before
            .iter()
            .any(|step| matches!(step, Step::Deactivate { .. }));
        let old = if deactivates { &loaded.vg } else { &planned.vg };
        for step in &planned.before {
            let layout = if matches!(step, Step::Deactivate { .. }) {
                old
            } else {
                &planned.vg
            };
            execution.run(step, loaded, layout)?;
        }
        Ok(planned)
    }

    fn commit(
        &self,
        vg: &Vg,
        loaded: &Arc<Loaded>,
        accepted: &[Accepted],
        wiped: &[Arc<PvDevice>],
    ) -> Result<Arc<Loaded>, EngineError> {
        let stamp = self.stamp(accepted);
        let begun = self.host.clock.monotonic();
        let committed = commit::commit(&self.registry, loaded, vg, &stamp, wiped);
        let took = self.host.clock.monotonic().saturating_sub(begun);
        let requests = accepted.iter().filter(|job| job.commits).count();
        let observer = self.registry.observer();
        observer.committed(&self.vg, requests, took);
        match committed {
            Ok((Committed::Everywhere(mut fresh), _)) => {
                mark_members(&mut fresh);
                let fresh = Arc::new(fresh);
                self.registry.store(Arc::clone(&fresh));
                self.backups.offer(&fresh.vg);
                Ok(fresh)
            }
            Ok((Committed::Partly(errors), seqno)) => {
                self.registry.rescan()?;
                let fresh = self.registry.load(&self.vg)?;
                // The device that took it may be gone already.
                match errors.into_iter().next() {
                    Some(error) if fresh.vg.seqno() < seqno => {
                        Err(commit::failed(&self.vg, seqno, error))
                    }
                    _ => {
                        self.backups.offer(&fresh.vg);
                        Ok(fresh)
                    }
                }
            }
            // Nothing was written: what is known still holds.
            Err(error @ (EngineError::MetadataFull { .. } | EngineError::Edit { .. })) => {
                Err(error)
            }
            Err(error) => {
                self.registry.forget(&self.vg);
                Err(error)
            }
        }
    }

    /// Commits the metadata as it is, so that every area has it again. The
    /// caller holds the VG lock.
    pub(super) fn rewrite(&self, loaded: &Arc<Loaded>) -> Result<(), EngineError> {
        writable(loaded, &self.host)?;
        self.commit(&loaded.vg, loaded, &[], &[]).map(drop)
    }

    fn complete(
        &self,
        accepted: &Accepted,
        current: &Loaded,
        execution: &mut Execution<'_>,
    ) -> Result<Completed, EngineError> {
        let planned = &accepted.planned;
        for step in &planned.after {
            execution.run(step, current, &current.vg)?;
        }
        if let Some(zero) = &planned.zero {
            let claim = execution.take_claim(current, zero)?;
            return Ok(Completed::Zero(zero.clone(), claim));
        }
        let changed = accepted.commits || accepted.device_changed || execution.changed();
        execution
            .describe(&planned.subject, current, changed)
            .map(Completed::State)
    }

    /// New LVs that could not be activated are taken out again: nobody got
    /// them, and nothing shall be left over.
    fn drop_broken(&self, names: &[LvName], current: &Arc<Loaded>) {
        if names.is_empty() {
            return;
        }
        if let Err(error) = writable(current, &self.host) {
            tracing::error!(vg = %self.vg, %error, "LVs that did not come up stay behind");
            return;
        }
        let mut vg = Arc::clone(&current.vg);
        for name in names {
            let Some(lv) = vg.lv(name.as_str()) else {
                continue;
            };
            // Extents under a device must not become free.
            if let Err(error) = activation::deactivate(&self.host, &vg, lv) {
                tracing::error!(%error, "an LV that did not come up stays behind");
                continue;
            }
            let request = Request::Remove {
                name: name.clone(),
                must_exist: false,
                require_tag: None,
            };
            match prepare::plan(&vg, &request, &Context::of(&self.host)) {
                Ok(planned) => vg = planned.vg,
                Err(error) => {
                    tracing::error!(%error, "cannot take back an LV that did not come up")
                }
            }
        }
        if Arc::ptr_eq(&vg, &current.vg) {
            return;
        }
        if let Err(error) = self.commit(&vg, current, &[], &[]) {
            tracing::error!(vg = %self.vg, %error, "LVs that did not come up stay behind");
        }
    }

    fn stamp(&self, accepted: &[Accepted]) -> Stamp {
        let mut changes = accepted.iter().filter(|accepted| accepted.commits);
        let mut description = self.config.description.clone();
        if let Some(first) = changes.next() {
            let names = first.job.task.names();
            let name = names.first().map_or("", |name| name.as_str());
            description = format!(
                "Write from lvcsi {} {}/{name}.",
                first.job.task.verb(),
                self.vg
            );
            let more = changes.count();
            if more > 0 {
                description = format!("{description} And {more} more.");
            }
        }
        stamp(&self.host, description)
    }

    fn host_error(&self, source: crate::host::HostError) -> EngineError {
        EngineError::Host {
            object: format!("VG {}", self.vg),
            source: Arc::new(source),
        }
    }
}

/// The stamp of a commit by this driver.
pub(super) fn stamp(host: &Host, description: String) -> Stamp {
    Stamp {
        description,
        host: host.identity.hostname.clone(),
        host_system_id: host.identity.system_id.clone(),
        time: host.clock.unix_seconds(),
        generator: concat!("lvcsi ", env!("CARGO_PKG_VERSION")).to_owned(),
        kernel: host.identity.kernel.clone(),
    }
}

type Answer = (Reply, Result<LvState, EngineError>);

enum Completed {
    State(LvState),
    Zero(Zero, Claim),
}

fn answer(task: Task, state: LvState) -> Result<LvState, EngineError> {
    match task {
        Task::Abandon(_, error) => Err(error),
        Task::Request(_) | Task::Finish(_) => Ok(state),
    }
}

fn answer_all(jobs: Vec<Job>, error: &EngineError) -> Done {
    for job in jobs {
        job.reply.send(Err(error.clone()));
    }
    Done::default()
}

/// Answers for a commit that did not happen. If only its size was the cause,
/// each job gets a turn of its own: removals then make room.
fn reject(
    accepted: Vec<Accepted>,
    error: &EngineError,
    done: &mut Done,
    answers: &mut Vec<Answer>,
) {
    let split = matches!(error, EngineError::MetadataFull { .. })
        && accepted.iter().filter(|accepted| accepted.commits).count() > 1;
    for Accepted { mut job, .. } in accepted {
        if split {
            job.alone = true;
            done.again.push(job);
        } else {
            give_up(job, error.clone(), done, answers);
        }
    }
}

/// Answers a job that failed before it changed anything. An LV that cannot be
/// finished goes first; why is what the caller hears, whatever comes of that.
fn give_up(job: Job, error: EngineError, done: &mut Done, answers: &mut Vec<Answer>) {
    let Job {
        task, reply, claim, ..
    } = job;
    match task {
        Task::Finish(zero) => done.again.push(Job {
            task: Task::Abandon(zero, error),
            reply,
            alone: false,
            claim,
        }),
        Task::Abandon(zero, cause) => {
            tracing::warn!(lv = %zero.lv, %error, "an incomplete LV stays until its request is repeated or the driver starts again");
            answers.push((reply, Err(cause)));
        }
        Task::Request(_) => answers.push((reply, Err(error))),
    }
}

fn is_no_space(error: &EngineError) -> bool {
    matches!(error, EngineError::Edit { source, .. } if matches!(**source, EditError::NoSpace { .. }))
}

/// Claims by LV, for an [`Execution`].
pub(super) type Claims = HashMap<LvId, Box<dyn crate::host::LockGuard>>;
