//! Developer commands: `cargo xtask --help`.
#![allow(
    clippy::disallowed_types,
    reason = "running programs is what these commands do"
)]

mod apt;
mod artifacts;
mod guest;
mod levels;
mod paths;
mod power;
mod programs;
mod proof;
mod run;
mod size;
mod tally;
mod tools;
mod vagrant;

use std::process::ExitCode;

use anyhow::{Result, bail};
use lexopt::prelude::*;

const HELP: &str = "\
Developer commands of lvcsi.

Usage: cargo xtask COMMAND [ARG...]

  demo      a volume's life over CSI on a real kernel, step by step
  test      the levels of the tests, with a table at the end
  crds      write the custom resource definitions to deploy/crds
  bench     provisioning side by side with lvm2, in the guest
  vagrant   the tests on a real kernel in a Vagrant VM
  guest     run a command in a QEMU guest with a real kernel and device-mapper

`cargo xtask COMMAND --help` tells more about each. On Debian and Ubuntu missing
packages are installed if you are root, and named if you are not.
";

fn main() -> ExitCode {
    match dispatch() {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn dispatch() -> Result<i32> {
    let mut parser = lexopt::Parser::from_env();
    match parser.next()? {
        Some(Value(command)) => match command.to_str() {
            Some("bench") => programs::bench_command(parser),
            Some("crds") => crds(parser),
            Some("demo") => programs::demo_command(parser),
            Some("test") => levels::command(parser),
            Some("guest") => guest::command(parser),
            Some("vagrant") => vagrant::command(parser),
            _ => bail!("unknown command {command:?}; see cargo xtask --help"),
        },
        Some(Short('h') | Long("help")) | None => {
            print!("{HELP}");
            Ok(0)
        }
        Some(other) => Err(other.unexpected().into()),
    }
}

/// Lets the driver write its definitions: its types are their only source.
fn crds(mut parser: lexopt::Parser) -> Result<i32> {
    if let Some(other) = parser.next()? {
        return Err(other.unexpected().into());
    }
    let dir = paths::root().join("deploy/crds");
    std::fs::create_dir_all(&dir)?;
    let mut command = artifacts::cargo();
    command.args([
        "run",
        "--quiet",
        "--package",
        "lvcsi",
        "--",
        "crds",
        "--dir",
    ]);
    Ok(run::code(command.arg(&dir).status()?))
}
