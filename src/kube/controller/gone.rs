//! Deletions on nodes that are gone. Their agents would remove the LVs and then
//! the finalizers; where the Node object is gone, nobody will, and the objects
//! would stay for ever.
//!
//! No disk is touched. Should the node come back with its disks, its agent
//! reports the LVs as orphans.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};
use serde_json::json;

use super::Controller;
use super::background::{Due, work};
use super::decide::Stranded;
use crate::kube::crd::LvmVolume;
use crate::kube::events::Saying;
use crate::kube::names::FINALIZER;
use crate::kube::patch::without_finalizer;

/// An object of a node that is gone.
#[derive(Clone)]
enum Object {
    Volume(Arc<LvmVolume>),
    Snapshot(Stranded),
}

/// Ends deletions for as long as it is polled.
pub(super) async fn end_deletions(controller: Arc<Controller>, grace: Duration) {
    let changes = controller.cluster.changes();
    let due = || due(&controller, grace);
    let job = |_: (&'static str, String), object| release(Arc::clone(&controller), object);
    work("GoneNode", &controller.metrics, changes, due, job).await;
}

fn due(controller: &Controller, grace: Duration) -> Vec<Due<(&'static str, String), Object>> {
    let (volumes, snapshots) = controller.cluster.stranded();
    let entry = |kind, name, since: Instant, about| Due {
        key: (kind, name),
        about,
        from: Some(since + grace),
    };
    let volumes = volumes.into_iter().map(|(object, since)| {
        entry(
            "LVMVolume",
            object.name_any(),
            since,
            Object::Volume(object),
        )
    });
    let snapshots = snapshots.into_iter().map(|snapshot| {
        let (name, since) = (snapshot.name.clone(), snapshot.since);
        entry("LVMSnapshot", name, since, Object::Snapshot(snapshot))
    });
    volumes.chain(snapshots).collect()
}

async fn release(controller: Arc<Controller>, object: Object) -> Result<(), kube::Error> {
    match object {
        Object::Volume(object) => {
            let name = object.name_any();
            let change = without_finalizer(&object);
            if controller.server.patch(&name, &change).await? {
                let node = &object.spec.owner_node_id;
                let note = format!(
                    "node {node} is gone, so is the volume; should the node come back with its \
                     disks, LV {}/{name} is still on them",
                    object.spec.vol_group
                );
                let saying = Saying {
                    warning: true,
                    reason: "NodeGone",
                    action: "Delete",
                    note,
                };
                controller.events.say(object.object_ref(&()), saying);
            }
        }
        Object::Snapshot(Stranded { name, facts, .. }) => {
            let others: Vec<_> = facts
                .finalizers
                .iter()
                .filter(|f| *f != FINALIZER)
                .collect();
            let change = json!({
                "metadata": { "finalizers": others, "resourceVersion": facts.version },
            });
            controller.server.patch_snapshot(&name, &change).await?;
            tracing::warn!(
                snapshot = name,
                node = facts.node,
                "its node is gone, so is it"
            );
        }
    }
    Ok(())
}
