//! The fuzz targets in `fuzz/`, by libFuzzer and with the stable compiler.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::Length;
use crate::artifacts::cargo;
use crate::tally::Tally;
use crate::{paths, run};

const TARGETS: &[&str] = &["text", "pv_head", "vg", "dm_reply", "words", "host_files"];

/// What `-Zsanitizer` or cargo-fuzz would pass: counters for every edge, and
/// calls that show libFuzzer what is compared with what. The stable compiler
/// takes all of it.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing";

/// Targets that run at the same time: each keeps a core busy.
const WORKERS: usize = 2;

/// Longest input in bytes, longest run of one input in seconds, and most memory
/// in MiB: far beyond what any of them takes.
const LIMITS: [&str; 3] = ["-max_len=16384", "-timeout=60", "-rss_limit_mb=1024"];

pub(super) fn fuzz(length: Length) -> Result<Tally> {
    let programs = build()?;
    let seconds = match length {
        Length::Short => 60,
        Length::Nightly => 600,
    };
    let queue: Mutex<VecDeque<&str>> = Mutex::new(TARGETS.iter().copied().collect());
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    let worker = || -> Vec<Result<Tally>> {
        std::iter::from_fn(next)
            .map(|target| one(&programs, target, seconds))
            .collect()
    };
    let outcomes: Vec<Result<Tally>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_default())
            .collect()
    });
    if outcomes.len() != TARGETS.len() {
        bail!("only {} targets of {} ran", outcomes.len(), TARGETS.len());
    }
    let mut tally = Tally::default();
    for outcome in outcomes {
        tally.add(outcome?);
    }
    Ok(tally)
}

/// Builds targets and the writer of seeds; returns the folder they are in.
fn build() -> Result<PathBuf> {
    let version = run::text(Command::new("rustc").arg("-vV"))?;
    // Named, so that the flags are not for build scripts.
    let triple = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc -vV names no host")?;
    let folder = folder();
    let mut command = cargo();
    command
        .env("RUSTFLAGS", COVERAGE)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .args(["build", "--release", "--locked", "--bins", "--examples"])
        .args(["--manifest-path", "fuzz/Cargo.toml", "--target", triple])
        .arg("--target-dir")
        .arg(&folder);
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start {}", run::display(&command)))?;
    if !status.success() {
        bail!("{} failed: {status}", run::display(&command));
    }
    Ok(folder.join(triple).join("release"))
}

/// What is built, found and logged.
fn folder() -> PathBuf {
    paths::root().join("target/fuzz")
}

/// Runs one target; what it finds goes on being tried in later runs.
fn one(programs: &Path, target: &str, seconds: u32) -> Result<Tally> {
    let folder = folder();
    let sub = |name: &str| -> Result<PathBuf> {
        let path = folder.join(name).join(target);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    };
    let (corpus, seeds, crashes) = (sub("corpus")?, sub("seeds")?, sub("crashes")?);
    run::quiet(
        Command::new(programs.join("examples/seeds"))
            .arg(target)
            .arg(&seeds),
    )?;
    let log = folder.join(format!("{target}.log"));
    let output = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let known = count(&crashes)?;
    let mut command = Command::new(programs.join(target));
    command
        .args([&corpus, &seeds, &crashes])
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg("-print_final_stats=1")
        .args(LIMITS)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {}", run::display(&command)))?;
    let text = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let runs = runs(&text)
        .with_context(|| format!("{target} told no number of runs; see {}", log.display()))?;
    // A crash of an earlier run that is still one gives no new file.
    let mut found = count(&crashes)?.saturating_sub(known);
    let mut tally = Tally::one(true);
    if !status.success() || found > 0 {
        found = found.max(1);
        println!("{target} failed ({status}); {}:", log.display());
        for line in cause(&text) {
            println!("  {line}");
        }
        let causes: Vec<&str> = cause(&text).collect();
        tally = Tally::failure(format!("{target}: {status}: {}", causes.join("; ")));
    } else if runs == 0 {
        tally = Tally::failure(format!("{target}: nothing was run"));
    }
    println!("{target}: {runs} runs, {found} crashes");
    tally.prove(&format!("fuzz: {runs} runs, crashes: {found}"));
    Ok(tally)
}

fn count(folder: &Path) -> Result<usize> {
    let entries = fs::read_dir(folder);
    let entries = entries.with_context(|| format!("cannot list {}", folder.display()))?;
    Ok(entries.count())
}

/// libFuzzer's own count of the inputs that it ran.
fn runs(log: &str) -> Option<u64> {
    log.lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .and_then(|number| number.trim().parse().ok())
}

/// The lines that tell what failed, and where the input is.
fn cause(log: &str) -> impl Iterator<Item = &str> {
    let words = [
        "panicked at",
        "ERROR: libFuzzer",
        "Test unit written",
        "Base64:",
    ];
    let tells = move |line: &&str| words.iter().any(|word| line.contains(word));
    let message = log
        .lines()
        .skip_while(|line| !line.contains("panicked at"))
        .skip(1)
        .take(1);
    log.lines().filter(tells).chain(message)
}

#[cfg(test)]
mod tests {
    use super::{cause, runs};

    const LOG: &str = "#10 NEW cov: 1\nthread '<unnamed>' panicked at src/x.rs:1:2:\n\
        attempt to add with overflow\nstack backtrace:\n==7== ERROR: libFuzzer: deadly signal\n\
        Test unit written to ./crash-1\nstat::number_of_executed_units: 4711\n";

    #[test]
    fn the_count_is_libfuzzers() {
        assert_eq!(runs(LOG), Some(4711));
        assert_eq!(runs("#10 NEW cov: 1\n"), None);
    }

    #[test]
    fn a_crash_is_told_with_its_message_and_input() {
        let lines: Vec<&str> = cause(LOG).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[3], "attempt to add with overflow");
        assert!(lines[2].ends_with("crash-1"));
    }
}
