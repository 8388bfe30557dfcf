//! Protection of PersistentVolumeClaims against leaks.
//!
//! A claim that is deleted while its volume is being made would leave the
//! volume behind: nobody remembers its name. So the claim carries a finalizer
//! and the volume's name from before the volume is asked for until it is bound.
//! If it is deleted before that, the volume is removed first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio_util::sync::CancellationToken;

use super::Controller;
use super::background::{Due, work};
use super::error::{ControllerError, OfVolume};
use super::facts::{ClaimFacts, ClaimKey};
use super::patience::Patience;
use crate::kube::events::Saying;

/// How long one attempt to remove a volume waits for its agent.
const REMOVAL: Duration = Duration::from_secs(10);

/// A reference to a claim.
pub(super) fn reference(key: &ClaimKey, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(key.0.clone()),
        name: Some(key.1.clone()),
        uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        ..ObjectReference::default()
    }
}

/// Puts the protection on the claim that `volume` is to be made for.
pub(super) async fn protect(
    controller: &Controller,
    key: &ClaimKey,
    volume: &str,
) -> Result<ClaimFacts, ControllerError> {
    let refused = |what| ControllerError::Claim {
        volume: volume.to_owned(),
        claim: format!("{}/{}", key.0, key.1),
        what,
    };
    let known = match controller.cluster.claim(key) {
        Some(claim) => Some(claim),
        // The watch may be behind the provisioner's.
        None => controller.server.claim(key).await.of_volume(volume)?,
    };
    let claim = known.ok_or_else(|| refused("does not exist"))?;
    if claim.deleting {
        return Err(refused("is being deleted"));
    }
    let is_protected = claim.protected && claim.volume.as_deref() == Some(volume);
    if claim.bound || is_protected {
        return Ok(claim);
    }
    let changed = controller.server.protect(key, &claim.uid, volume);
    if changed.await.of_volume(volume)? {
        Ok(claim)
    } else {
        Err(refused("is gone"))
    }
}

/// Takes protections away once they have done their work for so long, for as long
/// as it is polled.
pub(super) async fn keep(controller: Arc<Controller>, late: Duration) {
    let changes = controller.cluster.changes();
    let since: Mutex<HashMap<ClaimKey, Instant>> = Mutex::default();
    let due = || {
        let keys = controller.cluster.claims_due();
        let mut since = since.lock().unwrap_or_else(PoisonError::into_inner);
        since.retain(|key, _| keys.contains(key));
        let mut due = |key: ClaimKey| {
            let since = since.entry(key.clone()).or_insert_with(Instant::now);
            Due {
                key,
                about: (),
                from: Some(*since + late),
            }
        };
        keys.iter().cloned().map(&mut due).collect()
    };
    let job = |key: ClaimKey, ()| settle(Arc::clone(&controller), key);
    work(
        "PersistentVolumeClaim",
        &controller.metrics,
        changes,
        due,
        job,
    )
    .await;
}

async fn settle(controller: Arc<Controller>, key: ClaimKey) -> Result<(), ControllerError> {
    let Some(claim) = controller.cluster.claim(&key).filter(ClaimFacts::is_due) else {
        return Ok(());
    };
    let volume = claim.volume.clone().unwrap_or_default();
    // A bound claim's volume is its PersistentVolume's business.
    if !claim.bound && !volume.is_empty() {
        remove(&controller, &key, &claim, &volume).await?;
    }
    let released = controller.server.release(&key, &claim.uid);
    released.await.of_volume(&volume)?;
    Ok(())
}

async fn remove(
    controller: &Arc<Controller>,
    key: &ClaimKey,
    claim: &ClaimFacts,
    volume: &str,
) -> Result<(), ControllerError> {
    let say = |warning, reason, note| {
        let saying = Saying {
            warning,
            reason,
            action: "Delete",
            note,
        };
        controller.events.say(reference(key, &claim.uid), saying);
    };
    if !claim.owns(volume) {
        say(
            true,
            "VolumeNotOwned",
            format!(
                "the annotation names volume {volume}, which was not made for this claim: it is \
                 left alone"
            ),
        );
        return Ok(());
    }
    let patience = Patience::new(REMOVAL, CancellationToken::new());
    let _guard = controller.enter("leak protection", volume)?;
    if super::delete::remove(controller, volume, &patience).await? {
        say(
            false,
            "VolumeRemoved",
            format!("volume {volume}, made for this claim, was removed with it"),
        );
    }
    Ok(())
}
