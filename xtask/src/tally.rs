//! Counting what test programs report while their output passes by.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pace::Pace;
use crate::panics::Panics;
use crate::proof::Proof;

/// What one level came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Names of tests that failed, with what they said.
    pub(crate) failures: BTreeSet<String>,
    /// Why tests were skipped, each reason once.
    pub(crate) reasons: BTreeSet<String>,
    /// The longest tests of programs that run one at a time.
    pub(crate) longest: Vec<String>,
    /// What the suites counted, by their own lines `proof: …`.
    pub(crate) proofs: Vec<Proof>,
}

impl Tally {
    /// A check that is one test.
    pub(crate) fn one(passed: bool) -> Self {
        Self {
            passed: u64::from(passed),
            failed: u64::from(!passed),
            ..Self::default()
        }
    }

    /// A check that is one test, with what its failure is.
    pub(crate) fn failure(what: String) -> Self {
        Self {
            failures: [what].into(),
            ..Self::one(false)
        }
    }

    /// Adds another tally to this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.reasons.extend(other.reasons);
        self.longest.extend(other.longest);
        for proof in other.proofs {
            self.add_proof(proof);
        }
    }

    /// Adds what a suite counted.
    fn add_proof(&mut self, proof: Proof) {
        match self.proofs.iter_mut().find(|p| p.words == proof.words) {
            Some(known) => known.add(&proof),
            None => self.proofs.push(proof),
        }
    }

    /// Adds what a suite counted: a sentence with numbers.
    pub(crate) fn prove(&mut self, line: &str) {
        self.add_proof(Proof::read(line));
    }

    /// Takes the program's exit status into account: one that failed without
    /// reporting a failed test (a crash, a time-out) is a failure too, and so is
    /// one that ran nothing.
    pub(crate) fn with_status(mut self, status: i32) -> Self {
        if self.failed == 0 && (status != 0 || self.passed == 0) {
            self.failed = 1;
        }
        self
    }

    fn read_line(&mut self, line: &str) {
        let line = strip_ansi(line);
        if let Some(line) = line.strip_prefix("proof: ") {
            self.prove(line);
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            self.passed += number_before(rest, " passed");
            self.failed += number_before(rest, " failed");
            self.skipped += number_before(rest, " ignored");
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some(name) = test.strip_suffix(" ... FAILED") {
                self.failures.insert(name.to_owned());
            } else if let Some((_, after)) = line.split_once(" ... ignored") {
                let reason = after
                    .strip_prefix(", ")
                    .unwrap_or("ignored without a reason");
                self.reasons.insert(reason.trim().to_owned());
            }
        } else if let Some((_, counts)) = line.split_once("! -- ") {
            // ginkgo: "SUCCESS! -- 60 Passed | 0 Failed | 1 Pending | 31 Skipped"
            self.passed += number_before(counts, " Passed");
            self.failed += number_before(counts, " Failed");
            for (word, reason) in [
                (" Skipped", "capability not offered"),
                (" Pending", "pending upstream"),
            ] {
                let number = number_before(counts, word);
                self.skipped += number;
                if number > 0 {
                    self.reasons.insert(reason.to_owned());
                }
            }
        }
    }
}

/// The number in front of a word: 60 for "60 Passed".
fn number_before(text: &str, word: &str) -> u64 {
    let Some(at) = text.find(word) else { return 0 };
    let digits = text[..at].rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|d| d.parse().ok()).unwrap_or(0)
}

fn strip_ansi(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, tail)| tail);
    }
    plain.push_str(rest);
    plain
}

/// A writer that passes everything on and counts what it sees.
#[derive(Clone)]
pub(crate) struct Counter {
    shared: Arc<Mutex<Seen>>,
}

struct Seen {
    tally: Tally,
    panics: Panics,
    pace: Option<Pace>,
    line: Vec<u8>,
}

impl Seen {
    fn take(&mut self, byte: u8) {
        if byte != b'\n' {
            self.line.push(byte);
            return;
        }
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end_matches('\r');
        self.tally.read_line(line);
        self.panics.read_line(line);
        if let Some(pace) = &mut self.pace {
            pace.read_line(line);
        }
        self.line.clear();
    }
}

impl Counter {
    pub(crate) fn new() -> Self {
        Self::with(None)
    }

    /// For programs that run one test at a time: the longest are told.
    pub(crate) fn in_turn() -> Self {
        Self::with(Some(Pace::new()))
    }

    fn with(pace: Option<Pace>) -> Self {
        Self {
            shared: Arc::new(Mutex::new(Seen {
                tally: Tally::default(),
                panics: Panics::default(),
                pace,
                line: Vec::new(),
            })),
        }
    }

    /// What was counted, once the program has ended.
    pub(crate) fn tally(&self) -> Tally {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tally = shared.tally.clone();
        let failures = tally.failures.iter();
        tally.failures = failures.map(|test| shared.panics.explain(test)).collect();
        tally.longest = shared.pace.as_ref().map(Pace::longest).unwrap_or_default();
        tally
    }
}

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write_all(bytes)?;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.iter().for_each(|&byte| shared.take(byte));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    fn read(text: &str) -> Tally {
        let mut tally = Tally::default();
        text.lines().for_each(|line| tally.read_line(line));
        tally
    }

    #[test]
    fn libtest_results_add_up_over_binaries() {
        let tally = read(
            "running 3 tests\n\
             test a ... ok\n\
             test b ... ignored, needs device-mapper\n\
             test c ... FAILED\n\
             test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
             test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out",
        );
        assert_eq!((tally.passed, tally.failed, tally.skipped), (16, 2, 1));
        assert!(tally.reasons.contains("needs device-mapper"));
        assert_eq!(tally.failures, ["c".to_owned()].into());
    }

    #[test]
    fn proofs_of_one_kind_add_up() {
        let mut tally = read("proof: crash points: 10, lost: 0\nproof: crash points: 5, lost: 1");
        tally.add(read("proof: power cuts: 3, lost: 0"));
        let lines: Vec<String> = tally.proofs.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            ["crash points: 15, lost: 1", "power cuts: 3, lost: 0"]
        );
    }

    #[test]
    fn ginkgo_results_are_read_through_colours() {
        let line = "\x1b[38;5;9m\x1b[1mFAIL!\x1b[0m -- \x1b[38;5;10m\x1b[1m60 Passed\x1b[0m | \
                    \x1b[38;5;9m\x1b[1m2 Failed\x1b[0m | 1 Pending | 33 Skipped";
        let tally = read(line);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (60, 2, 34));
    }

    #[test]
    fn a_crash_and_an_empty_run_are_failures() {
        let passed = Tally {
            passed: 3,
            ..Tally::default()
        };
        assert_eq!(passed.clone().with_status(0).failed, 0);
        assert_eq!(passed.with_status(101).failed, 1);
        assert_eq!(Tally::default().with_status(0).failed, 1);
        let failed = Tally {
            failed: 5,
            ..Tally::default()
        };
        assert_eq!(failed.with_status(101).failed, 5);
    }
}
