//! Pitfalls of living beside lvm2 on a real kernel, numbered as in
//! docs/testing.md: locks and children, caches, page caches, suspension.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lvcsi_kit::{Driver, LoopVg, VgSpec, host, run};

use crate::common::{Native, lv};
use crate::support::{MIB, Tidy, all_well};

/// Waits for something that no event tells.
fn wait_until(what: &str, mut happens: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happens() {
        assert!(start.elapsed() < Duration::from_secs(100), "{what}");
        std::thread::yield_now();
    }
}

/// What the descriptors of a process lead to.
fn descriptors(pid: u32) -> Vec<PathBuf> {
    let dir = format!("/proc/{pid}/fd");
    let entries = fs::read_dir(dir).expect("descriptors").flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .collect()
}

/// mkfs inherits no lock and no PV, so that the death of the driver frees both
/// although mkfs lives on.
#[test]
fn pitfall_23_children_inherit_no_lock() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let bin = vg.dir().join("bin");
    fs::create_dir(&bin).expect("a folder");
    let (mkfs, started) = (bin.join("mkfs.ext4"), vg.dir().join("started"));
    let script = format!(
        "#!/bin/sh\necho $$ > {0}.new; mv {0}.new {0}; exec sleep 1000\n",
        started.display()
    );
    fs::write(&mkfs, script).expect("a slow mkfs");
    fs::set_permissions(&mkfs, fs::Permissions::from_mode(0o755)).expect("its mode");
    let wrapper = vg.dir().join("wrapper");
    let binary = host::binary("lvcsi");
    let script = format!(
        "#!/bin/sh\nPATH={}:$PATH exec {} \"$@\"\n",
        bin.display(),
        binary.display()
    );
    fs::write(&wrapper, script).expect("a wrapper");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("its mode");

    let mut driver = Driver::start_as(&wrapper, vg.dir(), &[]);
    let csi = driver.csi();
    let volume = csi
        .create(&vg.name, "pvc-k", 32 * MIB, "ext4")
        .expect("CreateVolume");
    let target = vg.dir().join("mount");
    let child = std::thread::scope(|scope| {
        let caller = scope.spawn(|| csi.publish(&volume, &target, "ext4"));
        // Locks come and go while the child is made.
        let busy = driver.csi();
        for n in 0..3 {
            let name = format!("pvc-{n}");
            busy.create(&vg.name, &name, 8 * MIB, "ext4")
                .expect("CreateVolume");
        }
        wait_until("mkfs does not start", || started.exists());
        let child: u32 = fs::read_to_string(&started)
            .expect("a pid")
            .trim()
            .parse()
            .expect("a pid");
        let open = descriptors(child);
        let foreign = |path: &&PathBuf| {
            let path = path.to_string_lossy();
            path.contains("lvm/") || path.contains("/dev/loop") || path.contains("mapper/control")
        };
        assert_eq!(open.iter().find(foreign), None, "{open:?}");
        driver.kill();
        assert!(caller.join().expect("the caller").is_err());
        child
    });
    assert!(
        Path::new(&format!("/proc/{child}")).exists(),
        "mkfs has ended"
    );
    vg.lvm.clean(&[
        "lvcreate", "-q", "-y", "-l", "1", "-an", "-n", "theirs", &vg.name,
    ]);
    let _ = run("kill", &[&child.to_string()]);
    wait_until("mkfs does not end", || {
        !Path::new(&format!("/proc/{child}")).exists()
    });
    vg.assert_clean();
}

/// What lvm2 has done in between is seen, in metadata and in device-mapper.
#[test]
fn pitfall_27_a_foreign_change_between_two_of_ours() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    native.create("ours", 8);
    vg.lvm
        .clean(&["lvextend", "-q", "-L", "24m", &vg.lv("ours")]);
    vg.lvm.clean(&[
        "lvcreate", "-q", "-y", "-L", "16m", "-n", "theirs", &vg.name,
    ]);
    let grown = native.extend("ours", 40);
    assert_eq!(grown.size.0, 40 << 20);
    let decoded = vg.decode();
    assert_eq!(decoded.lv("ours").expect("ours").extents(), 10);
    assert_eq!(decoded.lv("theirs").expect("theirs").extents(), 4);
    vg.lvm.clean(&["lvchange", "-q", "-an", &vg.lv("ours")]);
    // Our next step must not trust the device that it saw.
    native.activate("ours");
    native.remove("ours");
    native.remove("theirs");
    all_well(&vg, &native);
}

/// A descriptor that stays open sees each commit of lvm2, and ours is not
/// undone by pages that somebody read before.
#[test]
fn pitfall_28_no_page_cache_on_pvs() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(128);
    let native = Native::open(&vg);
    let mut seqno = native.engine.vg(&native.vg).expect("the VG").vg.seqno();
    for n in 0..3 {
        // Fills the page cache with what is there now.
        let _ = fs::read(vg.paths()[0]).map(|bytes| bytes.len());
        let name = format!("theirs{n}");
        vg.lvm.clean(&[
            "lvcreate", "-q", "-y", "-l", "1", "-an", "-n", &name, &vg.name,
        ]);
        let seen = native.engine.vg(&native.vg).expect("the VG").vg;
        assert!(seen.lv(&name).is_some(), "commit {n} of lvm2 is not seen");
        assert!(seen.seqno() > seqno);
        native.create(&format!("ours{n}"), 4);
        seqno = native.engine.vg(&native.vg).expect("the VG").vg.seqno();
        let rows = vg.lvm.lvs(&vg.name);
        assert!(
            rows.iter().any(|row| row.name == format!("ours{n}")),
            "lvm2 does not see ours"
        );
        assert_eq!(vg.lvm.seqno(&vg.name), u64::from(seqno));
    }
    for n in 0..3 {
        native.remove(&format!("ours{n}"));
        native.remove(&format!("theirs{n}"));
    }
    all_well(&vg, &native);
}

/// Growing freezes no file system: it works on one that is frozen, where a
/// second freeze would fail.
#[test]
fn pitfall_38_growing_freezes_no_file_system() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    let driver = Driver::start(vg.dir());
    let csi = driver.csi();
    let volume = csi
        .create(&vg.name, "pvc-f", 32 * MIB, "ext4")
        .expect("CreateVolume");
    let target = vg.dir().join("mount");
    csi.publish(&volume, &target, "ext4").expect("NodePublish");
    let path = target.to_str().expect("a path");
    let _ = run("fsfreeze", &["-f", path]).expect_success();
    let grown = csi.expand("pvc-f", 64 * MIB);
    let thawed = run("fsfreeze", &["-u", path]);
    assert_eq!(
        grown.expect("ControllerExpand of a frozen file system"),
        64 * MIB
    );
    let _ = thawed.expect_success();
    csi.node_expand("pvc-f", &target, 64 * MIB)
        .expect("NodeExpand");
    csi.unpublish("pvc-f", &target).expect("NodeUnpublish");
    csi.delete("pvc-f").expect("DeleteVolume");
    all_well(&vg, &native);
    drop(driver);
}

/// The driver's program and its log lie on the LV that it grows: nothing is
/// paged in or logged while the LV holds back I/O.
#[test]
fn pitfall_39_the_driver_on_the_lv_that_it_grows() {
    let _tidy = Tidy::new();
    let vg = LoopVg::with(&VgSpec::disks(1, 1024));
    let native = Native::open(&vg);
    let binary = host::binary("lvcsi");
    let size = fs::metadata(&binary)
        .expect("the driver")
        .len()
        .div_ceil(1 << 20)
        + 64;
    // Whole extents.
    let size = size.next_multiple_of(4);
    native.create("home", size);
    let device = vg.device("home");
    host::settle();
    let home = vg.dir().join("home");
    fs::create_dir(&home).expect("a folder");
    let node = device.to_str().expect("a path");
    let _ = run("mkfs.ext4", &["-q", "-F", node]).expect_success();
    let path = home.to_str().expect("a path");
    let _ = run("mount", &[node, path]).expect_success();
    let copy = home.join("lvcsi");
    fs::copy(&binary, &copy).expect("a copy of the driver");
    // Nothing of it is in memory.
    let _ = run("sync", &[] as &[&str]);
    fs::write("/proc/sys/vm/drop_caches", "3").expect("drop caches");
    {
        let driver = Driver::start_as(&copy, &home, &[]);
        let csi = driver.csi();
        let tags = lvcsi::engine::Request::Tags {
            name: lv("home"),
            add: vec![crate::common::tag("lvcsi")],
            remove: Vec::new(),
        };
        native.ok(tags);
        let mut mib = i64::try_from(size).expect("a size");
        for _ in 0..5 {
            mib += 16;
            fs::write("/proc/sys/vm/drop_caches", "3").expect("drop caches");
            assert_eq!(
                csi.expand("home", mib * MIB).expect("ControllerExpand"),
                mib * MIB
            );
        }
        assert!(driver.log().contains("done"), "it logs there");
    }
    let _ = run("umount", &[path]).expect_success();
    native.remove("home");
    all_well(&vg, &native);
}

/// Minor numbers change hands while we look away.
#[test]
fn pitfall_41_recycled_minor_numbers() {
    let _tidy = Tidy::new();
    let (ours, others) = (LoopVg::new(128), LoopVg::new(128));
    let native = Native::open(&ours);
    native.create("a", 8);
    native.create("b", 8);
    let before = native.activate("a").dev.expect("a device");
    ours.lvm.clean(&["lvchange", "-q", "-an", &ours.lv("a")]);
    // Takes the number that became free.
    others.lvm.clean(&[
        "lvcreate",
        "-q",
        "-y",
        "-L",
        "8m",
        "-Wn",
        "-Zn",
        "-n",
        "x",
        &others.name,
    ]);
    host::settle();
    let stranger = others.lvm.lvs(&others.name);
    assert_eq!(stranger.len(), 1);
    let grown = native.extend("a", 16);
    assert_eq!(grown.dev, None, "it is not active");
    let after = native.activate("a").dev.expect("a device");
    println!("a was {before}, is {after}");
    assert_ne!(
        before, after,
        "the number was free again: nothing was tested"
    );
    native.remove("a");
    native.remove("b");
    let rows = others.lvm.lvs(&others.name);
    assert_eq!(
        (rows.len(), rows[0].size),
        (1, 8 << 20),
        "the stranger is untouched"
    );
    let table = run("dmsetup", &["table", &format!("{}-x", others.name)]).expect_success();
    assert!(table.stdout.starts_with("0 16384 linear"), "{table}");
    others.lvm.clean(&["lvremove", "-q", "-y", &others.lv("x")]);
    all_well(&ours, &native);
}
