//! A machine with a real kernel and device-mapper, on top of the host's own
//! files: QEMU with Debian's kernel, the host's root read-only under an overlay.

mod accel;
mod cli;
pub(crate) mod cpio;
pub(crate) mod initramfs;
mod kernel;
pub(crate) mod qemu;
mod vmlinux;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::{paths, run};
pub(crate) use accel::Accel;
pub(crate) use cli::command;
pub(crate) use kernel::Kernel;
pub(crate) use qemu::Streams;

/// The exit status of a run that was killed at its time-out, as `timeout` has it.
pub(crate) const TIMED_OUT: i32 = 124;

/// What kind of machine, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Whether a udev daemon runs in the guest.
    pub(crate) udev: bool,
    /// Virtio disks.
    pub(crate) disks: u32,
    /// Bytes of each disk.
    pub(crate) disk_size: u64,
    /// Folder in which the disks stay; a temporary one if absent.
    pub(crate) disk_dir: Option<PathBuf>,
    /// Bytes of a logical and physical sector: 512 or 4096.
    pub(crate) sector_size: u32,
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// Virtual CPUs.
    pub(crate) cpus: u32,
    /// From the start of QEMU to its kill.
    pub(crate) timeout: Duration,
    /// Host folder that the guest sees, writable, as `/results`.
    pub(crate) results: Option<PathBuf>,
    /// Whether the guest has a network, in which the host is 10.0.2.2.
    pub(crate) network: bool,
    /// Ports of this machine's loopback that lead to ports of the guest.
    pub(crate) forward: Vec<(u16, u16)>,
    /// Added to the environment of the command.
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            udev: true,
            disks: 0,
            disk_size: 1 << 30,
            disk_dir: None,
            sector_size: 512,
            memory: 3 << 30,
            cpus: 2,
            timeout: Duration::from_secs(600),
            results: None,
            network: false,
            forward: Vec::new(),
            env: Vec::new(),
        }
    }
}

/// Runs a command in a fresh guest and returns its exit status.
///
/// An error means that the guest failed, not the command; it names the console log.
pub(crate) fn run(options: &Options, argv: &[OsString], streams: Streams) -> Result<i32> {
    let kernel = kernel::prepare().context("cannot prepare the guest's kernel")?;
    let initramfs = initramfs::prepare(&kernel).context("cannot make the guest's initramfs")?;
    let accel = accel::choose(&kernel, &initramfs)?;
    let work = Work::create()?;
    let results = match &options.results {
        Some(dir) => dir.clone(),
        None => work.dir.join("results"),
    };
    let private = results.join(".guest");
    fs::create_dir_all(&private).with_context(|| format!("cannot create {}", private.display()))?;
    write_private(&private, &kernel, options, argv)?;
    let disk_dir = options.disk_dir.as_deref().unwrap_or(&work.dir);
    fs::create_dir_all(disk_dir)?;
    let disks = qemu::make_disks(disk_dir, options.disks, options.disk_size)?;
    let console = work.dir.join("console.log");
    let machine = qemu::Machine {
        options,
        kernel: &kernel,
        initramfs: &initramfs,
        accel,
        results: &results,
        console: &console,
        disks: &disks,
    };
    let end = machine.run(streams)?;
    let status = fs::read_to_string(private.join("status")).unwrap_or_default();
    fs::remove_dir_all(&private)?;
    match (end, status.trim().parse::<i32>()) {
        (_, Ok(status)) => {
            if status == 0 {
                work.remove()?;
            } else {
                work.keep_console(&console)?;
            }
            Ok(status)
        }
        (qemu::End::TimedOut, Err(_)) => {
            eprintln!(
                "guest: killed after its time-out of {}",
                qemu::seconds(options.timeout)
            );
            work.keep_console(&console)?;
            Ok(TIMED_OUT)
        }
        (qemu::End::Ended, Err(_)) => bail!(
            "the guest ended without a status; its console log is {} and ends with\n{}",
            console.display(),
            qemu::console_tail(&console)
        ),
    }
}

/// A kernel and how to run it, for machines of another make than [`run`]'s.
pub(crate) fn kernel_and_accel() -> Result<(Kernel, Accel)> {
    let kernel = kernel::prepare().context("cannot prepare the guest's kernel")?;
    let initramfs = initramfs::prepare(&kernel).context("cannot make the guest's initramfs")?;
    let accel = accel::choose(&kernel, &initramfs)?;
    Ok((kernel, accel))
}

/// Makes what every guest needs, which guests that start at the same time would
/// make twice.
pub(crate) fn prepare() -> Result<()> {
    kernel_and_accel().map(|_| ())
}

/// Whether KVM truly works here.
pub(crate) fn kvm_works() -> Result<bool> {
    Ok(kernel_and_accel()?.1 == Accel::Kvm)
}

/// The files through which the guest learns what to run.
fn write_private(dir: &Path, kernel: &Kernel, options: &Options, argv: &[OsString]) -> Result<()> {
    let old_status = dir.join("status");
    if old_status.exists() {
        fs::remove_file(&old_status)?;
    }
    fs::write(dir.join("pid1.sh"), include_str!("pid1.sh"))?;
    fs::write(dir.join("modules"), kernel.modules().as_os_str().as_bytes())?;
    fs::write(dir.join("command.sh"), command_script(options, argv))?;
    Ok(())
}

/// A shell script that sets the environment and the folder and runs the command.
fn command_script(options: &Options, argv: &[OsString]) -> Vec<u8> {
    let mut script = Vec::new();
    let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| script.extend_from_slice(part));
    put(&[b"cd ", &quote(paths::root().as_os_str()), b" || exit 126\n"]);
    let passed = std::env::vars_os().filter(|(name, _)| passes(name));
    for (name, value) in passed.chain(options.env.iter().cloned()) {
        put(&[b"export ", name.as_bytes(), b"=", &quote(&value), b"\n"]);
    }
    put(&[b"export LVCSI_RESULTS=/results PAGER=cat SYSTEMD_PAGER=\n"]);
    put(&[b"exec ", &quote(paths::in_vm_script().as_os_str())]);
    if !options.udev {
        put(&[b" --no-udev"]);
    }
    put(&[b" --"]);
    for arg in argv {
        put(&[b" ", &quote(arg)]);
    }
    put(&[b"\n"]);
    script
}

/// What a command expects from the environment it was typed in. Names that are
/// no shell names cannot be exported.
fn passes(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let wanted = matches!(
        name,
        "PATH" | "HOME" | "TERM" | "LANG" | "USER" | "COLUMNS" | "NO_COLOR"
    ) || ["LVCSI_", "CARGO_", "RUST_", "PROPTEST_"]
        .iter()
        .any(|p| name.starts_with(p));
    // What cargo told this program about itself would mislead the command.
    let ours = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
    ];
    plain && wanted && !ours.iter().any(|p| name.starts_with(p))
}

/// One word for the shell, whatever bytes it has.
fn quote(text: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in text.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            other => quoted.push(other),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// The folder of one run, removed when all went well.
struct Work {
    dir: PathBuf,
}

impl Work {
    fn create() -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let name = format!("run-{}-{}", std::process::id(), now.as_millis());
        let runs = paths::guest_cache().join("runs");
        remove_leftovers(&runs);
        let dir = runs.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(Self { dir })
    }

    fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.dir)
            .with_context(|| format!("cannot remove {}", self.dir.display()))
    }

    /// Disks can be large; only the log is of use after a failure.
    fn keep_console(self, console: &Path) -> Result<()> {
        let name = self.dir.file_name().unwrap_or_default().to_owned();
        let kept = paths::guest_cache()
            .join("runs")
            .join(name)
            .with_extension("console.log");
        fs::rename(console, &kept).with_context(|| format!("cannot keep {}", console.display()))?;
        eprintln!("guest: console log: {}", kept.display());
        self.remove()
    }
}

/// Removes the folders of runs whose process was killed, disks and all.
fn remove_leftovers(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|n| n.strip_prefix("run-")?.split('-').next());
        let alive = pid.is_none_or(|pid| Path::new("/proc").join(pid).exists());
        if !alive && entry.path().is_dir() {
            // Another run may remove the same folder at this moment.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::process::Command;

    use super::{Options, command_script, passes, quote};

    #[test]
    fn quoting_survives_a_shell() {
        for text in [
            "",
            "plain",
            "two words",
            "it's",
            "\"$HOME\" `id` \\",
            "a\nb",
            "-n",
            "ä",
        ] {
            let mut script = b"printf %s ".to_vec();
            script.extend_from_slice(&quote(OsStr::new(text)));
            let script = String::from_utf8(script).unwrap();
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }

    #[test]
    fn only_wanted_names_pass() {
        assert!(passes(OsStr::new("PATH")));
        assert!(passes(OsStr::new("LVCSI_COLOR")));
        assert!(passes(OsStr::new("RUST_BACKTRACE")));
        assert!(!passes(OsStr::new("SHELL")));
        assert!(!passes(OsStr::new("CARGO_MANIFEST_DIR")));
        assert!(!passes(OsStr::new("CARGO_x-y")));
    }

    #[test]
    fn the_script_asks_for_no_udev_and_ends_with_the_command() {
        let options = Options {
            udev: false,
            ..Options::default()
        };
        let script = command_script(&options, &[OsString::from("true"), OsString::from("a b")]);
        let script = String::from_utf8(script).unwrap();
        assert!(
            script.ends_with("in-vm.sh' --no-udev -- 'true' 'a b'\n"),
            "{script}"
        );
    }
}
