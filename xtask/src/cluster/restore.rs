//! A copy of etcd's data and the way back to it, as an administrator restores a
//! cluster's state.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::control::{Control, ETCD_PORT};
use crate::run;

/// Beyond the newest revision that any client has seen.
const MARGIN: u64 = 1000;

impl Control {
    fn saved(&self) -> PathBuf {
        self.dir.join("etcd-saved")
    }

    /// Keeps a copy of what etcd knows. It is stopped for that: its files are
    /// whole only then.
    pub(super) fn save(&self) -> Result<()> {
        self.stop_api()?;
        self.stop_etcd()?;
        copy(&self.etcd_data(), &self.saved())?;
        self.start_etcd()?;
        self.start_api()
    }

    /// Goes back to the copy, as `etcdutl snapshot restore --bump-revision
    /// --mark-compacted` does: clients that have seen later revisions learn that
    /// theirs are gone, and list everything again.
    pub(super) fn restore(&self) -> Result<()> {
        let seen = revision()?;
        self.stop()?;
        copy(&self.saved(), &self.etcd_data())?;
        self.start_etcd()?;
        let known = revision()?;
        bump((seen + MARGIN).saturating_sub(known))?;
        let newest = revision()?;
        ask(
            "kv/compaction",
            &format!("{{\"revision\": \"{newest}\", \"physical\": true}}"),
        )?;
        self.start_api()?;
        self.start_managers()
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    run::quiet(Command::new("rm").arg("-rf").arg(to))?;
    run::quiet(Command::new("cp").arg("-a").arg(from).arg(to))?;
    Ok(())
}

fn url(path: &str) -> String {
    format!("http://127.0.0.1:{ETCD_PORT}/v3/{path}")
}

/// One call of etcd's JSON gateway, as soon as it answers.
fn ask(path: &str, body: &str) -> Result<serde_json::Value> {
    let mut curl = Command::new("curl");
    curl.args([
        "-sSf",
        "--retry",
        "60",
        "--retry-delay",
        "1",
        "--retry-connrefused",
    ])
    .args(["-d", body])
    .arg(url(path));
    let answer = run::text(&mut curl)?;
    serde_json::from_str(&answer).with_context(|| format!("etcd's answer is no JSON: {answer}"))
}

/// The newest revision.
fn revision() -> Result<u64> {
    let answer = ask("maintenance/status", "{}")?;
    let revision = answer["header"]["revision"].as_str();
    revision
        .and_then(|revision| revision.parse().ok())
        .with_context(|| format!("etcd names no revision: {answer}"))
}

/// Takes so many revisions.
fn bump(count: u64) -> Result<()> {
    // One process, and so one connection, for all of them; key and value are `x`.
    let put = format!(
        "url = \"{}\"\ndata = \"{{\\\"key\\\": \\\"eA==\\\", \\\"value\\\": \\\"eA==\\\"}}\"\n\
         output = \"/dev/null\"\n",
        url("kv/put")
    );
    let count = usize::try_from(count).context("too many revisions")?;
    let mut curl = Command::new("curl")
        .args(["-sSf", "-K", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot start curl")?;
    let mut input = curl.stdin.take().context("no pipe to curl")?;
    let puts = vec![put; count].join("next\n");
    std::io::Write::write_all(&mut input, puts.as_bytes()).context("cannot write to curl")?;
    drop(input);
    let status = curl.wait().context("cannot wait for curl")?;
    anyhow::ensure!(status.success(), "curl: {status}");
    Ok(())
}
