//! The only file system of the machine: the driver, the load, lvm2, and what
//! these need. It boots in a fraction of the time that a whole system takes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::guest::Kernel;
use crate::guest::cpio::Archive;
use crate::guest::initramfs::add_tools;
use crate::run;

const MODULES: &[&str] = &["virtio_pci", "virtio_blk", "virtio_console", "dm-mod"];
const INIT: &str = include_str!("init.sh");
/// No udev, and nobody who would want backups.
const LVM_CONF: &str = "\
devices {
	obtain_device_list_from_udev = 0
	external_device_info_source = \"none\"
}
activation {
	udev_sync = 0
	udev_rules = 0
}
backup {
	backup = 0
	archive = 0
}
";
const FOLDERS: &[&str] = &["dev", "etc", "etc/lvm", "modules", "proc", "run", "sys"];
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const FOLDER: u32 = 0o040_755;

/// Writes the archive into `dir`.
pub(super) fn write(dir: &Path, kernel: &Kernel, lvcsi: &Path, load: &Path) -> Result<PathBuf> {
    let lvm = lvm()?;
    let mut libraries = BTreeSet::new();
    for program in [lvcsi, load, &lvm] {
        libraries.extend(needed(program)?);
    }
    let mut folders: BTreeSet<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    folders.extend(["bin", "sbin"].map(PathBuf::from));
    for library in &libraries {
        let inside = library.strip_prefix("/").unwrap_or(library);
        let above = inside.ancestors().skip(1);
        folders.extend(
            above
                .filter(|dir| *dir != Path::new(""))
                .map(Path::to_owned),
        );
    }

    let mut archive = Archive::default();
    // Sorted, so that a folder comes before what is in it.
    for folder in &folders {
        archive.add(&folder.to_string_lossy(), FOLDER, &[])?;
    }
    archive.add("init", PROGRAM, INIT.as_bytes())?;
    archive.add("etc/lvm/lvm.conf", FILE, LVM_CONF.as_bytes())?;
    add_tools(&mut archive, kernel, MODULES)?;
    archive.add("bin/lvcsi", PROGRAM, &stripped(dir, lvcsi)?)?;
    archive.add("bin/lvcsi-power", PROGRAM, &stripped(dir, load)?)?;
    archive.add("sbin/lvm", PROGRAM, &read(&lvm)?)?;
    for library in &libraries {
        let inside = library.strip_prefix("/").unwrap_or(library);
        archive.add(&inside.to_string_lossy(), PROGRAM, &read(library)?)?;
    }
    let path = dir.join("initramfs.cpio");
    fs::write(&path, archive.finish()?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn lvm() -> Result<PathBuf> {
    let found = ["/usr/sbin/lvm", "/sbin/lvm"].map(PathBuf::from);
    let found = found.into_iter().find(|path| path.is_file());
    found.context("no lvm in /usr/sbin or /sbin: the package lvm2 is missing")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The shared libraries, the loader among them, by the paths where the loader
/// looks for them.
fn needed(program: &Path) -> Result<Vec<PathBuf>> {
    let list = run::text(Command::new("ldd").arg(program))?;
    let path = |line: &str| {
        let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
        Some(PathBuf::from(path))
    };
    Ok(list.lines().filter_map(path).collect())
}

/// The program without what only a debugger needs: every byte is copied by an
/// emulated processor.
fn stripped(dir: &Path, program: &Path) -> Result<Vec<u8>> {
    let name = program.file_name().context("a program without a name")?;
    let copy = dir.join(name);
    run::quiet(Command::new("strip").arg("-o").arg(&copy).arg(program))?;
    let bytes = read(&copy)?;
    fs::remove_file(&copy).with_context(|| format!("cannot remove {}", copy.display()))?;
    Ok(bytes)
}
