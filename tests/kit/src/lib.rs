//! What the tests, the benchmarks and the demonstration share: loop-backed
//! VGs, stock lvm2 as witness, a decoder of the on-disk format that shares no
//! code with the driver, the driver as a child process, and a CSI client.
//!
//! Everything here panics with the whole story when something unexpected
//! happens: a failure of the support is a failure of the test.

#![allow(
    clippy::disallowed_types,
    reason = "tests run stock tools as witnesses and the driver as a child process"
)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "test support: what it cannot do is a failed test"
)]

pub mod csi;
pub mod decode;
pub mod digest;
pub mod driver;
pub mod host;
pub mod logwrites;
pub mod loopvg;
pub mod lvm;
pub mod paint;
pub mod pattern;
pub mod process;
pub mod proof;
pub mod rng;
pub mod stats;
pub mod text;

pub use csi::Csi;
pub use driver::Driver;
pub use loopvg::{Disk, LoopVg, VgSpec};
pub use lvm::{Lvm, complaints};
pub use process::{Ran, run};
pub use proof::proof;
pub use rng::Rng;
