//! A storm: lvm2's commands and everything of ours change two VGs at the same
//! time, and hand LVs to each other. Its own level, `cargo xtask test storm`.

mod actors;
mod commits;
mod hands;
mod ledger;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lvcsi_kit::{Driver, LoopVg, Rng, VgSpec, proof, run};

use crate::common::Native;
use crate::support::{Tidy, all_well, settle};
use actors::Actor;
use commits::Commits;
use ledger::{Ledger, Side};

/// How long the storm lasts.
fn duration() -> Duration {
    let minutes = if proof::nightly() { 20 } else { 2 };
    Duration::from_secs(minutes * 60)
}

/// Nobody may wait for one command so many times as long as lvm2's slowest takes
/// undisturbed: there are six others, and two CPUs.
const LONGEST: u32 = 40;
/// On a fast machine neither is a shorter wait than this.
const ANY_WAIT: Duration = Duration::from_secs(60);
/// Each side makes at least this part of the changes of each VG, in per cent.
/// lvm2 takes fifty times as long for one, lock or no lock.
const SHARE: u64 = 5;
/// Lock time-outs that are allowed, in per cent of the changes.
const TIMEOUTS: u64 = 5;
/// Where one command of lvm2 takes longer than this alone, a few of them in
/// front of us take longer than our deadline of 20 s: time-outs are the rule.
const SLOW: Duration = Duration::from_secs(4);

#[test]
fn beside_lvm2_nothing_is_lost_and_nobody_starves() {
    let _tidy = Tidy::new();
    let mut rng = Rng::from_env("storm");
    let vgs = [(); 2].map(|()| LoopVg::with(&VgSpec::disks(2, 1024)));
    let driver = Driver::start(vgs[0].dir());
    let commits = Commits::measure(&vgs[0], &driver);
    let timeouts = if commits.slowest < SLOW {
        TIMEOUTS
    } else {
        100
    };
    let longest = ANY_WAIT.max(commits.slowest * LONGEST);
    println!("one operation, measured quietly: {commits:?}");

    let ledgers = vgs.each_ref().map(|vg| Ledger::new(vg, &commits));
    let end = Instant::now() + duration();
    std::thread::scope(|scope| {
        for (vg, ledger) in vgs.iter().zip(&ledgers) {
            for actor in Actor::ALL {
                let rng = Rng::new(rng.next_u64());
                let driver = &driver;
                scope.spawn(move || actor.run(vg, ledger, driver, rng, end));
            }
        }
    });
    settle();

    let mut faults = Vec::new();
    let mut operations: BTreeMap<Side, u64> = BTreeMap::new();
    for (vg, ledger) in vgs.iter().zip(&ledgers) {
        let outcome = ledger.close(vg);
        println!("{}: {outcome}", vg.name);
        for (side, stats) in &outcome.sides {
            *operations.entry(*side).or_default() += stats.operations();
            assert!(
                stats.longest < longest,
                "{}: {side:?} waited {:?}, and {longest:?} is long enough",
                vg.name,
                stats.longest
            );
            let share = stats.changes * 100 / outcome.changes().max(1);
            assert!(share >= SHARE, "{}: {side:?} starved: {share} %", vg.name);
        }
        assert!(
            outcome.timeouts() * 100 <= outcome.changes() * timeouts,
            "{}: {} lock time-outs",
            vg.name,
            outcome.timeouts()
        );
        faults.extend(outcome.faults);
        let native = Native::open(vg);
        all_well(vg, &native);
    }
    nothing_stuck();
    proof(&format!(
        "storm: {} operations by lvm2, {} by lvcsi, lost: {}",
        operations[&Side::Lvm2],
        operations[&Side::Lvcsi],
        faults.len()
    ));
    assert!(faults.is_empty(), "{faults:#?}");
}

/// No device is suspended or has a table that waits, and no transaction with
/// udev is open.
fn nothing_stuck() {
    let info = run("dmsetup", &["info"]).expect_success().stdout;
    for line in info.lines() {
        if let Some(state) = line.strip_prefix("State:") {
            assert_eq!(state.trim(), "ACTIVE", "{info}");
        }
        if let Some(tables) = line.strip_prefix("Tables present:") {
            assert_eq!(tables.trim(), "LIVE", "{info}");
        }
    }
    let cookies = run("dmsetup", &["udevcookies"]).expect_success();
    assert!(!cookies.stdout.contains("0x"), "{cookies}");
}
