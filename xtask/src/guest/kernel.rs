//! The guest's kernel: Debian's own package, unpacked but not installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use super::vmlinux;
use crate::{paths, run};

/// An unpacked kernel.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    /// Version as `uname -r` says it.
    pub(crate) release: String,
    /// Folder with `boot/` and `lib/modules/`.
    pub(crate) dir: PathBuf,
    /// What QEMU starts.
    pub(crate) image: PathBuf,
}

impl Kernel {
    /// Unpacks the image, so that the guest need not.
    fn found(dir: PathBuf, release: String) -> Result<Self> {
        let packed = dir.join("boot").join(format!("vmlinuz-{release}"));
        let image = vmlinux::unpack(&packed)?.unwrap_or(packed);
        Ok(Self {
            release,
            dir,
            image,
        })
    }

    /// `lib/modules` with the kernel's folder in it.
    pub(crate) fn modules(&self) -> PathBuf {
        self.dir.join("lib/modules")
    }
}

/// Takes the kernel from the cache, or downloads and unpacks it first.
/// A newer package is taken once `target/guest` has been removed.
pub(crate) fn prepare() -> Result<Kernel> {
    let cache = paths::guest_cache();
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let lock_path = cache.join("lock");
    let lock = File::create(&lock_path)
        .with_context(|| format!("cannot create {}", lock_path.display()))?;
    lock.lock()
        .with_context(|| format!("cannot lock {}", lock_path.display()))?;
    match cached(&cache)? {
        Some(kernel) => Ok(kernel),
        None => download(&cache),
    }
}

fn cached(cache: &Path) -> Result<Option<Kernel>> {
    let mut newest: Option<(SystemTime, String, PathBuf)> = None;
    for entry in fs::read_dir(cache)? {
        let dir = entry?.path();
        // The marker is written last, so a half-unpacked kernel is never used.
        let Ok(release) = fs::read_to_string(dir.join("release")) else {
            continue;
        };
        let changed = fs::metadata(dir.join("release"))?.modified()?;
        if newest.as_ref().is_none_or(|(when, ..)| changed > *when) {
            newest = Some((changed, release, dir));
        }
    }
    newest
        .map(|(_, release, dir)| Kernel::found(dir, release))
        .transpose()
}

fn download(cache: &Path) -> Result<Kernel> {
    let package = real_package()?;
    eprintln!("guest: downloading and unpacking {package} (once)");
    let scratch = cache.join("download");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(&scratch)?;
    // apt's sandbox user cannot write into a checkout; root may.
    run::quiet(
        Command::new("apt-get")
            .args(["-q", "-o", "APT::Sandbox::User=root", "download", &package])
            .current_dir(&scratch),
    )?;
    let deb = single_file(&scratch, "deb")?;
    let unpacked = scratch.join("root");
    run::quiet(Command::new("dpkg").arg("-x").arg(&deb).arg(&unpacked))?;
    let release = package
        .strip_prefix("linux-image-")
        .unwrap_or(&package)
        .trim_end_matches("-unsigned")
        .to_owned();
    run::quiet(
        Command::new("depmod")
            .arg("-b")
            .arg(&unpacked)
            .arg(&release),
    )?;
    let stem = deb.file_stem().context("the package has no name")?;
    let dir = cache.join(stem);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::rename(&unpacked, &dir)?;
    fs::remove_dir_all(&scratch)?;
    fs::write(dir.join("release"), &release)?;
    Kernel::found(dir, release)
}

/// `linux-image-amd64` is empty and depends on the real package.
fn real_package() -> Result<String> {
    if std::env::consts::ARCH != "x86_64" {
        bail!(
            "the guest is for x86_64 hosts; this one is {}",
            std::env::consts::ARCH
        );
    }
    let list = run::text(Command::new("apt-cache").args(["depends", "linux-image-amd64"]))
        .context("no package list has linux-image-amd64: run apt-get update (Debian is needed)")?;
    list.split_whitespace()
        .find(|word| word.starts_with("linux-image-6") || word.starts_with("linux-image-7"))
        .map(str::to_owned)
        .with_context(|| format!("linux-image-amd64 names no kernel package:\n{list}"))
}

fn single_file(dir: &Path, extension: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == extension) {
            return Ok(path);
        }
    }
    bail!("no .{extension} file in {}", dir.display())
}
