//! Levels that run beside each other: most of the time a guest uses one of its
//! CPUs, so two of them take hardly longer than one.
//!
//! Each is a process of its own, whose output is passed on line by line with
//! the level's name in front, and whose counts come back in a file.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};

use super::{Length, Level, Outcome, seconds};
use crate::proof::Proof;
use crate::tally::Tally;
use crate::{paths, run};

/// As many as run at a time.
const LANES: usize = 2;

/// Runs the levels, in their order as lanes become free; outcomes are in the
/// order of the levels.
pub(super) fn run_beside(levels: &[&Level], length: Length) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES.min(levels.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(level) = levels.get(index) else {
                        break;
                    };
                    let outcome = run_apart(level, length);
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((index, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn run_apart(level: &Level, length: Length) -> Outcome {
    println!("\n=== {}: {}", level.name, level.what);
    let started = Instant::now();
    let tally = child(level, length).unwrap_or_else(|error| {
        println!("error: level {}: {error:#}", level.name);
        Tally::failure(format!("{error:#}"))
    });
    Outcome::new(level, tally, started.elapsed())
}

fn child(level: &Level, length: Length) -> Result<Tally> {
    let counts = paths::guest_cache().join(format!("tally-{}-{}", level.name, std::process::id()));
    let (lines, output) = std::io::pipe().context("cannot make a pipe")?;
    // A level that builds the workspace replaces our file; this is what runs.
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["test", level.name, "--tally"])
        .arg(&counts)
        .args((length == Length::Nightly).then_some("--nightly"))
        .stdin(Stdio::null())
        .stdout(output.try_clone().context("cannot share a pipe")?)
        .stderr(output);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", run::display(&command)))?;
    // Its copies of the pipe's end would keep the reader waiting.
    drop(command);
    for line in BufReader::new(lines).split(b'\n') {
        let line = line.context("cannot read the level's output")?;
        let mut out = std::io::stdout().lock();
        write!(out, "{}| ", level.name)?;
        out.write_all(&line)?;
        out.write_all(b"\n")?;
    }
    child.wait().context("cannot wait for the level")?;
    let tally = read(&counts)?;
    std::fs::remove_file(&counts).with_context(|| format!("cannot remove {}", counts.display()))?;
    Ok(tally)
}

/// Leaves the counts for the process that asked for them.
pub(super) fn write(path: &Path, tally: &Tally) -> Result<()> {
    let proofs: Vec<String> = tally.proofs.iter().map(ToString::to_string).collect();
    let value = serde_json::json!({
        "passed": tally.passed,
        "failed": tally.failed,
        "skipped": tally.skipped,
        "failures": tally.failures,
        "reasons": tally.reasons,
        "longest": tally.longest,
        "proofs": proofs,
    });
    std::fs::write(path, value.to_string())
        .with_context(|| format!("cannot write {}", path.display()))
}

fn read(path: &Path) -> Result<Tally> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the level ended without counts in {}", path.display()))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    let number = |key: &str| {
        value[key]
            .as_u64()
            .with_context(|| format!("{}: no number {key}", path.display()))
    };
    let texts = |key: &str| {
        let array = value[key].as_array().into_iter().flatten();
        array.filter_map(serde_json::Value::as_str)
    };
    Ok(Tally {
        passed: number("passed")?,
        failed: number("failed")?,
        skipped: number("skipped")?,
        failures: texts("failures").map(str::to_owned).collect(),
        reasons: texts("reasons").map(str::to_owned).collect(),
        longest: texts("longest").map(str::to_owned).collect(),
        proofs: texts("proofs").map(Proof::read).collect(),
    })
}

impl Outcome {
    /// Says how the level ended.
    pub(super) fn new(level: &Level, tally: Tally, time: std::time::Duration) -> Self {
        let verdict = if tally.failed == 0 {
            "passed"
        } else {
            "FAILED"
        };
        println!("=== {}: {verdict} in {}", level.name, seconds(time));
        Self {
            name: level.name,
            tally,
            time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_the_file() {
        let dir = std::env::temp_dir().join(format!("lvcsi-tally-{}", std::process::id()));
        let tally = Tally {
            passed: 3,
            failed: 1,
            skipped: 2,
            failures: ["a::b".to_owned()].into(),
            reasons: ["needs a \"kernel\"".to_owned()].into(),
            longest: vec!["a::b 7 s".to_owned()],
            proofs: vec![Proof::read("crash points: 12, lost: 0")],
        };
        write(&dir, &tally).unwrap();
        assert_eq!(read(&dir).unwrap(), tally);
        std::fs::remove_file(&dir).unwrap();
        assert!(read(&dir).is_err());
    }
}
