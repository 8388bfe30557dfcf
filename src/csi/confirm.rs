//! What ValidateVolumeCapabilities answers, wherever the volume is known from.

use super::capability::{Access, Capability};
use super::params::Params;
use super::proto::validate_volume_capabilities_response::Confirmed;
use super::proto::{ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse};

/// The access that is asked for, or why no volume has all that is.
pub(crate) fn asked(request: &ValidateVolumeCapabilitiesRequest) -> Result<Access, String> {
    let access =
        Capability::all(&request.volume_capabilities).map_err(|error| error.to_string())?;
    Params::parse(&request.parameters).map_err(|error| error.to_string())?;
    if !request.mutable_parameters.is_empty() {
        return Err("mutable_parameters are not supported".to_owned());
    }
    Ok(access)
}

/// Confirms everything, or says what stands against it.
pub(crate) fn answer(
    request: ValidateVolumeCapabilitiesRequest,
    objection: Option<String>,
) -> ValidateVolumeCapabilitiesResponse {
    match objection {
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
    }
}
