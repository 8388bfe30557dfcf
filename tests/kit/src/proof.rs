//! The line by which a suite says what it counted.

use std::io::Write;

/// Prints `line` past the capture of the test harness, where
/// `cargo xtask test` reads it. Lines of one level that differ in their numbers
/// alone are added up there: `crash points: 12, lost: 0`.
///
/// # Panics
/// If standard output is gone.
pub fn proof(line: &str) {
    let mut out = std::io::stdout().lock();
    // The harness has printed "test NAME ... " without an end of line.
    write!(out, "\nproof: {line}\n").expect("standard output takes the proof");
    out.flush().expect("standard output takes the proof");
}

/// Whether the long versions of the tests are wanted (`--nightly`).
#[must_use]
pub fn nightly() -> bool {
    std::env::var_os("LVCSI_NIGHTLY").is_some_and(|value| value == "1")
}
