//! Running stock tools.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::host;

/// A program that has ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Program and arguments, for messages.
    pub command: String,
    /// Exit status, `None` if a signal ended it.
    pub status: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// From before the fork to its end.
    pub took: Duration,
}

impl Ran {
    /// Whether the exit status is 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status == Some(0)
    }

    /// Panics with everything it printed unless the exit status is 0.
    #[must_use]
    pub fn expect_success(self) -> Self {
        assert!(self.success(), "{self}");
        self
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` ended with {:?} after {:?}\n{}{}",
            self.command, self.status, self.took, self.stdout, self.stderr
        )
    }
}

/// Runs `program` to its end, without standard input, in the C locale.
///
/// # Panics
/// If the program cannot be started.
pub fn run<S: AsRef<OsStr>>(program: &str, args: &[S]) -> Ran {
    let mut command = program.to_owned();
    for arg in args {
        let _ = write!(command, " {}", arg.as_ref().to_string_lossy());
    }
    let mut child = Command::new(program);
    if !host::has_udev() {
        // Else libdevmapper leaves the nodes to a udev that is not there.
        child.env("DM_DISABLE_UDEV", "1");
    }
    let start = Instant::now();
    let output = child
        .args(args)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .env("LVM_SUPPRESS_FD_WARNINGS", "1")
        .output()
        .unwrap_or_else(|error| panic!("cannot start `{command}`: {error}"));
    Ran {
        command,
        status: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: start.elapsed(),
    }
}

/// Runs a shell script to its end; `$1`… are `args`.
///
/// # Panics
/// If there is no shell.
pub fn shell(script: &str, args: &[&str]) -> Ran {
    let mut argv = vec!["-c", script, "sh"];
    argv.extend_from_slice(args);
    run("sh", &argv)
}
