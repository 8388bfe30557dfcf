//! Every state in which a power cut can leave a commit, as the kernel recorded
//! its writes: the old VG or the new one.

use std::collections::{BTreeSet, HashSet};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use lvcsi::engine::{CreateLv, Request, Size, Wipe};
use lvcsi_kit::decode::{self, Vg};
use lvcsi_kit::logwrites::{self, Entry};
use lvcsi_kit::{Disk, LoopVg, Lvm, Rng, VgSpec, proof, run};
use lvm2::edit::Layout;
use lvm2::units::Bytes;

use crate::common::{Native, lv, tag};
use crate::support::{Tidy, settle};

const DISK: u64 = 24 << 20;
const LOG: u64 = 96 << 20;
/// The PV begins here on the recorded disk: were it at the beginning, lvm2 would
/// find it on the disk beneath too and refuse both.
const SHIFT: u64 = 1 << 20;
const BEGIN: &str = "begin";

/// One change, and what its writes were.
struct Recorded {
    dir: tempfile::TempDir,
    vg: String,
    before: Vg,
    after: Vg,
    entries: Vec<Entry>,
}

impl Recorded {
    /// The disk as it was before the change.
    fn start(&self) -> PathBuf {
        self.dir.path().join("start")
    }
}

fn make_device(name: &str, table: &str) {
    let _ = run("dmsetup", &["create", name, "--table", table]).expect_success();
    settle();
}

/// Makes a VG on a disk that records, and changes it once.
fn record(act: impl FnOnce(&Native)) -> Recorded {
    let dir = tempfile::tempdir_in(lvcsi_kit::host::scratch()).expect("a folder");
    let base = Disk::new(dir.path(), "base", SHIFT + DISK, 0);
    let log = Disk::new(dir.path(), "log", LOG, 0);
    let recorder = format!("lvcsilog{}", std::process::id());
    let name = format!("lvcsipv{}", std::process::id());
    let mapped = |name: &str| Path::new("/dev/mapper").join(name);
    let node = mapped(&name);
    make_device(
        &recorder,
        &format!(
            "0 {} log-writes {} {}",
            (DISK + SHIFT) / 512,
            base.path().display(),
            log.path().display()
        ),
    );
    make_device(
        &name,
        &format!(
            "0 {} linear {} {}",
            DISK / 512,
            mapped(&recorder).display(),
            SHIFT / 512
        ),
    );
    // Two metadata areas: there are moments between their headers.
    let spec = VgSpec::disks(1, 0)
        .pvcreate(0, &["--pvmetadatacopies", "2"])
        .vgcreate(&["-s", "1m"]);
    let vg = LoopVg::on_whole(&[&node], &spec);
    let native = Native::open(&vg);
    native.create("keep", 1);
    native.create("old", 2);
    let flush = || {
        File::open(&node)
            .and_then(|disk| disk.sync_all())
            .expect("flush")
    };
    flush();
    let disk = std::fs::read(base.file()).expect("the disk");
    std::fs::write(dir.path().join("start"), &disk[SHIFT as usize..]).expect("a copy");
    let mark = |text: &str| {
        let _ = run("dmsetup", &["message", &recorder, "0", "mark", text]).expect_success();
    };
    let before = vg.decode();
    mark(BEGIN);
    act(&native);
    let after = vg.decode();
    flush();
    mark("end");
    drop(native);
    let vg_name = vg.name.clone();
    // Takes its devices down and wipes the disk: lvm2 must not see it beside
    // its copies.
    drop(vg);
    settle();
    for device in [&name, &recorder] {
        let _ = run("dmsetup", &["remove", "--retry", device]).expect_success();
    }
    let entries = logwrites::read(log.file()).expect("the log");
    let entries = logwrites::after_mark(&entries, BEGIN).expect("the mark");
    let end = entries
        .iter()
        .position(|entry| entry.mark.as_deref() == Some("end"))
        .expect("the end");
    let mut entries = entries[..end].to_vec();
    for entry in entries.iter_mut().filter(|entry| !entry.data.is_empty()) {
        entry.offset -= SHIFT;
    }
    Recorded {
        dir,
        vg: vg_name,
        before,
        after,
        entries,
    }
}

/// What was counted.
#[derive(Default)]
struct Counts {
    states: usize,
    by_lvm2: usize,
    gone_on: usize,
    old: usize,
    new: usize,
}

/// Makes every state of the change and judges it.
fn judge(what: &str, recorded: &Recorded, rng: &mut Rng, counts: &mut Counts) {
    let entries = &recorded.entries;
    assert!(
        entries.iter().any(|entry| entry.flush || entry.fua),
        "{what}: nothing was ever made durable"
    );
    // Our last flush and nothing of the change's own would prove nothing.
    let writes = entries
        .iter()
        .filter(|entry| !entry.data.is_empty())
        .count();
    assert!(
        writes >= 4,
        "{what}: two texts and two headers are {writes} writes"
    );
    let start = std::fs::read(recorded.start()).expect("the disk");
    let scratch = Disk::new(recorded.dir.path(), "scratch", DISK, 0);
    let file = OpenOptions::new()
        .write(true)
        .open(scratch.file())
        .expect("the copy");
    let mut seen: BTreeSet<Vec<usize>> = BTreeSet::new();
    let mut texts: HashSet<Vec<Vec<u8>>> = HashSet::new();
    for prefix in 0..=entries.len() {
        let mut choices = vec![
            logwrites::surviving(entries, prefix, |_| true),
            logwrites::surviving(entries, prefix, |_| false),
        ];
        for _ in 0..3 {
            choices.push(logwrites::surviving(entries, prefix, |_| rng.below(2) == 0));
        }
        for chosen in choices {
            if !seen.insert(chosen.clone()) {
                continue;
            }
            counts.states += 1;
            file.write_all_at(&start, 0).expect("the copy");
            logwrites::replay(&file, entries, &chosen).expect("the copy");
            let what = format!(
                "{what}, {prefix} of {} entries, writes {chosen:?}",
                entries.len()
            );
            let headers = old_or_new(&what, recorded, scratch.path(), counts);
            // lvm2 reads metadata alone: what it has judged once, it has judged.
            if texts.insert(headers) {
                counts.by_lvm2 += 1;
                by_lvm2(&what, recorded, scratch.path());
                go_on(&what, recorded);
                counts.gone_on += 1;
            }
        }
    }
}

/// Each area names a whole text, and the newest is the old VG, the new one, or
/// the one with the incomplete LV that comes between. Returns the headers.
fn old_or_new(what: &str, recorded: &Recorded, disk: &Path, counts: &mut Counts) -> Vec<Vec<u8>> {
    let pv = decode::pv(disk).unwrap_or_else(|defect| panic!("{what}: {defect}"));
    let newest = newest(&pv);
    if newest.text == recorded.before.text {
        counts.old += 1;
    } else if newest.text == recorded.after.text {
        counts.new += 1;
    } else {
        let between = recorded.before.seqno + 1..recorded.after.seqno;
        assert!(between.contains(&newest.seqno), "{what}: {}", newest.text);
        let incomplete = |vg: &Vg| {
            let mut tags = vg.lvs.iter().flat_map(|lv| &lv.tags);
            tags.any(|tag| tag == "lvcsi.incomplete")
        };
        assert!(incomplete(&newest), "{what}: {}", newest.text);
    }
    newest.assert_sound();
    pv.mdas.into_iter().map(|mda| mda.header).collect()
}

fn newest(pv: &decode::Pv) -> Vg {
    let texts = pv.mdas.iter().filter_map(|mda| mda.text.as_deref());
    texts
        .map(Vg::from_text)
        .max_by_key(|vg| vg.seqno)
        .expect("a metadata area")
}

fn by_lvm2(what: &str, recorded: &Recorded, disk: &Path) {
    let vg = newest(&decode::pv(disk).expect("decoded before"));
    let columns = "vg_seqno,lv_name";
    let args = ["lvs", "-a", "--noheadings", "-o", columns, &recorded.vg];
    // It may say that one area is older, as it should.
    let ran = run("lvm", &args);
    assert!(ran.success(), "{what}: {ran}");
    let mut rows: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    rows.sort();
    let seqno = vg.seqno.to_string();
    let expected: Vec<Vec<&str>> = vg
        .names()
        .into_iter()
        .map(|name| vec![seqno.as_str(), name])
        .collect();
    assert_eq!(rows, expected, "{what}");
}

/// The driver goes on from there, and afterwards nobody finds a fault.
fn go_on(what: &str, recorded: &Recorded) {
    let native = Native::named(&recorded.vg);
    let recovery = native.engine.recover();
    assert!(
        recovery.problems.is_empty(),
        "{what}: {:?}",
        recovery.problems
    );
    native.ok(Request::Create(CreateLv {
        name: lv("next"),
        size: Size::Bytes(Bytes(1 << 20)),
        tags: vec![],
        layout: Layout::default(),
        wipe: Wipe::Signatures,
        activate: false,
    }));
    let found = native.engine.check(&native.vg).expect("a check");
    assert_eq!(found, [], "{what}");
    Lvm::default().clean(&["vgck", &recorded.vg]);
}

#[test]
fn pitfall_03_a_cut_at_any_write_leaves_the_old_vg_or_the_new() {
    let _tidy = Tidy::new();
    let mut rng = Rng::from_env("pitfall_03");
    let mut counts = Counts::default();
    let new = |wipe: Wipe| {
        Request::Create(CreateLv {
            name: lv("new"),
            size: Size::Bytes(Bytes(2 << 20)),
            tags: vec![],
            layout: Layout::default(),
            wipe,
            activate: true,
        })
    };
    type Act<'a> = Box<dyn FnOnce(&Native) + 'a>;
    let acts: Vec<(&str, Act<'_>)> = vec![
        ("create", Box::new(|n| _ = n.ok(new(Wipe::Signatures)))),
        ("create, zeroed", Box::new(|n| _ = n.ok(new(Wipe::Zero)))),
        ("extend", Box::new(|n| _ = n.extend("old", 4))),
        ("remove", Box::new(|n| _ = n.remove("old"))),
        ("rename", Box::new(|n| _ = n.rename("old", "renamed"))),
        (
            "tag",
            Box::new(|n| {
                let _ = n.ok(Request::Tags {
                    name: lv("old"),
                    add: vec![tag("new")],
                    remove: vec![],
                });
            }),
        ),
    ];
    for (what, act) in acts {
        let recorded = record(act);
        let (old, new) = (counts.old, counts.new);
        judge(what, &recorded, &mut rng, &mut counts);
        assert!(counts.old > old, "{what}: no state has the old VG");
        assert!(counts.new > new, "{what}: no state has the new VG");
    }
    println!(
        "{} states: {} old, {} new; lvm2 read {}, the driver went on from {}",
        counts.states, counts.old, counts.new, counts.by_lvm2, counts.gone_on
    );
    proof(&format!(
        "states of recorded writes: {}, read by lvm2: {}",
        counts.states, counts.by_lvm2
    ));
}
