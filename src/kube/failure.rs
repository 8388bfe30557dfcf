//! Why one of the programs for Kubernetes did not start, or ended.

use std::io;

use super::client::ClientError;
use crate::csi::ServeError;
use crate::error::Kind;
use crate::metrics::MetricsError;

/// Why the agent or the controller ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeFailure {
    /// The CSI service.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The cluster.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Metrics.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The address of metrics and health.
    #[error("listen at {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: io::Error,
    },
}

impl ServeFailure {
    /// What a caller may conclude.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Serve(error) => error.kind(),
            Self::Client(_) => Kind::InvalidArgument,
            Self::Listen { .. } => Kind::FailedPrecondition,
            Self::Metrics(_) => Kind::Internal,
        }
    }
}
