//! The driver on a real Kubernetes with real nodes, by its shipped manifests.
//!
//! `cargo xtask cluster test` starts the cluster and runs these one at a time
//! (`--test-threads=1`). Each test leaves nothing behind on any node, and says
//! so at its end.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends at what it did not expect"
)]

mod crowd;
mod idle;
mod life;
mod metrics;
mod place;
mod protection;
mod restarts;
mod restored;
mod takeover;
mod wrong;
