//! Waiting for uevents, for those who want to know at once.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use libudev::MonitorSocket;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::events::{Socket, listen};
use crate::host::{DeviceEvents, HostError, HostResult};

/// A socket that hears every event of a block device.
pub(super) struct Ears {
    socket: MonitorSocket,
}

impl Ears {
    /// Listens from now on.
    pub(super) fn new() -> HostResult<Self> {
        let socket = listen().map_err(failed("listen for"))?;
        Ok(Self { socket })
    }
}

impl DeviceEvents for Ears {
    fn wait(&mut self, timeout: Duration) -> HostResult<bool> {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let socket = Socket(&self.socket);
        let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, timeout) {
            Ok(0) | Err(Errno::EINTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(failed("wait for")(errno.into())),
        }
        // What the events say does not matter; that the socket is empty does.
        loop {
            if self.socket.iter().next().is_some() {
                continue;
            }
            let error = io::Error::last_os_error();
            match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                Errno::EAGAIN => return Ok(true),
                // Interrupted, or events were lost: the socket is still good.
                Errno::EINTR | Errno::ENOBUFS => {}
                _ => return Err(failed("read")(error)),
            }
        }
    }
}

fn failed(op: &'static str) -> impl Fn(io::Error) -> HostError {
    move |source| HostError::Path {
        op,
        path: "kernel events".into(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_ends_with_the_time() {
        let Ok(mut ears) = Ears::new() else {
            eprintln!("skipped: no netlink here");
            return;
        };
        // Somebody's events may wait; once they are taken there is silence or
        // more of them, but never an error.
        for _ in 0..3 {
            ears.wait(Duration::from_millis(20)).unwrap();
        }
    }
}
