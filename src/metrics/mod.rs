//! Metrics: the contract's, from the engine's own view of the VGs, and the
//! driver's own.
//!
//! A scrape takes no lock of a VG and starts no program: it reads one header a
//! metadata area and asks device-mapper about active LVs.

mod lvm;
mod own;
pub(crate) mod vg_fields;

#[cfg(test)]
mod tests;

pub use lvm::{LvLimits, render_lvm};
pub use own::{Metrics, MetricsError};
