//! The table of pitfalls in docs/testing.md and the tests in the sources say the
//! same: each number has a row, each name in a row is a test, and each test with
//! a number is in its row.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How many there are.
const PITFALLS: usize = 60;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Names of all functions in Rust files below the folders that have tests.
fn functions() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for dir in [
        "src",
        "lvm2/src",
        "lvm2/tests",
        "sys/src",
        "sys/tests",
        "tests",
        "xtask/src",
    ] {
        collect(&root().join(dir), &mut found);
    }
    found
}

fn collect(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let names = text
                .lines()
                .filter_map(|line| line.trim_start().split_once("fn "))
                .filter_map(|(_, rest)| rest.split('(').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

/// The rows by number: what stands in each behind the number.
fn rows() -> BTreeMap<usize, String> {
    let text = fs::read_to_string(root().join("docs/testing.md")).expect("docs/testing.md");
    let (_, table) = text.split_once("## Pitfalls").expect("the section");
    let mut rows = BTreeMap::new();
    for line in table.lines() {
        let mut cells = line.trim_matches('|').splitn(2, '|');
        let number = cells.next().and_then(|cell| cell.trim().parse().ok());
        if let (Some(number), Some(rest)) = (number, cells.next()) {
            let twice = rows.insert(number, rest.to_owned());
            assert_eq!(twice, None, "two rows have the number {number}");
        }
    }
    rows
}

/// The names of tests in a row, in backticks; one with a star is the beginning
/// of a name.
fn names(row: &str) -> Vec<&str> {
    let tests = row.split('|').nth(1).expect("a column of tests");
    tests.split('`').skip(1).step_by(2).collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[test]
fn every_pitfall_has_a_row_with_tests_that_exist() {
    let (rows, functions) = (rows(), functions());
    let numbers: Vec<usize> = rows.keys().copied().collect();
    let all: Vec<usize> = (1..=PITFALLS).collect();
    assert_eq!(numbers, all, "numbers of the table");
    let mut wrong = Vec::new();
    for (number, row) in &rows {
        let names = names(row);
        let exist = |pattern: &&str| functions.iter().any(|name| matches(pattern, name));
        let gone = |name: &&&str| !name.ends_with('*') && !exist(name);
        wrong.extend(
            names
                .iter()
                .filter(gone)
                .map(|name| format!("{number}: there is no test {name}")),
        );
        if !names.iter().any(exist) && !row.contains("later:") {
            wrong.push(format!("{number}: no test"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_test_of_a_pitfall_is_in_the_table() {
    let rows = rows();
    for function in functions() {
        let Some(rest) = function.strip_prefix("pitfall_") else {
            continue;
        };
        let digits = rest.split('_').next().unwrap_or_default();
        let number: usize = digits
            .parse()
            .unwrap_or_else(|_| panic!("{function} has no number"));
        let row = rows
            .get(&number)
            .unwrap_or_else(|| panic!("no row for {function}"));
        assert!(
            names(row).iter().any(|pattern| matches(pattern, &function)),
            "{function} is not in row {number}"
        );
    }
}
