//! `cargo xtask vagrant`: the tests on a real kernel in a Vagrant VM.

mod daemons;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

use crate::apt::{self, Group};
use crate::guest;
use crate::levels::Length;
use crate::programs::{Breadth, Programs};
use crate::tally::{Counter, Tally};
use crate::{paths, run};
use daemons::Daemons;

/// The public box, and the name of the stand-in.
const BOX: &str = "debian/bookworm64";
/// Where the Vagrantfile puts the checkout and the programs.
const CHECKOUT: &str = "/lvcsi";
const PROGRAMS: &str = "/lvcsi-programs";
/// The time of one test program in the VM.
const TEST_SECONDS: u32 = 25 * 60;

const HELP: &str = "\
The tests that need device-mapper, on loop devices in a Vagrant VM (libvirt).

Usage: cargo xtask vagrant COMMAND

  test  bring the VM up, run the tests in it, take it down
  up    bring the VM up and leave it: cd vagrant && vagrant ssh
  down  take it down
  box   make the stand-in box from Debian packages (root), for a machine that
        cannot download debian/bookworm64; the other commands do it if they must

The programs are built on this machine: its C library must not be newer than the
VM's, which is Debian 12's.
";

/// Runs the subcommand; returns the exit status.
pub(crate) fn command(mut parser: lexopt::Parser) -> Result<i32> {
    let mut what = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(word) if what.is_none() => what = Some(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let what = what.context("what? test, up, down or box; see cargo xtask vagrant --help")?;
    apt::ensure(&[Group::Build, Group::Guest, Group::Vagrant])?;
    match what.as_str() {
        "test" => {
            let tally = test(Length::Short)?;
            println!(
                "{} passed, {} failed, {} skipped",
                tally.passed, tally.failed, tally.skipped
            );
            Ok(i32::from(tally.failed != 0))
        }
        "up" => {
            // They stay for `vagrant ssh` and `down`.
            Daemons::start()?.leave_running();
            ship(&Programs::build()?)?;
            up()?;
            Ok(0)
        }
        "down" => {
            let daemons = Daemons::start()?;
            down()?;
            daemons.stop_all()?;
            Ok(0)
        }
        "box" => {
            let _daemons = Daemons::start()?;
            make_box()?;
            Ok(0)
        }
        other => bail!("unknown command {other:?}; see cargo xtask vagrant --help"),
    }
}

/// The level: up, tests, down. The VM goes whatever the tests say.
pub(crate) fn test(length: Length) -> Result<Tally> {
    let programs = Programs::build()?;
    ship(&programs)?;
    let daemons = Daemons::start()?;
    let result = up().and_then(|()| tests_in_vm(&programs, length));
    let taken_down = down();
    drop(daemons);
    let tally = result?;
    taken_down?;
    Ok(tally)
}

/// Puts the programs where the Vagrantfile's synced folder takes them from.
fn ship(programs: &Programs) -> Result<()> {
    let dir = paths::root().join("target/vagrant/programs");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    for program in programs.all() {
        let to = dir.join(name(program)?);
        fs::copy(program, &to)
            .with_context(|| format!("cannot copy {} to {}", program.display(), to.display()))?;
    }
    Ok(())
}

fn up() -> Result<()> {
    ensure_box()?;
    // A VM that a killed run left behind has old programs in it.
    down()?;
    let status = vagrant(&["up", "--provider=libvirt"])
        .status()
        .context("cannot start vagrant")?;
    if !status.success() {
        bail!("vagrant up failed: {status}");
    }
    Ok(())
}

fn down() -> Result<()> {
    run::quiet(&mut vagrant(&["destroy", "--force"]))?;
    Ok(())
}

fn tests_in_vm(programs: &Programs, length: Length) -> Result<Tally> {
    let mut counter = Counter::in_turn();
    let mut worst = 0;
    for test in programs.tests.iter().filter(|test| test.loop_level) {
        let args: Vec<_> = test.args(Breadth::OtherMachine(length)).collect();
        let command = format!(
            "cd {CHECKOUT} && sudo LVCSI_BIN={PROGRAMS}/{} CARGO_MANIFEST_DIR={CHECKOUT} \
             timeout {TEST_SECONDS} {CHECKOUT}/vagrant/in-vm.sh -- {PROGRAMS}/{} {}",
            name(&programs.lvcsi)?,
            name(&test.path)?,
            args.join(" ")
        );
        let mut child = vagrant(&["ssh", "--no-tty", "-c", &command])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start vagrant ssh")?;
        if let Some(mut stdout) = child.stdout.take() {
            std::io::copy(&mut stdout, &mut counter)?;
        }
        let status = run::code(child.wait()?);
        worst = worst.max(status);
    }
    Ok(counter.tally().with_status(worst))
}

fn name(path: &Path) -> Result<&str> {
    path.file_name()
        .and_then(OsStr::to_str)
        .with_context(|| format!("{} has no plain name", path.display()))
}

fn vagrant(args: &[&str]) -> Command {
    let mut command = Command::new("vagrant");
    command
        .current_dir(paths::root().join("vagrant"))
        // No look-ups that take seconds and cannot succeed everywhere.
        .env("VAGRANT_CHECKPOINT_DISABLE", "1")
        .env("VAGRANT_BOX_UPDATE_CHECK_DISABLE", "1")
        .args(args)
        .stdin(Stdio::null());
    command
}

fn ensure_box() -> Result<()> {
    let boxes = run::text(&mut vagrant(&["box", "list"]))?;
    if boxes
        .lines()
        .any(|line| line.starts_with(BOX) && line.contains("libvirt"))
    {
        return Ok(());
    }
    println!("vagrant: trying to download {BOX}");
    let download = Command::new("timeout")
        .args(["900", "vagrant", "box", "add", BOX, "--provider", "libvirt"])
        .env("VAGRANT_CHECKPOINT_DISABLE", "1")
        .stdin(Stdio::null())
        .output()
        .context("cannot start vagrant")?;
    if download.status.success() {
        return Ok(());
    }
    make_box()
}

/// Makes the stand-in and adds it to Vagrant's boxes, in place of an older one.
fn make_box() -> Result<()> {
    if !apt::is_root()? {
        bail!("{BOX} cannot be downloaded, and making a stand-in for it needs root");
    }
    println!("vagrant: making a home-made stand-in for {BOX} from Debian packages");
    let dir = paths::root().join("target/vagrant");
    fs::create_dir_all(&dir)?;
    let path: PathBuf = dir.join("stand-in.box");
    let driver = if guest::kvm_works()? { "kvm" } else { "qemu" };
    let script = paths::root().join("vagrant/make-box.sh");
    let status = Command::new(script)
        .arg(driver)
        .arg(&path)
        .stdin(Stdio::null())
        .status()
        .context("cannot start vagrant/make-box.sh")?;
    if !status.success() {
        bail!("vagrant/make-box.sh failed: {status}");
    }
    // libvirt keeps the volume of a box under the box's name and version: a new
    // box of the same version would go unseen.
    remove_volume()?;
    run::quiet(vagrant(&["box", "add", "--force", "--name", BOX]).arg(&path))?;
    fs::remove_file(&path)?;
    Ok(())
}

fn remove_volume() -> Result<()> {
    let volume = format!(
        "{}_vagrant_box_image_0_box.img",
        BOX.replace('/', "-VAGRANTSLASH-")
    );
    let pools = run::text(Command::new("virsh").args(["--quiet", "pool-list", "--name"]))?;
    for pool in pools.split_whitespace() {
        let volumes = run::text(Command::new("virsh").args(["--quiet", "vol-list", pool]))?;
        if volumes.split_whitespace().any(|word| word == volume) {
            run::quiet(Command::new("virsh").args(["vol-delete", "--pool", pool, &volume]))?;
        }
    }
    Ok(())
}
