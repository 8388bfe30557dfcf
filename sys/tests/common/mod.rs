//! What the tests on real devices share.

use std::fs::File;

use lvcsi_sys::loopdev::{LoopDevice, LoopOptions};

/// Whether tests that need root can run; says so where they cannot.
pub(crate) fn root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root to attach loop devices");
    }
    root
}

/// A sparse file of `size` bytes, attached to a loop device. The file has no
/// name any more and goes away with the device.
pub(crate) fn attach(size: u64, options: LoopOptions) -> (File, LoopDevice) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(size).unwrap();
    let device = LoopDevice::attach(&file, options).unwrap();
    (file, device)
}
