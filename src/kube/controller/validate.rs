//! ValidateVolumeCapabilities.

use std::sync::Arc;

use kube::ResourceExt;

use super::Controller;
use super::error::ControllerError;
use super::patience::Patience;
use crate::csi::capability::{Capability, CapabilityError};
use crate::csi::params::Params;
use crate::csi::proto::validate_volume_capabilities_response::Confirmed;
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
    Ok(match objection(&object, &request) {
        Some(message) => ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message,
        },
        None => ValidateVolumeCapabilitiesResponse {
            confirmed: Some(Confirmed {
                volume_context: request.volume_context,
                volume_capabilities: request.volume_capabilities,
                parameters: request.parameters,
                mutable_parameters: request.mutable_parameters,
            }),
            message: String::new(),
        },
    })
}

fn objection(object: &LvmVolume, request: &ValidateVolumeCapabilitiesRequest) -> Option<String> {
    let access = match Capability::all(&request.volume_capabilities) {
        Ok(access) => access,
        Err(error) => return Some(error.to_string()),
    };
    if let Err(error) = Params::parse(&request.parameters) {
        return Some(error.to_string());
    }
    if !request.mutable_parameters.is_empty() {
        return Some("mutable_parameters are not supported".to_owned());
    }
    let made = object.annotations().get(ACCESS_ANNOTATION)?;
    (made != access.word())
        .then(|| format!("volume {} was created for {made} access", object.name_any()))
}
