//! The programs of a real Kubernetes, built from their Go modules once.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{paths, run, tools};

/// Ours to stamp: a build outside of Kubernetes' own scripts calls itself v0.0.0,
/// which clients refuse.
const KUBERNETES: &str = "k8s.io/kubernetes";

/// Where the programs are; builds them if the pinned versions have changed.
pub(crate) fn prepare() -> Result<PathBuf> {
    let module = paths::root().join("tests/cluster");
    let read = |name: &str| {
        std::fs::read_to_string(module.join(name))
            .with_context(|| format!("cannot read {}/{name}", module.display()))
    };
    let pins = read("go.mod")?;
    let wanted = format!("{pins}{}", read("go.sum")?);
    let dir = paths::tools().join("cluster");
    if tools::is_current(&dir, &wanted) {
        return Ok(dir);
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let go = tools::go()?;
    println!("building Kubernetes, etcd, containerd and the CSI sidecars (once, some minutes)");
    run::quiet(
        Command::new(go)
            .current_dir(&module)
            .env("GOBIN", &dir)
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "-mod=readonly -buildvcs=false")
            .args(["install", "-trimpath"])
            .arg(format!("-ldflags={}", stamps(&pins)?))
            .arg("tool"),
    )?;
    tools::mark_current(&dir, &wanted)?;
    Ok(dir)
}

/// Linker flags that give Kubernetes' programs their version and leave out what
/// only a debugger reads.
fn stamps(pins: &str) -> Result<String> {
    let version = version_of(pins, KUBERNETES)
        .with_context(|| format!("tests/cluster/go.mod does not pin {KUBERNETES}"))?;
    let mut numbers = version.trim_start_matches('v').split('.');
    let mut number = || numbers.next().unwrap_or("0").to_owned();
    let package = "k8s.io/component-base/version";
    Ok(format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={} -X {package}.gitMinor={}",
        number(),
        number()
    ))
}

/// The version of a module in go.mod's first requirement of it.
pub(super) fn version_of<'a>(pins: &'a str, module: &str) -> Option<&'a str> {
    pins.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(module)).then(|| words.next())?
    })
}

#[cfg(test)]
mod tests {
    use super::{stamps, version_of};

    const PINS: &str = "require (\n\tk8s.io/kubernetes v1.36.3\n\texample.org/a v0.1.0 // indirect\n)\n\
                        replace (\n\tk8s.io/api => k8s.io/api v0.36.3\n)\n";

    #[test]
    fn the_stamp_is_the_pinned_version() {
        let flags = stamps(PINS).unwrap();
        assert!(flags.contains("version.gitVersion=v1.36.3 "), "{flags}");
        assert!(flags.contains("version.gitMajor=1 "), "{flags}");
        assert!(flags.ends_with("version.gitMinor=36"), "{flags}");
        assert!(stamps("module x\n").is_err());
    }

    #[test]
    fn versions_are_found_by_the_whole_name() {
        assert_eq!(version_of(PINS, "example.org/a"), Some("v0.1.0"));
        assert_eq!(version_of(PINS, "example.org"), None);
    }
}
