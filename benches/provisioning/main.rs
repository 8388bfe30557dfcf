//! Latency of provisioning: lvm2's commands, our engine and the floor, side by
//! side in one run, round by round, so that a noisy machine is noisy for all.
//!
//! `--rounds N` (default 30), `--lvs 0,500` (LVs already in the VG),
//! `--json FILE` (rows), `--check` (fail if a budget is exceeded).
//! `LVCSI_DISKS=/dev/A,/dev/B` names two whole disks that are overwritten, one
//! for the VG and one for the floor; without it, loop devices are used.
//! Needs device-mapper and root: `cargo xtask bench` runs it in the guest.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot measure has nothing better to do than stop"
)]

#[path = "../../tests/common/mod.rs"]
mod common;
mod floor;
mod lvcsi;
mod lvm2;
mod report;
mod strace;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use lvcsi_kit::{Disk, LoopVg, VgSpec, host, paint};

use floor::Floor;
use lvcsi::Native;
use report::{Report, Row};

/// Size of a new LV, in bytes and for lvm2.
pub(crate) const SIZE: (u64, &str) = (64 << 20, "64M");
/// Size after the extension.
pub(crate) const GROWTH: (u64, &str) = (128 << 20, "128M");

struct Options {
    rounds: usize,
    lvs: Vec<usize>,
    json: Option<String>,
    check: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        rounds: 30,
        lvs: vec![0, 500],
        json: None,
        check: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--rounds" => options.rounds = value()?.parse().map_err(|e| format!("{arg}: {e}"))?,
            "--lvs" => {
                let list = value()?;
                let counts = list.split(',').map(str::parse).collect::<Result<_, _>>();
                options.lvs = counts.map_err(|e| format!("--lvs {list}: {e}"))?;
            }
            "--json" => options.json = Some(value()?),
            "--check" => options.check = true,
            // What `cargo bench` adds.
            "--bench" => {}
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    if options.rounds == 0 {
        return Err("--rounds 0 measures nothing".to_owned());
    }
    Ok(options)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, mode, vg] = args.as_slice()
        && mode == "--strace-worker"
    {
        strace::worker(vg);
        return ExitCode::SUCCESS;
    }
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("provisioning: {error}");
            return ExitCode::from(2);
        }
    };
    if !host::has_dm() {
        eprintln!("provisioning: this kernel has no device-mapper; use `cargo xtask bench`");
        return ExitCode::from(2);
    }
    let mut report = Report::default();
    for &lvs in &options.lvs {
        measure(lvs, options.rounds, &mut report);
    }
    if let Some(path) = &options.json {
        report.write_json(path);
    }
    if !options.check {
        return ExitCode::SUCCESS;
    }
    let broken = report.broken_budgets();
    for line in &broken {
        println!("{}", paint::red(line));
    }
    if broken.is_empty() {
        println!("{}", paint::green("all budgets hold"));
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// One VG with `lvs` LVs in it.
fn measure(lvs: usize, rounds: usize, report: &mut Report) {
    let mib = 4096 + 4 * lvs as u64;
    let spec = VgSpec::disks(1, mib).pvcreate(0, &["--metadatasize", "16m"]);
    // Real disks write zeros by a command of theirs, as NVMe does; a loop device
    // on tmpfs does it page by page. They are named by who knows that nobody
    // needs what is on them.
    let disks = std::env::var("LVCSI_DISKS").unwrap_or_default();
    let (vg, spare) = match disks.split_once(',') {
        Some((pv, spare)) => (
            LoopVg::on_whole(&[Path::new(pv)], &spec),
            Disk::whole(Path::new(spare)),
        ),
        None => {
            let vg = LoopVg::with(&spec);
            let spare = Disk::new(vg.dir(), "floor", 1 << 30, 0);
            (vg, spare)
        }
    };
    let floor = Floor::new(&spare, host::has_udev());
    let native = Native::open(&vg.name);
    native.fill(lvs);
    assert_eq!(vg.decode().lvs.len(), lvs, "LVs in the VG");

    // What is done for the first time is done slowly: not measured.
    round(&vg, &native, &floor, usize::MAX, &mut Samples::default());
    let mut samples = Samples::default();
    for n in 0..rounds {
        round(&vg, &native, &floor, n, &mut samples);
    }
    let mut rows = Vec::new();
    for ((op, who), took) in samples.0 {
        rows.push(Row::new(op, who, lvs, &took));
    }
    report.add(lvs, rows, strace::count(&vg));
    vg.assert_clean();
    assert_eq!(
        vg.decode().lvs.len(),
        lvs,
        "the benchmark leaves nothing behind"
    );
}

type Key = (&'static str, &'static str);

#[derive(Default)]
struct Samples(Vec<(Key, Vec<Duration>)>);

impl Samples {
    fn add(&mut self, op: &'static str, who: &'static str, took: Duration) {
        match self.0.iter_mut().find(|(key, _)| *key == (op, who)) {
            Some((_, all)) => all.push(took),
            None => self.0.push(((op, who), vec![took])),
        }
    }
}

/// Everybody once; who begins changes from round to round. Every measurement
/// starts when udev is at rest: lvm2 waits for it by itself, we and the floor
/// do not, and what it still does for one would slow down the next.
fn round(vg: &LoopVg, native: &Native, floor: &Floor, n: usize, samples: &mut Samples) {
    let text = vg.decode().text.len() + 1;
    let name = format!("lv{}", n % 1000);
    let mut add = |op, who, act: &dyn Fn() -> Duration| {
        host::settle();
        samples.add(op, who, act());
    };
    for turn in 0..3 {
        match (n % 3 + turn) % 3 {
            0 => {
                add("create", "lvm2", &|| lvm2::create(vg, &name));
                add("extend", "lvm2", &|| lvm2::extend(vg, &name));
                add("remove", "lvm2", &|| lvm2::remove(vg, &name));
            }
            1 => {
                // lvm2 changed the VG since: the first creation has to read all
                // of it again, the next ones need not.
                add("create after lvm2", "lvcsi", &|| native.create(&name));
                let _ = native.remove(&name);
                add("create", "lvcsi", &|| native.create(&name));
                add("extend", "lvcsi", &|| native.extend(&name));
                add("remove", "lvcsi", &|| native.remove(&name));
            }
            _ => {
                add("create", "floor", &|| {
                    floor.create(&format!("floor-{name}"), text)
                });
                add("remove", "floor", &|| floor.remove(text));
            }
        }
    }
}
