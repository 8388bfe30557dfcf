//! What a power cut can leave on the disks, and what becomes of it.
//!
//! Each operation of the real engine runs once on simulated disks that record
//! every write and flush. From the record come the contents that a power cut
//! could have left: every prefix, subsets and reorders of what was not flushed,
//! writes torn at sectors. Each distinct content is then read by a fresh engine
//! and by a decoder that shares no code with it, recovered, asked again, and
//! changed once more; a sample is judged by stock lvm2 on loop devices.
//!
//! Needs root, loop devices and lvm2. `LVCSI_SEED` repeats a run, the name of a
//! test picks the layout, `LVCSI_CRASH_STORY` the operation.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test"
)]

mod check;
mod judge;
mod layouts;
mod requests;
mod states;
mod stories;
mod suite;
mod tenants;
mod trace;

use layouts::Layout;

#[test]
fn one_pv() {
    suite::run("one_pv", Layout::new(1));
}

#[test]
fn one_pv_of_4096_byte_sectors() {
    suite::run("one_pv_of_4096_byte_sectors", Layout::new(1).sectors(4096));
}

#[test]
fn three_pvs() {
    suite::run("three_pvs", Layout::new(3));
}

#[test]
fn three_pvs_of_4096_byte_sectors() {
    suite::run(
        "three_pvs_of_4096_byte_sectors",
        Layout::new(3).sectors(4096),
    );
}

#[test]
fn two_areas_on_each_of_two_pvs() {
    suite::run("two_areas_on_each_of_two_pvs", Layout::new(2).two_areas());
}

#[test]
fn two_areas_on_each_of_two_pvs_of_4096_byte_sectors() {
    suite::run(
        "two_areas_on_each_of_two_pvs_of_4096_byte_sectors",
        Layout::new(2).two_areas().sectors(4096),
    );
}

#[test]
fn a_pv_without_a_metadata_area() {
    suite::run(
        "a_pv_without_a_metadata_area",
        Layout::new(2).first_without_area(),
    );
}

#[test]
fn a_commit_that_wraps_the_ring() {
    suite::run_wrapping("a_commit_that_wraps_the_ring", Layout::new(2).small_ring());
}

#[test]
fn a_commit_that_wraps_the_ring_of_4096_byte_sectors() {
    suite::run_wrapping(
        "a_commit_that_wraps_the_ring_of_4096_byte_sectors",
        Layout::new(2).small_ring().sectors(4096),
    );
}
