//! Genuine samples, for all integration tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test file uses some of these")]

use std::path::PathBuf;

/// The directory of samples.
pub(crate) fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Names and contents of all samples whose name passes, in order of name.
pub(crate) fn samples(select: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = std::fs::read_dir(data())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .filter(|(name, _)| select(name))
        .map(|(name, path)| (name, std::fs::read(path).unwrap()))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no sample selected");
    found
}

/// All samples that are text.
pub(crate) fn texts() -> Vec<(String, Vec<u8>)> {
    samples(|name| name.starts_with("meta-") || name.ends_with(".vg"))
}
