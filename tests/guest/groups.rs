//! PVs and VGs by the tool on the node, on a real kernel with udev and lvm2
//! beside it: what is refused, what is wiped, and what lvm2 makes of it.

#![allow(
    unused_must_use,
    reason = "of a command that must succeed nothing more is wanted"
)]

use std::path::Path;

use lvcsi_kit::{Disk, Lvm, Ran, decode, digest, host, run};
use tempfile::TempDir;

use crate::support::{Tidy, settle, write_at};

const MIB: u64 = 1 << 20;

pub(crate) fn lvcsi(args: &[&str]) -> Ran {
    run(host::binary("lvcsi").to_str().unwrap(), args)
}

/// Empty loop devices of 256 MiB.
pub(crate) struct Bench {
    pub(crate) disks: Vec<Disk>,
    pub(crate) lvm: Lvm,
    dir: TempDir,
}

impl Bench {
    pub(crate) fn new(count: usize) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("lvcsi-")
            .tempdir_in(host::scratch())
            .unwrap();
        let disks: Vec<Disk> = (0..count)
            .map(|at| Disk::new(dir.path(), &format!("disk{at}"), 256 * MIB, 0))
            .collect();
        let paths: Vec<&Path> = disks.iter().map(Disk::path).collect();
        Self {
            lvm: Lvm::on(&paths),
            disks,
            dir,
        }
    }

    pub(crate) fn name(&self, disk: usize) -> String {
        self.disks[disk].path().display().to_string()
    }

    pub(crate) fn digest(&self, disk: usize) -> u64 {
        let disk = &self.disks[disk];
        std::fs::File::open(disk.path())
            .and_then(|device| device.sync_all())
            .unwrap();
        digest::disk_digest(disk.file())
    }

    /// A program of the machine, on the disk.
    pub(crate) fn sh(&self, disk: usize, script: &str) -> Ran {
        let name = self.name(disk);
        let dir = self.dir.path().display().to_string();
        lvcsi_kit::process::shell(script, &[&name, &dir])
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // The loop devices are let go of once udev has looked at them.
        settle();
    }
}

/// Refused with this status and these words, and no byte of the disk is
/// another one than before.
pub(crate) fn refused(bench: &Bench, disk: usize, args: &[&str], status: i32, words: &str) {
    let before = bench.digest(disk);
    let ran = lvcsi(args);
    assert_eq!(ran.status, Some(status), "{args:?}: {ran}");
    assert!(ran.stderr.contains(words), "{words}: {ran}");
    let dry: Vec<&str> = args.iter().copied().chain(["--dry-run"]).collect();
    let _ = lvcsi(&dry);
    assert_eq!(bench.digest(disk), before, "{args:?} wrote");
}

#[test]
fn devices_in_use_are_refused_and_not_touched() {
    let _tidy = Tidy::new();
    let bench = Bench::new(7);
    let names: Vec<String> = (0..7).map(|disk| bench.name(disk)).collect();
    let all = |disk: usize, words: &str| {
        for args in [
            vec!["pv", "create", "--yes", &names[disk]],
            vec!["vg", "create", "--yes", "grpx", &names[disk]],
        ] {
            refused(&bench, disk, &args, 5, words);
        }
    };
    bench
        .sh(
            0,
            "mkfs.ext4 -q \"$1\" && mkdir \"$2\"/mnt && mount -o ro \"$1\" \"$2\"/mnt",
        )
        .expect_success();
    all(0, "mounted at");
    bench.sh(0, "umount \"$1\"").expect_success();
    bench
        .sh(1, "mkswap -q \"$1\" && swapon \"$1\"")
        .expect_success();
    all(1, "swapoff");
    bench.sh(1, "swapoff \"$1\"").expect_success();
    bench
        .sh(2, "dmsetup create grpheld --table \"0 1000 linear $1 0\"")
        .expect_success();
    all(2, "grpheld");
    settle();
    bench
        .sh(2, "dmsetup remove --retry grpheld")
        .expect_success();
    bench.sh(3, "blockdev --setro \"$1\"").expect_success();
    all(3, "read-only");
    bench.sh(3, "blockdev --setrw \"$1\"").expect_success();
    // A member of an lvm2 VG that is active, inactive, and exported.
    bench
        .sh(
            4,
            "vgcreate -q grpmember \"$1\" && lvcreate -q -y -L 8m -n one grpmember",
        )
        .expect_success();
    all(4, "is a PV of VG grpmember");
    refused(&bench, 4, &["vg", "remove", "grpmember"], 5, "one");
    refused(&bench, 4, &["pv", "remove", &names[4]], 5, "grpmember");
    bench
        .sh(4, "vgchange -q -an grpmember && vgexport -q grpmember")
        .expect_success();
    all(4, "is a PV of VG grpmember");
    refused(&bench, 4, &["vg", "remove", "grpmember"], 5, "vgimport");
    bench
        .sh(
            4,
            "vgimport -q grpmember && vgremove -q -f grpmember && pvremove -q \"$1\"",
        )
        .expect_success();
    // An LV.
    bench
        .sh(
            5,
            "vgcreate -q grpouter \"$1\" && lvcreate -q -y -L 64m -n inner grpouter",
        )
        .expect_success();
    settle();
    let ran = lvcsi(&["pv", "create", "--yes", "/dev/grpouter/inner"]);
    assert_eq!(ran.status, Some(5), "{ran}");
    assert!(ran.stderr.contains("itself an LV"), "{ran}");
    bench
        .sh(5, "vgremove -q -f grpouter && pvremove -q \"$1\"")
        .expect_success();
    // A member of an md array that nobody has assembled.
    write_at(
        bench.disks[6].path(),
        4096,
        &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0],
    );
    write_at(bench.disks[6].path(), 4096 + 144, &[8]);
    all(6, "md array");
}

#[test]
fn a_partitioned_disk_is_refused_and_its_partition_taken() {
    let _tidy = Tidy::new();
    let bench = Bench::new(1);
    // A device of its own, whose partitions the kernel reads.
    let attach = "printf 'label: gpt\\n,100M\\n' | sfdisk -q \"$1\" >/dev/null && \
        losetup -d \"$1\"; losetup -P -f --show \"$2\"/part";
    let file = bench.dir.path().join("part");
    std::fs::File::create(&file)
        .and_then(|file| file.set_len(256 * MIB))
        .unwrap();
    let device = run("losetup", &["-f", "--show", file.to_str().unwrap()]).expect_success();
    let device = device.stdout.trim().to_owned();
    let dir = bench.dir.path().display().to_string();
    let device = lvcsi_kit::process::shell(attach, &[&device, &dir]).expect_success();
    let device = device.stdout.trim().to_owned();
    settle();
    let before = digest::disk_digest(&file);
    let ran = lvcsi(&["pv", "create", "--yes", &device]);
    assert_eq!(ran.status, Some(5), "{ran}");
    assert!(ran.stderr.contains("is partitioned"), "{ran}");
    assert_eq!(digest::disk_digest(&file), before);
    let part = format!("{device}p1");
    lvcsi(&["vg", "create", "grppart", &part, "--yes"]).expect_success();
    bench.lvm.clean(&["vgck", "grppart"]);
    lvcsi(&["vg", "remove", "grppart"]).expect_success();
    lvcsi(&["pv", "remove", &part]).expect_success();
    settle();
    run("losetup", &["-d", &device]).expect_success();
    settle();
}

/// Every signature that can be planted here is listed with its place and
/// gone afterwards, with all of its copies.
#[test]
fn every_signature_is_listed_and_wiped() {
    let _tidy = Tidy::new();
    let plants: &[(&str, &str)] = &[
        ("ext2", "mkfs.ext2 -q -F \"$1\""),
        ("ext4", "mkfs.ext4 -q -F -L old \"$1\""),
        (
            "xfs",
            "mkfs.xfs -q -f -m crc=1 \"$1\" || mkfs.ext4 -q -F \"$1\"",
        ),
        ("btrfs", "mkfs.btrfs -q -f \"$1\""),
        ("swap", "mkswap -q \"$1\""),
        ("gpt", "printf 'label: gpt\\n' | sfdisk -q \"$1\""),
        ("dos", "printf 'label: dos\\n' | sfdisk -q \"$1\""),
        ("sun", "printf 'label: sun\\n' | sfdisk -q --force \"$1\""),
        ("sgi", "printf 'label: sgi\\n' | sfdisk -q --force \"$1\""),
        ("minix", "mkfs.minix \"$1\" >/dev/null"),
        (
            "cramfs",
            "mkdir -p \"$2\"/c && echo x > \"$2\"/c/x && mkfs.cramfs \"$2\"/c \"$2\"/c.img && dd if=\"$2\"/c.img of=\"$1\" conv=notrunc status=none",
        ),
        (
            "iso9660",
            "printf 'CD001' | dd of=\"$1\" bs=1 seek=32769 conv=notrunc status=none; printf '\\001CD001\\001' | dd of=\"$1\" bs=1 seek=32768 conv=notrunc status=none",
        ),
        (
            "crypto_LUKS",
            "printf 'LUKS\\272\\276\\000\\001' | dd of=\"$1\" bs=1 conv=notrunc status=none",
        ),
        (
            "several",
            "printf 'label: gpt\\n' | sfdisk -q \"$1\"; mkswap -q \"$1\"; printf 'XFSB' | dd of=\"$1\" bs=1 conv=notrunc status=none",
        ),
    ];
    let bench = Bench::new(1);
    let name = bench.name(0);
    let listed = || run("wipefs", &["-n", "--noheadings", "-O", "TYPE", &name]).expect_success();
    let mut planted = 0;
    for (kind, script) in plants {
        let made = bench.sh(0, script);
        settle();
        let before = listed().stdout;
        if !made.success() || before.trim().is_empty() {
            // The tool is not on this machine, or libblkid does not know it.
            println!("{kind}: not planted: {made}");
            continue;
        }
        planted += 1;
        refused(&bench, 0, &["pv", "create", &name], 5, "--yes");
        let ran = lvcsi(&["pv", "create", &name]);
        // Copies come to light when the first is gone.
        let first = before.split_whitespace().next().unwrap();
        assert!(ran.stderr.contains(first), "{kind}: {first}: {ran}");
        let ran = lvcsi(&["pv", "create", "--yes", &name]).expect_success();
        assert!(ran.stdout.contains("wiped"), "{kind}: {ran}");
        assert_eq!(listed().stdout.trim(), "LVM2_member", "{kind}");
        bench.lvm.clean(&["pvck", &name]);
        lvcsi(&["pv", "remove", &name]).expect_success();
        assert_eq!(listed().stdout.trim(), "", "{kind}");
    }
    println!("{planted} of {} signatures planted", plants.len());
    assert!(planted >= 8, "only {planted} signatures could be planted");
}

/// A life of a VG by hand; what udev and lvm2 see of it.
#[test]
fn a_group_by_hand() {
    let _tidy = Tidy::new();
    let bench = Bench::new(3);
    let names: Vec<String> = (0..3).map(|disk| bench.name(disk)).collect();
    lvcsi(&["pv", "create", &names[0]]).expect_success();
    bench.lvm.clean(&["pvs", &names[0]]);
    lvcsi(&[
        "vg", "create", "grphand", &names[0], &names[1], "--tag", "t",
    ])
    .expect_success();
    bench.lvm.assert_clean("grphand");
    lvcsi(&["lv", "create", "grphand", "-n", "one", "-L", "300m"]).expect_success();
    lvcsi(&["vg", "extend", "grphand", &names[2]]).expect_success();
    bench.lvm.clean(&["lvextend", "-L", "+300m", "grphand/one"]);
    refused(
        &bench,
        2,
        &["vg", "reduce", "grphand", &names[2]],
        5,
        "pvmove",
    );
    bench.lvm.clean(&["lvremove", "-y", "grphand/one"]);
    lvcsi(&["vg", "reduce", "grphand", &names[2]]).expect_success();
    lvcsi(&["pv", "resize", &names[1], "--size", "128m"]).expect_success();
    bench.lvm.assert_clean("grphand");
    let paths: Vec<&Path> = bench.disks[..2].iter().map(Disk::path).collect();
    decode::vg(&paths).assert_sound();
    lvcsi(&["vg", "remove", "grphand"]).expect_success();
    lvcsi(&["pv", "remove", &names[0], &names[1], &names[2]]).expect_success();
    let ran = bench.lvm.clean(&["pvs", "--noheadings", "-o", "pv_name"]);
    assert!(
        names.iter().all(|name| !ran.stdout.contains(name.as_str())),
        "{ran}"
    );
}
