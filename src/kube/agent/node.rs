//! The LVMNode of this node: written whenever its VGs are not what it says.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::sync::watch;

use super::facts::volume_group;
use super::{Agent, orphans};
use crate::engine::{Engine, EngineError, VgSummary};
use crate::kube::crd::{LvmNode, NodeFields, VolumeGroup};
use crate::kube::events::Saying;
use crate::kube::names::MANAGER;

/// Changes that follow each other within this time are written together.
const TOGETHER: Duration = Duration::from_millis(200);
/// First wait after the API server refused; it doubles up to [`SLOWEST`].
const FIRST: Duration = Duration::from_millis(500);
/// Longest wait after the API server refused.
const SLOWEST: Duration = Duration::from_secs(60);

/// What is to be written where: both from watches, so that nobody asks the
/// API server anything.
pub(super) struct Inputs {
    /// This node's Node.
    pub(super) owner: watch::Receiver<Option<OwnerReference>>,
    /// The LVMNode as it is: the outer `None` while that is not known.
    pub(super) present: watch::Receiver<Option<Option<Arc<LvmNode>>>>,
    /// Counts changes of VGs.
    pub(super) changes: watch::Receiver<u64>,
}

/// A look at all VGs.
pub(crate) struct Look {
    /// Those that can be read.
    pub(crate) vgs: Vec<VgSummary>,
    /// The others, with the reason.
    pub(crate) broken: Vec<(String, EngineError)>,
}

impl Look {
    /// Looks. Blocks; takes no lock.
    pub(crate) fn at(engine: &Engine) -> Result<Self, EngineError> {
        let mut look = Self {
            vgs: Vec::new(),
            broken: Vec::new(),
        };
        for name in engine.vg_names()? {
            match engine.summary(&name) {
                // As in lvm2's own lists.
                Ok(summary) if summary.is_foreign() => {}
                Ok(summary) => look.vgs.push(summary),
                // Gone since it was listed.
                Err(EngineError::NoSuchVg { .. }) => {}
                // One broken VG must not hide the others.
                Err(error) => look.broken.push((name.to_string(), error)),
            }
        }
        Ok(look)
    }
}

/// Writes the LVMNode whenever it is not right, until the inputs end.
pub(super) async fn publish(agent: Arc<Agent>, mut inputs: Inputs, interval: Duration) {
    let mut wait = FIRST;
    let mut orphans = orphans::Watch::default();
    let mut tick = tokio::time::interval(interval);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        match attempt(&agent, &mut inputs).await {
            Ok(()) => {
                wait = FIRST;
                let on_the_interval = tokio::select! {
                    _ = tick.tick() => true,
                    changed = inputs.changes.changed() => match changed {
                        Ok(()) => false,
                        Err(_) => return,
                    },
                    Ok(()) = inputs.present.changed() => false,
                    Ok(()) = inputs.owner.changed() => false,
                };
                if on_the_interval {
                    let present = inputs.present.borrow().clone().flatten();
                    let about = present.map(|present| present.object_ref(&()));
                    orphans.check(&agent, about).await;
                } else {
                    tokio::time::sleep(TOGETHER).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, ?wait, "the LVMNode is not up to date; again later");
                agent
                    .metrics
                    .reconciled("LVMNode", Some("error"), Duration::ZERO);
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(SLOWEST);
            }
        }
    }
}

/// Why the LVMNode is not up to date.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("looking at the VGs ended early: {0}")]
    Stopped(#[from] tokio::task::JoinError),
}

async fn attempt(agent: &Arc<Agent>, inputs: &mut Inputs) -> Result<(), Failure> {
    let engine = agent.engine.clone();
    inputs.changes.mark_unchanged();
    let look = tokio::task::spawn_blocking(move || Look::at(&engine)).await??;
    let locks = agent.engine.host().locks.absent().is_none();
    tell(agent, &look, inputs);
    let groups: Vec<VolumeGroup> = look
        .vgs
        .iter()
        .map(|summary| volume_group(summary, locks))
        .collect();
    let Some(owner) = inputs.owner.borrow_and_update().clone() else {
        return Ok(());
    };
    let Some(present) = inputs.present.borrow_and_update().clone() else {
        return Ok(());
    };
    let api: Api<LvmNode> = Api::namespaced(agent.client.clone(), &agent.namespace);
    match present {
        None => create(&api, agent, owner, groups).await?,
        Some(present) if !is_right(&present, &owner, &groups) => {
            let change = json!({
                "metadata": { "ownerReferences": owners(&present, owner) },
                "volumeGroups": groups,
            });
            let parameters = PatchParams {
                field_manager: Some(MANAGER.to_owned()),
                ..PatchParams::default()
            };
            api.patch(&agent.node, &parameters, &Patch::Merge(&change))
                .await?;
            agent.metrics.reconciled("LVMNode", None, Duration::ZERO);
        }
        Some(_) => {}
    }
    Ok(())
}

async fn create(
    api: &Api<LvmNode>,
    agent: &Agent,
    owner: OwnerReference,
    volume_groups: Vec<VolumeGroup>,
) -> Result<(), kube::Error> {
    let object = LvmNode {
        metadata: ObjectMeta {
            name: Some(agent.node.clone()),
            namespace: Some(agent.namespace.clone()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: NodeFields { volume_groups },
    };
    let parameters = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    match api.create(&parameters, &object).await {
        Ok(_) => Ok(()),
        // The watch will tell.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_right(present: &LvmNode, owner: &OwnerReference, groups: &[VolumeGroup]) -> bool {
    let by_name = |groups: &[VolumeGroup]| -> HashMap<String, VolumeGroup> {
        groups
            .iter()
            .map(|group| (group.name.clone(), group.clone()))
            .collect()
    };
    present.spec.volume_groups.len() == groups.len()
        && by_name(&present.spec.volume_groups) == by_name(groups)
        && present
            .owner_references()
            .iter()
            .any(|o| o.uid == owner.uid)
}

/// The present owners with ours: one of another Node of this name is stale.
fn owners(present: &LvmNode, owner: OwnerReference) -> Vec<OwnerReference> {
    let others = present.owner_references().iter();
    let mut owners: Vec<_> = others
        .filter(|other| other.kind != owner.kind)
        .cloned()
        .collect();
    owners.push(owner);
    owners
}

/// Says what keeps VGs from being used.
fn tell(agent: &Agent, look: &Look, inputs: &Inputs) {
    let Some(Some(present)) = inputs.present.borrow().clone() else {
        return;
    };
    if let Some(error) = agent.engine.host().locks.refusal() {
        let saying = Saying {
            warning: true,
            reason: "LockDirectoryMissing",
            action: "Start",
            note: error.to_string(),
        };
        agent.events.say(present.object_ref(&()), saying);
    }
    let refused = look.vgs.iter().filter_map(VgSummary::obstacle);
    let broken = look.broken.iter().map(|(_, error)| error.to_string());
    let mut notes: Vec<String> = refused.chain(broken).collect();
    notes.sort();
    if notes.is_empty() {
        return;
    }
    let saying = Saying {
        warning: true,
        reason: "VolumeGroupUnusable",
        action: "Scan",
        note: notes.join("; "),
    };
    agent.events.say(present.object_ref(&()), saying);
}
