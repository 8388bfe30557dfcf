//! Reconciling LVMVolumes of this node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::Agent;
use super::untold::Held;
use super::work::{Kept, Provisioned, Refused, WorkError};
use crate::error::Kind;
use crate::kube::crd::{LvmVolume, VolumeState};
use crate::kube::events::Saying;
use crate::kube::names::MANAGER;
use crate::kube::patch;

/// First wait after a failure; it doubles up to [`SLOWEST`].
const FIRST: Duration = Duration::from_millis(50);
/// Longest wait after a failure.
const SLOWEST: Duration = Duration::from_secs(120);

/// Why a reconciliation is repeated.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The API server refused or did not answer.
    #[error("API server: {0}")]
    Api(#[from] Box<kube::Error>),
    /// The disks.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// The work panicked.
    #[error("the work ended early: {0}")]
    Stopped(#[from] tokio::task::JoinError),
}

impl Failure {
    /// A word for the metric.
    fn label(&self) -> &'static str {
        match self {
            Self::Api(error) => match error.as_ref() {
                kube::Error::Api(status) if status.code == 409 => "conflict",
                _ => "api",
            },
            Self::Work(WorkError::Busy) => "busy",
            Self::Work(WorkError::Blocked { .. }) => "blocked",
            Self::Work(WorkError::Engine(_)) => "engine",
            Self::Stopped(_) => "stopped",
        }
    }

    /// Whether the API server refused, so that nothing was changed. After any
    /// other failure it may have been.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Api(error) if matches!(
            error.as_ref(),
            // 408: it ran out of time.
            kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 408
        ))
    }
}

/// Brings one object and its LV together. Looks at what is there each time,
/// so it may be repeated at any moment and after any death.
pub(super) async fn reconcile(
    object: Arc<LvmVolume>,
    agent: Arc<Agent>,
) -> Result<Action, Failure> {
    if object.spec.owner_node_id != agent.node {
        return Ok(Action::await_change());
    }
    let begun = Instant::now();
    let result = Task {
        object: &object,
        agent: &agent,
    }
    .run()
    .await;
    let label = result.as_ref().err().map(Failure::label);
    agent
        .metrics
        .reconciled("LVMVolume", label, begun.elapsed());
    if result.is_ok() {
        agent.attempts.forget(&object.name_any());
    }
    result
}

/// What follows a failure: another attempt, later each time.
pub(super) fn again(object: Arc<LvmVolume>, failure: &Failure, agent: Arc<Agent>) -> Action {
    let name = object.name_any();
    let attempt = agent.attempts.count(&name);
    let wait = wait(attempt);
    tracing::warn!(volume = name, %failure, attempt, ?wait, "again later");
    Action::requeue(wait)
}

fn wait(attempt: u32) -> Duration {
    FIRST.saturating_mul(1 << attempt.min(12)).min(SLOWEST)
}

/// Sees to what is left when an object is not there any more: nobody
/// reconciles it again.
pub(super) async fn vanished(agent: Arc<Agent>, name: String) {
    let key = ObjectRef::new(&name).within(&agent.namespace);
    for attempt in 0.. {
        // Whoever holds it comes back here if need be.
        let Ok(Some(untold)) = agent.untold.hold(&name) else {
            return;
        };
        // There is one again: its own reconciliation sees to it.
        if agent.volumes.get(&key).is_some() {
            return;
        }
        let Err(failure) = take_back(&agent, untold).await else {
            return;
        };
        let wait = wait(attempt);
        tracing::warn!(volume = name, %failure, attempt, ?wait, "not taken back yet");
        tokio::time::sleep(wait).await;
    }
}

/// Removes an LV that was made for an object that will never say so.
async fn take_back(agent: &Arc<Agent>, untold: Held) -> Result<(), Failure> {
    let lv = untold.lv.clone();
    agent.work(move |work| work.take_back(&lv)).await??;
    let (vg, lv) = (&untold.lv.vg, &untold.lv.name);
    tracing::info!(volume = %lv, %vg, "the object is gone or given up: LV taken back");
    untold.forget();
    Ok(())
}

struct Task<'a> {
    object: &'a Arc<LvmVolume>,
    agent: &'a Arc<Agent>,
}

impl Task<'_> {
    async fn run(&self) -> Result<Action, Failure> {
        let untold = self.untold().await?;
        if self.object.is_deleting() {
            if self.object.has_finalizer() {
                self.delete().await?;
            }
            return Ok(Action::await_change());
        }
        match self.object.state() {
            VolumeState::Pending => self.provision(untold).await?,
            VolumeState::Ready => self.keep().await?,
            // By the contract nobody tries again; the controller deletes it.
            VolumeState::Failed | VolumeState::Unknown => {}
        }
        Ok(Action::await_change())
    }

    /// The LV that an earlier attempt made for this object. One that the object
    /// will not tell of, or that was made for another object, is taken back.
    async fn untold(&self) -> Result<Option<Held>, Failure> {
        let Some(untold) = self.agent.untold.hold(&self.object.name_any())? else {
            return Ok(None);
        };
        let state = self.object.state();
        if state == VolumeState::Ready {
            untold.forget();
            return Ok(None);
        }
        let waits = state == VolumeState::Pending && !self.object.is_deleting();
        if waits && untold.uid == self.object.uid() {
            return Ok(Some(untold));
        }
        take_back(self.agent, untold).await?;
        Ok(None)
    }

    async fn provision(&self, untold: Option<Held>) -> Result<(), Failure> {
        let object = Arc::clone(self.object);
        let result = self.agent.work(move |work| work.provision(&object)).await?;
        let result = result.inspect_err(|error| {
            self.warn("ProvisioningDelayed", "Provision", error.to_string());
        })?;
        match result {
            Ok(done) => self.ready(&done, untold).await,
            Err(refused) => self.failed(refused).await,
        }
    }

    async fn ready(&self, done: &Provisioned, untold: Option<Held>) -> Result<(), Failure> {
        let vg = done.lv.vg.as_str();
        let change = patch::ready(self.object, vg, &self.agent.node);
        let untold = if done.made {
            let name = self.object.name_any();
            let all = &self.agent.untold;
            Some(all.remember(&name, self.object.uid(), done.lv.clone()))
        } else {
            untold
        };
        let told = self.patch(&change).await;
        if matches!(&told, Err(failure) if failure.is_refusal()) {
            // The next attempt tells, or takes back.
            drop(untold);
            return told.map(drop);
        }
        if let Ok(false) = told {
            // The object is gone. What was made for it holds nothing; what was
            // there before is not ours to take away.
            return match untold {
                Some(untold) => take_back(self.agent, untold).await,
                None => Ok(()),
            };
        }
        // Without an answer the object may say so: the LV may be in use soon.
        if let Some(untold) = untold {
            untold.forget();
        }
        if done.lv.dev.is_none() {
            // Nobody receives it any more only while the agent ends.
            let _ = self.agent.devices.send(done.lv.clone());
        }
        told.map(|_| {
            let what = if done.adopted { "taken over" } else { "made" };
            self.say(
                if done.adopted {
                    "Adopted"
                } else {
                    "Provisioned"
                },
                "Provision",
                format!(
                    "LV {vg}/{} of {} bytes was {what}",
                    done.lv.name, done.lv.size
                ),
            );
        })
    }

    async fn failed(&self, refused: Refused) -> Result<(), Failure> {
        let Refused { kind, message } = refused;
        let change = patch::failed(self.object, &self.agent.node, kind, &message);
        self.patch(&change).await?;
        let reason = if kind == Kind::ResourceExhausted {
            "InsufficientCapacity"
        } else {
            "ProvisioningFailed"
        };
        self.warn(reason, "Provision", message);
        Ok(())
    }

    async fn keep(&self) -> Result<(), Failure> {
        let object = Arc::clone(self.object);
        let kept = self.agent.work(move |work| work.keep(&object)).await?;
        let Kept {
            adopted,
            grown,
            larger,
        } = kept.inspect_err(|error| match error {
            WorkError::Blocked { reason, note } => self.warn(reason, "Keep", note.clone()),
            error => self.warn("ResizeFailed", "Resize", error.to_string()),
        })?;
        let vg = &self.object.spec.vol_group;
        let name = self.object.name_any();
        if adopted {
            let note =
                format!("LV {vg}/{name} was taken over as it is; it now carries the tag lvcsi");
            self.say("Adopted", "Adopt", note);
        }
        if let Some((from, to)) = grown {
            self.say(
                "Resized",
                "Resize",
                format!("LV {vg}/{name} grew from {from} to {to} bytes"),
            );
        }
        if let Some(size) = larger {
            let capacity = &self.object.spec.capacity;
            let note = format!(
                "LV {vg}/{name} has {size} bytes, spec.capacity says {capacity}; LVs are never \
                 shrunk. Was the cluster's state restored from a copy?"
            );
            self.warn("CapacityDiffers", "Keep", note);
        }
        if !self.object.has_finalizer() {
            let change = patch::ready(self.object, vg, &self.agent.node);
            self.patch(&change).await?;
        }
        Ok(())
    }

    async fn delete(&self) -> Result<(), Failure> {
        let object = Arc::clone(self.object);
        let removed = self.agent.work(move |work| work.remove(&object)).await?;
        let removed = removed.inspect_err(|error| match error {
            WorkError::Blocked { reason, note } => self.warn(reason, "Delete", note.clone()),
            WorkError::Busy => {}
            WorkError::Engine(error) => self.warn("DeletionFailed", "Delete", error.to_string()),
        })?;
        self.patch(&patch::without_finalizer(self.object)).await?;
        if let Some(lv) = removed {
            let note = format!("LV {}/{} was removed", lv.vg, lv.name);
            self.say("Deleted", "Delete", note);
        }
        Ok(())
    }

    /// Changes the object; false if it is gone.
    async fn patch(&self, change: &Value) -> Result<bool, Failure> {
        let api: Api<LvmVolume> = Api::namespaced(self.agent.client.clone(), &self.agent.namespace);
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let name = self.object.name_any();
        match api.patch(&name, &parameters, &Patch::Merge(change)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(Box::new(error).into()),
        }
    }

    fn say(&self, reason: &'static str, action: &'static str, note: String) {
        self.tell(false, reason, action, note);
    }

    fn warn(&self, reason: &'static str, action: &'static str, note: String) {
        self.tell(true, reason, action, note);
    }

    fn tell(&self, warning: bool, reason: &'static str, action: &'static str, note: String) {
        let saying = Saying {
            warning,
            reason,
            action,
            note,
        };
        self.agent.events.say(self.object.object_ref(&()), saying);
    }
}
