//! Developer commands: `cargo xtask --help`.
#![allow(
    clippy::disallowed_types,
    reason = "running programs is what these commands do"
)]

mod apt;
mod guest;
mod paths;
mod run;
mod size;

use std::process::ExitCode;

use anyhow::{Result, bail};
use lexopt::prelude::*;

const HELP: &str = "\
Developer commands of lvcsi.

Usage: cargo xtask COMMAND [ARG...]

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
            Some("guest") => guest::command(parser),
            _ => bail!("unknown command {command:?}; see cargo xtask --help"),
        },
        Some(Short('h') | Long("help")) | None => {
            print!("{HELP}");
            Ok(0)
        }
        Some(other) => Err(other.unexpected().into()),
    }
}
