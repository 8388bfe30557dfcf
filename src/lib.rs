//! lvcsi: a CSI driver that is its own LVM2 engine.
//!
//! Layers, each using only those to its right:
//! `cli`, `csi`, `kube` → `engine` → `host` (traits; `linux` and `sim`) and the pure
//! crate `lvm2`. Only `host::linux` uses `lvcsi-sys`, the one crate with
//! unsafe code. A test keeps these arrows (`tests/layers.rs`).

pub mod cli;
pub mod compat;
pub mod config;
pub mod csi;
pub mod engine;
pub mod error;
pub mod host;
pub mod http;
pub mod kube;
pub mod metrics;
pub mod telemetry;
