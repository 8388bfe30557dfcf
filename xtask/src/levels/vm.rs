//! Levels that run in the QEMU guest.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;

use super::Length;
use crate::guest::{self, Options, Streams};
use crate::programs::{self, Breadth, Programs};
use crate::tally::{Counter, Tally};
use crate::tools;

/// In seconds.
const MINUTE: u64 = 60;

pub(super) fn guest(length: Length) -> Result<Tally> {
    device_tests(true, Breadth::Full(length), length)
}

pub(super) fn guest_deep(length: Length) -> Result<Tally> {
    device_tests(true, Breadth::Deep(length), length)
}

pub(super) fn guest_without_udev(length: Length) -> Result<Tally> {
    device_tests(false, Breadth::WithoutUdev(length), length)
}

fn device_tests(udev: bool, breadth: Breadth, length: Length) -> Result<Tally> {
    let programs = Programs::build()?;
    let mut env = programs.env();
    env.extend(length.env().map(|(key, value)| (key.into(), value.into())));
    let timeout = match length {
        Length::Short => 40,
        Length::Nightly => 120,
    };
    let options = Options {
        udev,
        timeout: Duration::from_secs(timeout * MINUTE),
        env,
        ..Options::default()
    };
    let (tally, status) = counted(&options, &programs.device_tests(breadth))?;
    Ok(tally.with_status(status))
}

/// lvm2's commands and ours at the same time, for 2 minutes or 20.
pub(super) fn storm(length: Length) -> Result<Tally> {
    let programs = Programs::build()?;
    let mut env = programs.env();
    env.extend(length.env().map(|(key, value)| (key.into(), value.into())));
    let options = Options {
        timeout: Duration::from_secs(45 * MINUTE),
        env,
        ..Options::default()
    };
    let (tally, status) = counted(&options, &programs.storm()?)?;
    Ok(tally.with_status(status))
}

pub(super) fn sanity(_: Length) -> Result<Tally> {
    let sanity = tools::csi_sanity()?;
    let programs = Programs::build()?;
    let mut env = programs.env();
    env.push(("LVCSI_SANITY".into(), sanity.into()));
    let options = Options {
        timeout: Duration::from_secs(15 * MINUTE),
        env,
        ..Options::default()
    };
    let script = crate::paths::root().join("tests/sanity.sh");
    let (tally, status) = counted(&options, &[script.into()])?;
    Ok(tally.with_status(status))
}

pub(super) fn bench_budget(_: Length) -> Result<Tally> {
    let args = ["--rounds", "11", "--lvs", "0,500", "--check"].map(OsString::from);
    // What the other levels built, and slower than a release: if this keeps the
    // budgets, a release does.
    let status = programs::bench("dev", &args, None)?;
    Ok(Tally::one(status == 0))
}

pub(super) fn demo(_: Length) -> Result<Tally> {
    Ok(Tally::one(programs::demo()? == 0))
}

fn counted(options: &Options, argv: &[OsString]) -> Result<(Tally, i32)> {
    let counter = Counter::in_turn();
    let streams = Streams {
        stdout: Box::new(counter.clone()),
        stderr: Box::new(std::io::stderr()),
    };
    let status = guest::run(options, argv, streams)?;
    Ok((counter.tally(), status))
}
