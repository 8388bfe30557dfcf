//! One run of QEMU: the machine, the streams, the time-out.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Options;
use super::accel::Accel;
use super::kernel::Kernel;

/// Everything that one machine is made of.
pub(crate) struct Machine<'a> {
    pub(crate) options: &'a Options,
    pub(crate) kernel: &'a Kernel,
    pub(crate) initramfs: &'a Path,
    pub(crate) accel: Accel,
    /// Folder for the console log, the disks and QEMU's view of the results.
    pub(crate) results: &'a Path,
    pub(crate) console: &'a Path,
    pub(crate) disks: &'a [PathBuf],
}

/// Where the command's output goes, byte for byte and at once.
pub(crate) struct Streams {
    pub(crate) stdout: Box<dyn Write + Send>,
    pub(crate) stderr: Box<dyn Write + Send>,
}

impl Streams {
    /// Our own standard streams.
    pub(crate) fn inherit() -> Self {
        Self {
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
        }
    }
}

/// How QEMU ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself: the guest powered off, or QEMU gave up.
    Ended,
    /// Killed at the time-out.
    TimedOut,
}

impl Machine<'_> {
    /// Boots and waits until QEMU has ended and all output has been copied.
    pub(crate) fn run(&self, streams: Streams) -> Result<End> {
        let started = Instant::now();
        let mut child = self
            .command()
            .spawn()
            .context("cannot start qemu-system-x86_64")?;
        let stdout = child.stdout.take().context("no pipe to QEMU")?;
        let stderr = child.stderr.take().context("no pipe to QEMU")?;
        // QEMU has closed both pipes when it has ended: the end of both copies
        // is the event to wait for.
        let (done, copies) = mpsc::channel();
        let also_done = done.clone();
        let mut threads = vec![
            thread::spawn(move || copy(stdout, streams.stdout, &done)),
            thread::spawn(move || copy(stderr, streams.stderr, &also_done)),
        ];
        let end = match wait_for_two(&copies, started + self.options.timeout) {
            true => End::Ended,
            false => kill(&mut child)?,
        };
        child.wait().context("cannot wait for QEMU")?;
        for copy in threads.drain(..) {
            // A copy that panicked has lost output, not the guest's status.
            let _ = copy.join();
        }
        Ok(end)
    }

    fn command(&self) -> Command {
        let options = self.options;
        let mut qemu = Command::new("setpriv");
        // The guest dies with us, however we die.
        qemu.args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args([
                "-nodefaults",
                "-no-user-config",
                "-no-reboot",
                "-display",
                "none",
            ])
            .args(["-M", "q35", "-smp", &options.cpus.to_string()])
            .args(["-m", &format!("{}M", options.memory >> 20)])
            .args(self.accel.args())
            .arg("-kernel")
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(self.initramfs)
            .args([
                "-append",
                // What passes on a kernel that has failed proves nothing.
                &format!(
                    "console=ttyS0 loglevel=6 oops=panic panic=-1 mitigations=off \
                     random.trust_cpu=on net.ifnames=0 no_timer_check {} lvcsi.mode=run",
                    self.accel.kernel_arguments()
                ),
            ])
            .arg("-serial")
            .arg(with_path("file:", self.console, ""))
            .args(["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"])
            // Our pipes, opened anew by QEMU: they end when it ends.
            .args(["-chardev", "file,id=out,path=/dev/fd/1"])
            .args(["-device", "virtserialport,chardev=out,name=lvcsi.stdout"])
            .args(["-chardev", "file,id=err,path=/dev/fd/2"])
            .args(["-device", "virtserialport,chardev=err,name=lvcsi.stderr"])
            .args([
                "-fsdev",
                "local,id=root,path=/,security_model=none,multidevs=remap,readonly=on",
            ])
            .args(["-device", "virtio-9p-pci,fsdev=root,mount_tag=root"])
            .arg("-fsdev")
            .arg(with_path(
                "local,id=results,security_model=none,multidevs=remap,path=",
                self.results,
                "",
            ))
            .args(["-device", "virtio-9p-pci,fsdev=results,mount_tag=results"]);
        for (number, disk) in self.disks.iter().enumerate() {
            let block = options.sector_size;
            qemu.arg("-drive")
                .arg(with_path(
                    &format!("if=none,id=disk{number},format=raw,discard=unmap,file="),
                    disk,
                    "",
                ))
                .args([
                    "-device",
                    &format!(
                        "virtio-blk-pci,drive=disk{number},serial=lvcsi-disk{number},\
                         logical_block_size={block},physical_block_size={block}"
                    ),
                ]);
        }
        if options.network {
            let mut net = "user,id=net,ipv6=off".to_owned();
            for (host, guest) in &options.forward {
                net.push_str(&format!(",hostfwd=tcp:127.0.0.1:{host}-:{guest}"));
            }
            qemu.args(["-netdev", &net, "-device", "virtio-net-pci,netdev=net"]);
        }
        qemu.stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        qemu
    }
}

/// QEMU doubles commas inside option values.
pub(crate) fn with_path(before: &str, path: &Path, after: &str) -> String {
    format!(
        "{before}{}{after}",
        path.to_string_lossy().replace(',', ",,")
    )
}

/// False at the deadline.
fn wait_for_two(copies: &mpsc::Receiver<()>, deadline: Instant) -> bool {
    (0..2).all(|_| {
        let left = deadline.saturating_duration_since(Instant::now());
        copies.recv_timeout(left).is_ok()
    })
}

fn kill(child: &mut Child) -> Result<End> {
    child.kill().context("cannot kill QEMU")?;
    Ok(End::TimedOut)
}

/// Copies until the end; a consumer that went away does not stop the guest.
fn copy(mut from: impl Read, mut to: impl Write, done: &mpsc::Sender<()>) {
    let mut buffer = vec![0; 64 << 10];
    let mut open = true;
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        open = open
            && to
                .write_all(&buffer[..length])
                .and_then(|()| to.flush())
                .is_ok();
    }
    // The receiver is gone after the time-out.
    let _ = done.send(());
}

/// Sparse files of the size asked for.
pub(crate) fn make_disks(dir: &Path, count: u32, size: u64) -> Result<Vec<PathBuf>> {
    (0..count)
        .map(|number| {
            let path = dir.join(format!("disk{number}.raw"));
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .with_context(|| format!("cannot create {}", path.display()))?;
            if file.metadata()?.len() < size {
                file.set_len(size)
                    .with_context(|| format!("cannot size {}", path.display()))?;
            }
            Ok(path)
        })
        .collect()
}

/// The last lines of the console, for a message about a guest that failed.
pub(crate) fn console_tail(console: &Path) -> String {
    let text = fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// A time-out in seconds as a person would say it.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs())
}
