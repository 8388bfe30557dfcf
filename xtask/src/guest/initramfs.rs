//! The first file system of the guest: busybox, the modules that reach the
//! host's files, and the script that mounts them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::cpio::Archive;
use super::kernel::Kernel;
use crate::run;

/// What it takes to mount the host's files and to talk to the host.
const MODULES: &[&str] = &[
    "virtio_pci",
    "9pnet_virtio",
    "9p",
    "overlay",
    "virtio_console",
];
const INIT: &str = include_str!("init.sh");
const BUSYBOX: &str = "/bin/busybox";

/// Writes the archive for this kernel, unless an equal one is there.
pub(crate) fn prepare(kernel: &Kernel) -> Result<PathBuf> {
    let bytes = build(kernel)?;
    let path = kernel.dir.join("initramfs.cpio");
    if fs::read(&path).is_ok_and(|old| old == bytes) {
        return Ok(path);
    }
    // Another guest may be starting from the old file: replace it whole.
    let fresh = kernel
        .dir
        .join(format!("initramfs.cpio.{}", std::process::id()));
    fs::write(&fresh, &bytes).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::rename(&fresh, &path)?;
    Ok(path)
}

fn build(kernel: &Kernel) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for dir in [
        "bin", "modules", "proc", "sys", "dev", "lower", "upper", "newroot",
    ] {
        archive.add(dir, 0o040_755, &[])?;
    }
    archive.add("init", 0o100_755, INIT.as_bytes())?;
    add_tools(&mut archive, kernel, MODULES)?;
    archive.finish()
}

/// Adds busybox, the modules with all that they need, and `modules/order`.
pub(crate) fn add_tools(archive: &mut Archive, kernel: &Kernel, modules: &[&str]) -> Result<()> {
    let busybox = fs::read(BUSYBOX).with_context(|| format!("cannot read {BUSYBOX}"))?;
    archive.add("bin/busybox", 0o100_755, &busybox)?;
    let mut order = String::new();
    for path in module_files(kernel, modules)? {
        let name = file_name(&path)?;
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        archive.add(&format!("modules/{name}"), 0o100_644, &bytes)?;
        order.push_str(&name);
        order.push('\n');
    }
    archive.add("modules/order", 0o100_644, order.as_bytes())
}

/// Files of the modules and of all that they need, in loading order.
fn module_files(kernel: &Kernel, modules: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for module in modules {
        let listing = run::text(Command::new("modprobe").arg("-d").arg(&kernel.dir).args([
            "-S",
            &kernel.release,
            "--show-depends",
            module,
        ]))?;
        for line in listing.lines() {
            let Some(path) = line.trim().strip_prefix("insmod ") else {
                continue;
            };
            let path = PathBuf::from(path.trim());
            if !files.contains(&path) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

fn file_name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|n| n.to_str());
    Ok(name
        .with_context(|| format!("{} has no plain name", path.display()))?
        .to_owned())
}
