//! Protection of PersistentVolumeClaims against leaks.
//!
//! A claim that is deleted while its volume is being made would leave the
//! volume behind: nobody remembers its name. So a claim whose volume is not made
//! within moments carries a finalizer and the volume's name until it is bound. If
//! it is deleted before that, the volume is removed first. In the first moments,
//! and where all goes well, a claim is not touched: each change of it makes the
//! provisioner, and everybody else who watches claims, look at it again. What
//! happens to its volume then is the business of [`forsaken`](super::forsaken).

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
pub(super) const REMOVAL: Duration = Duration::from_secs(10);

/// Times of the protection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// A claim is protected when its volume was not made for so long.
    pub(super) protect: Duration,
    /// A volume is removed when its claim has been gone for so long.
    pub(super) forsaken: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            protect: Duration::from_secs(15),
            forsaken: Duration::from_secs(60),
        }
    }
}

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

fn refused(key: &ClaimKey, volume: &str, what: &'static str) -> ControllerError {
    ControllerError::Claim {
        volume: volume.to_owned(),
        claim: format!("{}/{}", key.0, key.1),
        what,
    }
}

/// The claim that `volume` is to be made for, if one may be.
pub(super) async fn look(
    controller: &Controller,
    key: &ClaimKey,
    volume: &str,
) -> Result<ClaimFacts, ControllerError> {
    let known = match controller.cluster.claim(key) {
        Some(claim) => Some(claim),
        // The watch may be behind the provisioner's.
        None => controller.server.claim(key).await.of_volume(volume)?,
    };
    let claim = known.ok_or_else(|| refused(key, volume, "does not exist"))?;
    if claim.deleting {
        return Err(refused(key, volume, "is being deleted"));
    }
    Ok(claim)
}

/// Puts the protection on the claim that `volume` is being made for.
pub(super) async fn protect(
    controller: &Controller,
    key: &ClaimKey,
    volume: &str,
) -> Result<(), ControllerError> {
    let claim = look(controller, key, volume).await?;
    let is_protected = claim.protected && claim.volume.as_deref() == Some(volume);
    if claim.bound || is_protected {
        return Ok(());
    }
    let changed = controller.server.protect(key, &claim.uid, volume);
    if changed.await.of_volume(volume)? {
        Ok(())
    } else {
        Err(refused(key, volume, "is gone"))
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
