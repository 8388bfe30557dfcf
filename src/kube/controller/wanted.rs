//! What a CreateVolume asks for, checked.

use kube::ResourceExt;
use kube::api::ObjectMeta;
use lvm2::name::VgName;
use lvm2::units::Bytes;

use super::Controller;
use super::error::ControllerError;
use super::facts::ClaimKey;
use super::forsaken::Purpose;
use super::topology;
use crate::csi::capability::{Access, Capability};
use crate::csi::params::{ParamError, Params, VgMatch};
use crate::csi::proto::{CreateVolumeRequest, TopologyRequirement};
use crate::csi::size::Range;
use crate::csi::volume_id::VolumeId;
use crate::kube::crd::{LvmVolume, VolumeSpec, VolumeState, VolumeStatus, YesNo};
use crate::kube::names::{ACCESS_ANNOTATION, CLAIM_ANNOTATION};

/// Parameters by which the provisioner names the claim.
const CLAIM_NAME: &str = "csi.storage.k8s.io/pvc/name";
const CLAIM_NAMESPACE: &str = "csi.storage.k8s.io/pvc/namespace";

/// A request that can be carried out.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The volume's id, which is the object's name and the LV's.
    pub(super) volume: String,
    /// Mount or block.
    pub(super) access: Access,
    /// StorageClass parameters.
    pub(super) params: Params,
    /// What the caller would take.
    pub(super) range: Range,
    /// What a new volume gets.
    pub(super) size: Bytes,
    /// Where it must be.
    pub(super) requirement: Option<TopologyRequirement>,
    /// The claim that it is for.
    pub(super) claim: Option<ClaimKey>,
}

impl Wanted {
    /// Checks a request.
    pub(super) fn of(
        controller: &Controller,
        request: CreateVolumeRequest,
    ) -> Result<Self, ControllerError> {
        let id = VolumeId::for_object(&request.name)?;
        let access = Capability::all(&request.volume_capabilities)?;
        let not_advertised =
            |field, capability| ControllerError::NotAdvertised { field, capability };
        if request.volume_content_source.is_some() {
            let capability = "CREATE_DELETE_SNAPSHOT or CLONE_VOLUME";
            return Err(not_advertised("volume_content_source", capability));
        }
        if !request.mutable_parameters.is_empty() {
            return Err(not_advertised("mutable_parameters", "MODIFY_VOLUME"));
        }
        let params = Params::parse(&request.parameters)?;
        if params.vgs.is_none() && !controller.any_vg {
            return Err(ParamError::NoVg.into());
        }
        let range = Range::of(request.capacity_range.as_ref())?;
        let parameter = |key: &str| request.parameters.get(key).filter(|v| !v.is_empty());
        let claim = parameter(CLAIM_NAMESPACE).zip(parameter(CLAIM_NAME));
        let claim = claim.map(|(namespace, name)| (namespace.clone(), name.clone()));
        Ok(Self {
            volume: id.lv.to_string(),
            access,
            size: range.capacity()?,
            params,
            range,
            requirement: request.accessibility_requirements,
            claim,
        })
    }

    /// The expression that names the VGs in the object; empty for all.
    fn pattern(&self) -> String {
        self.params
            .vgs
            .as_ref()
            .map(VgMatch::expression)
            .unwrap_or_default()
    }

    /// Whether `pattern` is what an object has of a class that names these VGs:
    /// ours, or the peer's, which puts a name between the anchors as it is.
    fn is_pattern(&self, vgs: &VgMatch, pattern: &str) -> bool {
        let peers = matches!(vgs, VgMatch::Named(vg) if pattern == format!("^{vg}$"));
        peers || pattern == self.pattern()
    }

    /// The object for the volume on `node`, made for the claim of this UID.
    pub(super) fn object(&self, namespace: &str, node: &str, claim: Option<&str>) -> LvmVolume {
        let yes_no = |yes| Some(if yes { YesNo::Yes } else { YesNo::No });
        let access = (ACCESS_ANNOTATION.to_owned(), self.access.word().to_owned());
        let claim = self.claim.as_ref().zip(claim).map(|(key, uid)| {
            let text = Purpose::text(key, uid);
            (CLAIM_ANNOTATION.to_owned(), text)
        });
        LvmVolume {
            metadata: ObjectMeta {
                name: Some(self.volume.clone()),
                namespace: Some(namespace.to_owned()),
                annotations: Some([access].into_iter().chain(claim).collect()),
                ..ObjectMeta::default()
            },
            spec: VolumeSpec {
                owner_node_id: node.to_owned(),
                vol_group: String::new(),
                vg_pattern: self.pattern(),
                capacity: self.size.0.to_string(),
                shared: yes_no(self.params.shared),
                thin_provision: yes_no(false),
                source: None,
                qos: None,
            },
            status: Some(VolumeStatus {
                state: Some(VolumeState::Pending),
                error: None,
            }),
        }
    }

    /// In what the volume that exists is another than the one that is wanted.
    pub(super) fn check(&self, object: &LvmVolume) -> Result<(), ControllerError> {
        match self.difference(object) {
            None => Ok(()),
            Some(difference) => Err(ControllerError::Differs {
                volume: self.volume.clone(),
                difference,
            }),
        }
    }

    fn difference(&self, object: &LvmVolume) -> Option<String> {
        let spec = &object.spec;
        let capacity = match spec.capacity() {
            Ok(capacity) => capacity,
            Err(error) => return Some(error.to_string()),
        };
        if !self.range.contains(capacity) {
            return Some(format!(
                "it has {capacity} bytes, outside of the capacity range"
            ));
        }
        if spec.is_thin() {
            return Some("it is thin".to_owned());
        }
        if spec.is_shared() != self.params.shared {
            return Some("its parameter shared differs".to_owned());
        }
        let made = object.annotations().get(ACCESS_ANNOTATION);
        if let Some(made) = made.filter(|made| *made != self.access.word()) {
            return Some(format!("it was created for {made} access"));
        }
        let vgs = self.params.vgs.as_ref()?;
        match VgName::new(spec.vol_group.as_str()) {
            Ok(vg) if !vgs.matches(&vg) => Some(format!(
                "it is in volume group {vg}, which the parameters do not allow"
            )),
            Err(_) if !spec.vol_group.is_empty() => Some(format!(
                "its volume group {:?} has no valid name",
                spec.vol_group
            )),
            // No VG was chosen yet: by the same rule?
            Err(_) if !self.is_pattern(vgs, &spec.vg_pattern) => Some(format!(
                "it may be in volume groups that match {:?}",
                spec.vg_pattern
            )),
            _ => None,
        }
    }

    /// Whether the volume may be on the object's node.
    pub(super) fn admits(&self, controller: &Controller, object: &LvmVolume) -> bool {
        let node = &object.spec.owner_node_id;
        let labels = controller.cluster.labels(node);
        topology::admits(self.requirement.as_ref(), node, &labels)
    }
}
