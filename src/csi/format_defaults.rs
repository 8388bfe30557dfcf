//! A node's own arguments for mkfs, where the StorageClass gives none.

use std::collections::HashMap;
use std::str::FromStr;

use crate::host::FsKind;

/// Not a setting of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatDefaultError {
    /// No `=`, or nothing before it.
    #[error("{text:?}: write FSTYPE=OPTIONS, e.g. \"xfs=-i nrext64=0\"")]
    Form {
        /// What was given.
        text: String,
    },
    /// Not a file system of the contract.
    #[error("{fs_type:?} is no file system of this driver: use ext2, ext3, ext4, xfs or btrfs")]
    Filesystem {
        /// What was given.
        fs_type: String,
    },
}

/// `FSTYPE=OPTIONS`; no options take back an earlier setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatDefault {
    kind: FsKind,
    options: Vec<String>,
}

impl FromStr for FormatDefault {
    type Err = FormatDefaultError;

    fn from_str(text: &str) -> Result<Self, FormatDefaultError> {
        let (fs_type, options) = text
            .split_once('=')
            .filter(|(fs_type, _)| !fs_type.is_empty())
            .ok_or_else(|| FormatDefaultError::Form {
                text: text.to_owned(),
            })?;
        let kind = fs_type
            .parse()
            .map_err(|_| FormatDefaultError::Filesystem {
                fs_type: fs_type.to_owned(),
            })?;
        Ok(Self {
            kind,
            options: options.split_whitespace().map(str::to_owned).collect(),
        })
    }
}

/// The arguments by file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatDefaults(HashMap<FsKind, Vec<String>>);

impl FromIterator<FormatDefault> for FormatDefaults {
    /// Of several settings of a file system the last one holds.
    fn from_iter<I: IntoIterator<Item = FormatDefault>>(settings: I) -> Self {
        let pairs = settings.into_iter().map(|one| (one.kind, one.options));
        Self(pairs.collect())
    }
}

impl FormatDefaults {
    /// What mkfs is told: the class's own words replace the node's.
    #[must_use]
    pub fn or<'a>(&'a self, kind: FsKind, own: &'a [String]) -> &'a [String] {
        match self.0.get(&kind) {
            Some(options) if own.is_empty() => options,
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(settings: &[&str]) -> FormatDefaults {
        settings.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_last_one_holds_and_the_class_replaces_it() {
        let node = defaults(&["xfs=-m crc=0", "xfs=-i nrext64=0", "ext4="]);
        assert_eq!(node.or(FsKind::Xfs, &[]), ["-i", "nrext64=0"]);
        let own = ["-K".to_owned()];
        assert_eq!(node.or(FsKind::Xfs, &own), ["-K"]);
        assert!(node.or(FsKind::Ext4, &[]).is_empty());
        assert!(node.or(FsKind::Btrfs, &[]).is_empty());
        assert_eq!(defaults(&["xfs=-K", "xfs="]).or(FsKind::Xfs, &[]), [""; 0]);
    }

    #[test]
    fn other_file_systems_and_other_forms_are_refused() {
        for bad in ["xfs", "", "=-K"] {
            let error = FormatDefault::from_str(bad).unwrap_err();
            assert!(matches!(error, FormatDefaultError::Form { .. }), "{bad}");
        }
        let error = FormatDefault::from_str("ntfs=-K").unwrap_err();
        assert!(error.to_string().contains("ntfs"), "{error}");
    }
}
