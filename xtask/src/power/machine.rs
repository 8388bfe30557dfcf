//! The emulator, from its start to its kill.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::wire::Line;
use crate::guest::qemu::{console_tail, with_path};
use crate::guest::{Accel, Kernel};

/// Longest time from the start of the emulator to a line, and between lines.
const SILENCE: Duration = Duration::from_secs(240);

/// What all machines of a run have in common.
pub(super) struct Parts {
    pub(super) kernel: Kernel,
    pub(super) accel: Accel,
    pub(super) initramfs: PathBuf,
}

/// A machine that runs.
pub(super) struct Machine {
    child: Child,
    stream: UnixStream,
    buffer: Vec<u8>,
    console: PathBuf,
}

impl Machine {
    /// Starts it with its logs in `dir`; `disks` are QEMU's names for files or
    /// sockets.
    pub(super) fn start(parts: &Parts, dir: &Path, disks: &[String]) -> Result<Self> {
        let console = dir.join("console.log");
        let (stream, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
        let output = File::create(dir.join("qemu.log"))?;
        let child = command(parts, &console, disks)
            // Its end of the wire: it closes when the emulator ends.
            .stdin(OwnedFd::from(theirs))
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start qemu-system-x86_64")?;
        Ok(Self {
            child,
            stream,
            buffer: Vec::new(),
            console,
        })
    }

    /// The next line; an error if the machine ends or says nothing for long.
    pub(super) fn line(&mut self) -> Result<Line> {
        match self.line_until(Instant::now() + SILENCE)? {
            Some(Line::Failed(why)) => bail!("the machine cannot go on: {why}"),
            Some(line) => Ok(line),
            None => bail!(
                "the machine is silent for {} s; its console ends with\n{}",
                SILENCE.as_secs(),
                console_tail(&self.console)
            ),
        }
    }

    /// The next line, or `None` at the deadline.
    pub(super) fn line_until(&mut self, deadline: Instant) -> Result<Option<Line>> {
        loop {
            if let Some(line) = self.buffered()? {
                return Ok(Some(line));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left))?;
            if self.receive()? == Some(0) {
                bail!(
                    "the machine ended by itself; its console ends with\n{}",
                    console_tail(&self.console)
                );
            }
        }
    }

    /// Answers a line.
    pub(super) fn answer(&mut self, text: &str) -> Result<()> {
        self.stream
            .write_all(format!("{text}\n").as_bytes())
            .context("cannot answer the machine")
    }

    /// The power goes. Returns what the machine had said by then.
    pub(super) fn cut(mut self) -> Result<Vec<Line>> {
        self.child.kill().context("cannot kill QEMU")?;
        self.child.wait().context("cannot wait for QEMU")?;
        self.stream.set_read_timeout(None)?;
        // What QEMU had passed on before it died is still in the socket.
        while self.receive()? != Some(0) {}
        let mut lines = Vec::new();
        while let Some(line) = self.buffered()? {
            lines.push(line);
        }
        Ok(lines)
    }

    fn buffered(&mut self) -> Result<Option<Line>> {
        let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line[..end]).into_owned();
        Line::read(&line).map(Some)
    }

    /// `Some(0)` at the end, `None` at the time-out.
    fn receive(&mut self) -> Result<Option<usize>> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(length) => {
                self.buffer.extend_from_slice(&bytes[..length]);
                Ok(Some(length))
            }
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Ok(None),
                std::io::ErrorKind::Interrupted => Ok(None),
                std::io::ErrorKind::ConnectionReset => Ok(Some(0)),
                _ => Err(error).context("cannot read from the machine"),
            },
        }
    }
}

/// A machine that is given up is no use to anybody.
impl Drop for Machine {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(parts: &Parts, console: &Path, disks: &[String]) -> Command {
    let mut qemu = Command::new("setpriv");
    qemu.args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-M", "q35", "-smp", "1", "-m", "320M"])
        .args(parts.accel.args())
        .arg("-kernel")
        .arg(&parts.kernel.image)
        .arg("-initrd")
        .arg(&parts.initramfs)
        .args([
            "-append",
            // Nothing that a machine of a few seconds has to find out.
            "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on nokaslr audit=0 \
             selinux=0 apparmor=0 8250.nr_uarts=1 no_timer_check cryptomgr.notests rcupdate.rcu_expedited=1",
        ])
        .arg("-serial")
        .arg(with_path("file:", console, ""))
        // Standard input is a socket that we hold the other end of.
        .args(["-device", "virtio-serial-pci"])
        .args(["-chardev", "socket,id=port,fd=0"])
        .args(["-device", "virtserialport,chardev=port,name=lvcsi.power"]);
    for (number, disk) in disks.iter().enumerate() {
        qemu.args([
            "-drive",
            // The guest's flushes reach the file; nothing else makes a write durable.
            &format!("if=none,id=disk{number},format=raw,cache=none,discard=unmap,file={disk}"),
            "-device",
            &format!("virtio-blk-pci,drive=disk{number}"),
        ]);
    }
    qemu
}
