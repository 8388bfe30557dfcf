//! KVM where it truly works, emulation elsewhere. A /dev/kvm may exist and
//! still hang or abort, so a kernel has to boot with it once.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::kernel::Kernel;
use crate::paths;

/// How the guest's instructions are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accel {
    /// The processor's own virtualisation.
    Kvm,
    /// Emulation, one thread a virtual CPU.
    Tcg,
}

impl Accel {
    /// What the kernel is told about it. Emulated processors share the counter of the
    /// machine below, which Linux does not believe without being told, and then every
    /// look at a clock is an access to an emulated timer chip.
    pub(super) fn kernel_arguments(self) -> &'static str {
        match self {
            Self::Kvm => "",
            Self::Tcg => "tsc=reliable",
        }
    }

    /// The arguments that QEMU takes for it.
    pub(crate) fn args(self) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["-accel", "kvm", "-cpu", "host"],
            Self::Tcg => &["-accel", "tcg,thread=multi", "-cpu", "max"],
        }
    }
}

/// What QEMU can use here. Asked once for each boot of this machine;
/// `LVCSI_ACCEL=kvm|tcg` decides without asking.
pub(crate) fn choose(kernel: &Kernel, initramfs: &Path) -> Result<Accel> {
    match std::env::var("LVCSI_ACCEL").as_deref() {
        Ok("kvm") => return Ok(Accel::Kvm),
        Ok("tcg") => return Ok(Accel::Tcg),
        Ok(other) => bail!("LVCSI_ACCEL={other}: must be kvm or tcg"),
        Err(_) => {}
    }
    if !Path::new("/dev/kvm").exists() {
        return Ok(Accel::Tcg);
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .context("cannot read the boot id of this machine")?;
    let cache = paths::guest_cache().join("accel");
    let answers = fs::read_to_string(&cache).unwrap_or_default();
    if let Some(answer) = answers.strip_prefix(&boot) {
        return Ok(if answer == "kvm" {
            Accel::Kvm
        } else {
            Accel::Tcg
        });
    }
    let works = kvm_boots(kernel, initramfs)?;
    let answer = if works { "kvm" } else { "tcg" };
    eprintln!(
        "guest: /dev/kvm {}",
        if works {
            "works"
        } else {
            "does not work, emulating"
        }
    );
    fs::write(&cache, format!("{boot}{answer}"))
        .with_context(|| format!("cannot write {}", cache.display()))?;
    Ok(if works { Accel::Kvm } else { Accel::Tcg })
}

fn kvm_boots(kernel: &Kernel, initramfs: &Path) -> Result<bool> {
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
        ])
        .args(["-M", "q35", "-m", "512M", "-serial", "stdio"])
        .args(Accel::Kvm.args())
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(initramfs)
        .args(["-append", "console=ttyS0 panic=-1 lvcsi.mode=probe"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start qemu-system-x86_64")?;
    let stdout = child.stdout.take().context("no pipe to QEMU")?;
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let console = std::io::read_to_string(stdout).unwrap_or_default();
        // The receiver is gone after the time-out: nobody wants the answer.
        let _ = send.send(console.contains("lvcsi-probe-ok"));
    });
    let works = receive
        .recv_timeout(Duration::from_secs(10))
        .unwrap_or(false);
    // An error means that it has ended already.
    let _ = child.kill();
    child.wait().context("cannot wait for QEMU")?;
    Ok(works)
}
