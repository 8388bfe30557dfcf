//! What can be asked of a VG.

use std::time::Duration;

use lvm2::edit::Layout;
use lvm2::name::{LvName, Tag};
use lvm2::units::{Bytes, Extents};

use super::backup::BackupConfig;

/// How large an LV shall be. Bytes round up to whole extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Bytes, rounded up to whole extents (and stripes).
    Bytes(Bytes),
    /// Extents.
    Extents(Extents),
    /// Per cent of the VG's free extents at the time of the commit, rounded down.
    PercentFree(u8),
}

/// What happens to the content that a former tenant left in the extents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wipe {
    /// Every place where a signature is looked for becomes zero before the LV
    /// exists. Enough under a file system, which never shows unwritten blocks.
    #[default]
    Signatures,
    /// The whole LV becomes zero before it can be used: for raw block volumes.
    Zero,
}

/// A new LV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateLv {
    /// Name; unique in the VG.
    pub name: LvName,
    /// Size.
    pub size: Size,
    /// Tags of the LV.
    pub tags: Vec<Tag>,
    /// Where and how its extents lie.
    pub layout: Layout,
    /// Treatment of old content.
    pub wipe: Wipe,
    /// Leave it active.
    pub activate: bool,
}

/// One change of a VG.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Make an LV. If an LV of this name with the same tags, size and layout
    /// kind exists, it is returned as it is: repeating is harmless.
    Create(CreateLv),
    /// Grow an LV to at least this size; an LV that is as large is left alone.
    Extend {
        /// The LV.
        name: LvName,
        /// Absolute size, or what is added when `add` is set.
        size: Size,
        /// Add `size` to the present size.
        add: bool,
        /// Where the new extents may lie.
        layout: Layout,
    },
    /// Deactivate and delete an LV; one that does not exist is success.
    Remove {
        /// The LV.
        name: LvName,
        /// Fail with `NotFound` if it does not exist.
        must_exist: bool,
        /// Refuse unless the LV carries this tag.
        require_tag: Option<Tag>,
    },
    /// Give an LV another name; its device follows.
    Rename {
        /// Present name.
        name: LvName,
        /// New name.
        to: LvName,
    },
    /// Add and remove tags; those that are as wanted are left alone.
    Tags {
        /// The LV.
        name: LvName,
        /// Tags to add.
        add: Vec<Tag>,
        /// Tags to remove.
        remove: Vec<Tag>,
    },
    /// Make the device of an LV appear.
    Activate {
        /// The LV.
        name: LvName,
    },
    /// Make the device of an LV go away; fails with `Busy` while it is open.
    Deactivate {
        /// The LV.
        name: LvName,
    },
}

impl Request {
    /// The LV that the request is about.
    #[must_use]
    pub fn lv(&self) -> &LvName {
        match self {
            Self::Create(create) => &create.name,
            Self::Extend { name, .. }
            | Self::Remove { name, .. }
            | Self::Rename { name, .. }
            | Self::Tags { name, .. }
            | Self::Activate { name }
            | Self::Deactivate { name } => name,
        }
    }

    /// Every LV that the request is about.
    pub(super) fn names(&self) -> Vec<&LvName> {
        match self {
            Self::Rename { name, to } => vec![name, to],
            request => vec![request.lv()],
        }
    }

    /// The operation's name in logs and metrics.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Extend { .. } => "extend",
            Self::Remove { .. } => "remove",
            Self::Rename { .. } => "rename",
            Self::Tags { .. } => "tag",
            Self::Activate { .. } => "activate",
            Self::Deactivate { .. } => "deactivate",
        }
    }
}

/// Limits of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// How long to wait for a VG lock.
    pub lock_deadline: Duration,
    /// How long one device may take to answer a read while scanning.
    pub probe_timeout: Duration,
    /// How long one call on a device may take before those who wait for it
    /// are told that the device hangs.
    pub io_timeout: Duration,
    /// Most requests that share one metadata commit.
    pub batch: usize,
    /// What is written as the `description` of a commit.
    pub description: String,
    /// Copies of the metadata as files; none are written without.
    pub backup: Option<BackupConfig>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            lock_deadline: Duration::from_secs(20),
            probe_timeout: Duration::from_secs(5),
            io_timeout: Duration::from_secs(10),
            batch: 256,
            description: "Write from lvcsi.".to_owned(),
            backup: None,
        }
    }
}
