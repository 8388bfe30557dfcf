//! ValidateVolumeCapabilities.

use crate::engine::{LvState, tags};

use super::super::capability::{Access, CapabilityError};
use super::super::confirm::{answer, asked};
use super::super::driver::Driver;
use super::super::proto::{ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse};
use super::super::status::CsiError;

/// Confirms what the volume can do, or says why not.
pub(super) fn validate(
    driver: &Driver,
    request: ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse, CsiError> {
    if request.volume_capabilities.is_empty() {
        return Err(CapabilityError::Missing.into());
    }
    let lv = driver.volume(&request.volume_id)?;
    let objection = objection(&lv, &request);
    Ok(answer(request, objection))
}

fn objection(lv: &LvState, request: &ValidateVolumeCapabilitiesRequest) -> Option<String> {
    let access = match asked(request) {
        Ok(access) => access,
        Err(objection) => return Some(objection),
    };
    if let Some(made) = tags::value(&lv.tags, tags::ACCESS).filter(|made| *made != access.word()) {
        return Some(format!("volume {} was created for {made} access", lv.name));
    }
    match (access, tags::value(&lv.tags, tags::FILESYSTEM)) {
        (Access::Mount { fs: Some(fs), .. }, Some(made)) if fs.as_str() != made => Some(format!(
            "volume {} holds {made}, not {}",
            lv.name,
            fs.as_str()
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::proto::VolumeCapability;
    use super::super::super::proto::volume_capability::access_mode::Mode;
    use super::super::super::proto::volume_capability::{AccessMode, AccessType, MountVolume};
    use super::super::super::volume::tests::lv;
    use super::*;

    fn ask(fs: &str, mode: Mode) -> ValidateVolumeCapabilitiesRequest {
        ValidateVolumeCapabilitiesRequest {
            volume_capabilities: vec![VolumeCapability {
                access_mode: Some(AccessMode { mode: mode.into() }),
                access_type: Some(AccessType::Mount(MountVolume {
                    fs_type: fs.to_owned(),
                    ..MountVolume::default()
                })),
            }],
            ..ValidateVolumeCapabilitiesRequest::default()
        }
    }

    #[test]
    fn only_what_the_volume_can_do_is_confirmed() {
        let ext4 = lv("vg", "a", &["lvcsi", "lvcsi.access=mount", "lvcsi.fs=ext4"]);
        let block = lv("vg", "a", &["lvcsi", "lvcsi.access=block"]);
        assert_eq!(objection(&ext4, &ask("ext4", Mode::SingleNodeWriter)), None);
        assert_eq!(
            objection(&ext4, &ask("", Mode::SingleNodeMultiWriter)),
            None
        );
        assert!(
            objection(&ext4, &ask("xfs", Mode::SingleNodeWriter))
                .unwrap()
                .contains("ext4")
        );
        assert!(objection(&ext4, &ask("", Mode::MultiNodeMultiWriter)).is_some());
        assert!(
            objection(&block, &ask("", Mode::SingleNodeWriter))
                .unwrap()
                .contains("block")
        );
    }
}
