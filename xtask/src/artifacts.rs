//! Building with cargo and finding what it built.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{paths, run};

/// An executable that cargo built.
#[derive(Debug)]
pub(crate) struct Executable {
    /// Name of the target: `guest`, `lvcsi`.
    pub(crate) name: String,
    /// `bin`, `test` or `bench`.
    pub(crate) kind: String,
    pub(crate) path: PathBuf,
}

/// The cargo that started us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(paths::root());
    command
}

/// Runs `cargo ARGS --message-format=…` and lists the executables.
/// Compiler messages go to standard error as usual.
pub(crate) fn build(args: &[&str]) -> Result<Vec<Executable>> {
    let mut command = cargo();
    command
        .args(args)
        .args(["--locked", "--message-format=json-render-diagnostics"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", run::display(&command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", run::display(&command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| executable(&serde_json::from_str(line).ok()?))
        .collect())
}

fn executable(message: &Value) -> Option<Executable> {
    let path = message.get("executable")?.as_str()?;
    let target = message.get("target")?;
    Some(Executable {
        name: target.get("name")?.as_str()?.to_owned(),
        kind: target.get("kind")?.get(0)?.as_str()?.to_owned(),
        path: PathBuf::from(path),
    })
}

/// The one executable of that name and kind.
pub(crate) fn find(built: &[Executable], kind: &str, name: &str) -> Result<PathBuf> {
    built
        .iter()
        .find(|e| e.kind == kind && e.name == name)
        .map(|e| e.path.clone())
        .with_context(|| format!("cargo built no {kind} target {name:?}"))
}

/// Names of the integration tests of a package.
pub(crate) fn test_targets(package: &str) -> Result<Vec<String>> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&run::text(&mut command)?)
        .context("cargo metadata printed no JSON")?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    let package = packages
        .into_iter()
        .flatten()
        .find(|p| p.get("name").and_then(Value::as_str) == Some(package))
        .with_context(|| format!("the workspace has no package {package}"))?;
    let targets = package.get("targets").and_then(Value::as_array);
    Ok(targets
        .into_iter()
        .flatten()
        .filter(|t| t.get("kind").and_then(|k| k.get(0)).and_then(Value::as_str) == Some("test"))
        .filter_map(|t| t.get("name").and_then(Value::as_str).map(str::to_owned))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{executable, find};

    #[test]
    fn executables_are_found_in_messages() {
        let built: Vec<_> = [
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"x"},"executable":null}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"guest"},"executable":"/t/guest-1"}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ]
        .iter()
        .filter_map(|line| executable(&serde_json::from_str(line).unwrap()))
        .collect();
        assert_eq!(built.len(), 1);
        assert_eq!(
            find(&built, "test", "guest").unwrap().to_str(),
            Some("/t/guest-1")
        );
        assert!(find(&built, "bin", "guest").is_err());
    }
}
