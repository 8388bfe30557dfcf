//! Errors of the CSI services and their gRPC status.

use lvm2::name::VgName;
use lvm2::units::Bytes;

use crate::engine::{EngineError, tags};
use crate::error::Kind;
use crate::host::HostError;

use super::capability::CapabilityError;
use super::node::FormatError;
use super::params::ParamError;
use super::size::SizeError;
use super::volume_id::NameError;

/// Why a call failed. Every variant says which volume it is about and, where
/// somebody can do something, what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsiError {
    /// A field that must be set is not.
    #[error("{field} is required")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field that the driver's capabilities do not cover is set.
    #[error("{field} is not supported: the driver does not advertise {capability}")]
    NotAdvertised {
        /// The field.
        field: &'static str,
        /// The capability that would allow it.
        capability: &'static str,
    },
    /// A path is not absolute or climbs.
    #[error("target_path {path:?} must be absolute and without `..`")]
    Path {
        /// What was sent.
        path: String,
    },
    /// A number that cannot be.
    #[error("max_entries is {0}: it cannot be negative")]
    MaxEntries(i32),
    /// A page token of somebody else, or of another driver's release.
    #[error(
        "starting_token {token:?} was not issued by this driver; list again from the beginning"
    )]
    Token {
        /// What was sent.
        token: String,
    },
    /// The name cannot become a volume.
    #[error(transparent)]
    Name(#[from] NameError),
    /// StorageClass parameters.
    #[error(transparent)]
    Parameter(#[from] ParamError),
    /// Capacity range.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Volume capability.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// There is no such volume.
    #[error("volume {volume} does not exist on this node")]
    NoVolume {
        /// Its id.
        volume: String,
    },
    /// The volume is not there.
    #[error("volume {volume} is not published at {path}")]
    NotPublished {
        /// Its id.
        volume: String,
        /// The path.
        path: String,
    },
    /// The LV of this name is not ours.
    #[error(
        "volume {volume}: LV {vg}/{volume} was not made by this driver and is left alone; to hand \
         it over, add the tag: lvchange --addtag {} {vg}/{volume}",
        tags::OWNED
    )]
    Foreign {
        /// Its id.
        volume: String,
        /// The VG.
        vg: VgName,
    },
    /// The same id twice.
    #[error("volume {volume} exists in several VGs ({}); rename or remove one", list(.vgs))]
    Ambiguous {
        /// Its id.
        volume: String,
        /// Where.
        vgs: Vec<VgName>,
    },
    /// Its creation has not ended, or was cut short.
    #[error("volume {volume} is not complete: repeat CreateVolume or DeleteVolume")]
    Incomplete {
        /// Its id.
        volume: String,
    },
    /// Another operation works on the volume.
    #[error("volume {volume}: an earlier call is still being worked on ({job}); repeat later")]
    InFlight {
        /// Its id.
        volume: String,
        /// The earlier call, and what it waits for.
        job: String,
    },
    /// The call hangs in a dead device. It goes on when the device does.
    #[error("{job}; it goes on when that answers: repeat the call")]
    Hangs {
        /// The call, its volume and what it waits for.
        job: String,
    },
    /// A volume was not found, but not every device could be looked at.
    #[error(
        "volume {volume} was not found, but {devices} did not answer and may carry it; repeat later"
    )]
    Unseen {
        /// Its id.
        volume: String,
        /// The devices.
        devices: String,
    },
    /// The name is taken by another volume.
    #[error("volume {volume} exists and differs: {difference}")]
    Differs {
        /// Its id.
        volume: String,
        /// In what.
        difference: Difference,
    },
    /// No VG has room.
    #[error("volume {volume}: {wanted} bytes fit in no volume group of this node: {}", sentences(.reasons))]
    NoSpace {
        /// Its id.
        volume: String,
        /// What was asked for.
        wanted: Bytes,
        /// One sentence a VG.
        reasons: Vec<String>,
    },
    /// Every VG that matches is in a state that forbids changes.
    #[error("volume {volume}: no volume group that matches {wanted} can be used: {}", sentences(.reasons))]
    Unusable {
        /// Its id.
        volume: String,
        /// The parameter.
        wanted: String,
        /// One sentence a VG: the rule, and what to do.
        reasons: Vec<String>,
    },
    /// No VG matches.
    #[error("volume {volume}: no volume group of this node matches {wanted}; there are: {}", list(.vgs))]
    NoVg {
        /// Its id.
        volume: String,
        /// The parameter.
        wanted: String,
        /// VGs of the node.
        vgs: Vec<VgName>,
    },
    /// The volume must be elsewhere.
    #[error("volume {volume}: the accessibility requirements exclude this node, {node}")]
    WrongNode {
        /// Its id.
        volume: String,
        /// This node.
        node: String,
    },
    /// It would have to shrink.
    #[error(
        "volume {volume} has {size} bytes, more than limit_bytes {limit}: volumes are never shrunk"
    )]
    Shrink {
        /// Its id.
        volume: String,
        /// Present size.
        size: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// Made for mounting and published as block, or the reverse.
    #[error("volume {volume} was created for {made} access and cannot be published for {asked}")]
    WrongAccess {
        /// Its id.
        volume: String,
        /// At creation.
        made: String,
        /// Now.
        asked: &'static str,
    },
    /// In use at another path.
    #[error(
        "volume {volume} is already published at {at}; unpublish it there, or use shared=yes in the \
         StorageClass or access mode SINGLE_NODE_MULTI_WRITER"
    )]
    PublishedElsewhere {
        /// Its id.
        volume: String,
        /// Where.
        at: String,
    },
    /// The cluster forbids it.
    #[error("volume {volume} is not published: {reason}")]
    Objection {
        /// Its id.
        volume: String,
        /// Why.
        reason: String,
    },
    /// Something else, or the volume in another way, is mounted there.
    #[error("volume {volume}: {path} is occupied: {detail}")]
    Occupied {
        /// Its id.
        volume: String,
        /// The target.
        path: String,
        /// By what.
        detail: &'static str,
    },
    /// Something else is mounted at the path that is to be cleared.
    #[error("volume {volume}: {path} is not cleared: {detail}")]
    NotCleared {
        /// Its id.
        volume: String,
        /// The target.
        path: String,
        /// What is there.
        detail: &'static str,
    },
    /// Mounted read-only elsewhere, wanted for writing here.
    #[error(
        "volume {volume} is mounted read-only at {at} and cannot be mounted for writing beside that"
    )]
    ReadOnlyElsewhere {
        /// Its id.
        volume: String,
        /// Where.
        at: String,
    },
    /// The block device is published.
    #[error("volume {volume} is still published at {at}: unpublish it first")]
    StillPublished {
        /// Its id.
        volume: String,
        /// Where.
        at: String,
    },
    /// The content forbids what was asked.
    #[error("volume {volume}: {source}")]
    Format {
        /// Its id.
        volume: String,
        /// Why.
        source: FormatError,
    },
    /// The engine refused or failed.
    #[error("volume {volume}: {source}")]
    Engine {
        /// Its id; empty for calls about the node.
        volume: String,
        /// Why.
        source: Box<EngineError>,
    },
    /// Mounting, making or growing a file system failed.
    #[error("volume {volume}: {source}")]
    Host {
        /// Its id.
        volume: String,
        /// Why.
        source: HostError,
    },
    /// The file system or the LV below it cannot be grown. That a precondition
    /// fails means to the kubelet that a volume cannot be grown while it is in
    /// use: it would not try again before the next mount.
    #[error(transparent)]
    NotGrown(Box<Self>),
    /// A volume has no device although it is active.
    #[error("volume {volume} has no device although it was activated; see `lvcsi check`")]
    NoDevice {
        /// Its id.
        volume: String,
    },
}

/// In what an existing volume differs from the one that was asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Difference {
    /// Size out of range.
    #[error("it has {0} bytes, outside of the capacity range")]
    Size(Bytes),
    /// VG.
    #[error("it is in volume group {0}, which the parameters do not allow")]
    Vg(VgName),
    /// Mount or block.
    #[error("it was created for {0} access")]
    Access(String),
    /// Sharing.
    #[error("its parameter shared differs")]
    Shared,
    /// CSI name.
    #[error("it was created for a name of other capitalisation")]
    Name,
    /// LV that the driver did not make.
    #[error("LV {0} of this name was not made by this driver")]
    Foreign(String),
}

fn list(vgs: &[VgName]) -> String {
    if vgs.is_empty() {
        return "none".to_owned();
    }
    vgs.iter()
        .map(VgName::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

fn sentences(reasons: &[String]) -> String {
    if reasons.is_empty() {
        "there is none".to_owned()
    } else {
        reasons.join("; ")
    }
}

impl CsiError {
    /// What a caller may conclude.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Missing { .. }
            | Self::NotAdvertised { .. }
            | Self::Path { .. }
            | Self::MaxEntries(_)
            | Self::Name(_)
            | Self::Parameter(_)
            | Self::Capability(_) => Kind::InvalidArgument,
            Self::Size(SizeError::NoMultiple { .. }) | Self::Shrink { .. } => Kind::OutOfRange,
            Self::Size(_) => Kind::InvalidArgument,
            Self::Token { .. } | Self::InFlight { .. } | Self::Incomplete { .. } => Kind::Aborted,
            Self::Hangs { .. } | Self::Unseen { .. } => Kind::DeadlineExceeded,
            Self::NoVolume { .. } | Self::NotPublished { .. } => Kind::NotFound,
            Self::Differs { .. } | Self::Occupied { .. } => Kind::AlreadyExists,
            Self::NoSpace { .. } | Self::NoVg { .. } | Self::WrongNode { .. } => {
                Kind::ResourceExhausted
            }
            Self::Unusable { .. }
            | Self::Foreign { .. }
            | Self::Ambiguous { .. }
            | Self::WrongAccess { .. }
            | Self::Objection { .. }
            | Self::PublishedElsewhere { .. }
            | Self::ReadOnlyElsewhere { .. }
            | Self::StillPublished { .. }
            | Self::NotCleared { .. }
            | Self::Format { .. } => Kind::FailedPrecondition,
            Self::Engine { source, .. } => source.kind(),
            Self::Host { source, .. } => crate::engine::host_kind(source),
            Self::NotGrown(source) => match source.kind() {
                Kind::FailedPrecondition => Kind::Internal,
                kind => kind,
            },
            Self::NoDevice { .. } => Kind::Internal,
        }
    }
}

impl From<CsiError> for tonic::Status {
    fn from(error: CsiError) -> Self {
        Self::new(error.kind().code(), error.to_string())
    }
}

/// Names the volume in errors of the layers below.
pub(super) trait OfVolume<T> {
    /// Adds the volume's id.
    fn of_volume(self, volume: &str) -> Result<T, CsiError>;
}

impl<T> OfVolume<T> for Result<T, EngineError> {
    fn of_volume(self, volume: &str) -> Result<T, CsiError> {
        self.map_err(|source| CsiError::Engine {
            volume: volume.to_owned(),
            source: Box::new(source),
        })
    }
}

impl<T> OfVolume<T> for Result<T, HostError> {
    fn of_volume(self, volume: &str) -> Result<T, CsiError> {
        self.map_err(|source| CsiError::Host {
            volume: volume.to_owned(),
            source,
        })
    }
}

impl<T> OfVolume<T> for Result<T, FormatError> {
    fn of_volume(self, volume: &str) -> Result<T, CsiError> {
        self.map_err(|source| CsiError::Format {
            volume: volume.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn codes_of_the_specification() {
        let volume = || "v".to_owned();
        for (error, code) in [
            (
                CsiError::Missing { field: "volume_id" },
                Code::InvalidArgument,
            ),
            (CsiError::Token { token: "x".into() }, Code::Aborted),
            (
                CsiError::InFlight {
                    volume: volume(),
                    job: "DeleteVolume".to_owned(),
                },
                Code::Aborted,
            ),
            (
                CsiError::Hangs {
                    job: "DeleteVolume".to_owned(),
                },
                Code::DeadlineExceeded,
            ),
            (CsiError::NoVolume { volume: volume() }, Code::NotFound),
            (
                CsiError::Differs {
                    volume: volume(),
                    difference: Difference::Shared,
                },
                Code::AlreadyExists,
            ),
            (
                CsiError::Shrink {
                    volume: volume(),
                    size: Bytes(2),
                    limit: Bytes(1),
                },
                Code::OutOfRange,
            ),
            (
                CsiError::NoSpace {
                    volume: volume(),
                    wanted: Bytes(1),
                    reasons: vec![],
                },
                Code::ResourceExhausted,
            ),
            (
                CsiError::Unusable {
                    volume: volume(),
                    wanted: "vg".into(),
                    reasons: vec![],
                },
                Code::FailedPrecondition,
            ),
            (
                CsiError::PublishedElsewhere {
                    volume: volume(),
                    at: "/a".into(),
                },
                Code::FailedPrecondition,
            ),
        ] {
            let text = error.to_string();
            let status = tonic::Status::from(error);
            assert_eq!(status.code(), code, "{text}");
            assert_eq!(status.message(), text);
        }
    }
}
