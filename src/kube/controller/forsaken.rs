//! Volumes whose claim is gone.
//!
//! A claim that is deleted before it is bound, and that did not carry the
//! [protection](super::claims) yet, leaves a volume that nobody can use and
//! nobody will delete, unless the provisioner has made a PersistentVolume of it
//! by then. The volume's object names the claim, so whoever saw the claim go away
//! removes the volume, after a time in which a PersistentVolume would have
//! appeared.
//!
//! Only a process that saw the claim go away unbound does that. Any other claim
//! may have been bound, and its volume in use and kept on purpose (reclaim policy
//! Retain). Such volumes are told of when a leader begins, and are an
//! administrator's to delete.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::Controller;
use super::background::{Due, work};
use super::claims::REMOVAL;
use super::cluster::Cluster;
use super::error::{ControllerError, OfVolume};
use super::facts::ClaimKey;
use super::patience::Patience;
use crate::kube::crd::LvmVolume;
use crate::kube::events::Saying;
use crate::kube::names::CLAIM_ANNOTATION;

/// The claim that a volume was made for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Purpose {
    /// Its namespace and name.
    pub(super) key: ClaimKey,
    /// Its identity.
    pub(super) uid: String,
}

impl Purpose {
    /// What the object says.
    pub(super) fn of(object: &LvmVolume) -> Option<Self> {
        Self::parse(object.annotations().get(CLAIM_ANNOTATION)?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (namespace, name, uid) = (part()?, part()?, part()?);
        parts.next().is_none().then(|| Self {
            key: (namespace.to_owned(), name.to_owned()),
            uid: uid.to_owned(),
        })
    }

    /// As the object says it.
    pub(super) fn text((namespace, name): &ClaimKey, uid: &str) -> String {
        format!("{namespace}/{name}/{uid}")
    }
}

impl Cluster {
    /// Volumes whose claim was seen to go away before it was bound, and when.
    fn forsaken(&self) -> Vec<(Arc<LvmVolume>, Instant)> {
        let state = self.state();
        let of = |uid| {
            let volume = state.volumes.get(state.made_for.get(uid)?)?;
            (!volume.is_deleting()).then(|| Arc::clone(volume))
        };
        let unbound = state.unbound.iter();
        unbound
            .filter_map(|(uid, since)| Some((of(uid)?, *since)))
            .collect()
    }

    /// There is a PersistentVolume for the claim: what becomes of the volume is
    /// decided there.
    fn acquit(&self, uid: &str) {
        self.state().unbound.remove(uid);
    }

    /// Volumes whose claim is not there.
    fn unclaimed(&self) -> Vec<(Arc<LvmVolume>, Purpose)> {
        let state = self.state();
        let volumes = state.volumes.values();
        volumes
            .filter(|volume| !volume.is_deleting())
            .filter_map(|volume| Some((Arc::clone(volume), Purpose::of(volume)?)))
            .filter(|(_, purpose)| {
                let claim = state.claims.get(&purpose.key);
                claim.is_none_or(|claim| claim.uid != purpose.uid)
            })
            .collect()
    }
}

/// Sees to such volumes, `late` if others do it too, for as long as it is polled.
pub(super) async fn keep(controller: Arc<Controller>, late: Duration) {
    if late.is_zero() {
        for (object, purpose) in controller.cluster.unclaimed() {
            tell(&controller, &object, &purpose).await;
        }
    }
    let changes = controller.cluster.changes();
    let after = controller.times.forsaken + late;
    let due = || {
        let all = controller.cluster.forsaken().into_iter();
        all.map(|(object, since)| Due {
            key: object.name_any(),
            about: object,
            from: Some(since + after),
        })
        .collect()
    };
    let job = |_, object| remove(Arc::clone(&controller), object);
    work("Forsaken", &controller.metrics, changes, due, job).await;
}

async fn remove(
    controller: Arc<Controller>,
    object: Arc<LvmVolume>,
) -> Result<(), ControllerError> {
    let volume = object.name_any();
    let Some(purpose) = Purpose::of(&object) else {
        return Ok(());
    };
    let server = &controller.server;
    let claim = server.claim(&purpose.key).await.of_volume(&volume)?;
    let is_there = claim.is_some_and(|claim| claim.uid == purpose.uid);
    if is_there || server.has_pv(&volume).await.of_volume(&volume)? {
        controller.cluster.acquit(&purpose.uid);
        return Ok(());
    }
    let patience = Patience::new(REMOVAL, CancellationToken::new());
    let _guard = controller.enter("leak protection", &volume)?;
    if super::delete::remove(&controller, &volume, &patience).await? {
        let (namespace, name) = &purpose.key;
        let note = format!(
            "PersistentVolumeClaim {namespace}/{name} was deleted before it was bound: volume \
             {volume}, made for it, was removed"
        );
        say(&controller, &object, false, "VolumeRemoved", note);
    }
    Ok(())
}

/// Tells of a volume that nobody seems to need.
async fn tell(controller: &Controller, object: &LvmVolume, purpose: &Purpose) {
    let volume = object.name_any();
    match controller.server.has_pv(&volume).await {
        Ok(true) => {}
        Ok(false) => {
            let (namespace, name) = &purpose.key;
            let note = format!(
                "volume {volume} was made for PersistentVolumeClaim {namespace}/{name}, which is \
                 gone, and no PersistentVolume has its name. If nobody needs what is in it: kubectl \
                 delete lvmvol {volume}"
            );
            say(controller, object, true, "Unclaimed", note);
        }
        Err(error) => tracing::warn!(volume, %error, "not known whether it is needed"),
    }
}

fn say(
    controller: &Controller,
    object: &LvmVolume,
    warning: bool,
    reason: &'static str,
    note: String,
) {
    let saying = Saying {
        warning,
        reason,
        action: "Delete",
        note,
    };
    controller.events.say(object.object_ref(&()), saying);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kube::controller::facts::ClaimFacts;

    /// Between two lists it may have been bound, used, and its PV kept or deleted.
    #[test]
    fn only_a_claim_that_was_seen_to_go_away_unbound_forsakes_its_volume() {
        let key = || ("shop".to_owned(), "web".to_owned());
        let claim = |bound| ClaimFacts {
            uid: "0f8f".to_owned(),
            bound,
            deleting: false,
            protected: false,
            volume: None,
        };
        let object = json!({
            "metadata": {
                "name": "pvc-0f8f",
                "annotations": { CLAIM_ANNOTATION: Purpose::text(&key(), "0f8f") },
            },
            "spec": { "ownerNodeID": "n1", "volGroup": "data", "vgPattern": "", "capacity": "1" },
        });
        let cluster = || {
            let cluster = Cluster::default();
            cluster.put_claim(key(), claim(false));
            cluster.put_volume(serde_json::from_value(object.clone()).unwrap());
            cluster
        };
        let listed = cluster();
        listed.set_claims(std::collections::HashMap::new());
        assert!(listed.forsaken().is_empty());
        assert_eq!(listed.unclaimed().len(), 1);
        // Bound at the end, whatever was seen of it before.
        let used = cluster();
        used.drop_claim(&key(), claim(true));
        assert!(used.forsaken().is_empty());
        let unused = cluster();
        unused.drop_claim(&key(), claim(false));
        assert_eq!(unused.forsaken().len(), 1);
        unused.acquit("0f8f");
        assert!(unused.forsaken().is_empty());
    }

    #[test]
    fn what_is_no_claim_is_none() {
        let key = ("shop".to_owned(), "web".to_owned());
        let text = Purpose::text(&key, "0f8f");
        assert_eq!(text, "shop/web/0f8f");
        let uid = "0f8f".to_owned();
        assert_eq!(Purpose::parse(&text), Some(Purpose { key, uid }));
        for wrong in ["", "shop/web", "shop//0f8f", "shop/web/", "shop/web/0f8f/x"] {
            assert_eq!(Purpose::parse(wrong), None, "{wrong}");
        }
    }
}
