//! What the machine that the tests run on has.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Whether the kernel has device-mapper.
#[must_use]
pub fn has_dm() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        // A node may exist without a driver behind it; the kernel's own list
        // of misc devices does not lie.
        std::fs::read_to_string("/proc/misc")
            .unwrap_or_default()
            .lines()
            .any(|line| line.split_whitespace().nth(1) == Some("device-mapper"))
    })
}

/// Whether a udev daemon runs.
#[must_use]
pub fn has_udev() -> bool {
    Path::new("/run/udev/control").exists()
}

/// A place for loop files: in memory where possible.
#[must_use]
pub fn scratch() -> PathBuf {
    if let Some(dir) = std::env::var_os("LVCSI_SCRATCH") {
        return dir.into();
    }
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        shm.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// The path of a program of this workspace: `$LVCSI_BIN` for `lvcsi`, else
/// beside the running program or in its parent folder (test binaries live in
/// `deps/`).
///
/// # Panics
/// If it is in none of these places.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    if name == "lvcsi"
        && let Some(path) = std::env::var_os("LVCSI_BIN")
    {
        return path.into();
    }
    let me = std::env::current_exe().expect("path of the running program");
    me.ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| {
            panic!(
                "no {name} near {}: build it, or set LVCSI_BIN",
                me.display()
            )
        })
}

/// Waits until udev, where it runs, has nothing to do.
///
/// # Panics
/// If it does not come to rest within a minute.
pub fn settle() {
    if has_udev() {
        let _ = crate::run("udevadm", &["settle", "--timeout=60"]).expect_success();
    }
}
