//! CreateVolume.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use lvm2::name::VgName;

use super::Controller;
use super::decide::Demand;
use super::error::{ControllerError, OfVolume};
use super::facts::ClaimKey;
use super::patience::{Late, Patience};
use super::wanted::Wanted;
use super::{claims, delete};
use crate::csi::context;
use crate::csi::params::VgMatch;
use crate::csi::proto::{CreateVolumeResponse, Topology, Volume};
use crate::error::Kind;
use crate::kube::crd::{LvmVolume, VolumeState};
use crate::kube::events::Saying;
use crate::kube::names::{KIND_ANNOTATION, NODE_TOPOLOGY};

/// How long a volume waits for the agent of a node that seems dead before it
/// is made on another.
const DEAD: Duration = Duration::from_secs(30);

/// Makes the volume, or returns the one that an earlier call made.
pub(super) async fn create(
    controller: &Arc<Controller>,
    wanted: &Wanted,
    patience: &Patience,
) -> Result<CreateVolumeResponse, ControllerError> {
    let mut task = Task {
        controller,
        wanted,
        patience,
        claim: None,
        tried: HashMap::new(),
    };
    task.known().await?;
    let Some(key) = &wanted.claim else {
        return task.make().await;
    };
    let claim = claims::look(controller, key, &wanted.volume).await?;
    task.claim = Some(claim.uid.clone());
    task.warn_of_pattern(key, &claim.uid);
    task.make_protected(key).await
}

struct Task<'a> {
    controller: &'a Arc<Controller>,
    wanted: &'a Wanted,
    patience: &'a Patience,
    /// UID of the claim.
    claim: Option<String>,
    /// Nodes that this call has tried, and why they did not do.
    tried: HashMap<String, String>,
}

impl Task<'_> {
    fn volume(&self) -> String {
        self.wanted.volume.clone()
    }

    fn late(&self, waits: String) -> ControllerError {
        ControllerError::Late {
            volume: self.volume(),
            waits,
        }
    }

    /// Waits until everything was heard that decisions need.
    async fn known(&self) -> Result<(), ControllerError> {
        self.controller
            .known(&self.wanted.volume, self.patience)
            .await
    }

    async fn make(&mut self) -> Result<CreateVolumeResponse, ControllerError> {
        let wanted = self.wanted;
        loop {
            let object = match self.controller.cluster.volume(&wanted.volume) {
                None => match self.ask().await? {
                    Some(object) => object,
                    None => continue,
                },
                Some(object) if object.is_deleting() => {
                    self.gone(&object).await?;
                    continue;
                }
                Some(object) => object,
            };
            wanted.check(&object)?;
            match object.state() {
                VolumeState::Ready => return self.answer(&object),
                VolumeState::Failed => self.failed(&object).await?,
                VolumeState::Unknown => {
                    return Err(ControllerError::Object {
                        volume: wanted.volume.clone(),
                        reason: "its status.state is a word that this release does not know"
                            .to_owned(),
                    });
                }
                VolumeState::Pending => match self.misplaced(&object) {
                    Some(why) => self.give_up(&object, &why).await?,
                    None => self.settled(&object).await?,
                },
            }
        }
    }

    /// As [`Self::make`], and protects the claim if that takes long, or if a
    /// volume is left for another call.
    async fn make_protected(
        &mut self,
        key: &ClaimKey,
    ) -> Result<CreateVolumeResponse, ControllerError> {
        let (controller, volume) = (self.controller, &self.wanted.volume);
        let protect = || claims::protect(controller, key, volume);
        let result = {
            let mut making = std::pin::pin!(self.make());
            let quick = tokio::time::timeout(controller.times.protect, &mut making);
            match quick.await {
                Ok(result) => result,
                Err(_) => {
                    protect().await?;
                    return making.await;
                }
            }
        };
        if result.is_err()
            && controller.cluster.volume(volume).is_some()
            && let Err(error) = protect().await
        {
            tracing::warn!(volume, %error, "the claim is not protected");
        }
        result
    }

    fn warn_of_pattern(&self, key: &ClaimKey, uid: &str) {
        if let Some(vgs @ VgMatch::Anchored(_)) = &self.wanted.params.vgs {
            let saying = Saying {
                warning: true,
                reason: "VolumeGroupIsPattern",
                action: "Provision",
                note: format!(
                    "the StorageClass's {vgs} is no name and is used as a regular expression; \
                     write it as vgpattern"
                ),
            };
            self.controller
                .events
                .say(claims::reference(key, uid), saying);
        }
    }

    /// Chooses a node and asks its agent. Nothing is returned if there is an
    /// object already that the watch has not shown yet, or is none any more.
    async fn ask(&self) -> Result<Option<Arc<LvmVolume>>, ControllerError> {
        let wanted = self.wanted;
        let cluster = &self.controller.cluster;
        let demand = Demand {
            volume: &wanted.volume,
            size: wanted.size,
            vgs: wanted.params.vgs.as_ref(),
            scheduler: wanted.params.scheduler,
            requirement: wanted.requirement.as_ref(),
            tried: &self.tried,
        };
        let place = cluster
            .place(&demand)
            .map_err(|choice| ControllerError::NoPlace {
                volume: self.volume(),
                size: wanted.size,
                vgs: demand
                    .vgs
                    .map_or_else(|| "any VG".to_owned(), ToString::to_string),
                reasons: choice.why(),
            })?;
        tracing::info!(node = place.node, vg = place.vg, "chosen");
        let namespace = &self.controller.namespace;
        let object = wanted.object(namespace, &place.node, self.claim.as_deref());
        match self.controller.server.create(&object).await {
            Ok(true) => {}
            // Another replica's, or an earlier process's.
            Ok(false) => {
                tracing::info!("there is an LVMVolume already");
                cluster.withdraw(&wanted.volume);
            }
            Err(error) => {
                // Where the server did not answer, the object may be made: the
                // promise stands until the watch would have shown it.
                if matches!(error, kube::Error::Api(_)) {
                    cluster.withdraw(&wanted.volume);
                }
                return Err(error).of_volume(&wanted.volume);
            }
        }
        let seen = cluster.until(&wanted.volume, |object| object.cloned());
        match self.patience.wait(seen).await {
            Ok(object) => Ok(Some(object)),
            Err(Late) => Err(self.late("its LVMVolume was made and is not seen yet".to_owned())),
        }
    }

    /// Waits until the volume is no longer Pending.
    async fn settled(&self, object: &LvmVolume) -> Result<(), ControllerError> {
        let uid = object.uid();
        let settled = self.controller.cluster.until(&self.wanted.volume, |now| {
            let waits = now.is_some_and(|now| {
                now.uid() == uid && !now.is_deleting() && now.state() == VolumeState::Pending
            });
            (!waits).then_some(())
        });
        self.patience.wait(settled).await.map_err(|Late| {
            let node = &object.spec.owner_node_id;
            let mut waits = format!("the agent of node {node} has not made it yet");
            if let Some(why) = self.controller.cluster.obstacle(node) {
                waits.push_str(&format!(" ({why})"));
            }
            self.late(waits)
        })
    }

    /// Waits until the object that is being deleted is gone.
    async fn gone(&self, object: &LvmVolume) -> Result<(), ControllerError> {
        let gone = delete::gone(self.controller, object);
        self.patience.wait(gone).await.map_err(|Late| {
            self.late(format!(
                "an earlier LVMVolume of this name is still being deleted by the agent of node {}",
                object.spec.owner_node_id
            ))
        })
    }

    /// The agent could not make it: it is taken back, and another node tried.
    async fn failed(&mut self, object: &LvmVolume) -> Result<(), ControllerError> {
        let node = object.spec.owner_node_id.clone();
        let error = object
            .status
            .as_ref()
            .and_then(|status| status.error.clone());
        let message = error
            .as_ref()
            .and_then(|error| error.message.clone())
            .unwrap_or_else(|| "it failed without a reason".to_owned());
        // The peer's agents write none: then another node may do better.
        let word = object.annotations().get(KIND_ANNOTATION);
        let kind = word.and_then(|word| Kind::of_word(word));
        self.give_up(object, &message).await?;
        match kind {
            // No other node would see this otherwise.
            Some(kind @ (Kind::InvalidArgument | Kind::AlreadyExists)) => {
                Err(ControllerError::Refused {
                    volume: self.volume(),
                    node,
                    kind,
                    message,
                })
            }
            _ => Ok(()),
        }
    }

    /// Why the volume must not wait where it is, if so.
    fn misplaced(&self, object: &LvmVolume) -> Option<String> {
        let node = &object.spec.owner_node_id;
        if !self.wanted.admits(self.controller, object) {
            return Some(format!("the topology does not admit node {node} any more"));
        }
        let why = self.controller.cluster.obstacle(node)?;
        let made = object.metadata.creation_timestamp.as_ref();
        let age = made.map_or(i64::MAX, |made| {
            Timestamp::now()
                .as_second()
                .saturating_sub(made.0.as_second())
        });
        let limit = i64::try_from(DEAD.as_secs()).unwrap_or(i64::MAX);
        (why.is_dead() && age >= limit).then(|| why.to_string())
    }

    /// Takes the object back, if it still is as it was judged. Its agent, if it
    /// is at work on it, takes back what it makes.
    async fn give_up(&mut self, object: &LvmVolume, why: &str) -> Result<(), ControllerError> {
        let node = object.spec.owner_node_id.clone();
        let volume = &self.wanted.volume;
        let deleted = self.controller.server.delete(object, true).await;
        if !deleted.of_volume(volume)? {
            // It has changed: look again, once the watch shows how.
            let version = object.resource_version();
            let changed = self.controller.cluster.until(volume, |now| {
                let same = now.is_some_and(|now| now.resource_version() == version);
                (!same).then_some(())
            });
            let waits = "its LVMVolume has changed and is not seen again yet";
            return self
                .patience
                .wait(changed)
                .await
                .map_err(|Late| self.late(waits.to_owned()));
        }
        tracing::warn!(node, why, "not made there: another node is tried");
        self.controller.cluster.failed(volume, &node, why);
        self.tried.insert(node.clone(), why.to_owned());
        let saying = |note| Saying {
            warning: true,
            reason: "VolumeMoved",
            action: "Provision",
            note,
        };
        let note = format!("volume {volume} was not made on node {node}: {why}; another is tried");
        self.controller
            .events
            .say(object.object_ref(&()), saying(note.clone()));
        if let Some(key) = &self.wanted.claim {
            let uid = self.controller.cluster.claim(key).map(|claim| claim.uid);
            let about = claims::reference(key, &uid.unwrap_or_default());
            self.controller.events.say(about, saying(note));
        }
        self.gone(object).await
    }

    fn answer(&self, object: &LvmVolume) -> Result<CreateVolumeResponse, ControllerError> {
        let broken = |reason: String| ControllerError::Object {
            volume: self.volume(),
            reason,
        };
        let capacity = object
            .spec
            .capacity()
            .map_err(|error| broken(error.to_string()))?;
        let vg = VgName::new(object.spec.vol_group.as_str())
            .map_err(|error| broken(format!("spec.volGroup: {error}")))?;
        let params = &self.wanted.params;
        let node = &object.spec.owner_node_id;
        Ok(CreateVolumeResponse {
            volume: Some(Volume {
                capacity_bytes: i64::try_from(capacity.0).unwrap_or(i64::MAX),
                volume_id: self.volume(),
                volume_context: context::of(&vg, params.format_options.as_deref(), params.fs),
                content_source: None,
                accessible_topology: vec![Topology {
                    segments: [(NODE_TOPOLOGY.to_owned(), node.clone())].into(),
                }],
            }),
        })
    }
}
