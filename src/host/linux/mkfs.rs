//! mkfs and fsck: the only programs that are ever started.
#![allow(
    clippy::disallowed_types,
    reason = "the one module that may start programs"
)]

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::block::path_error;
use crate::host::{FsKind, HostError, HostResult};

/// Longest run of a program; then it is killed.
const TIME_OUT: Duration = Duration::from_secs(600);
/// How much of the end of a program's messages is kept, in bytes.
const KEEP: usize = 2048;

/// Makes a file system on a device that is known to be blank.
pub(super) fn make(device: &Path, kind: FsKind, options: &[String]) -> HostResult<()> {
    // mkfs.ext* would ask when the device looks used, so -F. The others refuse
    // without asking, which is a second guard that we keep.
    let (program, fixed): (_, &[&str]) = match kind {
        FsKind::Ext2 => ("mkfs.ext2", &["-F", "-q", "-m", "0"]),
        FsKind::Ext3 => ("mkfs.ext3", &["-F", "-q", "-m", "0"]),
        FsKind::Ext4 => ("mkfs.ext4", &["-F", "-q", "-m", "0"]),
        FsKind::Xfs => ("mkfs.xfs", &["-q"]),
        FsKind::Btrfs => ("mkfs.btrfs", &["-q"]),
    };
    let words = fixed
        .iter()
        .map(OsStr::new)
        .chain(options.iter().map(OsStr::new));
    let end = run(program, words, device)?;
    if end.status.success() {
        Ok(())
    } else {
        Err(end.error(program, device))
    }
}

/// Repairs what is safe to repair. XFS and Btrfs replay their logs when they are
/// mounted, and their checkers are no preparation for that.
pub(super) fn check(device: &Path, kind: FsKind) -> HostResult<()> {
    let program = match kind {
        FsKind::Ext2 => "fsck.ext2",
        FsKind::Ext3 => "fsck.ext3",
        FsKind::Ext4 => "fsck.ext4",
        FsKind::Xfs | FsKind::Btrfs => return Ok(()),
    };
    let end = run(program, ["-p"].iter().map(OsStr::new), device)?;
    match end.status.code() {
        // 1: repaired; 2: repaired, reboot if it was mounted (it is not).
        Some(0..=3) => Ok(()),
        _ => Err(end.error(program, device)),
    }
}

struct End {
    status: ExitStatus,
    stderr: String,
}

impl End {
    fn error(self, program: &'static str, device: &Path) -> HostError {
        HostError::Program {
            program,
            device: device.to_owned(),
            status: self.status.to_string(),
            stderr: self.stderr,
        }
    }
}

/// Runs a program on a device. It inherits nothing but its standard channels:
/// everything else here is opened close-on-exec, or it could keep locks alive.
fn run<'a>(
    program: &'static str,
    words: impl Iterator<Item = &'a OsStr>,
    device: &Path,
) -> HostResult<End> {
    let mut child = Command::new(program)
        .args(words)
        .arg(device)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| path_error("start", Path::new(program), error))?;
    let failed = |error| path_error("wait for", Path::new(program), error);
    let stderr = match child.stderr.take() {
        // Ends when the program does, for it has no children that live on.
        Some(pipe) => drain(pipe, Instant::now() + TIME_OUT).map_err(failed)?,
        None => Some(String::new()),
    };
    match stderr {
        Some(stderr) => {
            let status = child.wait().map_err(failed)?;
            Ok(End { status, stderr })
        }
        None => {
            kill(child).map_err(failed)?;
            Err(HostError::TimedOut {
                op: program,
                path: device.to_owned(),
                after: TIME_OUT,
            })
        }
    }
}

/// Reads to the end and keeps the last bytes; nothing after the deadline.
fn drain(mut pipe: ChildStderr, until: Instant) -> io::Result<Option<String>> {
    let mut kept: Vec<u8> = Vec::new();
    let mut buf = [0; 1024];
    loop {
        let Some(left) = until.checked_duration_since(Instant::now()) else {
            return Ok(None);
        };
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], left) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let read = match pipe.read(&mut buf) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        kept.extend_from_slice(&buf[..read]);
        let surplus = kept.len().saturating_sub(KEEP);
        kept.drain(..surplus);
    }
    Ok(Some(String::from_utf8_lossy(&kept).trim().to_owned()))
}

/// Kills and reaps. A program that hangs in the kernel dies only when its I/O
/// ends. Until then it may still write, and nobody else may: so this waits.
fn kill(mut child: Child) -> io::Result<()> {
    // It may have ended by itself in the meantime.
    let _ = child.kill();
    child.wait().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_program_its_status_and_its_words() {
        let error = make(Path::new("/dev/no-such-device"), FsKind::Ext4, &[]).unwrap_err();
        match error {
            HostError::Program {
                program,
                status,
                stderr,
                ..
            } => {
                assert_eq!(program, "mkfs.ext4");
                assert!(status.contains('1'), "{status}");
                assert!(stderr.contains("/dev/no-such-device"), "{stderr}");
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn keeps_the_end_of_long_output_and_stops_at_the_deadline() {
        let mut child = Command::new("sh")
            .args([
                "-c",
                "yes 0123456789 | head -c 100000 >&2; echo the end >&2",
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let text = drain(child.stderr.take().unwrap(), Instant::now() + TIME_OUT)
            .unwrap()
            .unwrap();
        assert!(child.wait().unwrap().success());
        assert!(
            text.ends_with("the end") && text.len() <= KEEP,
            "{}",
            text.len()
        );

        let mut child = Command::new("sleep")
            .arg("60")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_millis(50);
        assert_eq!(drain(child.stderr.take().unwrap(), until).unwrap(), None);
        kill(child).unwrap();
    }
}
