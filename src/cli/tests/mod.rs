//! Commands on a simulated machine: what they print and how they end.

mod attr;
mod changes;
mod disks;
mod hang;
mod history;
mod inspect;
mod refusals;
mod reports;

use clap::{CommandFactory, Parser};

use super::{Command, Terminal, run_with};
use crate::engine::{BackupConfig, EngineConfig};
use crate::host::Host;
use crate::host::sim::SimHost;
use lvm2::units::{ExtentSize, Sectors};

const MIB: u64 = 1 << 20;

#[derive(Parser)]
#[command(name = "lvcsi")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// A machine with the VG `vg` of 4 MiB extents on `/dev/sda` and `/dev/sdb`,
/// 15 extents on each.
fn machine() -> SimHost {
    let sim = SimHost::new();
    sim.add_disk("/dev/sda", 64 * MIB, 512);
    sim.add_disk("/dev/sdb", 64 * MIB, 512);
    let extents = ExtentSize::new(Sectors(8192)).unwrap();
    sim.add_vg("vg", &["/dev/sda", "/dev/sdb"], extents)
        .unwrap();
    sim
}

/// How a command ended.
struct Done {
    status: u8,
    out: String,
    err: String,
}

/// As the program has it by default.
fn config() -> EngineConfig {
    EngineConfig {
        backup: Some(BackupConfig::default()),
        ..EngineConfig::default()
    }
}

/// Runs a command line; `answer` is what a person types, if one is there.
fn run_answering(host: Host, line: &str, answer: Option<&str>) -> Done {
    run_with_config(host, config(), line, answer)
}

fn run_with_config(host: Host, config: EngineConfig, line: &str, answer: Option<&str>) -> Done {
    let words = std::iter::once("lvcsi").chain(line.split_whitespace());
    let command = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments.command,
        Err(error) => {
            let status = u8::try_from(error.exit_code()).unwrap();
            return Done {
                status,
                out: String::new(),
                err: error.to_string(),
            };
        }
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut term = Terminal {
        out: &mut out,
        err: &mut err,
        input: &mut answer.unwrap_or_default().as_bytes(),
        interactive: answer.is_some(),
    };
    let status = run_with(host, config, command, &mut term);
    Done {
        status,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

fn run(host: Host, line: &str) -> Done {
    run_answering(host, line, None)
}

/// Runs a command that must succeed and returns its output.
fn ok(host: Host, line: &str) -> String {
    let done = run(host, line);
    assert_eq!((done.status, done.err.as_str()), (0, ""), "{line}");
    done.out
}

/// Runs a command that must fail with this status, and returns what it says.
fn fails(host: Host, line: &str, status: u8) -> String {
    let done = run(host, line);
    assert_eq!(done.status, status, "{line}: {}{}", done.out, done.err);
    assert!(!done.err.is_empty(), "{line} fails without a word");
    done.err
}

#[test]
fn every_command_has_help_with_the_exit_statuses() {
    Arguments::command().debug_assert();
    for line in [
        "pvs",
        "vgs",
        "lvs",
        "inspect",
        "check",
        "lv create",
        "lv extend",
        "lv remove",
        "pv create",
        "pv resize",
        "pv remove",
        "vg create",
        "vg extend",
        "vg reduce",
        "vg remove",
        "vg history",
    ] {
        let done = run(SimHost::new().host(), &format!("{line} --help"));
        assert_eq!(done.status, 0, "{line}");
        assert!(
            done.err.contains("6  not enough free extents"),
            "{line}: {}",
            done.err
        );
    }
}
