//! The LVM engine: scan, plan, commit, activate.
//!
//! Disk is the truth. A VG in memory is a cache that holds only while each
//! PV's metadata area header still names the same text; it is checked under
//! the VG lock before every change. Changes of one VG run on one thread, and
//! those that wait together share one metadata commit.

mod error;
mod request;
mod state;
pub mod tags;

pub use error::EngineError;
pub use request::{CreateLv, EngineConfig, Request, Size, Wipe};
pub use state::{
    CheckReport, LvReport, LvState, MetadataUse, Plan, Problem, PvReport, Recovery, Report,
    TableMismatch, VgReport,
};
