//! The CSI services.
//!
//! Every call that touches a disk runs as one blocking job that outlives the
//! gRPC request: when the caller's deadline passes, the job goes on, keeps its
//! volume locked against a second call (which gets `ABORTED`), and the repeated
//! call finds its result. See [`driver`].

pub(crate) mod capability;
mod cluster;
pub(crate) mod confirm;
pub(crate) mod context;
pub mod controller;
pub mod driver;
mod endpoint;
mod format_defaults;
pub mod identity;
pub(crate) mod inflight;
pub mod node;
pub(crate) mod params;
mod place;
pub mod server;
pub(crate) mod size;
mod socket;
pub mod status;
pub(crate) mod topology;
mod volume;
pub(crate) mod volume_id;

pub use cluster::Cluster;
pub use driver::{CallObserver, Driver};
pub use endpoint::{Endpoint, EndpointError};
pub use format_defaults::{FormatDefault, FormatDefaultError, FormatDefaults};
pub use inflight::Guard;
pub use server::{ServeError, Services, serve, standalone};
pub(crate) use server::{close, recover, signals, threads};
pub use socket::{Socket, SocketError};

#[cfg(test)]
mod tests;

/// Messages and services of `proto/`, generated.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    reason = "generated from proto/; the interface's specification documents the names"
)]
pub mod proto {
    tonic::include_proto!("csi.v1");
}
