//! What a caller may ask of a volume: mount or block, and by whom.

use std::str::FromStr;

use crate::host::FsKind;

use super::proto::VolumeCapability;
use super::proto::volume_capability::AccessType;
use super::proto::volume_capability::access_mode::Mode;

/// File systems that volumes can have.
pub(crate) const FILESYSTEMS: [FsKind; 5] = [
    FsKind::Ext2,
    FsKind::Ext3,
    FsKind::Ext4,
    FsKind::Xfs,
    FsKind::Btrfs,
];

/// Why a capability is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CapabilityError {
    /// None was sent.
    #[error("volume capability is required")]
    Missing,
    /// Neither mount nor block.
    #[error("volume capability has no access type: ask for mount or block")]
    NoAccessType,
    /// No access mode.
    #[error("volume capability has no access mode")]
    NoMode,
    /// A mode that a local volume cannot have.
    #[error(
        "access mode {mode} is not supported: a local volume is used by one node; use \
         SINGLE_NODE_WRITER, SINGLE_NODE_SINGLE_WRITER or SINGLE_NODE_MULTI_WRITER"
    )]
    Mode {
        /// The mode's name or number.
        mode: String,
    },
    /// A file system that is not known.
    #[error("file system {fs_type:?} is not supported; use ext4, xfs, btrfs, ext3 or ext2")]
    Filesystem {
        /// What was asked for.
        fs_type: String,
    },
    /// Group ownership is the container orchestrator's business here.
    #[error("volume_mount_group is not supported: VOLUME_MOUNT_GROUP is not advertised")]
    MountGroup,
    /// Mount and block at once, or two file systems.
    #[error(
        "the volume capabilities contradict each other: one volume is either block or one file system"
    )]
    Contradiction,
}

/// How the content is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// As a device.
    Block,
    /// As a file system.
    Mount {
        /// Its type, if the caller cares.
        fs: Option<FsKind>,
        /// Mount options.
        flags: Vec<String>,
    },
}

impl Access {
    /// The word in [`tags::ACCESS`](crate::engine::tags::ACCESS).
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Mount { .. } => "mount",
        }
    }

    /// Whether the mount options themselves forbid writing.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::Mount { flags, .. } if flags.iter().any(|flag| flag == "ro"))
    }
}

/// How many places of the node may use the volume at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The volume's own `shared` decides.
    Volume,
    /// One, whatever the volume says.
    One,
    /// Any number.
    Many,
}

/// A checked capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capability {
    /// Mount or block.
    pub(crate) access: Access,
    /// At how many places.
    pub(crate) sharing: Sharing,
}

impl Capability {
    /// Checks one capability.
    pub(crate) fn of(capability: Option<&VolumeCapability>) -> Result<Self, CapabilityError> {
        let capability = capability.ok_or(CapabilityError::Missing)?;
        let access = match &capability.access_type {
            None => return Err(CapabilityError::NoAccessType),
            Some(AccessType::Block(_)) => Access::Block,
            Some(AccessType::Mount(mount)) => {
                if !mount.volume_mount_group.is_empty() {
                    return Err(CapabilityError::MountGroup);
                }
                Access::Mount {
                    fs: filesystem(&mount.fs_type)?,
                    flags: mount.mount_flags.clone(),
                }
            }
        };
        let number = capability.access_mode.ok_or(CapabilityError::NoMode)?.mode;
        let sharing = match Mode::try_from(number) {
            Ok(Mode::SingleNodeWriter) => Sharing::Volume,
            Ok(Mode::SingleNodeSingleWriter) => Sharing::One,
            Ok(Mode::SingleNodeMultiWriter) => Sharing::Many,
            Ok(Mode::Unknown) => return Err(CapabilityError::NoMode),
            Ok(other) => {
                return Err(CapabilityError::Mode {
                    mode: other.as_str_name().to_owned(),
                });
            }
            Err(_) => {
                return Err(CapabilityError::Mode {
                    mode: number.to_string(),
                });
            }
        };
        Ok(Self { access, sharing })
    }

    /// Checks capabilities that one volume must have all at once, and returns
    /// the access that they agree on.
    pub(crate) fn all(capabilities: &[VolumeCapability]) -> Result<Access, CapabilityError> {
        let mut agreed: Option<Access> = None;
        for capability in capabilities {
            let next = Self::of(Some(capability))?.access;
            agreed = Some(match (agreed, next) {
                (None, next) => next,
                (Some(Access::Block), Access::Block) => Access::Block,
                (Some(Access::Mount { fs: a, flags }), Access::Mount { fs: b, .. })
                    if a.is_none() || b.is_none() || a == b =>
                {
                    Access::Mount { fs: a.or(b), flags }
                }
                _ => return Err(CapabilityError::Contradiction),
            });
        }
        agreed.ok_or(CapabilityError::Missing)
    }
}

/// The file system of this name; an empty name leaves the choice to us.
pub(crate) fn filesystem(name: &str) -> Result<Option<FsKind>, CapabilityError> {
    if name.is_empty() {
        return Ok(None);
    }
    FsKind::from_str(name)
        .map(Some)
        .map_err(|_| CapabilityError::Filesystem {
            fs_type: name.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::super::proto::volume_capability::{AccessMode, BlockVolume, MountVolume};
    use super::*;

    fn block(mode: Mode) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode { mode: mode.into() }),
            access_type: Some(AccessType::Block(BlockVolume {})),
        }
    }

    fn mount(fs: &str) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode {
                mode: Mode::SingleNodeWriter.into(),
            }),
            access_type: Some(AccessType::Mount(MountVolume {
                fs_type: fs.to_owned(),
                ..MountVolume::default()
            })),
        }
    }

    #[test]
    fn modes_of_one_node_only() {
        for (mode, sharing) in [
            (Mode::SingleNodeWriter, Sharing::Volume),
            (Mode::SingleNodeSingleWriter, Sharing::One),
            (Mode::SingleNodeMultiWriter, Sharing::Many),
        ] {
            assert_eq!(Capability::of(Some(&block(mode))).unwrap().sharing, sharing);
        }
        for mode in [
            Mode::MultiNodeMultiWriter,
            Mode::MultiNodeReaderOnly,
            Mode::SingleNodeReaderOnly,
        ] {
            let refused = Capability::of(Some(&block(mode))).unwrap_err();
            assert!(refused.to_string().contains(mode.as_str_name()));
        }
        assert_eq!(
            Capability::of(Some(&block(Mode::Unknown))),
            Err(CapabilityError::NoMode)
        );
        assert_eq!(Capability::of(None), Err(CapabilityError::Missing));
    }

    #[test]
    fn capabilities_must_agree() {
        let both = [mount("ext4"), block(Mode::SingleNodeWriter)];
        assert_eq!(Capability::all(&both), Err(CapabilityError::Contradiction));
        assert_eq!(
            Capability::all(&[mount("ext4"), mount("xfs")]),
            Err(CapabilityError::Contradiction)
        );
        let Ok(Access::Mount { fs, .. }) = Capability::all(&[mount(""), mount("xfs")]) else {
            panic!("refused")
        };
        assert_eq!(fs, Some(FsKind::Xfs));
        assert_eq!(Capability::all(&[]), Err(CapabilityError::Missing));
        for unknown in ["ntfs", "zfs", "EXT4"] {
            assert!(matches!(
                filesystem(unknown),
                Err(CapabilityError::Filesystem { .. })
            ));
        }
    }
}
