//! What the guest tests share.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use lvcsi_kit::{LoopVg, Ran, host, run};

use crate::common::Native;

/// MiB in bytes, as CSI counts.
pub(crate) const MIB: i64 = 1 << 20;

/// What a test must not leave behind. Made before everything else in a test,
/// it is dropped after everything else and compares.
pub(crate) struct Tidy {
    before: BTreeSet<String>,
}

impl Tidy {
    /// Looks around.
    pub(crate) fn new() -> Self {
        assert!(
            host::has_dm(),
            "this kernel has no device-mapper: run `cargo xtask test guest`"
        );
        Self { before: things() }
    }
}

impl Drop for Tidy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        settle();
        let left: Vec<_> = things().difference(&self.before).cloned().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

/// dm devices, attached loop devices, mounts, and udev's open transactions.
fn things() -> BTreeSet<String> {
    let mut things = BTreeSet::new();
    let mut add = |kind: &str, text: &str| {
        things.extend(
            text.lines()
                .filter(|line| !line.is_empty())
                .map(|l| format!("{kind} {l}")),
        );
    };
    let dm = run("dmsetup", &["info", "-c", "--noheadings", "-o", "name"]).expect_success();
    if !dm.stdout.contains("No devices found") {
        add("dm", &dm.stdout);
    }
    add(
        "loop",
        &run("losetup", &["-n", "-l", "-O", "NAME,BACK-FILE"])
            .expect_success()
            .stdout,
    );
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let targets: Vec<_> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .collect();
    add("mount", &targets.join("\n"));
    let cookies = run("dmsetup", &["udevcookies"]).expect_success();
    let cookies: Vec<_> = cookies
        .stdout
        .lines()
        .filter(|line| line.starts_with("0x"))
        .collect();
    add("cookie", &cookies.join("\n"));
    things
}

pub(crate) use lvcsi_kit::host::settle;

/// Runs the tool as a person on the node does.
pub(crate) fn lvcsi(args: &[&str]) -> Ran {
    run(host::binary("lvcsi").to_str().unwrap(), args)
}

/// lvm2 is content, the engine finds nothing wrong, and no extent is used
/// twice.
pub(crate) fn all_well(vg: &LoopVg, native: &Native) {
    vg.assert_clean();
    let _ = vg.decode();
    let findings = native.engine.check(&native.vg).expect("a check");
    assert_eq!(findings, []);
}

/// Writes a pattern that depends on `seed` to the first `mib` MiB of a device
/// or file.
pub(crate) fn write_pattern(path: &Path, mib: usize, seed: u8) {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for n in 0..mib {
        file.write_all(&pattern(n, seed)).expect("write");
    }
    file.sync_all().expect("sync");
}

/// Panics unless the pattern is still there.
pub(crate) fn check_pattern(path: &Path, mib: usize, seed: u8) {
    let mut file = fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut found = vec![0; 1 << 20];
    for n in 0..mib {
        file.read_exact(&mut found).expect("read");
        assert!(
            found == pattern(n, seed),
            "{}: MiB {n} has changed",
            path.display()
        );
    }
}

fn pattern(n: usize, seed: u8) -> Vec<u8> {
    (0..1_usize << 20)
        .map(|i| (i * 7 + n * 13) as u8 ^ seed)
        .collect()
}

/// Reads `length` bytes at `offset`.
pub(crate) fn read_at(path: &Path, offset: u64, length: usize) -> Vec<u8> {
    let mut file = fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    file.seek(SeekFrom::Start(offset)).expect("seek");
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).expect("read");
    bytes
}

/// Overwrites bytes of a device or file behind everybody's back.
pub(crate) fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    file.seek(SeekFrom::Start(offset)).expect("seek");
    file.write_all(bytes).expect("write");
    file.sync_all().expect("sync");
}

/// Size of a block device in bytes, by its node.
pub(crate) fn device_size(path: &Path) -> u64 {
    let file = fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    lvcsi_sys::block::size_bytes(&file).expect("size of a device")
}
