//! DeleteVolume.

use std::sync::Arc;

use kube::ResourceExt;

use super::Controller;
use super::error::{ControllerError, OfVolume};
use super::patience::{Late, Patience};
use crate::kube::crd::LvmVolume;

/// Removes the volume, and returns whether there was one.
pub(super) async fn remove(
    controller: &Arc<Controller>,
    volume: &str,
    patience: &Patience,
) -> Result<bool, ControllerError> {
    controller.known(volume, patience).await?;
    let Some(object) = find(controller, volume, patience).await? else {
        return Ok(false);
    };
    let snapshots = controller.cluster.snapshots_of(volume);
    if !snapshots.is_empty() {
        return Err(ControllerError::Snapshots {
            volume: volume.to_owned(),
            snapshots: snapshots.join(", "),
        });
    }
    if !object.is_deleting() {
        controller
            .server
            .delete(&object, false)
            .await
            .of_volume(volume)?;
    }
    match patience.wait(gone(controller, &object)).await {
        Ok(()) => Ok(true),
        Err(Late) => Err(ControllerError::Late {
            volume: volume.to_owned(),
            waits: waits(controller, &object),
        }),
    }
}

/// The volume as the watch shows it. Nobody asks again about a volume that was
/// called deleted, and another replica may have made it a moment ago: so where
/// the watch shows none, the server is asked.
async fn find(
    controller: &Controller,
    volume: &str,
    patience: &Patience,
) -> Result<Option<Arc<LvmVolume>>, ControllerError> {
    if let Some(object) = controller.cluster.volume(volume) {
        return Ok(Some(object));
    }
    if controller
        .server
        .volume(volume)
        .await
        .of_volume(volume)?
        .is_none()
    {
        return Ok(None);
    }
    let seen = controller.cluster.until(volume, |now| now.cloned());
    match patience.wait(seen).await {
        Ok(object) => Ok(Some(object)),
        Err(Late) => Err(ControllerError::Late {
            volume: volume.to_owned(),
            waits: "its LVMVolume is not seen yet".to_owned(),
        }),
    }
}

/// Waits until the object is gone.
pub(super) async fn gone(controller: &Controller, object: &LvmVolume) {
    let uid = object.uid();
    let name = object.name_any();
    let gone = controller.cluster.until(&name, |now| {
        let there = now.is_some_and(|now| now.uid() == uid);
        (!there).then_some(())
    });
    gone.await;
}

fn waits(controller: &Controller, object: &LvmVolume) -> String {
    let node = &object.spec.owner_node_id;
    let name = object.name_any();
    match controller.cluster.obstacle(node) {
        Some(why) => format!("node {node} has not removed it: {why}"),
        None => format!(
            "the agent of node {node} has not removed it yet: see kubectl describe lvmvol {name}"
        ),
    }
}
