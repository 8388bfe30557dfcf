//! Processes that outlive the command that started them, by their pid files.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// After that a process that was asked to end is killed.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(100);

/// Between two looks at what has no event for us: a process that is not our
/// child, a server that is not ready.
#[allow(clippy::disallowed_methods, reason = "there is no event to wait for")]
pub(super) fn pause() {
    std::thread::sleep(LOOK);
}

/// Whether the process of a pid file runs.
pub(super) fn alive(pid_file: &Path) -> bool {
    pid(pid_file).is_some_and(|pid| runs(&pid))
}

/// Ends the process of a pid file and waits until it is gone; none is fine.
pub(super) fn kill(pid_file: &Path, signal: &str) -> Result<()> {
    let Some(pid) = pid(pid_file) else {
        return Ok(());
    };
    let deadline = Instant::now() + PATIENCE;
    let mut signal = signal;
    while runs(&pid) {
        if Instant::now() > deadline {
            signal = "-KILL";
        }
        // Gone between the look and the signal is what was wanted.
        let _ = Command::new("kill").args([signal, &pid]).output();
        pause();
    }
    fs::remove_file(pid_file).with_context(|| format!("cannot remove {}", pid_file.display()))
}

fn pid(pid_file: &Path) -> Option<String> {
    Some(fs::read_to_string(pid_file).ok()?.trim().to_owned())
}

/// A zombie has ended: its parent is this program, which does not wait for it.
fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.trim().chars().next());
        state.is_some_and(|state| state != 'Z' && state != 'X')
    })
}
