//! `cargo xtask test`: the levels of the tests, run one after the other.

mod fuzz;
mod host;
mod lanes;
mod vm;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use lexopt::prelude::*;

use crate::apt::{self, Group};
use crate::guest;
use crate::tally::Tally;

/// One row of the table.
struct Level {
    name: &'static str,
    what: &'static str,
    groups: &'static [Group],
    lane: Lane,
    run: fn(Length) -> Result<Tally>,
}

/// Whether a level can share the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Uses every CPU, or measures.
    Alone,
    /// Runs beside its neighbours of the table that can, too: it waits for its
    /// guest much of the time, or goes on for a time that is fixed.
    Beside,
}

/// How long the suites that can go on for ever shall take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// What a change has to pass.
    Short,
    /// What a night has time for.
    Nightly,
}

impl Length {
    /// The variable by which test programs know it.
    pub(crate) fn env(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Short => None,
            Self::Nightly => Some(("LVCSI_NIGHTLY", "1")),
        }
    }
}

/// Of levels that take longer the longest tests are told.
const LONG: Duration = Duration::from_secs(120);

/// In the order in which a person wants to hear of a failure.
const LEVELS: &[Level] = &[
    Level {
        name: "fmt",
        what: "formatting of the whole workspace",
        groups: &[],
        lane: Lane::Alone,
        run: host::fmt,
    },
    Level {
        name: "clippy",
        what: "lints of all targets, warnings are errors",
        groups: &[Group::Build],
        lane: Lane::Alone,
        run: host::clippy,
    },
    Level {
        name: "deny",
        what: "banned crates, licences and sources of dependencies",
        groups: &[Group::Deny],
        lane: Lane::Alone,
        run: host::deny,
    },
    Level {
        name: "unit",
        what: "unit, property and documentation tests; no device-mapper",
        groups: &[Group::Build, Group::Oracle],
        lane: Lane::Alone,
        run: host::unit,
    },
    Level {
        name: "oracle",
        what: "lvm2 reads what we write and the reverse, on loop files of this host (root)",
        groups: &[Group::Build, Group::Oracle],
        lane: Lane::Alone,
        run: host::oracle,
    },
    Level {
        name: "crash",
        what: "every state that a power cut can leave on simulated disks; lvm2 judges a sample (root)",
        groups: &[Group::Build, Group::Oracle],
        lane: Lane::Alone,
        run: host::crash,
    },
    Level {
        name: "guest",
        what: "real kernel, device-mapper and udev, in QEMU",
        groups: &[Group::Build, Group::Guest],
        lane: Lane::Beside,
        run: vm::guest,
    },
    Level {
        name: "guest-deep",
        what: "the same with devices that fail or hang, stacks of them, and VGs that lvm2 changes",
        groups: &[Group::Build, Group::Guest],
        lane: Lane::Beside,
        run: vm::guest_deep,
    },
    Level {
        name: "vagrant",
        what: "the guest tests on loop devices in a Vagrant VM",
        groups: &[Group::Build, Group::Guest, Group::Vagrant],
        lane: Lane::Beside,
        run: crate::vagrant::test,
    },
    Level {
        name: "guest-noudev",
        what: "the same without a udev daemon",
        groups: &[Group::Build, Group::Guest],
        lane: Lane::Beside,
        run: vm::guest_without_udev,
    },
    Level {
        name: "sanity",
        what: "the upstream csi-sanity against standalone mode in the guest, mount and block",
        groups: &[Group::Build, Group::Guest],
        lane: Lane::Beside,
        run: vm::sanity,
    },
    Level {
        name: "demo",
        what: "the demonstration in the guest ends well",
        groups: &[Group::Build, Group::Guest],
        lane: Lane::Beside,
        run: vm::demo,
    },
    Level {
        name: "cluster",
        what: "the driver on a real Kubernetes with two nodes, by its shipped manifests",
        groups: crate::cluster::GROUPS,
        lane: Lane::Alone,
        run: crate::cluster::level,
    },
    Level {
        name: "fuzz",
        what: "hostile bytes and texts chosen by coverage, a minute for each target",
        groups: &[Group::Build],
        lane: Lane::Beside,
        run: fuzz::fuzz,
    },
    Level {
        name: "power",
        what: "power cuts: the emulator is killed at random moments of a load",
        groups: &[Group::Build, Group::Guest],
        lane: Lane::Beside,
        run: crate::power::level,
    },
    Level {
        name: "storm",
        what: "lvm2's commands and ours change two VGs at the same time",
        groups: &[Group::Build, Group::Guest],
        lane: Lane::Beside,
        run: vm::storm,
    },
    Level {
        name: "bench-budget",
        what: "a short benchmark in the guest against the budgets",
        groups: &[Group::Build, Group::Guest],
        lane: Lane::Alone,
        run: vm::bench_budget,
    },
];

const HELP: &str = "\
Runs the levels of the tests: all of them, or those named, in the table's order.

Usage: cargo xtask test [--nightly] [LEVEL...]

Options:
  --nightly   the long versions: more crashes, power cuts, storms and inputs
  --list      show the levels
  -h, --help  show this

Ends with a table and the line `N passed, N failed, N skipped`, and if one level
was asked for, with what that counted; the status is 0 only if nothing failed. A
level that cannot run has failed.
";

/// What came out of one level.
struct Outcome {
    name: &'static str,
    tally: Tally,
    time: Duration,
}

/// Runs the subcommand; returns the exit status.
pub(crate) fn command(mut parser: lexopt::Parser) -> Result<i32> {
    let mut names: Vec<String> = Vec::new();
    let mut length = Length::Short;
    let mut tally_file = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Long("list") => {
                for level in LEVELS {
                    println!("{:<14}{}", level.name, level.what);
                }
                return Ok(0);
            }
            Long("nightly") => length = Length::Nightly,
            // For the process that runs levels beside each other.
            Long("tally") => tally_file = Some(PathBuf::from(parser.value()?)),
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => names.push(name.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let levels = select(&names)?;
    let mut groups: Vec<Group> = Vec::new();
    groups.extend(levels.iter().flat_map(|level| level.groups));
    apt::ensure(&groups)?;
    if let Some(file) = tally_file {
        let [level] = levels[..] else {
            bail!("--tally takes the counts of one level");
        };
        lanes::write(&file, &(level.run)(length)?)?;
        return Ok(0);
    }
    Ok(report(&run_all(&levels, length)?))
}

fn select(names: &[String]) -> Result<Vec<&'static Level>> {
    for name in names {
        if !LEVELS.iter().any(|level| level.name == name) {
            bail!("no level {name:?}; cargo xtask test --list shows them");
        }
    }
    Ok(LEVELS
        .iter()
        .filter(|level| names.is_empty() || names.iter().any(|name| name == level.name))
        .collect())
}

/// Neighbours that can share the machine run beside each other.
fn run_all(levels: &[&Level], length: Length) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for group in levels.chunk_by(|a, b| a.lane == Lane::Beside && b.lane == Lane::Beside) {
        match group {
            [level] => outcomes.push(run(level, length)),
            group => {
                // Only one of them may make it.
                guest::prepare()?;
                outcomes.extend(lanes::run_beside(group, length));
            }
        }
    }
    Ok(outcomes)
}

fn run(level: &Level, length: Length) -> Outcome {
    println!("\n=== {}: {}", level.name, level.what);
    let started = Instant::now();
    let tally = (level.run)(length).unwrap_or_else(|error| {
        println!("error: level {}: {error:#}", level.name);
        Tally::failure(format!("{error:#}"))
    });
    Outcome::new(level, tally, started.elapsed())
}

/// Prints the table and the last line; returns the exit status.
fn report(outcomes: &[Outcome]) -> i32 {
    println!(
        "\n{:<14}{:>8}{:>8}{:>9}{:>10}",
        "level", "passed", "failed", "skipped", "time"
    );
    let mut total = Tally::default();
    for Outcome { name, tally, time } in outcomes {
        let reasons: Vec<&str> = tally.reasons.iter().map(String::as_str).collect();
        println!(
            "{name:<14}{:>8}{:>8}{:>9}{:>10}  {}",
            tally.passed,
            tally.failed,
            tally.skipped,
            seconds(*time),
            reasons.join("; ")
        );
        total.add(tally.clone());
    }
    for Outcome { name, tally, time } in outcomes {
        if *time > LONG && !tally.longest.is_empty() {
            println!("{name}: longest: {}", tally.longest.join(", "));
        }
    }
    for Outcome { name, tally, .. } in outcomes {
        for failure in &tally.failures {
            println!("{name}: FAILED: {failure}");
        }
    }
    let proofs = || total.proofs.iter().for_each(|proof| println!("{proof}"));
    if outcomes.len() > 1 {
        proofs();
    }
    println!(
        "{} passed, {} failed, {} skipped",
        total.passed, total.failed, total.skipped
    );
    if outcomes.len() == 1 {
        proofs();
    }
    i32::from(total.failed != 0)
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{LEVELS, select};

    #[test]
    fn levels_keep_their_order_whatever_is_asked() {
        let names = |wanted: &[&str]| -> Vec<&str> {
            let wanted: Vec<String> = wanted.iter().map(|s| (*s).to_owned()).collect();
            select(&wanted)
                .unwrap()
                .iter()
                .map(|level| level.name)
                .collect()
        };
        assert_eq!(names(&["unit", "fmt"]), ["fmt", "unit"]);
        assert_eq!(names(&[]).len(), LEVELS.len());
    }

    #[test]
    fn an_unknown_level_is_an_error() {
        assert!(select(&["unti".to_owned()]).is_err());
    }
}
