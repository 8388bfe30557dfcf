//! PVs and VGs made by us and by lvm2, each changed by the other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lvcsi::engine::{DiskOutcome, DiskRequest, Engine, EngineConfig};
use lvcsi_kit::lvm::complaints;
use lvcsi_kit::{Disk, Lvm, Rng, decode, digest, proof, run};
use lvm2::name::VgName;
use lvm2::ondisk::geometry::Wish;
use lvm2::units::{Bytes, ExtentSize, Sectors};

use crate::common::machine_on;

const MIB: u64 = 1 << 20;

/// Disks without content, our engine and lvm2, which see no others.
struct Bench {
    engine: Engine,
    lvm: Lvm,
    disks: Vec<Disk>,
    vg: String,
    /// Changes by either side, each judged by the other.
    operations: u64,
    /// Judgements that differed.
    disagreements: u64,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new(sizes: &[u64], block_size: u32) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("lvcsi-")
            .tempdir_in(lvcsi_kit::host::scratch())
            .unwrap();
        let disks: Vec<Disk> = sizes
            .iter()
            .enumerate()
            .map(|(at, mib)| Disk::new(dir.path(), &format!("disk{at}"), mib * MIB, block_size))
            .collect();
        let paths: Vec<&Path> = disks.iter().map(Disk::path).collect();
        let config = EngineConfig {
            // Other tests of this machine hold lvm2's global lock as well.
            lock_deadline: Duration::from_secs(240),
            ..EngineConfig::default()
        };
        Self {
            engine: Engine::start(machine_on(dir.path(), &paths), config).unwrap(),
            lvm: Lvm::on(&paths),
            vg: format!("grp{:x}{}", std::process::id(), disks[0].devno().minor),
            operations: 0,
            disagreements: 0,
            disks,
            _dir: dir,
        }
    }

    fn path(&self, disk: usize) -> PathBuf {
        self.disks[disk].path().to_owned()
    }

    fn name(&self, disk: usize) -> String {
        self.path(disk).display().to_string()
    }

    fn vg(&self) -> VgName {
        VgName::new(self.vg.clone()).unwrap()
    }

    fn ours(&mut self, request: &DiskRequest) -> DiskOutcome {
        self.operations += 1;
        let outcome = self
            .engine
            .change_disks(request, false)
            .unwrap_or_else(|error| panic!("{request:?}: {error}"));
        self.judge();
        outcome
    }

    fn theirs(&mut self, args: &[&str]) {
        self.operations += 1;
        let ran = self.lvm.run(args).expect_success();
        let wrong: Vec<_> = complaints(&ran)
            .into_iter()
            .filter(|line| {
                // What it did, and that a PV takes a part of its device only.
                let told = ["successfully", "Removed", "Pretending size"];
                !told.iter().any(|words| line.contains(words))
            })
            .collect();
        assert!(wrong.is_empty(), "lvm2 complains: {ran}");
        self.judge();
    }

    /// lvm2 finds nothing to complain about on any disk, and both see the same
    /// PVs, VG and sizes.
    fn judge(&mut self) {
        let rows = self.lvm.report(
            "pvs",
            "pv_name,vg_name,pv_uuid,pv_size,pe_start,pv_pe_count,pv_in_use,dev_size",
            &["-S", "pv_uuid!=\"\""],
        );
        let theirs: BTreeSet<String> = rows
            .iter()
            .map(|row| {
                let field = |key: &str| row[key].as_str().unwrap().to_owned();
                let used = if field("pv_in_use") == "used" {
                    "u"
                } else {
                    "-"
                };
                format!(
                    "{} {} {} {} {used}",
                    field("pv_name"),
                    field("vg_name"),
                    field("pv_uuid").replace('-', ""),
                    field("pe_start"),
                )
            })
            .collect();
        let report = self.engine.report().unwrap();
        assert_eq!(report.problems, []);
        let of_vgs = report.vgs.iter().flat_map(|vg| &vg.pvs);
        let ours: BTreeSet<String> = of_vgs
            .chain(&report.orphans)
            .map(|pv| {
                let path = &pv.device.as_ref().unwrap().path;
                let found = decode::pv(path).unwrap();
                assert_eq!(found.uuid, pv.id.as_str());
                assert!(found.mdas.iter().all(|mda| mda.slot1_empty));
                let vg = pv.vg.as_ref().map(ToString::to_string).unwrap_or_default();
                let used = if found.flags & 1 == 1 { "u" } else { "-" };
                assert_eq!(used == "u", pv.vg.is_some(), "{}", path.display());
                format!(
                    "{} {vg} {} {} {used}",
                    path.display(),
                    found.uuid,
                    found.data_start
                )
            })
            .collect();
        if ours != theirs {
            println!("we see {ours:#?}, lvm2 sees {theirs:#?}");
            self.disagreements += 1;
        }
        for vg in &report.vgs {
            let name = vg.vg.name().as_str();
            self.lvm.clean(&["vgck", name]);
            let rows = self.lvm.report("vgs", "vg_extent_count,vg_seqno", &[name]);
            let count = vg.vg.extents_total().to_string();
            assert_eq!(rows[0]["vg_extent_count"].as_str(), Some(count.as_str()));
            let seqno = vg.vg.seqno().to_string();
            assert_eq!(rows[0]["vg_seqno"].as_str(), Some(seqno.as_str()));
            let paths: Vec<&Path> = vg
                .pvs
                .iter()
                .map(|pv| pv.device.as_ref().unwrap().path.as_path())
                .collect();
            decode::vg(&paths).assert_sound();
        }
        for row in &rows {
            let path = row["pv_name"].as_str().unwrap();
            self.lvm.clean(&["pvck", "--dump", "headers", path]);
        }
    }

    fn create_pv(&self, disk: usize) -> DiskRequest {
        DiskRequest::CreatePv {
            devices: vec![self.path(disk)],
            wish: Wish::default(),
        }
    }

    fn create_vg(&self, disks: &[usize]) -> DiskRequest {
        DiskRequest::CreateVg {
            vg: self.vg(),
            devices: disks.iter().map(|disk| self.path(*disk)).collect(),
            wish: Wish::default(),
            extent_size: ExtentSize::new(Sectors(2048)).unwrap(),
            tags: Vec::new(),
        }
    }

    fn extend(&self, disk: usize) -> DiskRequest {
        DiskRequest::ExtendVg {
            vg: self.vg(),
            devices: vec![self.path(disk)],
            wish: Wish::default(),
        }
    }

    fn reduce(&self, disk: usize) -> DiskRequest {
        DiskRequest::ReduceVg {
            vg: self.vg(),
            devices: vec![self.path(disk)],
        }
    }

    fn resize(&self, disk: usize, mib: Option<u64>) -> DiskRequest {
        DiskRequest::ResizePv {
            device: self.path(disk),
            size: mib.map(|mib| Bytes(mib * MIB)),
        }
    }

    /// Makes the file of a disk larger, and the device with it.
    fn grow(&self, disk: usize, mib: u64) {
        std::fs::OpenOptions::new()
            .write(true)
            .open(self.disks[disk].file())
            .and_then(|file| file.set_len(mib * MIB))
            .unwrap();
        let _ = run("losetup", &["-c", &self.name(disk)]).expect_success();
    }

    fn end(self) {
        self.engine.shutdown();
        proof(&format!(
            "oracle: {} operations, disagreements: {}",
            self.operations, self.disagreements
        ));
        assert_eq!(self.disagreements, 0);
    }
}

/// Each step by us, judged by lvm2, and taken further by it.
fn we_make_and_lvm2_takes_over(block_size: u32) {
    let mut bench = Bench::new(&[128, 64, 256], block_size);
    let vg = bench.vg.clone();
    let names: Vec<String> = (0..3).map(|disk| bench.name(disk)).collect();
    bench.ours(&bench.create_pv(0));
    bench.ours(&bench.create_vg(&[0, 1]));
    bench.theirs(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-l", "20", "-n", "a", &vg,
    ]);
    bench.theirs(&["vgextend", &vg, &names[2]]);
    bench.theirs(&["lvextend", "-l", "+40", &format!("{vg}/a")]);
    bench.theirs(&["lvremove", "-y", &format!("{vg}/a")]);
    bench.theirs(&["vgreduce", &vg, &names[1]]);
    bench.grow(0, 160);
    bench.theirs(&["pvresize", &names[0]]);
    bench.theirs(&["pvremove", &names[1]]);
    bench.theirs(&["vgremove", &vg]);
    bench.theirs(&["pvremove", &names[0], &names[2]]);
    bench.end();
}

/// Each step by lvm2, taken further by us.
fn lvm2_makes_and_we_take_over(block_size: u32) {
    let mut bench = Bench::new(&[128, 64, 256], block_size);
    let vg = bench.vg.clone();
    let names: Vec<String> = (0..3).map(|disk| bench.name(disk)).collect();
    bench.theirs(&["pvcreate", "-y", &names[0], &names[2]]);
    bench.theirs(&["vgcreate", "-y", "-s", "1m", &vg, &names[0], &names[1]]);
    bench.ours(&bench.extend(2));
    bench.theirs(&[
        "lvcreate", "-y", "-an", "-Zn", "-Wn", "-l", "200", "-n", "a", &vg,
    ]);
    bench.grow(0, 160);
    bench.ours(&bench.resize(0, None));
    bench.theirs(&["lvremove", "-y", &format!("{vg}/a")]);
    bench.ours(&bench.resize(0, Some(100)));
    bench.ours(&bench.reduce(1));
    bench.theirs(&["vgextend", &vg, &names[1]]);
    bench.ours(&bench.reduce(0));
    bench.ours(&bench.resize(0, Some(120)));
    bench.ours(&DiskRequest::RemoveVg { vg: bench.vg() });
    bench.ours(&DiskRequest::RemovePv {
        devices: (0..3).map(|disk| bench.path(disk)).collect(),
    });
    bench.end();
}

#[test]
fn groups_by_us_are_lvm2s_to_change() {
    we_make_and_lvm2_takes_over(512);
}

#[test]
fn groups_by_us_on_4096_byte_blocks_are_lvm2s_to_change() {
    we_make_and_lvm2_takes_over(4096);
}

#[test]
fn groups_by_lvm2_are_ours_to_change() {
    lvm2_makes_and_we_take_over(512);
}

#[test]
fn groups_by_lvm2_on_4096_byte_blocks_are_ours_to_change() {
    lvm2_makes_and_we_take_over(4096);
}

/// PVs that come and go at random, by either side.
#[test]
fn groups_change_hands_at_random() {
    let steps = if proof::nightly() { 200 } else { 30 };
    let mut rng = Rng::from_env("groups_change_hands_at_random");
    let mut bench = Bench::new(&[64, 64, 96, 128], 512);
    let vg = bench.vg.clone();
    bench.ours(&bench.create_vg(&[0]));
    let mut members = vec![0];
    for _ in 0..steps {
        let ours = rng.below(2) == 0;
        let disk = rng.below(4) as usize;
        let name = bench.name(disk);
        if !members.contains(&disk) {
            members.push(disk);
            if ours {
                bench.ours(&bench.extend(disk));
            } else {
                bench.theirs(&["vgextend", "-y", &vg, &name]);
            }
        } else if members.len() > 1 && rng.below(2) == 0 {
            members.retain(|member| *member != disk);
            if ours {
                bench.ours(&bench.reduce(disk));
            } else {
                bench.theirs(&["vgreduce", &vg, &name]);
            }
        } else {
            let mib = 40 + rng.below(24);
            if ours {
                bench.ours(&bench.resize(disk, Some(mib)));
            } else {
                let size = format!("{mib}m");
                bench.theirs(&["pvresize", "-y", "--setphysicalvolumesize", &size, &name]);
            }
        }
    }
    bench.ours(&DiskRequest::RemoveVg { vg: bench.vg() });
    bench.end();
}

/// Bytes of two images that differ, as ranges of 512-byte sectors.
fn differing(one: &[u8], other: &[u8]) -> Vec<usize> {
    one.iter()
        .zip(other)
        .enumerate()
        .filter(|(_, (a, b))| a != b)
        .map(|(at, _)| at)
        .collect()
}

/// Byte for byte what lvm2 writes for the same geometry. What is meant to
/// differ is listed here, and nothing else may.
#[test]
fn a_pv_and_a_vg_are_written_as_lvm2_writes_them() {
    for block_size in [512, 4096] {
        let mut bench = Bench::new(&[64, 64], block_size);
        let wish = Wish {
            metadata_size: Some(Bytes(MIB - 4096)),
            data_alignment: None,
        };
        let theirs = bench.name(1);
        bench.theirs(&["pvcreate", "-y", &theirs]);
        bench.ours(&DiskRequest::CreatePv {
            devices: vec![bench.path(0)],
            wish,
        });
        let image = |bench: &Bench, disk: usize| {
            decode::read(&bench.path(disk), 0, 2 * MIB as usize).unwrap()
        };
        let differ = differing(&image(&bench, 0), &image(&bench, 1));
        // The label: its checksum, and the PV's id, which is random.
        let meant = |at: usize| (528..532).contains(&at) || (544..576).contains(&at);
        let stray: Vec<_> = differ.iter().filter(|at| !meant(**at)).collect();
        assert!(stray.is_empty(), "a PV differs at bytes {stray:?}");
        assert!(differ.len() > 20, "ids differ");

        let names = ["one", "two"].map(|end| format!("{}{end}", bench.vg));
        bench.theirs(&["vgcreate", "-y", "--addtag", "t", &names[1], &theirs]);
        bench.ours(&DiskRequest::CreateVg {
            vg: VgName::new(names[0].clone()).unwrap(),
            devices: vec![bench.path(0)],
            wish: Wish::default(),
            extent_size: ExtentSize::new(Sectors(8192)).unwrap(),
            tags: vec![crate::common::tag("t")],
        });
        let (ours, lvm2s) = (image(&bench, 0), image(&bench, 1));
        let differ = differing(&ours[..4608], &lvm2s[..4608]);
        // Beside the label the area's header: its checksum, and length and
        // checksum of the text.
        let meant =
            |at: usize| meant(at) || (4096..4100).contains(&at) || (4144..4156).contains(&at);
        let stray: Vec<_> = differ.iter().filter(|at| !meant(**at)).collect();
        assert!(
            stray.is_empty(),
            "a member's headers differ at bytes {stray:?}"
        );
        let text = |image: &[u8]| {
            let ring = &image[4608..];
            let end = ring.iter().position(|byte| *byte == 0).unwrap();
            assert!(
                ring[end..].iter().all(|byte| *byte == 0),
                "nothing behind the text"
            );
            String::from_utf8(ring[..end].to_vec()).unwrap()
        };
        let (ours, lvm2s) = (text(&ours), text(&lvm2s));
        assert_eq!(
            ours.lines().count(),
            lvm2s.lines().count(),
            "{ours}\n{lvm2s}"
        );
        let mut keys = BTreeSet::new();
        for (a, b) in ours.lines().zip(lvm2s.lines()).filter(|(a, b)| a != b) {
            let key = |line: &str| line.split(" = ").next().unwrap().to_owned();
            let key = if a.starts_with("# Generated by ") {
                "# Generated by".to_owned()
            } else if key(a) == key(b) {
                key(a)
            } else {
                format!("{a} / {b}")
            };
            keys.insert(key);
        }
        // Names and ids are others, the writer is another, and lvm2 writes
        // the local time into its comments.
        let allowed: BTreeSet<String> = [
            format!("{} {{ / {} {{", names[0], names[1]),
            "id".into(),
            "device".into(),
            "# Generated by".into(),
            "description".into(),
            "creation_host".into(),
            "creation_time".into(),
        ]
        .into();
        let stray: Vec<_> = keys.difference(&allowed).collect();
        assert!(stray.is_empty(), "a VG's text differs in {stray:?}");
        for name in names {
            bench.theirs(&["vgremove", &name]);
        }
        bench.end();
    }
}

/// Pitfall 18: lvm2 takes none of our members for free.
#[test]
fn pitfall_18_lvm2_refuses_to_make_a_new_pv_of_our_member() {
    let mut bench = Bench::new(&[64, 64], 512);
    bench.ours(&bench.create_vg(&[0, 1]));
    let digests = |bench: &Bench| -> Vec<u64> {
        bench
            .disks
            .iter()
            .map(|disk| {
                std::fs::File::open(disk.path())
                    .unwrap()
                    .sync_all()
                    .unwrap();
                digest::disk_digest(disk.file())
            })
            .collect()
    };
    let before = digests(&bench);
    for args in [
        vec!["pvcreate", "-y"],
        vec!["pvcreate", "-y", "-f"],
        vec!["pvremove", "-y"],
        vec!["vgcreate", "-y", "another"],
    ] {
        let name = bench.name(1);
        let mut args = args;
        args.push(&name);
        let ran = bench.lvm.run(&args);
        assert!(!ran.success(), "{ran}");
    }
    // Not even where the VG's text is lost, for its label says "in use".
    let mut only = bench.name(1);
    let empty = vec![0; 512];
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::OpenOptions::new().write(true).open(&only).unwrap(),
        &empty,
        4096,
    )
    .unwrap();
    assert_eq!(digests(&bench)[0], before[0]);
    let hidden = Lvm::on(&[Path::new(&only)]);
    let ran = hidden.run(&["pvcreate", "-y", &only]);
    assert!(!ran.success(), "{ran}");
    only.clear();
    bench.engine.shutdown();
}
