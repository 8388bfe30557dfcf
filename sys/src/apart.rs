//! Work in a process of its own, for a caller that must be able to leave.
//!
//! A process does not end before its last thread has, and a thread that waits
//! for a dead device cannot be made to end. Its parent, a shell for instance,
//! would wait with it. So the work is done by a child: once the result is
//! known, the parent ends, whatever the child still waits for.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe2};

/// The result if the child's cannot be learnt.
const UNKNOWN: u8 = 1;

/// Runs `work` in a child process and returns its result, which is the child's
/// exit status too. Once that is known, the child is waited for no longer than
/// `patience`.
///
/// # Errors
/// The kernel's, if there is no child; then nothing was run. `EBUSY` if the
/// process has several threads.
pub fn run(work: impl FnOnce() -> u8, patience: Duration) -> io::Result<u8> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(nix::errno::Errno::EBUSY.into());
    }
    let (ours, theirs) = pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    // SAFETY: this is the only thread, so that the child's copy of the memory,
    // locks included, is as consistent as the parent's.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(ours);
            // Whoever kills the parent means the work.
            let _ = set_pdeathsig(Signal::SIGTERM);
            let status = work();
            let_go_of_standard_streams();
            // Open until the last thread ends: that tells the parent.
            let mut theirs = ManuallyDrop::new(File::from(theirs));
            // Where the parent is gone nobody needs it.
            let _ = theirs.write_all(&[status]);
            std::process::exit(status.into());
        }
        ForkResult::Parent { child } => {
            drop(theirs);
            // The work was begun: an error here must not make it begin again.
            Ok(await_result(File::from(ours), child, patience).unwrap_or(UNKNOWN))
        }
    }
}

/// Whoever reads what the work has printed waits for the last writer to close,
/// and must not wait for a thread that hangs.
fn let_go_of_standard_streams() {
    // Without them the reader waits for a thread that hangs: no more is lost.
    let _ = io::stdout().flush();
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&null);
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
    }
}

fn await_result(mut pipe: File, child: Pid, patience: Duration) -> io::Result<u8> {
    let mut status = [0];
    match pipe.read_exact(&mut status) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return reap(child),
        Err(error) => return Err(error),
    }
    // The child's end of the pipe closes with its last thread.
    let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, patience).is_ok_and(|ready| ready > 0) {
        return reap(child);
    }
    Ok(status[0])
}

/// The exit status of a child that has ended; 128 and the signal's number, as
/// shells have it, if one ended it.
fn reap(child: Pid) -> io::Result<u8> {
    const SIGNALLED: libc::c_int = 128;
    let code = loop {
        match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, code)) => break code,
            Ok(WaitStatus::Signaled(_, signal, _)) => break SIGNALLED + signal as libc::c_int,
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_where_other_threads_may_hold_locks() {
        // The harness runs each test on a thread of its own.
        let refused = run(|| 0, Duration::ZERO).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
    }
}
