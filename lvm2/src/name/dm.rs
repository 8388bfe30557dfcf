//! Names and uuids of device-mapper devices.

use super::{LvName, MAX_NAME, NameError, VgName};
use crate::id::{LvId, VgId};

/// Whether an LV of this name can exist in this VG: both names must fit in
/// one device-mapper name, by LVM2's rule and after the doubling of hyphens.
///
/// # Errors
/// When they do not fit.
pub fn check_pair(vg: &VgName, lv: &LvName) -> Result<(), NameError> {
    let plain = vg.as_str().len() + lv.as_str().len() + 3;
    if plain > MAX_NAME || dm_name(vg.as_str(), lv.as_str(), None).len() > MAX_NAME {
        return Err(NameError::PairTooLong {
            vg: vg.to_string(),
            lv: lv.to_string(),
        });
    }
    Ok(())
}

/// The device-mapper name of an LV or of a layer of it: the parts joined by
/// single hyphens, hyphens inside the parts doubled. A layer that begins with
/// `_` is appended without a hyphen.
///
/// ```
/// assert_eq!(lvm2::name::dm_name("vgt", "a-b.c_d+e", None), "vgt-a--b.c_d+e");
/// ```
#[must_use]
pub fn dm_name(vg: &str, lv: &str, layer: Option<&str>) -> String {
    let double = |part: &str| part.replace('-', "--");
    let mut name = format!("{}-{}", double(vg), double(lv));
    if let Some(layer) = layer.filter(|l| !l.is_empty()) {
        if !layer.starts_with('_') {
            name.push('-');
        }
        name.push_str(&double(layer));
    }
    name
}

/// Takes a device-mapper name apart into VG, LV and layer. Nothing when it has
/// not two or three parts. A layer that was glued on without a hyphen stays
/// part of the LV name, as it does for LVM2.
#[must_use]
pub fn split_dm_name(name: &str) -> Option<(String, String, Option<String>)> {
    let mut parts = vec![String::new()];
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '-' && chars.next_if_eq(&'-').is_none() {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    if parts.iter().any(String::is_empty) {
        return None;
    }
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(vg), Some(lv), layer, None) => Some((vg, lv, layer)),
        _ => None,
    }
}

/// The device-mapper uuid by which LVM2 knows an active LV: `LVM-`, the ids of
/// VG and LV, and for an inner layer a hyphen and its suffix.
#[must_use]
pub fn dm_uuid(vg: &VgId, lv: &LvId, suffix: Option<&str>) -> String {
    match suffix.filter(|s| !s.is_empty()) {
        Some(suffix) => format!("LVM-{}{}-{suffix}", vg.as_str(), lv.as_str()),
        None => format!("LVM-{}{}", vg.as_str(), lv.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pairs_must_fit_one_device_name() {
        let pair =
            |vg: &str, lv: &str| check_pair(&VgName::new(vg).unwrap(), &LvName::new(lv).unwrap());
        assert_eq!(pair("vg", &"x".repeat(122)), Ok(()));
        assert!(pair("vg", &"x".repeat(123)).is_err());
        // Each hyphen counts twice.
        assert_eq!(pair("vg", &("x-".repeat(41) + "x")), Ok(()));
        assert!(pair("vg", &("x-".repeat(41) + "xx")).is_err());
        assert!(pair("vg", &"x-".repeat(50)).is_err());
    }

    #[test]
    fn device_names_and_uuids() {
        assert_eq!(dm_name("v-g", "lv", Some("cow")), "v--g-lv-cow");
        assert_eq!(dm_name("vg", "pool", Some("_tdata")), "vg-pool_tdata");
        assert_eq!(
            split_dm_name("v--g-lv-cow"),
            Some(("v-g".into(), "lv".into(), Some("cow".into())))
        );
        for bad in ["vg", "a-b-c-d", "", "-a", "a-"] {
            assert_eq!(split_dm_name(bad), None, "{bad}");
        }
        let vg = VgId::from_random([0; 32]);
        let lv = LvId::from_random([1; 32]);
        let uuid = dm_uuid(&vg, &lv, None);
        assert_eq!(uuid.len(), 68);
        assert_eq!(dm_uuid(&vg, &lv, Some("cow")), format!("{uuid}-cow"));
    }

    proptest! {
        #[test]
        fn device_names_split_again(
            vg in "[a-zA-Z0-9._+][a-zA-Z0-9._+-]{0,9}",
            lv in "[a-zA-Z0-9._+][a-zA-Z0-9._+-]{0,9}",
        ) {
            // A part that ends in a hyphen runs into the separator; LVM2 has
            // the same ambiguity.
            prop_assume!(!vg.ends_with('-'));
            let name = dm_name(&vg, &lv, None);
            prop_assert_eq!(split_dm_name(&name), Some((vg, lv, None)));
        }
    }
}
