//! What must hold, on a real kernel: device-mapper, udev or none, stock lvm2
//! beside us, and the driver as its users run it.
//!
//! `cargo xtask test guest guest-noudev` runs these in the guest, one at a
//! time (`--test-threads=1`). Each test leaves nothing behind, and says so.
//! `LVCSI_SEED` repeats random choices, `LVCSI_NIGHTLY=1` runs the long versions.

#![allow(
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests run stock tools as witnesses"
)]

#[path = "../common/mod.rs"]
mod common;

mod backups;
mod bad_disks;
mod bad_requests;
mod burst;
mod check;
mod cli;
mod crash;
mod data;
mod failures;
mod format;
mod groups;
mod groups_beside;
mod interop;
mod logwrites;
mod nodes;
mod pitfalls_host;
mod pitfalls_lvs;
mod publish;
mod shim;
mod stacks;
mod storm;
mod support;
mod tripwire;
mod wedge;
mod writers;
