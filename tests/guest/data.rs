//! Data survives what is done to its LV, and never reaches the next tenant.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use lvcsi::engine::{CreateLv, Request, Size, Wipe};
use lvcsi_kit::{LoopVg, VgSpec, host, run};
use lvm2::edit::Layout;
use lvm2::units::Bytes;

use crate::common::{Native, lv};
use crate::support::{
    Tidy, all_well, check_pattern, device_size, read_at, settle, write_at, write_pattern,
};

#[test]
fn data_survives_extend_rename_and_reactivation() {
    let _tidy = Tidy::new();
    let vg = LoopVg::with(&VgSpec::disks(2, 256));
    let native = Native::open(&vg);
    let node = native.create("one", 32).node.expect("a node");
    native.create("wall", 16);
    write_pattern(&node, 32, 1);

    // Beyond "wall", and then on the second disk.
    let grown = native.extend("one", 64).node.expect("a node");
    assert_eq!(device_size(&grown), 64 << 20);
    check_pattern(&grown, 32, 1);
    write_pattern(&grown, 64, 2);
    native.extend("one", 300);
    check_pattern(&grown, 64, 2);

    native.rename("one", "two");
    native.deactivate("two");
    vg.lvm.clean(&["lvchange", "-ay", &vg.lv("two")]);
    settle();
    check_pattern(&vg.device("two"), 64, 2);
    vg.lvm.clean(&["lvchange", "-an", &vg.lv("two")]);
    let node = native.activate("two").node.expect("a node");
    check_pattern(&node, 64, 2);
    all_well(&vg, &native);
    native.remove("two");
    native.remove("wall");
    all_well(&vg, &native);
}

/// While somebody writes, extending must neither lose nor fail a write.
#[test]
fn extending_under_load_loses_nothing() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(512);
    let native = Native::open(&vg);
    let node = native.create("busy", 64).node.expect("a node");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for seed in 0..6 {
                write_pattern(&node, 64, seed);
                check_pattern(&node, 64, seed);
            }
        });
        let mut mib = 64;
        while !writer.is_finished() && mib < 400 {
            mib += 4;
            native.extend("busy", mib);
        }
        writer.join().expect("the writer");
        assert_eq!(device_size(&node), mib << 20);
    });
    check_pattern(&node, 64, 5);
    all_well(&vg, &native);
    native.remove("busy");
}

/// What a former tenant left is invisible: signatures always, every byte for
/// raw block volumes.
#[test]
fn pitfall_44_old_content_is_gone() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    for wipe in [Wipe::Signatures, Wipe::Zero] {
        let node = native.create("old", 64).node.expect("a node");
        plant(&node);
        native.remove("old");

        let request = Request::Create(CreateLv {
            name: lv("new"),
            size: Size::Bytes(Bytes(64 << 20)),
            tags: vec![],
            layout: Layout::default(),
            wipe,
            activate: true,
        });
        let node = native.ok(request).node.expect("a node");
        let node_text = node.to_str().unwrap();
        let found = run("wipefs", &["-n", node_text]).expect_success();
        assert_eq!(found.stdout.trim(), "", "{wipe:?}: signatures are visible");
        let blkid = run("blkid", &["-p", node_text]);
        assert_eq!(
            (blkid.status, blkid.stdout.trim()),
            (Some(2), ""),
            "{wipe:?}: {blkid}"
        );
        assert!(
            read_at(&node, 0, 1 << 16).iter().all(|byte| *byte == 0),
            "{wipe:?}: head"
        );
        let middle = read_at(&node, 20 << 20, 1 << 20);
        match wipe {
            Wipe::Zero => assert!(middle.iter().all(|byte| *byte == 0), "old data is visible"),
            Wipe::Signatures => {
                assert!(
                    middle.iter().all(|byte| *byte == 0xa5),
                    "nothing but signatures was wiped"
                );
            }
        }
        native.remove("new");
        all_well(&vg, &native);
    }
}

/// From the moment at which the name of a new LV is there, whoever looks finds
/// zeros; udev, who looks first, never makes a link by what was there before.
#[test]
fn pitfall_43_a_new_lv_is_never_seen_with_old_content() {
    const UUID: &str = "c0ffee00-1234-4321-8765-0123456789ab";
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    let by_uuid = Path::new("/dev/disk/by-uuid").join(UUID);
    let node = native.create("old", 64).node.expect("a node");
    let path = node.to_str().unwrap();
    let _ = run("mkfs.ext4", &["-q", "-F", "-U", UUID, path]).expect_success();
    settle();
    native.remove("old");
    settle();
    let mut monitor = host::has_udev().then(|| {
        Command::new("udevadm")
            .args(["monitor", "--udev", "--property", "--subsystem-match=block"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("udevadm")
    });
    for round in 0..4 {
        let name = format!("new{round}");
        let link = vg.device(&name);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // Until the resume there is a node without a size.
                    if link.exists() && device_size(&link) > 0 {
                        return Some(read_at(&link, 0, 1 << 16));
                    }
                    assert!(!by_uuid.exists(), "udev saw the old file system");
                }
                None
            });
            native.create(&name, 60);
            settle();
            done.store(true, Ordering::Relaxed);
            if let Some(head) = watcher.join().expect("the watcher") {
                assert!(
                    head.iter().all(|byte| *byte == 0),
                    "old content was visible"
                );
            }
        });
        assert!(!by_uuid.exists(), "udev saw the old file system");
        native.remove(&name);
    }
    settle();
    if let Some(monitor) = &mut monitor {
        monitor.kill().expect("the monitor");
        let mut seen = String::new();
        let output = monitor.stdout.as_mut().expect("its output");
        output.read_to_string(&mut seen).expect("text");
        monitor.wait().expect("the monitor");
        assert!(
            seen.contains(&format!("DM_VG_NAME={}", vg.name)),
            "no event of ours: {seen}"
        );
        assert!(!seen.contains(UUID), "udev saw the old file system: {seen}");
    }
    all_well(&vg, &native);
}

/// Many signatures at once, and a pattern in the middle.
fn plant(node: &Path) {
    let path = node.to_str().unwrap();
    let _ = run("mkfs.btrfs", &["-q", "-f", "-M", path]);
    write_at(node, 20 << 20, &vec![0xa5; 1 << 20]);
    // ext4's magic, LVM's label, XFS's head, swap's end of page, GPT's copy at
    // the end, md 1.0's superblock near it.
    write_at(node, 1080, &[0x53, 0xef]);
    write_at(node, 512, b"LABELONE");
    write_at(node, 0, b"XFSB");
    write_at(node, 4086, b"SWAPSPACE2");
    let size = device_size(node);
    write_at(node, size - 512, b"EFI PART");
    write_at(node, size - 8192, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    settle();
}
