//! Why the controller refuses or fails, by volume.

use lvm2::units::{Bytes, format_size};

use super::schedule::Unusable;
use crate::csi::capability::CapabilityError;
use crate::csi::params::ParamError;
use crate::csi::size::SizeError;
use crate::csi::volume_id::NameError;
use crate::error::Kind;

/// Why a call failed. Every variant names the volume, and what to do where
/// somebody can do something.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControllerError {
    /// A field that must be set is not.
    #[error("{0} is required")]
    Missing(&'static str),
    /// A field that the capabilities do not cover is set.
    #[error("{field} is not supported: the driver does not advertise {capability}")]
    NotAdvertised {
        field: &'static str,
        capability: &'static str,
    },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Parameter(#[from] ParamError),
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// The PVC that the volume is for went away.
    #[error("volume {volume}: PersistentVolumeClaim {claim} {what}; no volume is made for it")]
    Claim {
        volume: String,
        claim: String,
        what: &'static str,
    },
    /// Another call works on the volume.
    #[error("volume {volume}: an earlier call is still being worked on ({job}); repeat later")]
    InFlight { volume: String, job: String },
    /// The LVMVolume of this name is another volume.
    #[error("volume {volume} exists and differs: {difference}")]
    Differs { volume: String, difference: String },
    /// No node takes the volume.
    #[error("volume {volume}: no node can take {} in {vgs}: {reasons}", format_size(*.size))]
    NoPlace {
        volume: String,
        size: Bytes,
        vgs: String,
        reasons: String,
    },
    /// An agent says that no node could.
    #[error("volume {volume}: the agent of node {node}: {message}")]
    Refused {
        volume: String,
        node: String,
        kind: Kind,
        message: String,
    },
    /// Time is up.
    #[error("volume {volume}: {waits}; it goes on: repeat the call")]
    Late { volume: String, waits: String },
    /// What the controller must know is not there yet.
    #[error("volume {volume:?}: the controller has not heard from the API server yet ({kinds})")]
    Starting { volume: String, kinds: String },
    /// There is no such volume.
    #[error("volume {volume} does not exist: there is no LVMVolume of this name")]
    NoVolume { volume: String },
    /// The volume is not made, or is being deleted.
    #[error("volume {volume} {state}; repeat when it is Ready: kubectl describe lvmvol {volume}")]
    NotReady { volume: String, state: &'static str },
    /// Snapshots depend on it.
    #[error("volume {volume} has snapshots, which must be deleted first: {snapshots}")]
    Snapshots { volume: String, snapshots: String },
    /// It would have to shrink.
    #[error(
        "volume {volume} has {size} bytes, more than limit_bytes {limit}: volumes are never shrunk"
    )]
    Shrink {
        volume: String,
        size: Bytes,
        limit: Bytes,
    },
    /// The VG has no room for the growth.
    #[error(
        "volume {volume} cannot grow by {}: volume group {vg} of node {node} has {} free",
        format_size(*.more), format_size(*.free)
    )]
    NoRoom {
        volume: String,
        vg: String,
        node: String,
        more: Bytes,
        free: Bytes,
    },
    /// Its LV is of a kind that is not grown.
    #[error(
        "volume {volume} is thin: this release does not grow thin volumes, so nothing was changed; \
         copy it to a volume that is not thin"
    )]
    Thin { volume: String },
    /// Nobody can say whether the VG has room.
    #[error("volume {volume} cannot grow now: {reason}")]
    NoReport { volume: String, reason: String },
    /// Nobody can say how much space a part of the cluster has.
    #[error("the free space of node {node} is not known yet: {why}")]
    NoCapacity { node: String, why: Unusable },
    /// Why a volume does not grow. The resizer reads a failed precondition as
    /// "in use" and waits for the volume's last pod to go, which helps with
    /// nothing that is refused here.
    #[error(transparent)]
    Growth(Box<ControllerError>),
    /// An LVMVolume that cannot be understood.
    #[error("volume {volume}: its LVMVolume cannot be used: {reason}")]
    Object { volume: String, reason: String },
    /// The API server.
    #[error("volume {volume}: API server: {source}")]
    Api {
        volume: String,
        source: Box<kube::Error>,
    },
}

impl ControllerError {
    /// What a caller may conclude.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Missing(_)
            | Self::NotAdvertised { .. }
            | Self::Name(_)
            | Self::Parameter(_)
            | Self::Capability(_)
            | Self::Thin { .. } => Kind::InvalidArgument,
            // By this code the resizer lets a user take a request back that is
            // too large; by ResourceExhausted it does not.
            Self::Size(SizeError::NoMultiple { .. })
            | Self::Shrink { .. }
            | Self::NoRoom { .. } => Kind::OutOfRange,
            Self::Size(_) => Kind::InvalidArgument,
            Self::Claim { .. }
            | Self::NotReady { .. }
            | Self::Snapshots { .. }
            | Self::Object { .. } => Kind::FailedPrecondition,
            Self::InFlight { .. }
            | Self::Starting { .. }
            | Self::NoReport { .. }
            | Self::NoCapacity { .. } => Kind::Aborted,
            Self::Growth(error) => match error.kind() {
                Kind::FailedPrecondition => Kind::Internal,
                kind => kind,
            },
            Self::Differs { .. } => Kind::AlreadyExists,
            // By this code the provisioner lets the scheduler choose again.
            Self::NoPlace { .. } => Kind::ResourceExhausted,
            Self::Refused { kind, .. } => *kind,
            Self::Late { .. } => Kind::DeadlineExceeded,
            Self::NoVolume { .. } => Kind::NotFound,
            Self::Api { source, .. } => api_kind(source),
        }
    }
}

/// What the API server's answer means: a server that cannot be reached now is
/// a reason to ask again, not to give up.
fn api_kind(error: &kube::Error) -> Kind {
    match error {
        kube::Error::Api(status) => match status.code {
            400 | 422 => Kind::Internal,
            401 | 403 => Kind::FailedPrecondition,
            404 => Kind::NotFound,
            _ => Kind::Aborted,
        },
        _ => Kind::Aborted,
    }
}

impl From<ControllerError> for tonic::Status {
    fn from(error: ControllerError) -> Self {
        Self::new(error.kind().code(), error.to_string())
    }
}

/// Names the volume in the API server's errors.
pub(super) trait OfVolume<T> {
    /// Adds the volume's id.
    fn of_volume(self, volume: &str) -> Result<T, ControllerError>;
}

impl<T> OfVolume<T> for Result<T, kube::Error> {
    fn of_volume(self, volume: &str) -> Result<T, ControllerError> {
        self.map_err(|source| ControllerError::Api {
            volume: volume.to_owned(),
            source: Box::new(source),
        })
    }
}
