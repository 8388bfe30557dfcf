//! Errors of the command line and their exit status.

use std::io;
use std::path::PathBuf;

use lvm2::name::{NameError, VgName};
use lvm2::units::UnitError;

use crate::engine::{EngineError, host_kind};
use crate::error::Kind;
use crate::host::HostError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// The engine's answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The machine's answer.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A name cannot be one.
    #[error("{what} {text:?}: {source}")]
    Name {
        /// `VG` or `LV`.
        what: &'static str,
        /// What was given.
        text: String,
        /// The rule.
        source: NameError,
    },
    /// A VG/LV pair is incomplete.
    #[error("{text:?} does not name an LV: give it as VG/LV")]
    Pair {
        /// What was given.
        text: String,
    },
    /// A size cannot be one.
    #[error("size {text:?}: {source}")]
    Size {
        /// What was given.
        text: String,
        /// The rule.
        source: UnitError,
    },
    /// A number of extents cannot be one.
    #[error("{text:?} is no number of extents: give a number, or a percentage such as 50%FREE")]
    Extents {
        /// What was given.
        text: String,
    },
    /// A size of zero.
    #[error("the size of {lv} is zero: give at least one byte, it is rounded up to whole extents")]
    ZeroSize {
        /// `vg/lv`.
        lv: String,
    },
    /// A rename that is none.
    #[error("{lv} has that name already: give another one")]
    SameName {
        /// `vg/lv`.
        lv: String,
    },
    /// A stripe size cannot be one.
    #[error("stripe size {size} bytes: it must be a power of two of at least 4 KiB")]
    StripeSize {
        /// What was given.
        size: u64,
    },
    /// A named VG, LV or PV does not exist.
    #[error("{kind} {name} not found; `lvcsi {list}` lists what there is")]
    NotFound {
        /// `VG`, `LV` or `PV`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The command that lists them.
        list: &'static str,
    },
    /// There is no version of this sequence number.
    #[error("VG {vg} has no readable version {seqno}; `lvcsi vg history {vg}` lists what there is")]
    NoVersion {
        /// The VG.
        vg: VgName,
        /// What was given.
        seqno: u32,
    },
    /// A device has no valid label.
    #[error("{path} is no PV: {reason}")]
    NoPv {
        /// The device.
        path: PathBuf,
        /// What is there instead of a label.
        reason: String,
    },
    /// A removal was neither confirmed nor asked for without question.
    #[error("{lv} was not removed: answer y, or give --yes to remove without a question")]
    NotConfirmed {
        /// `vg/lv`.
        lv: String,
    },
    /// Findings of a check.
    #[error("{count} finding(s)")]
    Findings {
        /// How many.
        count: usize,
    },
    /// The output could not be written.
    #[error("output: {0}")]
    Output(#[from] io::Error),
}

impl CliError {
    /// What a caller may conclude.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::Host(HostError::Path { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Kind::NotFound
            }
            Self::Host(error) => host_kind(error),
            Self::Name { .. }
            | Self::Pair { .. }
            | Self::Size { .. }
            | Self::Extents { .. }
            | Self::SameName { .. }
            | Self::StripeSize { .. }
            | Self::ZeroSize { .. } => Kind::InvalidArgument,
            Self::NotFound { .. } | Self::NoVersion { .. } => Kind::NotFound,
            Self::NoPv { .. } | Self::NotConfirmed { .. } | Self::Findings { .. } => {
                Kind::FailedPrecondition
            }
            Self::Output(_) => Kind::Internal,
        }
    }
}
