//! Which tests take long, by when their lines of the output come.

use std::time::{Duration, Instant};

/// As many are told.
const TOLD: usize = 6;

/// The longest tests of a program that runs one at a time.
#[derive(Debug)]
pub(crate) struct Pace {
    last: Instant,
    longest: Vec<(Duration, String)>,
}

impl Pace {
    /// Begins now.
    pub(crate) fn new() -> Self {
        Self {
            last: Instant::now(),
            longest: Vec::new(),
        }
    }

    /// Takes the next line of the output.
    pub(crate) fn read_line(&mut self, line: &str) {
        if line.starts_with("running ") {
            self.last = Instant::now();
        } else if let Some((name, _)) = line.strip_prefix("test ").and_then(ended) {
            let now = Instant::now();
            keep(&mut self.longest, now - self.last, name);
            self.last = now;
        }
    }

    /// The longest with their seconds.
    pub(crate) fn longest(&self) -> Vec<String> {
        let seconds = |(time, name): &(Duration, String)| format!("{name} {} s", time.as_secs());
        self.longest.iter().map(seconds).collect()
    }
}

/// The name and the result, of a test that ran.
fn ended(test: &str) -> Option<(&str, &str)> {
    let (name, result) = test.split_once(" ... ")?;
    (result == "ok" || result == "FAILED").then_some((name, result))
}

/// Keeps the longest, longest first.
fn keep(longest: &mut Vec<(Duration, String)>, time: Duration, name: &str) {
    let at = longest.partition_point(|(other, _)| *other >= time);
    longest.insert(at, (time, name.to_owned()));
    longest.truncate(TOLD);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_come_first_and_the_rest_is_left_out() {
        let mut longest = Vec::new();
        for second in [3, 9, 1, 7, 8, 2, 5, 9] {
            keep(&mut longest, Duration::from_secs(second), "a");
        }
        let seconds: Vec<u64> = longest.iter().map(|(time, _)| time.as_secs()).collect();
        assert_eq!(seconds, [9, 9, 8, 7, 5, 3]);
    }

    #[test]
    fn only_tests_that_ran_count() {
        let mut pace = Pace::new();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test b ... ignored, no",
            "test c ... FAILED",
        ] {
            pace.read_line(line);
        }
        assert_eq!(pace.longest().len(), 2);
    }
}
