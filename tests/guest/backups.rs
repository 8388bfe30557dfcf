//! Copies of the metadata beside a real lvm2 and on real file systems.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use lvcsi::engine::{CreateLv, Request, Wipe};
use lvcsi_kit::{LoopVg, run};
use lvm2::edit::Layout;

use crate::common::{Native, extents, keeping, lv};
use crate::support::{Tidy, all_well, lvcsi};

/// The number in a file's `seqno = N`.
fn seqno_in(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("seqno = "));
    line.expect("a sequence number").parse().expect("a number")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn pitfall_57_backups_are_never_older_than_the_disks() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let backup = PathBuf::from("/etc/lvm/backup").join(&vg.name);
    let copies = vg.dir().join("copies");
    let dir = copies.to_str().unwrap();
    let on_disk = || u64::try_from(vg.decode().seqno).unwrap();
    let (one, two) = (vg.lv("one"), vg.lv("two"));
    for args in [
        vec!["lv", "create", "-n", "one", "-L", "16M", &vg.name],
        vec!["lv", "extend", "-L", "32M", &one],
        vec!["lv", "rename", &one, "two"],
    ] {
        let mut args = args;
        args.extend(["--backup-dir", dir]);
        let _ = lvcsi(&args).expect_success();
        assert_eq!(seqno_in(&backup), on_disk(), "{args:?}");
        let newest = files(&copies.join(&vg.name)).pop().unwrap();
        assert_eq!(seqno_in(&newest), on_disk(), "{args:?}");
        let mode = fs::metadata(&newest).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    vg.lvm
        .clean(&["lvcreate", "-y", "-L", "16M", "-n", "theirs", &vg.name]);
    assert_eq!(seqno_in(&backup), on_disk(), "lvm2's own");
    let _ = lvcsi(&["lv", "remove", "-y", &two, "--backup-dir", dir]).expect_success();
    assert_eq!(seqno_in(&backup), on_disk());

    // lvm2 lists our directory as its archive, and restores without a word
    // about which file.
    let archive = format!("backup {{ archive_dir = \"{dir}/{}\" }}", vg.name);
    let listed = vg
        .lvm
        .run(&["vgcfgrestore", "--list", "--config", &archive, &vg.name]);
    let listed = listed.expect_success();
    for what in ["create", "extend", "rename", "remove"] {
        let line = format!("Write from lvcsi {what}");
        assert!(listed.stdout.contains(&line), "no {what}: {listed}");
    }
    vg.lvm.clean(&["lvchange", "-an", &vg.lv("theirs")]);
    let before = vg.decode();
    let _ = vg
        .lvm
        .run(&["vgcfgrestore", "-y", &vg.name])
        .expect_success();
    assert_eq!(vg.decode().names(), before.names());
    let history = lvcsi(&["vg", "history", &vg.name, "--backup-dir", dir]).expect_success();
    assert!(history.stdout.contains("lvcsi rename"), "{history}");
    let native = Native::open(&vg);
    all_well(&vg, &native);
}

#[test]
fn a_burst_costs_a_few_copies_and_ends_with_the_last() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(1024);
    let copies = vg.dir().join("copies");
    let native = Native::open_with(&vg, keeping(&copies, false));
    let inactive = |n: usize| {
        Request::Create(CreateLv {
            name: lv(&format!("lv{n}")),
            size: extents(1),
            tags: vec![],
            layout: Layout::default(),
            wipe: Wipe::Signatures,
            activate: false,
        })
    };
    let start = Instant::now();
    let tickets: Vec<_> = (0..100)
        .map(|n| native.engine.submit(&native.vg, inactive(n)))
        .collect();
    for ticket in tickets {
        ticket.wait().expect("a creation");
    }
    native.engine.shutdown();
    // One a second, one at the beginning and one at the end.
    let most = start.elapsed().as_secs() + 2;
    let stats = native.engine.backup_stats();
    let written = files(&copies.join(&vg.name));
    assert_eq!(stats.written, written.len() as u64, "{stats:?}");
    assert_eq!(stats.failed, 0, "{stats:?}");
    let on_disk = u64::try_from(vg.decode().seqno).unwrap();
    assert!(written.iter().any(|file| seqno_in(file) == on_disk));
    println!(
        "100 creations: {} commits, {} copies",
        on_disk - 1,
        written.len()
    );
    assert!(
        written.len() as u64 <= most,
        "{} copies, at most {most}",
        written.len()
    );
}

/// A small file system that goes away.
struct Small(PathBuf);

impl Small {
    fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir).unwrap();
        let path = dir.to_str().unwrap();
        let _ = run("mount", &["-t", "tmpfs", "-o", "size=64k", "none", path]).expect_success();
        Self(dir.to_owned())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = run("umount", &[self.0.to_str().unwrap()]);
    }
}

#[test]
fn a_full_disk_or_a_read_only_one_fails_no_operation() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let small = Small::new(&vg.dir().join("small"));
    let native = Native::open_with(&vg, keeping(&small.0, true));
    native.create("one", 16);
    assert_eq!(native.engine.backup_stats().written, 1);
    let filler = small.0.join("filler");
    // As much as there is: the last write fails.
    let _ = fs::write(&filler, vec![1; 128 << 10]);
    native.create("two", 16);
    let stats = native.engine.backup_stats();
    assert_eq!((stats.written, stats.failed), (1, 1), "{stats:?}");
    let reason = stats.behind.get(&native.vg).unwrap().as_deref().unwrap();
    assert!(reason.contains("No space left"), "{reason}");
    let own = small.0.join(&vg.name);
    assert_eq!(files(&own).len(), 1, "nothing half is left");

    fs::remove_file(&filler).unwrap();
    let path = small.0.to_str().unwrap();
    let _ = run("mount", &["-o", "remount,ro", path]).expect_success();
    native.remove("two");
    let stats = native.engine.backup_stats();
    assert_eq!(stats.failed, 2, "{stats:?}");
    let warned = lvcsi(&[
        "lv",
        "extend",
        "-L",
        "32M",
        &vg.lv("one"),
        "--backup-dir",
        path,
    ]);
    let warned = warned.expect_success();
    assert!(
        warned.stderr.contains("no copy of the metadata"),
        "{warned}"
    );
    let _ = run("mount", &["-o", "remount,rw", path]).expect_success();
    native.remove("one");
    assert!(native.engine.backup_stats().behind.is_empty());
    let on_disk = u64::try_from(vg.decode().seqno).unwrap();
    assert_eq!(seqno_in(files(&own).last().unwrap()), on_disk);
    all_well(&vg, &native);
}
