//! What the documentation points to is there.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

/// Targets of `[text](target)` that are in this repository, without fragments.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .map(|target| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty() && !target.contains("://"))
}

fn pages(root: &Path) -> Vec<PathBuf> {
    let docs = fs::read_dir(root.join("docs")).expect("a folder").flatten();
    let pages = docs.map(|entry| entry.path());
    let pages = pages.filter(|path| path.extension().is_some_and(|e| e == "md"));
    pages.chain([root.join("README.md")]).collect()
}

#[test]
fn links_lead_somewhere() {
    let pages = pages(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(pages.len() > 5, "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for link in links(&text) {
            let target = page.parent().expect("a folder").join(link);
            assert!(target.exists(), "{}: no {link}", page.display());
        }
    }
}
