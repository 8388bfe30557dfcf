//! The driver as a child process.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::fd::AsFd as _;

use crate::csi::Csi;
use crate::csi::v1::ProbeRequest;
use crate::host;

/// How long the driver may take until it serves. Emulated guests are slow.
const START: Duration = Duration::from_secs(60);

/// `lvcsi standalone` on a socket of its own.
#[derive(Debug)]
pub struct Driver {
    child: Option<Child>,
    binary: PathBuf,
    dir: PathBuf,
    extra: Vec<OsString>,
}

impl Driver {
    /// Starts the driver with its socket and log in `dir`, and waits until it
    /// serves.
    ///
    /// # Panics
    /// If it ends or does not serve in time; the message has its log.
    #[must_use]
    pub fn start(dir: &Path) -> Self {
        Self::start_with(dir, &[])
    }

    /// [`start`](Self::start) with further arguments.
    ///
    /// # Panics
    /// As there.
    #[must_use]
    pub fn start_with(dir: &Path, extra: &[&str]) -> Self {
        Self::start_as(&host::binary("lvcsi"), dir, extra)
    }

    /// [`start_with`](Self::start_with) of another program that is or becomes
    /// the driver.
    ///
    /// # Panics
    /// As there.
    #[must_use]
    pub fn start_as(binary: &Path, dir: &Path, extra: &[&str]) -> Self {
        let mut driver = Self {
            child: None,
            binary: binary.to_owned(),
            dir: dir.to_owned(),
            extra: extra.iter().map(Into::into).collect(),
        };
        driver.spawn();
        driver
    }

    /// Starts it again after [`kill`](Self::kill) or [`terminate`](Self::terminate).
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn spawn(&mut self) {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
            .expect("watch of a folder");
        let events = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        inotify
            .add_watch(&self.dir, events)
            .expect("watch of a folder");
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("log of the driver");
        let child = Command::new(&self.binary)
            .arg("standalone")
            .arg("--endpoint")
            .arg(format!("unix://{}", self.socket().display()))
            .args(["--nodeid", "node-1"])
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("log of the driver"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", self.binary.display()));
        self.child = Some(child);
        self.wait_until_served(&inotify);
    }

    fn wait_until_served(&mut self, inotify: &Inotify) {
        let deadline = Instant::now() + START;
        // A socket that a killed driver left behind refuses connections.
        while UnixStream::connect(self.socket()).is_err() {
            let ended = self
                .child
                .as_mut()
                .and_then(|child| child.try_wait().ok().flatten());
            assert!(
                ended.is_none(),
                "the driver ended with {ended:?}:\n{}",
                self.log()
            );
            assert!(
                Instant::now() < deadline,
                "the driver does not serve:\n{}",
                self.log()
            );
            // Short, so that its death is noticed too.
            let mut fds = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, PollTimeout::from(100_u8));
            let _ = inotify.read_events();
        }
        // It listens before it has cleared away what an earlier run left, and
        // answers after that.
        let _ = self
            .csi()
            .probe(ProbeRequest {})
            .unwrap_or_else(|e| panic!("Probe: {e}"));
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.join("csi.sock")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("driver.txt")
    }

    /// Everything that it printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// A client that is connected to it.
    #[must_use]
    pub fn csi(&self) -> Csi {
        Csi::connect(&self.socket())
    }

    /// Process id.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the driver runs").id()
    }

    /// SIGKILL; returns when it is gone.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the driver runs");
        let _ = child.kill();
        child.wait().expect("end of the driver");
    }

    /// SIGTERM; returns when it has drained and ended.
    ///
    /// # Panics
    /// If it does not run.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the driver runs");
        let pid = i32::try_from(child.id()).expect("a process id");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("SIGTERM");
        child.wait().expect("end of the driver")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            println!("--- log of the driver ---\n{}", self.log());
        }
    }
}
