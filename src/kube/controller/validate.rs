//! ValidateVolumeCapabilities.

use std::sync::Arc;

use kube::ResourceExt;

use super::Controller;
use super::error::ControllerError;
use super::patience::Patience;
use crate::csi::capability::CapabilityError;
use crate::csi::confirm::{answer, asked};
use crate::csi::proto::{ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse};
use crate::kube::crd::LvmVolume;
use crate::kube::names::ACCESS_ANNOTATION;

/// Confirms what the volume can do, or says why not.
pub(super) async fn validate(
    controller: &Arc<Controller>,
    request: ValidateVolumeCapabilitiesRequest,
    patience: &Patience,
) -> Result<ValidateVolumeCapabilitiesResponse, ControllerError> {
    if request.volume_capabilities.is_empty() {
        return Err(CapabilityError::Missing.into());
    }
    controller.known(&request.volume_id, patience).await?;
    let object = controller.object(&request.volume_id).await?;
    let objection = objection(&object, &request);
    Ok(answer(request, objection))
}

fn objection(object: &LvmVolume, request: &ValidateVolumeCapabilitiesRequest) -> Option<String> {
    let access = match asked(request) {
        Ok(access) => access,
        Err(objection) => return Some(objection),
    };
    let made = object.annotations().get(ACCESS_ANNOTATION)?;
    (made != access.word())
        .then(|| format!("volume {} was created for {made} access", object.name_any()))
}
