//! Devices that hang: below a PV, beside it, and below a mount.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use lvcsi_kit::csi::v1::{GetCapacityRequest, ListVolumesRequest, ProbeRequest};
use lvcsi_kit::{Csi, Driver, LoopVg, Ran, host, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::slow::{Halt, Layer, SlowVg, Watchdog, repeat, threads, told};
use crate::support::{MIB, Tidy};

/// The device is noticed before the lock that waits for it.
const IMPATIENT: [&str; 3] = ["--io-timeout=2", "--probe-timeout=2", "--lock-timeout=8"];

fn lvcsi(args: &[&str]) -> Ran {
    let binary = host::binary("lvcsi");
    let mut all = IMPATIENT.to_vec();
    all.extend(args);
    let ran = run(binary.to_str().expect("a path"), &all);
    println!("{ran}");
    ran
}

/// A whole life in a VG that is well, beside one that is not.
fn life_elsewhere(csi: &Csi, vg: &LoopVg, name: &str) {
    let volume = repeat("CreateVolume elsewhere", || {
        csi.create(&vg.name, name, 32 * MIB, "ext4")
    });
    let target = vg.dir().join(name);
    repeat("NodePublish elsewhere", || {
        csi.publish(&volume, &target, "ext4")
    });
    fs::write(target.join("file"), "text").expect("a write elsewhere");
    repeat("NodeGetVolumeStats elsewhere", || csi.stats(name, &target));
    repeat("ControllerExpand elsewhere", || csi.expand(name, 48 * MIB));
    repeat("NodeExpand elsewhere", || {
        csi.node_expand(name, &target, 48 * MIB)
    });
    repeat("NodeUnpublish elsewhere", || csi.unpublish(name, &target));
    repeat("DeleteVolume elsewhere", || csi.delete(name));
}

#[test]
fn a_hung_pv_holds_up_its_own_vg_only_and_everything_mends_itself() {
    let _watchdog = Watchdog::new("a hung PV");
    let _tidy = Tidy::new();
    let slow = SlowVg::new("lvcsi-slow");
    let well = LoopVg::new(512);
    let driver = Driver::start_with(well.dir(), &IMPATIENT);
    let csi = driver.csi();
    let hung = &slow.vg.name;
    let volume = csi
        .create(hung, "pvc-h", 64 * MIB, "ext4")
        .expect("CreateVolume");
    let target = slow.vg.dir().join("mount");
    csi.publish(&volume, &target, "ext4").expect("NodePublish");
    let mut file = fs::File::create(target.join("data")).expect("a file");
    file.write_all(&[7; 1 << 20]).expect("data in the cache");
    drop(file);

    let halt = slow.halt();
    let suspended = format!("device {} is suspended", slow.below);
    let lock = format!("lock V_{hung}");
    let first = csi.create(hung, "pvc-new", 32 * MIB, "ext4");
    told("CreateVolume", first, &[&suspended]);
    let pid = driver.pid();
    let before = threads(pid);
    for _ in 0..20 {
        told(
            "again",
            csi.create(hung, "pvc-new", 32 * MIB, "ext4"),
            &[&slow.below],
        );
    }
    told(
        "ControllerExpand",
        csi.expand("pvc-h", 96 * MIB),
        &[&suspended],
    );
    // The cached data cannot be written: the unmount waits, and says so.
    told(
        "NodeUnpublish",
        csi.unpublish("pvc-h", &target),
        &["unmount"],
    );
    for _ in 0..20 {
        told(
            "again",
            csi.unpublish("pvc-h", &target),
            &["NodeUnpublishVolume", "unmount"],
        );
    }
    let more = threads(pid).saturating_sub(before);
    assert!(more < 12, "{more} more threads after 40 retries");

    life_elsewhere(&csi, &well, "pvc-w");
    let probe = csi.probe(ProbeRequest {}).expect("Probe");
    assert_eq!(probe.ready, Some(true));
    let list = csi
        .list_volumes(ListVolumesRequest::default())
        .expect("ListVolumes");
    let ids: Vec<_> = list
        .entries
        .iter()
        .filter_map(|e| e.volume.as_ref())
        .collect();
    assert!(
        ids.iter().any(|v| v.volume_id == "pvc-h"),
        "it does not vanish: {ids:?}"
    );
    let conditions = list
        .entries
        .iter()
        .filter_map(|e| e.status.as_ref()?.volume_condition.as_ref());
    assert!(
        conditions
            .into_iter()
            .any(|c| c.abnormal && c.message.contains(&slow.below))
    );
    csi.get_capacity(GetCapacityRequest::default())
        .expect("GetCapacity");

    // The tool, in a process that knows nothing.
    let pvs = lvcsi(&["pvs", "-a"]).expect_success();
    assert!(pvs.stdout.contains(&well.name), "{pvs}");
    assert!(
        pvs.stdout.contains("suspended") && pvs.stderr.contains(&slow.below),
        "{pvs}"
    );
    let vgs = lvcsi(&["vgs", &well.name]).expect_success();
    assert!(vgs.stdout.contains(&well.name), "{vgs}");
    let check = lvcsi(&["check", hung]);
    assert_eq!(check.status, Some(5), "{check}");
    assert!(check.stdout.contains(&slow.below), "{check}");
    let held = lvcsi(&["lv", "create", hung, "-n", "x", "-L", "16m"]);
    assert_eq!(held.status, Some(7), "{held}");
    assert!(held.stderr.contains(&slow.below), "{held}");
    println!(
        "{lock}: {}",
        fs::read_to_string("/proc/locks").unwrap_or_default()
    );

    drop(halt);
    let made = repeat("CreateVolume, later", || {
        csi.create(hung, "pvc-new", 32 * MIB, "ext4")
    });
    assert_eq!(made.volume_id, "pvc-new");
    repeat("NodeUnpublish, later", || csi.unpublish("pvc-h", &target));
    repeat("ControllerExpand, later", || csi.expand("pvc-h", 96 * MIB));
    for name in ["pvc-h", "pvc-new"] {
        repeat("DeleteVolume, later", || csi.delete(name));
    }
    assert_eq!(driver.pid(), pid, "no restart");
    assert!(slow.vg.decode().lvs.is_empty());
    slow.vg.assert_clean();
    well.assert_clean();
    drop(driver);
}

/// A write that hangs with the VG's lock: who asks for the lock is told who
/// holds it, lvm2's users too.
#[test]
fn a_hung_write_keeps_the_lock_and_ends_when_the_device_answers() {
    let _watchdog = Watchdog::new("a hung write");
    let _tidy = Tidy::new();
    let slow = SlowVg::new("lvcsi-slow");
    let mut driver = Driver::start_with(slow.vg.dir(), &IMPATIENT);
    let csi = driver.csi();
    let hung = &slow.vg.name;
    csi.create(hung, "pvc-a", 32 * MIB, "ext4")
        .expect("CreateVolume");

    // Not suspended when the turn begins: the worker is inside.
    let halt = slow.halt();
    told("DeleteVolume", csi.delete("pvc-a"), &[&slow.below]);
    let (again, lock) = (csi.delete("pvc-a"), format!("lock V_{hung} has been held"));
    told("DeleteVolume, again", again, &[&lock]);
    let pid = driver.pid();
    let waits = run(
        "flock",
        &["-w", "1", &format!("/run/lock/lvm/V_{hung}"), "true"],
    );
    assert!(!waits.success(), "the lock is free: {waits}");

    // Asked to end, it says what it leaves, and does not wait for it.
    kill(
        Pid::from_raw(i32::try_from(pid).expect("a pid")),
        Signal::SIGTERM,
    )
    .expect("SIGTERM");
    let start = Instant::now();
    while !driver.log().contains("stopped") {
        assert!(
            start.elapsed() < Duration::from_secs(100),
            "{}",
            driver.log()
        );
        std::thread::yield_now();
    }
    assert!(driver.log().contains("left behind"), "{}", driver.log());
    drop(halt);
    let _ = driver.terminate();
    driver.spawn();
    repeat("DeleteVolume, by the next", || driver.csi().delete("pvc-a"));
    assert!(slow.vg.decode().lvs.is_empty());
    slow.vg.assert_clean();
    drop(driver);
}

/// Devices of others that hang, one that says so and one that does not.
#[test]
fn hung_devices_of_others_hold_nobody_up() {
    let _watchdog = Watchdog::new("hung devices of others");
    let _tidy = Tidy::new();
    let well = LoopVg::new(512);
    let driver = Driver::start_with(well.dir(), &IMPATIENT);
    let _ = run("modprobe", &["dm-delay"]);
    let foreign = Layer::new("lvcsi-foreign", "linear", "", true);
    host::settle();
    let suspended = Halt::device(&foreign.name);
    let csi = driver.csi();
    life_elsewhere(&csi, &well, "pvc-1");

    // An hour for each read, and nothing in sysfs that tells. udev would look
    // at the device, too, and hang.
    let udevd = run("pidof", &["systemd-udevd"]).stdout;
    let udevd: Vec<Halt> = udevd.split_whitespace().map(Halt::process).collect();
    let delayed = Layer::new("lvcsi-delayed", "delay", " 3600000", false);
    let names = [delayed.name.clone(), delayed.kernel_name()];
    life_elsewhere(&csi, &well, "pvc-2");
    // A process of the tool can end although one of its threads cannot.
    let vgs = lvcsi(&["vgs", &well.name]).expect_success();
    let named = names.iter().any(|name| vgs.stderr.contains(name));
    assert!(named, "{vgs}");
    let pvs = lvcsi(&["pvs", "-a"]).expect_success();
    assert!(pvs.stdout.contains("did not answer"), "{pvs}");
    // Suspending a delay device ends its delays.
    let _ = run("dmsetup", &["suspend", &delayed.name]).expect_success();
    drop(driver);
    drop(delayed);
    drop(udevd);
    drop((suspended, foreign));
    well.assert_clean();
}

/// One LV of a VG hangs, below its mount; the others of the same VG do not.
#[test]
fn a_hung_volume_holds_up_no_other_one() {
    let _watchdog = Watchdog::new("a hung volume");
    let _tidy = Tidy::new();
    let vg = LoopVg::new(512);
    let driver = Driver::start_with(vg.dir(), &IMPATIENT);
    let csi = driver.csi();
    let (a, b) = (vg.dir().join("a"), vg.dir().join("b"));
    for (name, target) in [("pvc-a", &a), ("pvc-b", &b)] {
        let volume = csi
            .create(&vg.name, name, 32 * MIB, "ext4")
            .expect("CreateVolume");
        csi.publish(&volume, target, "ext4").expect("NodePublish");
        fs::write(target.join("data"), vec![1; 1 << 20]).expect("data in the cache");
    }
    let name = vg.device("pvc-a");
    let halt = Halt::device(name.file_name().and_then(|n| n.to_str()).expect("a name"));
    told(
        "NodeUnpublish of a",
        csi.unpublish("pvc-a", &a),
        &["unmount"],
    );
    repeat("NodeGetVolumeStats of b", || csi.stats("pvc-b", &b));
    repeat("NodeUnpublish of b", || csi.unpublish("pvc-b", &b));
    life_elsewhere(&csi, &vg, "pvc-c");
    drop(halt);
    repeat("NodeUnpublish of a, later", || csi.unpublish("pvc-a", &a));
    for name in ["pvc-a", "pvc-b"] {
        repeat("DeleteVolume", || csi.delete(name));
    }
    vg.assert_clean();
    drop(driver);
}
