//! The layer rule, checked on manifests and source lines: dependencies point
//! downward only, the metadata crate is pure, unsafe code is in one crate, and
//! programs are started from one module.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Rust files below `dir`, with their paths from the root of the workspace.
fn sources(dir: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(&root().join(dir), &mut found);
    assert!(!found.is_empty(), "no sources in {dir}");
    found
}

fn walk(dir: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path
                .strip_prefix(root())
                .expect("below the root")
                .display()
                .to_string();
            if is_unit_test(&name) {
                continue;
            }
            found.push((name, fs::read_to_string(&path).expect("a source")));
        }
    }
}

/// Modules that are compiled for tests only may use what they like.
fn is_unit_test(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let file = parts.last().copied().unwrap_or_default();
    parts.contains(&"src")
        && (parts.contains(&"tests") && !parts.starts_with(&["tests"])
            || file == "tests.rs"
            || file.ends_with("_tests.rs"))
}

/// Lines of code: no comments, and nothing from `#[cfg(test)]` to the end,
/// where this workspace keeps its unit tests.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let numbered = code.lines().enumerate().map(|(n, line)| (n + 1, line));
    numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Asserts that no code line in `files` contains one of `words`.
fn forbid(files: &[(String, String)], words: &[&str], rule: &str) {
    let mut broken = Vec::new();
    for (name, text) in files {
        for (n, line) in code(text) {
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                broken.push(format!("{name}:{n}: {word}: {}", line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

/// Names in a section of a manifest, up to the next section.
fn section(manifest: &str, section: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
    let header = format!("[{section}]");
    text.lines()
        .skip_while(|line| line.trim() != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#') && line.contains('='))
        .map(|line| {
            line.split(['=', '.', ' '])
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[test]
fn the_metadata_crate_is_pure() {
    assert_eq!(
        section("lvm2/Cargo.toml", "dependencies"),
        ["crc32fast", "thiserror"]
    );
    let library = fs::read_to_string(root().join("lvm2/src/lib.rs")).expect("lib.rs");
    assert!(
        library.contains("#![forbid(unsafe_code)]"),
        "lvm2 forbids unsafe code"
    );
    let words = [
        "std::fs",
        "std::net",
        "std::process",
        "std::time",
        "std::env",
        "std::thread",
        "std::io",
        "std::os",
        "SystemTime",
        "Instant::",
        "println!",
        "eprintln!",
    ];
    forbid(
        &sources("lvm2/src"),
        &words,
        "lvm2 reads no device, clock or randomness",
    );
}

#[test]
fn unsafe_code_is_in_sys_only() {
    for dir in ["src", "lvm2", "tests", "benches", "xtask"] {
        let files: Vec<_> = sources(dir)
            .into_iter()
            .filter(|(name, _)| name != "tests/layers.rs")
            .collect();
        forbid(
            &files,
            &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"],
            "only sys/ has unsafe code",
        );
    }
    let undocumented: Vec<_> = sources("sys/src")
        .iter()
        .flat_map(|(name, text)| {
            let lines: Vec<&str> = text.lines().collect();
            let is_block =
                |line: &str| line.contains("unsafe {") && !line.trim_start().starts_with("//");
            (0..lines.len())
                .filter(|&n| is_block(lines[n]))
                .filter(|&n| {
                    !lines[n.saturating_sub(6)..n]
                        .iter()
                        .any(|l| l.contains("SAFETY:"))
                })
                .map(|n| format!("{name}:{}", n + 1))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(
        undocumented.is_empty(),
        "unsafe blocks without SAFETY: {undocumented:?}"
    );
}

#[test]
fn dependencies_point_downward() {
    let above_engine = [
        "crate::csi",
        "crate::cli",
        "crate::kube",
        "tonic::transport",
    ];
    let mut words = above_engine.to_vec();
    words.extend([
        "host::linux",
        "host::sim",
        "lvcsi_sys",
        "std::fs",
        "std::process",
    ]);
    forbid(
        &sources("src/engine"),
        &words,
        "the engine knows host traits only",
    );

    let mut words = above_engine.to_vec();
    words.push("crate::engine");
    forbid(
        &sources("src/host"),
        &words,
        "the host layer knows nothing above it",
    );

    let words = [
        "crate::host::linux",
        "lvcsi_sys",
        "crate::cli",
        "crate::kube",
        "std::fs::",
    ];
    let services: Vec<_> = sources("src/csi")
        .into_iter()
        // Assembles the parts, and owns the socket.
        .filter(|(name, _)| !name.ends_with("server.rs") && !name.ends_with("socket.rs"))
        .collect();
    forbid(
        &services,
        &words,
        "the CSI services use the engine and host traits",
    );
    forbid(
        &sources("src/cli"),
        &["crate::csi", "crate::kube", "lvcsi_sys"],
        "the tool uses neither CSI nor Kubernetes",
    );
    forbid(
        &sources("src/kube"),
        &["crate::host::linux", "lvcsi_sys", "crate::cli"],
        "the reconcilers use the engine and the CSI services",
    );
    let outside: Vec<_> = sources("src")
        .into_iter()
        .filter(|(name, _)| !name.starts_with("src/kube/"))
        .collect();
    forbid(
        &outside,
        &[
            "k8s_openapi",
            " kube::core",
            " kube::Client",
            " kube::api",
            " kube::runtime",
        ],
        "only src/kube knows Kubernetes' types",
    );

    let outside: Vec<_> = sources("src")
        .into_iter()
        .filter(|(name, _)| !name.starts_with("src/host/linux"))
        .collect();
    forbid(&outside, &["lvcsi_sys"], "only host::linux uses sys");
}

#[test]
fn programs_are_started_from_one_module() {
    let files: Vec<_> = ["src", "sys/src", "lvm2/src"]
        .iter()
        .flat_map(|dir| sources(dir))
        .filter(|(name, _)| name != "src/host/linux/mkfs.rs")
        .collect();
    let words = [
        "process::Command",
        "Command::new(",
        "posix_spawn",
        "execv",
        "libc::fork",
    ];
    forbid(&files, &words, "only host::linux::mkfs starts programs");
}

#[test]
fn the_members_are_the_design_s() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    for member in ["lvm2", "sys", "tests/kit", "xtask"] {
        assert!(
            manifest.contains(&format!("\"{member}\"")),
            "{member} is no member"
        );
    }
    let kit_user = section("Cargo.toml", "dependencies");
    assert!(
        !kit_user.contains(&"lvcsi-kit".to_owned()),
        "the driver does not ship test support"
    );
}
