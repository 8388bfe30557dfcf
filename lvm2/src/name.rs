//! Names of VGs and LVs, tags, and the names and uuids of their dm devices.

use std::borrow::Borrow;
use std::fmt;

use crate::id::{LvId, VgId};

/// Longest name that LVM2 and device-mapper take, in bytes.
pub const MAX_NAME: usize = 127;

/// Beginnings that LVM2 keeps for itself.
const RESERVED_PREFIXES: [&str; 2] = ["snapshot", "pvmove"];
/// Parts that mark LVM2's own sub-volumes.
const RESERVED_PARTS: [&str; 17] = [
    "_cdata", "_cmeta", "_corig", "_cpool", "_cvol", "_wcorig", "_mimage", "_mlog", "_rimage",
    "_rmeta", "_tdata", "_tmeta", "_vdata", "_imeta", "_iorig", "_pmspare", "_vorigin",
];

/// Why a name or a tag cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No characters.
    #[error("a name cannot be empty")]
    Empty,
    /// More than 127 bytes.
    #[error("name {name:?} is longer than {MAX_NAME} characters")]
    TooLong {
        /// The refused name.
        name: String,
    },
    /// A character outside LVM2's set.
    #[error("name {name:?} contains {found:?} (allowed: letters, digits and {allowed})")]
    Character {
        /// The refused name.
        name: String,
        /// The first wrong character.
        found: char,
        /// The punctuation that would be allowed.
        allowed: &'static str,
    },
    /// A leading `-`.
    #[error("name {name:?} begins with a hyphen")]
    Hyphen {
        /// The refused name.
        name: String,
    },
    /// `.` or `..`.
    #[error("name {name:?} is a path component")]
    Dots {
        /// The refused name.
        name: String,
    },
    /// A name that LVM2 keeps for its own volumes.
    #[error("name {name:?} is reserved by LVM2 because of {part:?}")]
    Reserved {
        /// The refused name.
        name: String,
        /// The reserved beginning or part.
        part: &'static str,
    },
    /// VG and LV name together do not fit in a device-mapper name.
    #[error("the names {vg:?} and {lv:?} together are too long for a device name")]
    PairTooLong {
        /// The VG name.
        vg: String,
        /// The LV name.
        lv: String,
    },
}

const NAME_PUNCTUATION: &str = "._+-";
const TAG_PUNCTUATION: &str = "._+-/=!:&#";

fn check_characters(name: &str, punctuation: &'static str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    match name
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && !punctuation.contains(*c))
    {
        Some(found) => Err(NameError::Character {
            name: name.to_owned(),
            found,
            allowed: punctuation,
        }),
        None if name.starts_with('-') => Err(NameError::Hyphen {
            name: name.to_owned(),
        }),
        None => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), NameError> {
    check_characters(name, NAME_PUNCTUATION)?;
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong {
            name: name.to_owned(),
        });
    }
    if matches!(name, "." | "..") {
        return Err(NameError::Dots {
            name: name.to_owned(),
        });
    }
    Ok(())
}

fn check_tag(tag: &str) -> Result<(), NameError> {
    check_characters(tag, TAG_PUNCTUATION)
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks and takes a name.
            ///
            /// # Errors
            /// When LVM2 would not take it.
            pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
                let name = name.into();
                $check(&name)?;
                Ok(Self(name))
            }

            /// The name itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }
    };
}

name_type!(
    /// The name of a volume group: at most 127 of letters, digits and `._+-`,
    /// not beginning with `-`, not `.` or `..`.
    VgName,
    check_name
);
name_type!(
    /// The name of a logical volume, by the same rule as a VG's. LVM2's own
    /// hidden volumes have such names too; see [`LvName::check_new`].
    LvName,
    check_name
);
name_type!(
    /// A tag: letters, digits and `._+-/=!:&#`, not beginning with `-`.
    Tag,
    check_tag
);

impl LvName {
    /// Whether a person or a driver may give this name to a new LV.
    ///
    /// # Errors
    /// When LVM2 keeps such names for itself.
    pub fn check_new(&self) -> Result<(), NameError> {
        let prefix = RESERVED_PREFIXES
            .into_iter()
            .find(|part| self.0.starts_with(part));
        let part = prefix.or_else(|| {
            RESERVED_PARTS
                .into_iter()
                .find(|part| self.0.contains(part))
        });
        match part {
            Some(part) => Err(NameError::Reserved {
                name: self.0.clone(),
                part,
            }),
            None => Ok(()),
        }
    }
}

/// Whether an LV of this name can exist in this VG: both names must fit in
/// one device-mapper name, by LVM2's rule and after the doubling of hyphens.
///
/// # Errors
/// When they do not fit.
pub fn check_pair(vg: &VgName, lv: &LvName) -> Result<(), NameError> {
    let plain = vg.0.len() + lv.0.len() + 3;
    if plain > MAX_NAME || dm_name(&vg.0, &lv.0, None).len() > MAX_NAME {
        return Err(NameError::PairTooLong {
            vg: vg.0.clone(),
            lv: lv.0.clone(),
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
    fn names_by_lvm2s_rule() {
        for ok in [
            "a",
            "vg0",
            "a-b.c_d+e",
            "_x",
            ".hidden",
            "...",
            &"x".repeat(127),
        ] {
            assert!(VgName::new(ok).is_ok(), "{ok}");
        }
        assert_eq!(VgName::new(""), Err(NameError::Empty));
        assert!(matches!(VgName::new("-a"), Err(NameError::Hyphen { .. })));
        for dots in [".", ".."] {
            assert!(matches!(LvName::new(dots), Err(NameError::Dots { .. })));
        }
        assert!(matches!(
            LvName::new("x".repeat(128)),
            Err(NameError::TooLong { .. })
        ));
        for bad in ["a b", "a/b", "ü", "a\n", "a\0", "a:b"] {
            assert!(matches!(LvName::new(bad), Err(NameError::Character { .. })));
        }
    }

    #[test]
    fn tags_take_more_punctuation() {
        assert_eq!(Tag::new("a/b=c:d").unwrap(), "a/b=c:d");
        assert!(Tag::new("x".repeat(500)).is_ok());
        assert!(Tag::new("a\"b").is_err());
        assert!(Tag::new("a@b").is_err());
    }

    #[test]
    fn reserved_names_are_for_lvm2() {
        for reserved in [
            "snapshot0",
            "pvmove1",
            "pool_tmeta",
            "x_rimage_0",
            "lvol0_pmspare",
        ] {
            let name = LvName::new(reserved).unwrap();
            assert!(matches!(name.check_new(), Err(NameError::Reserved { .. })));
        }
        assert_eq!(LvName::new("pvc-snapshot").unwrap().check_new(), Ok(()));
    }

    #[test]
    fn pairs_must_fit_one_device_name() {
        let pair =
            |vg: &str, lv: &str| check_pair(&VgName::new(vg).unwrap(), &LvName::new(lv).unwrap());
        assert_eq!(pair("vg", &"x".repeat(122)), Ok(()));
        assert!(pair("vg", &"x".repeat(123)).is_err());
        // Short enough, but each hyphen counts twice.
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
