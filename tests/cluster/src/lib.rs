//! What the tests, the benchmark and the demonstration on a real Kubernetes
//! share: its objects, waiting for what happens to them, and a way into the
//! nodes.
//!
//! Everything here panics with the whole story when something unexpected
//! happens: a failure of the support is a failure of the test.

#![allow(
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "test support: what it cannot do is a failed test"
)]

mod audit;
mod control;
mod cpu;
mod node;
mod objects;
mod remains;
mod story;
mod wait;

pub use audit::Audit;
pub use control::{Part, admin, renew, settled, xtask};
pub use cpu::CpuTimes;
pub use node::{Node, nodes};
pub use objects::{Claim, Class, Pod, sized};
pub use remains::remains;
pub use story::{Cluster, Story};
pub use wait::{PATIENCE, Waiting};

/// The driver's name.
pub const DRIVER: &str = "local.csi.openebs.io";
/// Where the driver keeps its objects.
pub const NAMESPACE: &str = "openebs";
/// Where the driver's pods run.
pub const SYSTEM: &str = "kube-system";
/// The VG that every node has.
pub const VG: &str = "lvmvg";
