//! libvirt's daemons, where no systemd runs them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{apt, run};

/// In starting order: a domain cannot start without virtlogd.
const DAEMONS: &[(&str, &str)] = &[
    ("virtlogd", "/run/virtlogd.pid"),
    ("libvirtd", "/run/libvirtd.pid"),
];

/// Stops, when dropped, what it started.
pub(super) struct Daemons {
    started: Vec<&'static str>,
}

impl Daemons {
    /// Starts what does not run yet.
    pub(super) fn start() -> Result<Self> {
        let mut daemons = Self {
            started: Vec::new(),
        };
        if Path::new("/run/systemd/system").exists() {
            return Ok(daemons);
        }
        for &(name, pid_file) in DAEMONS {
            if running(name, pid_file).is_some() {
                continue;
            }
            if !apt::is_root()? {
                bail!("{name} does not run; as root: {name} --daemon");
            }
            // Returns when the daemon serves its socket.
            run::quiet(Command::new(name).arg("--daemon"))?;
            daemons.started.push(name);
        }
        Ok(daemons)
    }

    /// Leaves them to a later command.
    pub(super) fn leave_running(mut self) {
        self.started.clear();
    }

    /// Stops also what an earlier command started.
    pub(super) fn stop_all(mut self) -> Result<()> {
        self.started.clear();
        if Path::new("/run/systemd/system").exists() {
            return Ok(());
        }
        for &(name, pid_file) in DAEMONS.iter().rev() {
            if let Some(pid) = running(name, pid_file) {
                stop(&pid).with_context(|| format!("cannot stop {name}"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for &(name, pid_file) in DAEMONS.iter().rev() {
            if !self.started.contains(&name) {
                continue;
            }
            if let Some(Err(error)) = running(name, pid_file).map(|pid| stop(&pid)) {
                eprintln!("vagrant: cannot stop {name}: {error:#}");
            }
        }
    }
}

/// Ends a daemon and waits until it has gone, so that a later start sees no
/// daemon that is about to end.
fn stop(pid: &str) -> Result<()> {
    run::quiet(Command::new("kill").arg(pid))?;
    let pid = format!("--pid={pid}");
    run::quiet(Command::new("timeout").args(["30", "tail", &pid, "-f", "/dev/null"]))?;
    Ok(())
}

/// The process id, if the file names a process of that name.
fn running(name: &str, pid_file: &str) -> Option<String> {
    let pid = fs::read_to_string(pid_file).ok()?.trim().to_owned();
    let command = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    (command.trim() == name).then_some(pid)
}
