//! Levels that run on this machine as it is.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::Length;
use crate::artifacts::{cargo, test_targets};
use crate::tally::{Counter, Tally};
use crate::{run, tools};

/// Integration tests that are levels of their own.
const OWN_LEVEL: &[&str] = &["oracle", "crash", "guest"];

pub(super) fn fmt(_: Length) -> Result<Tally> {
    let mut tally = one(cargo().args(["fmt", "--all", "--check"]))?;
    // A workspace of its own.
    let fuzz = ["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"];
    tally.add(one(cargo().args(fuzz))?);
    Ok(tally)
}

pub(super) fn clippy(_: Length) -> Result<Tally> {
    one(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

pub(super) fn deny(_: Length) -> Result<Tally> {
    let deny = tools::cargo_deny()?;
    let mut tally = Tally::default();
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let mut command = Command::new(&deny);
        command
            .current_dir(crate::paths::root())
            .args(["--manifest-path", manifest, "--config", "deny.toml"])
            .args(["--workspace", "check", "bans", "licenses", "sources"]);
        tally.add(one(&mut command)?);
    }
    Ok(tally)
}

pub(super) fn unit(length: Length) -> Result<Tally> {
    let mut tally = counted(cargo().envs(length.env()).args([
        "test",
        "--workspace",
        "--lib",
        "--bins",
        "--no-fail-fast",
        "--locked",
    ]))?;
    // The whole workspace again: built by themselves, packages would get other
    // features of what they share, and be compiled a second time.
    let mut command = cargo();
    command
        .envs(length.env())
        .args(["test", "--workspace", "--no-fail-fast", "--locked"]);
    for package in ["lvm2", "lvcsi", "lvcsi-kit"] {
        let targets = test_targets(package)?;
        for target in targets.iter().filter(|t| !OWN_LEVEL.contains(&t.as_str())) {
            command.args(["--test", target]);
        }
    }
    tally.add(counted(&mut command)?);
    // The documentation may have no example: only a failure counts against it.
    let mut docs = cargo();
    docs.args(["test", "--workspace", "--doc", "--no-fail-fast", "--locked"]);
    let (counts, status) = count(&mut docs)?;
    tally.add(if status == 0 {
        counts
    } else {
        counts.with_status(status)
    });
    Ok(tally)
}

pub(super) fn oracle(length: Length) -> Result<Tally> {
    own(length, "oracle")
}

pub(super) fn crash(length: Length) -> Result<Tally> {
    own(length, "crash")
}

/// A test program that is a level of its own.
fn own(length: Length, target: &str) -> Result<Tally> {
    counted(cargo().envs(length.env()).args([
        "test",
        "--workspace",
        "--test",
        target,
        "--no-fail-fast",
        "--locked",
    ]))
}

/// A program that passes or fails as a whole.
fn one(command: &mut Command) -> Result<Tally> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", run::display(command)))?;
    Ok(Tally::one(status.success()))
}

/// A program that reports its tests.
fn counted(command: &mut Command) -> Result<Tally> {
    let (tally, status) = count(command)?;
    Ok(tally.with_status(status))
}

fn count(command: &mut Command) -> Result<(Tally, i32)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", run::display(command)))?;
    let mut counter = Counter::new();
    if let Some(mut stdout) = child.stdout.take() {
        std::io::copy(&mut stdout, &mut counter).context("cannot copy the tests' output")?;
    }
    let status = child.wait().context("cannot wait for the tests")?;
    Ok((counter.tally(), run::code(status)))
}
