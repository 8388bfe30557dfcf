//! Devices that stop answering, and a watchdog that makes them answer again.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lvcsi_kit::csi::Answer;
use lvcsi_kit::{Disk, LoopVg, VgSpec, run};
use tonic::Code;

/// Far more than anything takes here that does not hang, on a machine that is
/// emulated and busy.
const PATIENCE: Duration = Duration::from_secs(600);

/// Everything that would have to be set going again, by name.
static STOPPED: Mutex<Vec<Stopped>> = Mutex::new(Vec::new());

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stopped {
    /// A suspended device-mapper device.
    Device(String),
    /// A process that was sent SIGSTOP.
    Process(String),
}

fn stopped() -> std::sync::MutexGuard<'static, Vec<Stopped>> {
    STOPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn go_on(what: &Stopped) {
    let _ = match what {
        Stopped::Device(name) => run("dmsetup", &["resume", "--noudevsync", name]),
        Stopped::Process(pid) => run("kill", &["-CONT", pid]),
    };
}

/// Ends the test program if a test hangs. Threads in dead devices would keep
/// even a program that wants to end: so everything is set going first.
pub(crate) struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    pub(crate) fn new(test: &'static str) -> Self {
        let (alive, dead) = channel();
        std::thread::spawn(move || {
            if dead.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                println!("{test}: nothing happens for {PATIENCE:?}: {:?}", stopped());
                stopped().iter().for_each(go_on);
                std::process::exit(101);
            }
        });
        Self { _alive: alive }
    }
}

/// A device or process that does nothing until this is dropped.
pub(crate) struct Halt(Stopped);

impl Halt {
    /// Suspends a device-mapper device. No file system on it is frozen, so that
    /// its users run into the hole.
    pub(crate) fn device(name: &str) -> Self {
        let _ = run("dmsetup", &["suspend", "--noflush", "--nolockfs", name]).expect_success();
        Self::of(Stopped::Device(name.to_owned()))
    }

    /// Stops a process.
    pub(crate) fn process(pid: &str) -> Self {
        let _ = run("kill", &["-STOP", pid]).expect_success();
        Self::of(Stopped::Process(pid.to_owned()))
    }

    fn of(what: Stopped) -> Self {
        stopped().push(what.clone());
        Self(what)
    }
}

impl Drop for Halt {
    fn drop(&mut self) {
        go_on(&self.0);
        stopped().retain(|other| *other != self.0);
    }
}

/// A VG on a device-mapper device over a loop device, which can be suspended
/// below everybody's feet.
pub(crate) struct SlowVg {
    pub(crate) vg: LoopVg,
    /// The device-mapper device below the PV.
    pub(crate) below: String,
    layer: Option<Layer>,
}

/// A device-mapper device of one line over a loop device.
pub(crate) struct Layer {
    pub(crate) name: String,
    _dir: tempfile::TempDir,
    _disk: Disk,
}

impl Layer {
    /// `target` is the line's kind, `after` what follows device and offset.
    /// With `wait` udev has made the node when this returns.
    pub(crate) fn new(name: &str, target: &str, after: &str, wait: bool) -> Self {
        const SIZE: u64 = 512 << 20;
        const OFFSET: u64 = 2048;
        let dir = tempfile::tempdir_in(lvcsi_kit::host::scratch()).expect("a folder");
        let disk = Disk::new(dir.path(), "disk", SIZE, 0);
        // Beyond the disk's beginning, or the PV's label would be on both.
        let length = SIZE / 512 - OFFSET;
        let table = format!(
            "0 {length} {target} {} {OFFSET}{after}",
            disk.path().display()
        );
        let mut create = vec!["create", name, "--table", &table];
        create.extend((!wait).then_some("--noudevsync"));
        let _ = run("dmsetup", &create).expect_success();
        Self {
            name: name.to_owned(),
            _dir: dir,
            _disk: disk,
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/mapper/{}", self.name))
    }

    /// The kernel's name of it, for where udev has not made the other.
    pub(crate) fn kernel_name(&self) -> String {
        let args = ["info", "-c", "--noheadings", "-o", "blkdevname", &self.name];
        let name = run("dmsetup", &args).expect_success().stdout;
        name.trim().to_owned()
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        let remove = ["remove", "--retry", "--noudevsync", &self.name];
        let _ = run("dmsetup", &remove);
    }
}

impl SlowVg {
    pub(crate) fn new(below: &str) -> Self {
        let layer = Layer::new(below, "linear", "", true);
        lvcsi_kit::host::settle();
        let path = layer.path();
        Self {
            vg: LoopVg::on_whole(&[&path], &VgSpec::disks(1, 512)),
            below: below.to_owned(),
            layer: Some(layer),
        }
    }

    pub(crate) fn halt(&self) -> Halt {
        Halt::device(&self.below)
    }
}

impl Drop for SlowVg {
    fn drop(&mut self) {
        lvcsi_kit::host::settle();
        // The LVs first, then what they lie on.
        for name in lvcsi_kit::lvm::dm_devices(&self.vg.name) {
            let _ = run("dmsetup", &["remove", "--retry", "--noudevsync", &name]);
        }
        let path = PathBuf::from(format!("/dev/mapper/{}", self.below));
        let _ = run("wipefs", &["-aqf".as_ref(), path.as_os_str()]);
        drop(self.layer.take());
    }
}

/// Repeats a call as an orchestrator does, while the answer is "later".
pub(crate) fn repeat<T>(what: &str, mut call: impl FnMut() -> Answer<T>) -> T {
    let start = Instant::now();
    loop {
        match call() {
            Ok(answer) => {
                println!("{what}: done after {:?}", start.elapsed());
                return answer;
            }
            Err(status) => {
                let again = matches!(status.code(), Code::DeadlineExceeded | Code::Aborted);
                assert!(again && start.elapsed() < PATIENCE, "{what}: {status}");
            }
        }
    }
}

/// The call must be answered by "later", with these words.
pub(crate) fn told<T: std::fmt::Debug>(what: &str, answer: Answer<T>, words: &[&str]) {
    let status = answer.expect_err(what);
    println!("{what}: {}", status.message());
    let later = matches!(status.code(), Code::DeadlineExceeded | Code::Aborted);
    assert!(later, "{what}: {status}");
    for word in words {
        assert!(
            status.message().contains(word),
            "{what}: no {word:?} in {status}"
        );
    }
}

/// Threads of a process.
pub(crate) fn threads(pid: u32) -> usize {
    std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"))
        .expect("a process")
        .count()
}
