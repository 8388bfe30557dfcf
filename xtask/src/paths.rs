//! Where things are in the checkout.

use std::path::PathBuf;

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
