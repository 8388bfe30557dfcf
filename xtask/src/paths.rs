//! Where things are in the checkout.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    // `cargo run` names the manifest at run time; the value from the build is
    // the fallback for a binary that was started directly.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or(manifest.clone(), PathBuf::from)
}

/// What the guest needs and keeps between runs. One place for all target
/// folders, so that a kernel is unpacked once.
pub(crate) fn guest_cache() -> PathBuf {
    root().join("target/guest")
}

/// Tools of pinned versions: cargo-deny, csi-sanity.
pub(crate) fn tools() -> PathBuf {
    root().join("target/tools")
}

/// The script that runs inside every VM.
pub(crate) fn in_vm_script() -> PathBuf {
    root().join("vagrant/in-vm.sh")
}

/// State of the test cluster: images, certificates, logs.
pub(crate) fn cluster() -> PathBuf {
    root().join("target/cluster")
}

/// This program's file, for processes that outlive this one. Building the workspace
/// puts a new file in the place of the one that runs, and then that is it.
pub(crate) fn this_program() -> Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find this program")?;
    Ok(replaced(path.as_os_str()))
}

/// The kernel's name of a file without its note that it was removed.
fn replaced(name: &OsStr) -> PathBuf {
    let bytes = name.as_bytes();
    let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    std::ffi::OsString::from_vec(bytes.to_vec()).into()
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn a_program_that_was_built_again_is_the_new_one() {
        assert_eq!(
            replaced("/t/xtask (deleted)".as_ref()).to_str(),
            Some("/t/xtask")
        );
        assert_eq!(replaced("/t/xtask".as_ref()).to_str(), Some("/t/xtask"));
    }
}
