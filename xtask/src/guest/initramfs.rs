//! The first file system of the guest: busybox, the modules that reach the
//! host's files, and the script that mounts them. Written as a newc archive
//! here, so that neither cpio nor root is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

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
    let busybox = fs::read(BUSYBOX).with_context(|| format!("cannot read {BUSYBOX}"))?;
    archive.add("bin/busybox", 0o100_755, &busybox)?;
    archive.add("init", 0o100_755, INIT.as_bytes())?;
    let mut order = String::new();
    for path in module_files(kernel)? {
        let name = file_name(&path)?;
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        archive.add(&format!("modules/{name}"), 0o100_644, &bytes)?;
        order.push_str(&name);
        order.push('\n');
    }
    archive.add("modules/order", 0o100_644, order.as_bytes())?;
    archive.finish()
}

/// Files of the modules and of all that they need, in loading order.
fn module_files(kernel: &Kernel) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for module in MODULES {
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

/// A cpio archive in the "newc" format of the kernel's initramfs documentation.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, data: &[u8]) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(data.len())
            .with_context(|| format!("{name} is too large for a cpio archive"))?;
        let name_size = u32::try_from(name.len() + 1)?;
        let links = 1;
        // inode, mode, uid, gid, links, mtime, size, device and rdevice (major,
        // minor), length of the name with its NUL, checksum (unused).
        let fields = [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        self.add("TRAILER!!!", 0, &[])?;
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn entries_are_aligned_and_end_with_the_trailer() {
        let mut archive = Archive::default();
        archive.add("init", 0o100_755, b"hello").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        // 110 bytes of header, "init\0" padded to 116, data padded to 124.
        assert_eq!(&bytes[110..115], b"init\0");
        assert_eq!(&bytes[116..121], b"hello");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes.windows(11).any(|w| w == b"TRAILER!!!\0"));
    }
}
