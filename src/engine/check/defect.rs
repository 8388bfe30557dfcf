//! What a check can find. Each kind has a code that does not change.

use std::path::PathBuf;
use std::sync::Arc;

use lvm2::check::{Refusal, Violation};
use lvm2::name::LvName;
use lvm2::tables::Target;

use crate::engine::hazard::Hazard;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The VG, `vg/lv`, device or file that it is about.
    pub object: String,
    /// The LV, if it is about one.
    pub lv: Option<LvName>,
    /// What is wrong.
    pub defect: Defect,
}

/// A kind of defect. [`Display`](std::fmt::Display) explains it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// An invariant of the metadata is broken.
    #[error("{}", .0.detail)]
    Rule(Violation),
    /// The metadata forbids changes by us.
    #[error("{0}")]
    Refused(Arc<Refusal>),
    /// The devices of the VG forbid changes by us.
    #[error("{0}")]
    Hazard(Hazard),
    /// A copy of the metadata is older than the others.
    #[error("{0}")]
    OldCopy(String),
    /// A text is not what its header says, although the header is right.
    #[error("metadata area at byte {offset}: {detail}")]
    UnreadableText {
        /// Start of the area, bytes.
        offset: u64,
        /// What is wrong with it.
        detail: String,
    },
    /// A PV of the VG that looks free.
    #[error("its header does not say that a VG uses it: `pvcreate` would take it for free")]
    PvLooksFree,
    /// A free PV that looks used.
    #[error("its header says that a VG uses it, but no VG that does is found")]
    PvLooksUsed,
    /// The live table ends early and is right up to there.
    #[error(
        "the kernel maps `{}`, which is only the beginning of what the metadata has: `{}`",
        lines(found),
        lines(expected)
    )]
    ShortTable {
        /// What the metadata asks for.
        expected: Vec<Target>,
        /// What the kernel has.
        found: Vec<Target>,
    },
    /// The live table is another.
    #[error(
        "the kernel maps `{}`, the metadata asks for `{}`",
        lines(found),
        lines(expected)
    )]
    Table {
        /// What the metadata asks for.
        expected: Vec<Target>,
        /// What the kernel has.
        found: Vec<Target>,
    },
    /// It is active, and the metadata gives no table for it.
    #[error("{0}")]
    NoTable(String),
    /// Its device has the name of another time.
    #[error("its device is called {found} instead of {expected}")]
    DeviceName {
        /// The name that the metadata asks for.
        expected: String,
        /// The kernel's.
        found: String,
    },
    /// A table was loaded and neither used nor dropped.
    #[error("a loaded table waits in the inactive slot of {0}: the next resume makes it live")]
    InactiveTable(String),
    /// I/O is held back.
    #[error("its device {0} is suspended: I/O to it waits")]
    Suspended(String),
    /// A device was made and got no table.
    #[error("its device {0} has no table")]
    EmptyDevice(String),
    /// A device of the VG that no LV explains.
    #[error("device {name} belongs to no LV of the VG{}", users(*.open_count, .mounts))]
    Orphan {
        /// Kernel name.
        name: String,
        /// dm uuid.
        uuid: String,
        /// Openers.
        open_count: u32,
        /// Where it is mounted.
        mounts: Vec<PathBuf>,
    },
    /// Its making was interrupted.
    #[error("its making was interrupted, and nobody is at it any more")]
    Incomplete,
    /// mkfs was started and did not end.
    #[error("mkfs.{0} was started on it and has not ended")]
    MkfsUnfinished(String),
    /// A lock file that nobody holds.
    #[error("this lock file was left by a process that died")]
    StaleClaim,
    /// Nodes or links in `/dev` are not as they should be.
    #[error("{0}")]
    Link(String),
    /// Our newest copy is older than our newest commit.
    #[error("the disks have metadata {seqno}, the newest copy in {} is {found}", .place.display())]
    BackupBehind {
        /// On the disks.
        seqno: u32,
        /// Newest copy; 0 if there is none.
        found: u32,
        /// Where copies are.
        place: PathBuf,
    },
    /// lvm2's backup file is older than the disks.
    #[error("the disks have metadata {seqno}, lvm2's backup {} has {found}", .place.display())]
    Lvm2BackupBehind {
        /// On the disks.
        seqno: u32,
        /// In the file; 0 if there is none.
        found: u32,
        /// The file.
        place: PathBuf,
    },
    /// The node of a device that is gone is mounted.
    #[error("the node {} is bound here, and its device is gone", .0.display())]
    StaleMount(PathBuf),
    /// The state was looked at without the VG lock and may be a passing one.
    #[error("the VG lock was not to be had, so that what was found may be passing: {0}")]
    Unlocked(String),
    /// The VG could not be looked at in time.
    #[error("{0}")]
    NoAnswer(String),
    /// What has the name is not one VG that can be read.
    #[error("{0}")]
    Unusable(String),
    /// A device that could not be looked at, or contradicts others.
    #[error("{0}")]
    Device(String),
}

impl Defect {
    /// The code, for programs. It never changes.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rule(violation) => violation.rule,
            Self::Refused(_) => "refused",
            Self::Hazard(Hazard::MissingPv { .. }) => "pv-missing",
            Self::Hazard(Hazard::Silent { .. }) => "pv-silent",
            Self::Hazard(Hazard::DuplicatePv { .. }) => "pv-duplicate",
            Self::Hazard(Hazard::UnreadableCopy { .. }) | Self::UnreadableText { .. } => {
                "metadata-unreadable"
            }
            Self::Hazard(Hazard::Mismatch { .. }) => "metadata-differs",
            Self::Hazard(Hazard::NoArea) => "metadata-nowhere",
            Self::OldCopy(_) => "metadata-old",
            Self::PvLooksFree => "pv-looks-free",
            Self::PvLooksUsed => "pv-looks-used",
            Self::ShortTable { .. } => "table-short",
            Self::Table { .. } => "table-differs",
            Self::NoTable(_) => "table-unknown",
            Self::DeviceName { .. } => "device-name",
            Self::InactiveTable(_) => "inactive-table",
            Self::Suspended(_) => "suspended",
            Self::EmptyDevice(_) => "device-empty",
            Self::Orphan { .. } => "orphan-device",
            Self::Incomplete => "incomplete",
            Self::MkfsUnfinished(_) => "mkfs-unfinished",
            Self::StaleClaim => "stale-claim",
            Self::Link(_) => "link",
            Self::BackupBehind { .. } => "backup-behind",
            Self::Lvm2BackupBehind { .. } => "lvm2-backup-behind",
            Self::StaleMount(_) => "stale-mount",
            Self::Unlocked(_) => "unlocked",
            Self::NoAnswer(_) => "no-answer",
            Self::Unusable(_) => "unusable",
            Self::Device(_) => "device",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Rule(_) => {
                "the metadata is damaged: stop changing the VG, and restore a version of \
                 `lvcsi vg history` with vgcfgrestore"
            }
            Self::Refused(_) | Self::Hazard(_) => {
                "until then lvcsi shows the VG and does not change it"
            }
            Self::OldCopy(_) => "`lvcsi check --repair` writes it, and so does the next change",
            Self::UnreadableText { .. } => {
                "if the other copies are right, `vgck --updatemetadata` writes it anew"
            }
            Self::PvLooksFree => "`vgck --updatemetadata` sets the mark",
            Self::PvLooksUsed => {
                "if its VG's other PVs are only missing, bring them back; if the PV is free, \
                 `pvremove -ff` clears it"
            }
            Self::ShortTable { .. } => "`lvcsi check --repair` or `lvchange --refresh` loads it",
            Self::Table { .. } => {
                "find out which of the two is right before anything writes to it; \
                 `lvchange --refresh` makes the kernel follow the metadata"
            }
            Self::NoTable(_) => "bring its PVs back, or deactivate it with `lvchange -an`",
            Self::DeviceName { .. } => {
                "`lvcsi check --repair` renames a volume of ours; else `lvchange --refresh`"
            }
            Self::InactiveTable(_) => {
                "`lvcsi check --repair` drops it on a volume of ours; else `dmsetup clear`"
            }
            Self::Suspended(_) => {
                "`lvcsi check --repair` resumes a volume of ours; else `dmsetup resume`, if \
                 nobody holds it suspended on purpose"
            }
            Self::EmptyDevice(_) => {
                "`lvcsi check --repair` removes it on a volume of ours; else `dmsetup remove`"
            }
            Self::Orphan { open_count: 0, .. } => {
                "`lvcsi check --repair` or `dmsetup remove` removes it"
            }
            Self::Orphan { .. } => {
                "its data is still in use, but its extents may be given to others: stop its \
                 users, then `lvcsi check --repair`"
            }
            Self::Incomplete => {
                "`lvcsi check --repair` removes it, and so does the driver's next start"
            }
            Self::MkfsUnfinished(_) => {
                "publish the volume: mkfs is then run again, for nobody was given it yet"
            }
            Self::StaleClaim => "`lvcsi check --repair` removes it; it does no harm",
            Self::Link(_) => "`lvcsi check --repair` or `vgmknodes` makes it",
            Self::BackupBehind { .. } => {
                "make room there and see that it can be written; `lvcsi check --repair` writes one"
            }
            Self::Lvm2BackupBehind { .. } => "`lvcsi check --repair` or `vgcfgbackup` writes it",
            Self::StaleMount(_) => "stop what uses the mount and unmount it",
            Self::Unlocked(_) => "check again when the holder has ended",
            Self::NoAnswer(_) => "see to the device that hangs, then check again",
            Self::Unusable(_) => "until then lvcsi uses no VG of this name",
            Self::Device(_) => "see to the device",
        }
    }
}

fn lines(table: &[Target]) -> String {
    let lines: Vec<String> = table.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

fn users(open_count: u32, mounts: &[PathBuf]) -> String {
    if open_count == 0 {
        return String::new();
    }
    let mounts: Vec<String> = mounts.iter().map(|m| m.display().to_string()).collect();
    match mounts.as_slice() {
        [] => format!(" and has {open_count} opener(s)"),
        _ => format!(" and is mounted at {}", mounts.join(", ")),
    }
}
