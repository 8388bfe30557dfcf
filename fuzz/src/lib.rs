//! What the fuzz targets share: a bound on memory, mutations that keep a text a
//! text, and parsers of the driver that are private there.
//!
//! A target fails by a panic: an assertion, an overflow, an index, too much
//! memory. The code under test has no unsafe code, so a sanitizer for memory
//! errors would find nothing more in it.

pub mod host;
pub mod mutate;
#[allow(dead_code, reason = "the driver uses all of it")]
#[path = "../../src/cli/units.rs"]
pub mod units;

use std::alloc::System;

use cap::Cap;

/// More than any input of a few kilobytes may make us allocate.
const MEMORY: usize = 128 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MEMORY);
