//! PVs on other layers of the kernel, the legs below them, and disks that
//! change their names.

use std::path::{Path, PathBuf};

use lvcsi::host::SkipReason;
use lvcsi_kit::{Disk, LoopVg, VgSpec, host, proof, run};
use lvcsi_sys::loopdev::{LoopDevice, LoopOptions};

use crate::common::{Native, create, extents};
use crate::shim::{Shim, folder};
use crate::support::{Tidy, all_well, check_pattern, lvcsi, settle, write_pattern};

const MIB: u64 = 1 << 20;

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

fn ok(program: &str, args: &[&str]) {
    let _ = run(program, args).expect_success();
    settle();
}

/// A dm device that goes away with the test.
struct Mapped {
    name: String,
    path: PathBuf,
}

impl Mapped {
    fn new(name: &str, args: &[&str], table: &str) -> Self {
        let name = format!("{name}{}", std::process::id());
        let mut all = vec!["create", &name];
        all.extend(args);
        all.extend(["--table", table]);
        ok("dmsetup", &all);
        let path = PathBuf::from(format!("/dev/mapper/{name}"));
        Self { name, path }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = run("dmsetup", &["remove", "--retry", &self.name]);
        settle();
    }
}

/// An LV is made, grown, shown, read by lvm2, and goes.
fn lives(vg: &LoopVg) {
    let native = Native::open(vg);
    native.create("vol", 16);
    settle();
    write_pattern(&vg.device("vol"), 4, 7);
    native.extend("vol", 24);
    all_well(vg, &native);
    native.deactivate("vol");
    vg.lvm.clean(&["lvchange", "-ay", &vg.lv("vol")]);
    settle();
    check_pattern(&vg.device("vol"), 4, 7);
    all_well(vg, &native);
    native.remove("vol");
    all_well(vg, &native);
}

/// Why the device at `path` is not searched for PVs.
fn reason(native: &Native, device: &Path) -> Option<SkipReason> {
    let skipped = native.engine.report().expect("a report").skipped;
    let found = skipped.into_iter().find(|skipped| skipped.path == device);
    found.map(|skipped| skipped.reason)
}

/// What lvm2 takes for PVs.
fn pvs() -> Vec<String> {
    let ran = run("lvm", &["pvs", "--noheadings", "-o", "pv_name"]).expect_success();
    ran.stdout.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn pvs_on_dm_crypt() {
    let _tidy = Tidy::new();
    let folder = folder();
    let disk = Disk::new(folder.path(), "disk", 64 * MIB, 0);
    let key = "0123456789abcdef".repeat(8);
    let table = format!("0 131072 crypt aes-xts-plain64 {key} 0 {} 0", disk.devno());
    let crypt = Mapped::new("crypt", &[], &table);
    let vg = LoopVg::on_whole(&[&crypt.path], &VgSpec::disks(1, 64));
    lives(&vg);
    drop(vg);
    drop(crypt);
}

/// Two paths to one disk, joined by dm-multipath: the PV is the joined device.
#[test]
fn pitfall_29_multipath_legs_are_no_pvs() {
    let _tidy = Tidy::new();
    for module in ["dm-multipath", "dm-round-robin"] {
        ok("modprobe", &[module]);
    }
    // lvm2 looks for legs among SCSI and NVMe disks alone. Two hosts of this
    // driver show the same memory.
    let scsi = Scsi::new();
    let legs = scsi.disks();
    let [first, second] = [0, 1].map(|leg: usize| legs[leg].devno());
    let table = format!(
        "0 131072 multipath 2 queue_mode bio 0 1 1 round-robin 0 2 1 {first} 1000 {second} 1000"
    );
    let uuid = format!("mpath-lvcsi{}", std::process::id());
    let joined = Mapped::new("mpath", &["--uuid", &uuid], &table);
    let vg = LoopVg::on_whole(&[&joined.path], &VgSpec::disks(1, 64));
    {
        let native = Native::open(&vg);
        for leg in &legs {
            let reason = reason(&native, leg.path());
            assert!(
                matches!(&reason, Some(SkipReason::MultipathComponent(name)) if *name == joined.name),
                "{reason:?}"
            );
        }
        let report = native.engine.vg(&native.vg).expect("the VG");
        let device = report.pvs[0].device.as_ref().expect("a device");
        assert_eq!(device.path, joined.path);
        assert!(
            !pvs()
                .iter()
                .any(|pv| legs.iter().any(|leg| pv == path(leg.path())))
        );
    }
    lives(&vg);
}

/// Two SCSI disks with one content.
struct Scsi;

impl Scsi {
    fn new() -> Self {
        let args = ["scsi_debug", "add_host=2", "dev_size_mb=64", "lbpu=0"];
        ok("modprobe", &args);
        Self
    }

    fn disks(&self) -> Vec<Disk> {
        let ran = run("lsblk", &["-dnpo", "NAME,MODEL"]).expect_success();
        let lines = ran
            .stdout
            .lines()
            .filter(|line| line.contains("scsi_debug"));
        let paths = lines.filter_map(|line| line.split_whitespace().next());
        let disks: Vec<Disk> = paths.map(|path| Disk::whole(Path::new(path))).collect();
        assert_eq!(disks.len(), 2, "{ran}");
        disks
    }
}

impl Drop for Scsi {
    fn drop(&mut self) {
        settle();
        let _ = run("modprobe", &["-r", "scsi_debug"]);
    }
}

/// Stops the array, and udev's rules from putting it together again.
struct Array {
    path: PathBuf,
    rule: PathBuf,
}

impl Array {
    fn new(metadata: &str, legs: &[Disk]) -> Self {
        // In /run it lasts as long as the machine runs, and masks the rule.
        let rule = PathBuf::from("/run/udev/rules.d/64-md-raid-assembly.rules");
        std::fs::create_dir_all("/run/udev/rules.d").expect("a folder of rules");
        std::fs::write(&rule, "").expect("a rule");
        if host::has_udev() {
            ok("udevadm", &["control", "--reload"]);
        }
        let device = format!(
            "/dev/md{}",
            50 + metadata.len() + usize::from(metadata.as_bytes()[2])
        );
        let metadata = format!("--metadata={metadata}");
        let mut args = vec!["--create", &device, "--run", "--assume-clean", "--level=1"];
        args.extend(["--raid-devices=2", "--bitmap=none", &metadata]);
        args.extend(legs.iter().map(|leg| path(leg.path())));
        ok("mdadm", &args);
        Self {
            path: device.into(),
            rule,
        }
    }

    fn stop(&self) {
        ok("mdadm", &["--stop", path(&self.path)]);
    }

    fn start(&self, legs: &[Disk]) {
        let mut args = vec!["--assemble", "--run", path(&self.path)];
        args.extend(legs.iter().map(|leg| path(leg.path())));
        ok("mdadm", &args);
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let _ = run("mdadm", &["--stop", path(&self.path)]);
        let _ = std::fs::remove_file(&self.rule);
        if host::has_udev() {
            let _ = run("udevadm", &["control", "--reload"]);
        }
        settle();
    }
}

/// Mirrors by md with each place of the superblock. The PV is the array; its
/// legs are none, while it runs and while it does not.
#[test]
fn pitfall_29_md_legs_are_no_pvs() {
    let _tidy = Tidy::new();
    ok("modprobe", &["raid1"]);
    // By day one that lies at the end of a leg, and one before the data.
    let all = ["0.90", "1.2", "1.0", "1.1"];
    let some = if proof::nightly() { 4 } else { 2 };
    for &metadata in &all[..some] {
        let folder = folder();
        let legs = ["a", "b"].map(|name| Disk::new(folder.path(), name, 64 * MIB, 0));
        let array = Array::new(metadata, &legs);
        let vg = LoopVg::on_whole(&[&array.path], &VgSpec::disks(1, 64));
        {
            let native = Native::open(&vg);
            native.create("vol", 8);
            for leg in &legs {
                assert_eq!(
                    reason(&native, leg.path()),
                    Some(SkipReason::MdComponent),
                    "{metadata}"
                );
            }
            let report = native.engine.vg(&native.vg).expect("the VG");
            let device = report.pvs[0].device.as_ref().expect("a device");
            assert_eq!(device.path, array.path, "{metadata}");
            all_well(&vg, &native);
            assert!(
                !pvs()
                    .iter()
                    .any(|pv| legs.iter().any(|leg| pv == path(leg.path())))
            );
            native.deactivate("vol");
        }
        array.stop();
        let before: Vec<_> = legs
            .iter()
            .map(|leg| lvcsi_kit::digest::disk_digest(leg.file()))
            .collect();
        {
            let native = Native::open(&vg);
            native
                .run(create("more", extents(1)))
                .expect_err("the array is stopped");
            for leg in &legs {
                assert_eq!(
                    reason(&native, leg.path()),
                    Some(SkipReason::MdComponent),
                    "{metadata}, stopped"
                );
            }
        }
        let after: Vec<_> = legs
            .iter()
            .map(|leg| lvcsi_kit::digest::disk_digest(leg.file()))
            .collect();
        assert_eq!(after, before, "{metadata}: a leg was written");
        array.start(&legs);
        let native = Native::open(&vg);
        native.activate("vol");
        all_well(&vg, &native);
    }
}

/// A VG inside an LV, as of a virtual machine: neither we nor lvm2 see it.
#[test]
fn pitfall_32_a_pv_inside_of_an_lv_is_not_seen() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(128);
    let native = Native::open(&vg);
    native.create("disk", 64);
    let device = vg.device("disk");
    // lvm2 looks for it by the name that udev makes.
    settle();
    let inside = vg.lvm.with_config("devices/scan_lvs=1");
    let inner = format!("{}inner", vg.name);
    inside.clean(&["pvcreate", "-q", "-y", path(&device)]);
    inside.clean(&[
        "vgcreate",
        "-q",
        "-y",
        "--setautoactivation",
        "n",
        &inner,
        path(&device),
    ]);
    settle();
    let fresh = Native::open(&vg);
    for native in [&native, &fresh] {
        let report = native.engine.report().expect("a report");
        assert!(
            report
                .vgs
                .iter()
                .all(|seen| seen.vg.name() != inner.as_str())
        );
        assert!(
            report
                .orphans
                .iter()
                .all(|pv| pv.device.as_ref().is_none_or(|d| d.path != device))
        );
        assert_eq!(reason(native, &device), Some(SkipReason::LogicalVolume));
    }
    assert!(!pvs().iter().any(|pv| pv == path(&device)));
    // It lives on inside, whatever happens around it.
    native.extend("disk", 80);
    all_well(&vg, &native);
    let rows = inside.report("vgs", "vg_name", &[&inner]);
    assert_eq!(rows.len(), 1);
    native.remove("disk");
}

/// The same VG through a loop device, as the kubelet attaches one to every block
/// volume of a pod.
#[test]
fn pitfall_32_nor_through_a_loop_device() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(128);
    let native = Native::open(&vg);
    native.create("disk", 64);
    let device = vg.device("disk");
    settle();
    let inside = vg.lvm.with_config("devices/scan_lvs=1");
    let inner = format!("{}inner", vg.name);
    inside.clean(&["pvcreate", "-q", "-y", path(&device)]);
    let vgcreate = ["vgcreate", "-q", "-y", "--setautoactivation", "n"];
    inside.clean(&[&vgcreate[..], &[&inner, path(&device)]].concat());
    settle();
    let node = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&device)
        .expect("the LV's device");
    let shows = LoopDevice::attach(&node, LoopOptions::default()).expect("a loop device");
    drop(node);
    settle();
    for native in [&native, &Native::open(&vg)] {
        let report = native.engine.report().expect("a report");
        let mut names = report.vgs.iter().map(|seen| seen.vg.name());
        assert!(names.all(|name| name != inner.as_str()));
        let reason = reason(native, shows.path());
        assert_eq!(reason, Some(SkipReason::LogicalVolume));
    }
    let listed = lvcsi(&["vgs"]).expect_success().stdout;
    let lists = |name: &str| listed.split_whitespace().any(|word| word == name);
    assert!(lists(&vg.name) && !lists(&inner), "{listed}");
    shows.detach().expect("detaching");
    settle();
    native.remove("disk");
    all_well(&vg, &native);
}

/// Disks change their names while an engine runs: tables follow the PVs' ids.
#[test]
fn pitfall_10_disks_that_exchange_their_names() {
    let _tidy = Tidy::new();
    let folder = folder();
    let shims = ["a", "b"].map(|name| Shim::new(folder.path(), name, 64));
    let vg = Shim::vg(&shims, &VgSpec::disks(2, 64));
    let native = Native::open(&vg);
    for (n, shim) in (0_u8..).zip(&shims) {
        let name = format!("lv{n}");
        let mut args = vec!["lvcreate", "-y", "-L16M", "-n", &name, &vg.name];
        args.push(path(&shim.path));
        vg.lvm.clean(&args);
        settle();
        write_pattern(&vg.device(&name), 4, n);
        native.deactivate(&name);
    }
    let before = native.engine.vg(&native.vg).expect("the VG");
    shims[0].exchange(&shims[1]);
    settle();
    let after = native.engine.vg(&native.vg).expect("the VG");
    for (old, new) in before.pvs.iter().zip(&after.pvs) {
        assert_eq!(old.id, new.id);
        let devno = |pv: &lvcsi::engine::PvReport| pv.device.as_ref().map(|device| device.devno);
        assert_ne!(devno(old), devno(new), "the PV is elsewhere now");
    }
    for (n, name) in (0_u8..).zip(["lv0", "lv1"]) {
        native.activate(name);
        settle();
        check_pattern(&vg.device(name), 4, n);
    }
    all_well(&vg, &native);
    // A commit writes both, each with its own header.
    native.create("new", 80);
    all_well(&vg, &native);
    for name in ["new", "lv0", "lv1"] {
        native.remove(name);
    }
    all_well(&vg, &native);
}
