//! ControllerExpandVolume.

use std::sync::Arc;

use kube::ResourceExt;
use lvm2::units::Bytes;
use serde_json::json;

use super::Controller;
use super::decide::Growth;
use super::error::{ControllerError, OfVolume};
use super::patience::{Late, Patience};
use crate::csi::capability::Capability;
use crate::csi::proto::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use crate::csi::size::Range;
use crate::kube::crd::{LvmVolume, VolumeState};

/// Writes the new size into the object, once it is known to fit. The agent
/// grows the LV, and the node's part the file system.
pub(super) async fn expand(
    controller: &Arc<Controller>,
    request: &ControllerExpandVolumeRequest,
    patience: &Patience,
) -> Result<ControllerExpandVolumeResponse, ControllerError> {
    let expanded = expand_now(controller, request, patience).await;
    expanded.map_err(|error| ControllerError::Growth(Box::new(error)))
}

async fn expand_now(
    controller: &Arc<Controller>,
    request: &ControllerExpandVolumeRequest,
    patience: &Patience,
) -> Result<ControllerExpandVolumeResponse, ControllerError> {
    let volume = &request.volume_id;
    let range = Range::required(request.capacity_range.as_ref())?;
    if request.volume_capability.is_some() {
        Capability::of(request.volume_capability.as_ref())?;
    }
    controller.known(volume, patience).await?;
    loop {
        let object = controller.object(volume).await?;
        let capacity = usable(&object)?;
        if let Some(limit) = range.limit.filter(|limit| capacity > *limit) {
            return Err(ControllerError::Shrink {
                volume: volume.clone(),
                size: capacity,
                limit,
            });
        }
        if capacity >= range.required {
            return Ok(answer(capacity));
        }
        let snapshots = controller.cluster.snapshots_of(volume);
        if !snapshots.is_empty() {
            return Err(ControllerError::Snapshots {
                volume: volume.clone(),
                snapshots: snapshots.join(", "),
            });
        }
        let size = range.capacity()?;
        if grow(controller, &object, capacity, size).await? {
            return Ok(answer(size));
        }
        // Somebody changed the object: look at it again.
        let version = object.resource_version();
        let changed = controller.cluster.until(volume, |now| {
            let same = now.is_some_and(|now| now.resource_version() == version);
            (!same).then_some(())
        });
        patience
            .wait(changed)
            .await
            .map_err(|Late| ControllerError::Late {
                volume: volume.clone(),
                waits: "its LVMVolume has changed and is not seen again yet".to_owned(),
            })?;
    }
}

/// The size of a volume that can grow.
fn usable(object: &LvmVolume) -> Result<Bytes, ControllerError> {
    let volume = object.name_any();
    let not_ready = |state| ControllerError::NotReady {
        volume: volume.clone(),
        state,
    };
    if object.is_deleting() {
        return Err(not_ready("is being deleted"));
    }
    match object.state() {
        VolumeState::Ready => {}
        VolumeState::Pending => return Err(not_ready("is not made yet")),
        VolumeState::Failed => return Err(not_ready("could not be made")),
        VolumeState::Unknown => return Err(not_ready("is in a state that is not known")),
    }
    if object.spec.is_thin() {
        // Its agent would leave the LV as it is, and the size would be a lie.
        return Err(ControllerError::Thin { volume });
    }
    object
        .spec
        .capacity()
        .map_err(|error| ControllerError::Object {
            volume: volume.clone(),
            reason: error.to_string(),
        })
}

/// Promises the space and writes the size; false if the object has changed.
async fn grow(
    controller: &Controller,
    object: &LvmVolume,
    from: Bytes,
    to: Bytes,
) -> Result<bool, ControllerError> {
    let volume = object.name_any();
    let more = Bytes(to.0.saturating_sub(from.0));
    controller
        .cluster
        .grow(object, more)
        .map_err(|why| match why {
            Growth::NoRoom(free) => ControllerError::NoRoom {
                volume: volume.clone(),
                vg: object.spec.vol_group.clone(),
                node: object.spec.owner_node_id.clone(),
                more,
                free,
            },
            Growth::NoReport(reason) => ControllerError::NoReport {
                volume: volume.clone(),
                reason,
            },
        })?;
    let change = json!({
        "metadata": { "resourceVersion": object.resource_version() },
        "spec": { "capacity": to.0.to_string() },
    });
    let written = controller.server.patch(&volume, &change).await;
    if !matches!(written, Ok(true)) {
        controller.cluster.grow_withdrawn(&volume);
    }
    written.of_volume(&volume)
}

fn answer(size: Bytes) -> ControllerExpandVolumeResponse {
    ControllerExpandVolumeResponse {
        capacity_bytes: i64::try_from(size.0).unwrap_or(i64::MAX),
        // Also when nothing changed now: an earlier answer may have been lost
        // before the node's part was done. And for block volumes, so that the
        // pod sees the size only once the LV has it.
        node_expansion_required: true,
    }
}
