//! Others who do not let go, do not answer, or cannot be reached.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use lvcsi_kit::{Driver, LoopVg, host, run};

use super::slow::{Halt, Watchdog, repeat, told};
use crate::support::{MIB, Tidy};

const IMPATIENT: [&str; 2] = ["--lock-timeout=2", "--io-timeout=5"];

/// A lock file that somebody holds until this is dropped.
struct Held(Child);

impl Held {
    fn new(lock: &str) -> Self {
        let path = format!("/run/lock/lvm/{lock}");
        let mut child = Command::new("flock")
            .args([path.as_str(), "sh", "-c", "echo held; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("flock");
        let mut line = [0; 5];
        let out = child.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(out, &mut line).expect("the lock");
        Self(child)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_lock_that_somebody_keeps_is_named_with_its_holder() {
    let _watchdog = Watchdog::new("a kept lock");
    let _tidy = Tidy::new();
    let (vg, well) = (LoopVg::new(128), LoopVg::new(128));
    let driver = Driver::start_with(vg.dir(), &IMPATIENT);
    let csi = driver.csi();
    for lock in [format!("V_{}", vg.name), format!("V_{}:aux", vg.name)] {
        let held = Held::new(&lock);
        let answer = csi.create(&vg.name, "pvc-a", 16 * MIB, "ext4");
        told(
            &lock,
            answer,
            &[&format!("V_{} is held by", vg.name), "(flock)"],
        );
        let other = repeat("elsewhere", || {
            csi.create(&well.name, "pvc-b", 16 * MIB, "ext4")
        });
        repeat("elsewhere", || csi.delete(&other.volume_id));
        drop(held);
        repeat("CreateVolume, later", || {
            csi.create(&vg.name, "pvc-a", 16 * MIB, "ext4")
        });
        repeat("DeleteVolume, later", || csi.delete("pvc-a"));
    }
    vg.assert_clean();
    drop(driver);
}

/// The driver never waits for udev.
#[test]
fn a_stopped_udevd_holds_nobody_up() {
    if !host::has_udev() {
        println!("skipped: no udev here");
        return;
    }
    let _watchdog = Watchdog::new("a stopped udevd");
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let driver = Driver::start(vg.dir());
    let csi = driver.csi();
    let pids = run("pidof", &["systemd-udevd"]).expect_success().stdout;
    let stopped: Vec<Halt> = pids.split_whitespace().map(Halt::process).collect();
    assert!(!stopped.is_empty(), "no udevd");
    let volume = csi
        .create(&vg.name, "pvc-u", 32 * MIB, "ext4")
        .expect("CreateVolume");
    let target = vg.dir().join("mount");
    csi.publish(&volume, &target, "ext4").expect("NodePublish");
    csi.expand("pvc-u", 48 * MIB).expect("ControllerExpand");
    csi.node_expand("pvc-u", &target, 48 * MIB)
        .expect("NodeExpand");
    csi.unpublish("pvc-u", &target).expect("NodeUnpublish");
    csi.delete("pvc-u").expect("DeleteVolume");
    drop(stopped);
    host::settle();
    let cookies = run("dmsetup", &["udevcookies"]).expect_success();
    assert!(!cookies.stdout.contains("0x"), "{cookies}");
    vg.assert_clean();
    drop(driver);
}

/// A pod without hostIPC: udev's cookies are semaphores of another namespace.
#[test]
fn without_the_hosts_ipc() {
    let _watchdog = Watchdog::new("no host IPC");
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let alone = vg.dir().join("alone");
    let binary = host::binary("lvcsi");
    let script = format!(
        "#!/bin/sh\nexec unshare --ipc {} \"$@\"\n",
        binary.display()
    );
    fs::write(&alone, script).expect("a script");
    fs::set_permissions(&alone, fs::Permissions::from_mode(0o755)).expect("its mode");
    let driver = Driver::start_as(&alone, vg.dir(), &[]);
    let csi = driver.csi();
    let volume = csi
        .create(&vg.name, "pvc-i", 32 * MIB, "ext4")
        .expect("CreateVolume");
    let target = vg.dir().join("mount");
    csi.publish(&volume, &target, "ext4").expect("NodePublish");
    if host::has_udev() {
        host::settle();
        let link = vg.device("pvc-i");
        assert!(link.exists(), "udev has made {}", link.display());
    }
    csi.unpublish("pvc-i", &target).expect("NodeUnpublish");
    csi.delete("pvc-i").expect("DeleteVolume");
    vg.assert_clean();
    drop(driver);
}
