//! Names of VGs and LVs, tags, and the names and uuids of their dm devices.

mod dm;

use std::borrow::Borrow;
use std::fmt;

pub use dm::{check_pair, dm_name, dm_uuid, split_dm_name};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
