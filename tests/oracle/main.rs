//! lvm2 as the judge, without device-mapper: random edits by our engine and by
//! stock lvm2, interleaved in one VG on loop files. After each, lvm2, our
//! engine and a decoder of our own that shares no code with the engine must
//! read the same LVs, and a change must touch nothing but its LV.
//!
//! Needs root and loop devices. `LVCSI_SEED` repeats a run, `LVCSI_OPS` sets
//! the number of edits per layout.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test"
)]

mod backups;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod edits;
mod forge;
mod groups;
mod layouts;
mod limits;
mod pitfalls;
mod refusals;
mod samples;
