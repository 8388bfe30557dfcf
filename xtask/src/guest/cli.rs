//! `cargo xtask guest`.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

use super::{Options, Streams, run};
use crate::{apt, size};

const HELP: &str = "\
Boots a QEMU guest with Debian's kernel on this machine's own files (read-only,
under an overlay), runs a command in it as root, and ends with its status.

Usage: cargo xtask guest [OPTIONS] -- COMMAND [ARG...]

Options:
  --no-udev            run without a udev daemon
  --disks N            add N virtio disks (/dev/vda ...)            [default: 0]
  --disk-size SIZE     size of each                                 [default: 1G]
  --disk-dir DIR       keep the disks there for the next run
  --sector-size BYTES  512 or 4096, of each disk                    [default: 512]
  --memory SIZE        memory of the guest                          [default: 3G]
  --cpus N             virtual CPUs                                 [default: 2]
  --timeout SECS       kill the guest after that time (status 124)  [default: 600]
  --results DIR        the guest's writable folder, /results there ($LVCSI_RESULTS)
  -h, --help           show this

The command starts in the root of the checkout. It sees PATH, HOME, TERM and all
LVCSI_*, CARGO_* and RUST_* variables; $LVCSI_SCRATCH is a tmpfs for loop files.
What it writes lives in memory: only /results and the disks outlive the guest.
/run and /dev/shm are the guest's own; elsewhere it sees this machine's files.
Emulates if KVM does not work; LVCSI_ACCEL=kvm|tcg decides.
";

/// Runs the subcommand; returns the exit status.
pub(crate) fn command(mut parser: lexopt::Parser) -> Result<i32> {
    let mut options = Options::default();
    let mut argv: Vec<OsString> = Vec::new();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("no-udev") => options.udev = false,
            Long("disks") => options.disks = parser.value()?.parse()?,
            Long("disk-size") => options.disk_size = size::parse(&parser.value()?.string()?)?,
            Long("disk-dir") => options.disk_dir = Some(parser.value()?.into()),
            Long("sector-size") => options.sector_size = parser.value()?.parse()?,
            Long("memory") => options.memory = size::parse(&parser.value()?.string()?)?,
            Long("cpus") => options.cpus = parser.value()?.parse()?,
            Long("timeout") => {
                options.timeout = Duration::from_secs(parser.value()?.parse()?);
            }
            Long("results") => {
                let dir = parser.value()?;
                options.results = Some(
                    std::path::absolute(&dir)
                        .with_context(|| format!("--results {}", dir.display()))?,
                );
            }
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(first) => {
                argv.push(first);
                argv.extend(parser.raw_args()?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if argv.is_empty() {
        bail!("no command: cargo xtask guest [OPTIONS] -- COMMAND [ARG...]");
    }
    if ![512, 4096].contains(&options.sector_size) {
        bail!("--sector-size {}: must be 512 or 4096", options.sector_size);
    }
    apt::ensure(&[apt::Group::Guest])?;
    run(&options, &argv, Streams::inherit())
}
