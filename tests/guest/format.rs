//! What may hold data is never formatted.

use lvcsi_kit::csi::v1::Volume;
use lvcsi_kit::{Csi, Driver, LoopVg, digest, run};
use tonic::Code;

use crate::common::{Native, lv, tag};
use crate::support::{MIB, Tidy, read_at, settle, write_at, write_pattern};
use lvcsi::engine::Request;

struct Setup {
    vg: LoopVg,
    native: Native,
    csi: Csi,
    _driver: Driver,
}

impl Setup {
    fn new() -> Self {
        let vg = LoopVg::new(512);
        let native = Native::open(&vg);
        let driver = Driver::start(vg.dir());
        let csi = driver.csi();
        Self {
            vg,
            native,
            csi,
            _driver: driver,
        }
    }

    fn volume(&self, fs: &str) -> Volume {
        self.csi
            .create(&self.vg.name, "pvc-f", 64 * MIB, fs)
            .expect("CreateVolume")
    }

    fn node(&self) -> std::path::PathBuf {
        self.native.engine.find(&lv("pvc-f")).unwrap()[0]
            .node
            .clone()
            .expect("a node")
    }

    /// Publishing must fail with an explanation and leave every byte alone.
    fn refused(&self, volume: &Volume, fs: &str) -> String {
        let node = self.node();
        settle();
        let before = digest::disk_digest(&node);
        let target = self.vg.dir().join("mnt");
        let status = self
            .csi
            .publish(volume, &target, fs)
            .expect_err("must be refused");
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(
            status.message().contains("pvc-f"),
            "names the volume: {status}"
        );
        assert_eq!(
            digest::disk_digest(&node),
            before,
            "the content has changed"
        );
        assert!(!target.exists(), "the target path is left behind");
        status.message().to_owned()
    }

    fn done(self) {
        self.csi.delete("pvc-f").expect("DeleteVolume");
        self.vg.assert_clean();
    }
}

/// Once formatted, never again: not even when the file system is gone.
#[test]
fn a_lost_file_system_is_not_replaced() {
    let _tidy = Tidy::new();
    let setup = Setup::new();
    let volume = setup.volume("ext4");
    let target = setup.vg.dir().join("mnt");
    setup
        .csi
        .publish(&volume, &target, "ext4")
        .expect("NodePublishVolume");
    write_pattern(&target.join("data"), 4, 1);
    setup
        .csi
        .unpublish("pvc-f", &target)
        .expect("NodeUnpublishVolume");
    let node = setup.node();
    let superblock = read_at(&node, 0, 8192);
    write_at(&node, 0, &[0; 8192]);
    let message = setup.refused(&volume, "ext4");
    assert!(message.contains("ext4"), "{message}");

    // Nothing but the superblock is missing: with it, all is there again.
    write_at(&node, 0, &superblock);
    setup
        .csi
        .publish(&volume, &target, "ext4")
        .expect("NodePublishVolume");
    crate::support::check_pattern(&target.join("data"), 4, 1);
    setup
        .csi
        .unpublish("pvc-f", &target)
        .expect("NodeUnpublishVolume");
    setup.done();
}

/// Bytes that no signature explains may be somebody's data.
#[test]
fn unknown_content_is_not_formatted() {
    let _tidy = Tidy::new();
    let setup = Setup::new();
    let volume = setup.volume("ext4");
    write_at(&setup.node(), 100_000, b"precious");
    setup.refused(&volume, "ext4");
    setup.done();
}

#[test]
fn another_file_system_is_not_formatted() {
    let _tidy = Tidy::new();
    let setup = Setup::new();
    let volume = setup.volume("ext4");
    let node = setup.node();
    let _ = run("mkfs.btrfs", &["-q", "-f", "-M", node.to_str().unwrap()]).expect_success();
    let message = setup.refused(&volume, "ext4");
    assert!(message.contains("btrfs"), "names what is there: {message}");
    setup.done();
}

/// Killed in mkfs: the tag says so, and the work is done again.
#[test]
fn an_interrupted_mkfs_is_repeated() {
    let _tidy = Tidy::new();
    let setup = Setup::new();
    let volume = setup.volume("ext4");
    let tags = Request::Tags {
        name: lv("pvc-f"),
        add: vec![tag("lvcsi.mkfs=ext4")],
        remove: vec![],
    };
    setup.native.ok(tags);
    write_at(&setup.node(), 4096, &[0x77; 4096]);
    let target = setup.vg.dir().join("mnt");
    setup
        .csi
        .publish(&volume, &target, "ext4")
        .expect("NodePublishVolume");
    let tags = setup.vg.decode().lvs[0].tags.clone();
    assert!(tags.contains(&"lvcsi.fs=ext4".to_owned()), "{tags:?}");
    assert!(
        !tags.iter().any(|tag| tag.starts_with("lvcsi.mkfs=")),
        "{tags:?}"
    );
    setup
        .csi
        .unpublish("pvc-f", &target)
        .expect("NodeUnpublishVolume");
    setup.done();
}
