//! `/dev/VG/LV` and `/dev/mapper`: by udev where it runs, by us where not.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use lvcsi_kit::{LoopVg, host, lvm, proof, run};
use lvcsi_sys::DevNo;

use crate::common::Native;
use crate::support::{Tidy, all_well, settle};

#[test]
fn pitfall_42_links_appear_follow_and_vanish() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    let link = |name: &str| PathBuf::from(format!("/dev/{}/{name}", vg.name));

    let made = native.create("a-b", 16);
    let dev = made.dev.expect("a device");
    let dev = DevNo::new(dev.major, dev.minor);
    settle();
    for path in [
        link("a-b"),
        vg.device("a-b"),
        made.node.clone().expect("a node"),
    ] {
        let meta = fs::metadata(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(DevNo::from_rdev(meta.rdev()), dev, "{}", path.display());
    }

    native.rename("a-b", "c");
    settle();
    assert!(
        fs::symlink_metadata(link("a-b")).is_err(),
        "the old link is still there"
    );
    assert!(
        fs::symlink_metadata(vg.device("a-b")).is_err(),
        "the old node is still there"
    );
    assert_eq!(
        DevNo::from_rdev(fs::metadata(link("c")).unwrap().rdev()),
        dev
    );

    native.deactivate("c");
    settle();
    assert!(
        fs::symlink_metadata(link("c")).is_err(),
        "a link without a device"
    );
    native.activate("c");
    settle();
    assert!(fs::metadata(link("c")).is_ok(), "no link after activation");
    all_well(&vg, &native);

    native.remove("c");
    settle();
    assert!(
        fs::symlink_metadata(link("c")).is_err(),
        "a link without an LV"
    );
    assert!(
        fs::symlink_metadata(vg.device("c")).is_err(),
        "a node without an LV"
    );
    assert!(
        !PathBuf::from(format!("/dev/{}", vg.name)).exists(),
        "an empty folder in /dev"
    );
    let cookies = run("dmsetup", &["udevcookies"]).expect_success();
    assert!(!cookies.stdout.contains("0x"), "{cookies}");
}

/// udev opens each device that appears, and again whenever a writer closes it:
/// a removal that comes at that moment must not fail.
#[test]
fn pitfall_40_removal_while_udev_looks_at_the_device() {
    let rounds = if proof::nightly() { 40 } else { 12 };
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    for round in 0..rounds {
        let node = native.create("brief", 16).node.expect("a node");
        // The end of this writer is an event to udev.
        fs::OpenOptions::new()
            .write(true)
            .open(&node)
            .unwrap_or_else(|e| panic!("round {round}: {}: {e}", node.display()));
        native.remove("brief");
        // Deferred removal would keep the name taken.
        assert!(lvm::dm_devices(&vg.name).is_empty(), "round {round}");
        if round % 8 == 0 {
            // A queue that only grows would be looked at when all is over.
            settle();
        }
    }
    all_well(&vg, &native);
}

/// lvm2 with `verify_udev_operations` would repair nodes and say so.
#[test]
fn lvm2_has_nothing_to_repair() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    native.create("one", 16);
    settle();
    let config = "activation/verify_udev_operations=1";
    vg.lvm.clean(&["vgmknodes", "--config", config, &vg.name]);
    all_well(&vg, &native);
    if host::has_udev() {
        let info = run(
            "udevadm",
            &[
                "info",
                "--query=property",
                vg.device("one").to_str().unwrap(),
            ],
        );
        let info = info.expect_success().stdout;
        assert!(info.contains(&format!("DM_VG_NAME={}", vg.name)), "{info}");
        assert!(info.contains("DM_LV_NAME=one"), "{info}");
    }
    native.remove("one");
}
