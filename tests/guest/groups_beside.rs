//! The pitfalls of making PVs and VGs beside lvm2: locks, the label's flag,
//! hints and the devices file.

#![allow(
    unused_must_use,
    reason = "of a command that must succeed nothing more is wanted"
)]

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lvcsi_kit::{decode, proof};

use crate::groups::{Bench, lvcsi, refused};
use crate::support::{Tidy, settle};

/// The lock file, locked, under the name that everybody opens: what lvm2 ran for
/// an event of udev's may have removed the one that was there.
fn held(path: &Path) -> File {
    loop {
        let mut options = File::options();
        let file = options.read(true).append(true).create(true).open(path);
        let file = file.unwrap();
        file.lock().unwrap();
        let named = std::fs::metadata(path).map(|named| named.ino());
        if named.is_ok_and(|ino| ino == file.metadata().unwrap().ino()) {
            return file;
        }
    }
}

/// Pitfall 2: labels and areas change under lvm2's locks only.
#[test]
fn pitfall_02_nothing_is_written_while_lvm2_holds_the_lock() {
    let _tidy = Tidy::new();
    let bench = Bench::new(2);
    let names = [bench.name(0), bench.name(1)];
    lvcsi(&["vg", "create", "grplock", &names[0]]).expect_success();
    let lock_dir = PathBuf::from("/run/lock/lvm");
    for (lock, args) in [
        (
            "V_grplock",
            vec!["pv", "resize", &names[0], "--size", "64m"],
        ),
        ("V_grplock", vec!["vg", "remove", "grplock"]),
        ("P_global", vec!["pv", "create", &names[1]]),
        ("P_global", vec!["vg", "extend", "grplock", &names[1]]),
    ] {
        let file = held(&lock_dir.join(lock));
        let before = [bench.digest(0), bench.digest(1)];
        let ran = lvcsi(&[&["--lock-timeout", "2"], &args[..]].concat());
        assert_eq!(ran.status, Some(7), "{args:?}: {ran}");
        assert!(ran.stderr.contains(lock), "{ran}");
        assert_eq!([bench.digest(0), bench.digest(1)], before, "{args:?} wrote");
        drop(file);
    }
    lvcsi(&["vg", "extend", "grplock", &names[1]]).expect_success();
    bench.lvm.assert_clean("grplock");
    lvcsi(&["vg", "remove", "grplock"]).expect_success();
    lvcsi(&["pv", "remove", &names[0], &names[1]]).expect_success();
}

/// Pitfall 18: lvm2 does not take our member for a free disk.
#[test]
fn pitfall_18_lvm2_refuses_our_members() {
    let _tidy = Tidy::new();
    let bench = Bench::new(1);
    let name = bench.name(0);
    lvcsi(&["vg", "create", "grpused", &name]).expect_success();
    for args in [
        ["pvcreate", "-y", name.as_str()],
        ["pvremove", "-y", name.as_str()],
    ] {
        let before = bench.digest(0);
        let ran = bench.lvm.run(&args);
        assert!(!ran.success(), "{ran}");
        assert_eq!(bench.digest(0), before);
    }
    let used = bench.lvm.report("pvs", "pv_in_use", &[&name]);
    assert_eq!(used[0]["pv_in_use"], "used");
    lvcsi(&["vg", "remove", "grpused"]).expect_success();
    bench.lvm.clean(&["pvremove", "-y", &name]);
}

/// Pitfall 25: lvm2 learned hints before our change, and must not use them
/// after it.
#[test]
fn pitfall_25_lvm2_does_not_miss_what_its_hints_do_not_know() {
    let _tidy = Tidy::new();
    let bench = Bench::new(3);
    let names: Vec<String> = (0..3).map(|disk| bench.name(disk)).collect();
    let hints = Path::new("/run/lvm/hints");
    let learn = || {
        for _ in 0..5 {
            settle();
            bench.lvm.clean(&["pvs"]);
            let text = std::fs::read_to_string(hints).unwrap_or_default();
            if text.contains("scan:") {
                return text;
            }
        }
        panic!("lvm2 makes no hints on this machine");
    };
    lvcsi(&["vg", "create", "grphint", &names[0]]).expect_success();
    let text = learn();
    assert!(
        text.contains(&names[0]) && !text.contains(&names[1]),
        "{text}"
    );
    lvcsi(&["vg", "extend", "grphint", &names[1]]).expect_success();
    // A command that uses hints, and writes the VG.
    let made = bench.lvm.clean(&[
        "lvcreate", "-y", "-Wn", "-Zn", "-l", "100", "-n", "a", "grphint",
    ]);
    assert!(!made.stderr.contains("missing"), "{made}");
    let missing = || {
        let rows = bench
            .lvm
            .report("vgs", "vg_missing_pv_count,pv_count", &["grphint"]);
        (
            rows[0]["vg_missing_pv_count"].as_str().unwrap().to_owned(),
            rows[0]["pv_count"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(missing(), ("0".to_owned(), "2".to_owned()));
    bench.lvm.clean(&["lvremove", "-y", "grphint/a"]);
    learn();
    lvcsi(&["vg", "reduce", "grphint", &names[1]]).expect_success();
    bench.lvm.clean(&["vgchange", "--addtag", "t", "grphint"]);
    assert_eq!(missing(), ("0".to_owned(), "1".to_owned()));
    learn();
    lvcsi(&["vg", "create", "grphint2", &names[1], &names[2]]).expect_success();
    bench.lvm.clean(&[
        "lvcreate", "-y", "-Wn", "-Zn", "-l", "100", "-n", "b", "grphint2",
    ]);
    bench.lvm.assert_clean("grphint2");
    bench.lvm.clean(&["lvremove", "-y", "grphint2/b"]);
    for vg in ["grphint", "grphint2"] {
        lvcsi(&["vg", "remove", vg]).expect_success();
    }
    lvcsi(&["pv", "remove", &names[0], &names[1], &names[2]]).expect_success();
}

/// The machine's lvm2 configuration as it was.
struct Configured {
    file: PathBuf,
    before: Option<Vec<u8>>,
}

impl Drop for Configured {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all("/etc/lvm/devices");
        match &self.before {
            Some(text) => std::fs::write(&self.file, text).unwrap(),
            None => std::fs::remove_file(&self.file).unwrap(),
        }
    }
}

/// Makes lvm2 use a devices file, as RHEL does.
fn with_devices_file() -> Configured {
    let file = PathBuf::from("/etc/lvm/lvmlocal.conf");
    let before = std::fs::read(&file).ok();
    let configured = Configured { file, before };
    std::fs::write(&configured.file, "devices {\n\tuse_devicesfile = 1\n}\n").unwrap();
    std::fs::create_dir_all("/etc/lvm/devices").unwrap();
    // lvm2 makes one of its own only where there is no VG yet.
    std::fs::write("/etc/lvm/devices/system.devices", "").unwrap();
    configured
}

/// Pitfall 26: with a devices file in use, what we make is entered and lvm2
/// sees it; what is not in the file does not exist, for us neither.
#[test]
fn pitfall_26_the_devices_file_counts_in_both_directions() {
    let _tidy = Tidy::new();
    let bench = Bench::new(4);
    let names: Vec<String> = (0..4).map(|disk| bench.name(disk)).collect();
    // A VG from before the devices file.
    bench.sh(3, "vgcreate -q grpout \"$1\"").expect_success();
    let _configured = with_devices_file();
    let file = Path::new("/etc/lvm/devices/system.devices");
    // lvm2's own first PV is in it.
    bench.sh(0, "vgcreate -q grpdev \"$1\"").expect_success();
    let text = || std::fs::read_to_string(file).unwrap();
    assert!(
        text().contains(bench.disks[0].file().to_str().unwrap()),
        "{}",
        text()
    );
    let counter = |text: &str| -> u64 {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("VERSION=1.1."));
        line.unwrap().parse().unwrap()
    };
    let before = text();
    lvcsi(&["vg", "extend", "grpdev", &names[1]]).expect_success();
    lvcsi(&["vg", "create", "grpdev2", &names[2]]).expect_success();
    let after = text();
    assert!(counter(&after) > counter(&before));
    for disk in [1, 2] {
        let uuid = decode::pv(bench.disks[disk].path()).unwrap().uuid;
        let entry = format!(
            "IDTYPE=loop_file IDNAME={} DEVNAME={} PVID={uuid}",
            bench.disks[disk].file().display(),
            names[disk]
        );
        assert!(after.lines().any(|line| line == entry), "{entry}: {after}");
    }
    assert!(
        before
            .lines()
            .filter(|line| line.contains("IDTYPE"))
            .all(|line| after.contains(line))
    );
    // lvm2 sees what we entered, and changes nothing about it.
    for vg in ["grpdev", "grpdev2"] {
        bench.lvm.assert_clean(vg);
    }
    assert_eq!(text(), after);
    // What is not listed is nobody's to see, but not free either.
    let ran = lvcsi(&["vgs"]).expect_success();
    assert!(!ran.stdout.contains("grpout"), "{ran}");
    refused(
        &bench,
        3,
        &["pv", "create", "--yes", &names[3]],
        5,
        "grpout",
    );
    assert_eq!(text(), after, "a refusal leaves the devices file alone");
    // What lvm2 enters, we see.
    bench
        .sh(3, "lvm lvmdevices --adddev \"$1\"")
        .expect_success();
    assert!(lvcsi(&["vgs"]).expect_success().stdout.contains("grpout"));
    for vg in ["grpdev", "grpdev2", "grpout"] {
        lvcsi(&["vg", "remove", vg]).expect_success();
    }
    lvcsi(&["pv", "remove", &names[0], &names[1], &names[2], &names[3]]).expect_success();
    assert!(
        !text()
            .lines()
            .any(|line| line.contains("PVID=") && !line.ends_with("PVID=."))
    );
}

/// Pitfall 22: our changes and lvm2's renames, extensions and reports at one
/// time. A lock in a wrong order would stop them all before long.
#[test]
fn pitfall_22_nobody_waits_for_ever() {
    let _tidy = Tidy::new();
    let bench = Bench::new(4);
    let names: Vec<String> = (0..4).map(|disk| bench.name(disk)).collect();
    lvcsi(&["vg", "create", "grpours", &names[0]]).expect_success();
    lvcsi(&["vg", "create", "grpa", &names[2]]).expect_success();
    let rounds = if proof::nightly() { 60 } else { 2 };
    let ended = AtomicBool::new(false);
    let by_lvm2 = AtomicU64::new(0);
    let by_us = AtomicU64::new(0);
    let until = Instant::now() + Duration::from_secs(900);
    std::thread::scope(|scope| {
        let lvm2 = |commands: Vec<Vec<&str>>| {
            let (bench, by_lvm2, ended) = (&bench, &by_lvm2, &ended);
            let commands: Vec<Vec<String>> = commands
                .into_iter()
                .map(|words| words.into_iter().map(str::to_owned).collect())
                .collect();
            scope.spawn(move || {
                let mut round = 0;
                while round < rounds || !ended.load(Ordering::SeqCst) {
                    assert!(Instant::now() < until, "lvm2 is stuck");
                    for command in &commands {
                        let args: Vec<&str> = command.iter().map(String::as_str).collect();
                        let ran = bench.lvm.run(&args);
                        // A VG of the other name is what the other thread
                        // made of it.
                        let renamed = ran.stderr.contains("not found");
                        assert!(ran.success() || renamed, "{ran}");
                        by_lvm2.fetch_add(1, Ordering::SeqCst);
                    }
                    round += 1;
                }
            })
        };
        let renamer = lvm2(vec![
            vec!["vgrename", "grpa", "grpz"],
            vec!["vgrename", "grpz", "grpa"],
        ]);
        let extender = lvm2(vec![
            vec!["vgextend", "-y", "grpours", &names[1]],
            vec!["vgreduce", "grpours", &names[1]],
        ]);
        let reporter = lvm2(vec![vec!["lvs"], vec!["vgs"], vec!["pvs"]]);
        for _ in 0..rounds {
            for args in [
                vec!["vg", "extend", "grpours", &names[3]],
                vec!["pv", "resize", &names[3], "--size", "200m"],
                vec!["vg", "reduce", "grpours", &names[3]],
                vec!["pv", "remove", &names[3]],
            ] {
                loop {
                    assert!(Instant::now() < until, "we are stuck");
                    let ran = lvcsi(&args);
                    if ran.success() {
                        break;
                    }
                    assert_eq!(ran.status, Some(7), "{args:?}: {ran}");
                }
                by_us.fetch_add(1, Ordering::SeqCst);
            }
        }
        ended.store(true, Ordering::SeqCst);
        for thread in [renamer, extender, reporter] {
            thread.join().unwrap();
        }
    });
    proof(&format!(
        "changes of VGs at one time: {} by lvm2, {} by lvcsi",
        by_lvm2.into_inner(),
        by_us.into_inner()
    ));
    settle();
    bench.lvm.assert_clean("grpours");
    bench.lvm.assert_clean("grpa");
    for vg in ["grpours", "grpa"] {
        lvcsi(&["vg", "remove", vg]).expect_success();
    }
    lvcsi(&["pv", "remove", &names[0], &names[1], &names[2]]).expect_success();
}
