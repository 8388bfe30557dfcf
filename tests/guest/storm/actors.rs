//! Who takes part: one loop each, on one VG, until the storm is over.

use std::time::{Duration, Instant};

use lvcsi_kit::{Csi, Driver, LoopVg, Rng};
use tonic::Code;

use super::commits::Op;
use super::hands::{self, CommandLine, EngineHands, Lvm2, Trouble, lvm2};
use super::ledger::{Ledger, Side, StormLv};
use crate::common::{Native, lv};
use crate::support::MIB;

/// CSI volumes that a VG has at most, and MiB of the largest.
const VOLUMES: usize = 4;
const LARGEST: u64 = 16;
/// We do in milliseconds what takes lvm2 a second. Without a pause between two
/// of our operations the storm would show the emulator's speed, not the locks.
const PAUSE_MS: u64 = 100;

/// What an actor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Actor {
    /// lvm2's commands that change something.
    Lvm2,
    /// Our engine in this process.
    Engine,
    /// `lvcsi lv …`.
    CommandLine,
    /// `lvcsi standalone`.
    Csi,
    /// `lvs` and `vgs`.
    TheirReports,
    /// Our reports.
    OurReports,
}

impl Actor {
    pub(super) const ALL: [Self; 6] = [
        Self::Lvm2,
        Self::Engine,
        Self::CommandLine,
        Self::Csi,
        Self::TheirReports,
        Self::OurReports,
    ];

    /// Loops until `end`.
    pub(super) fn run(
        self,
        vg: &LoopVg,
        ledger: &Ledger,
        driver: &Driver,
        mut rng: Rng,
        end: Instant,
    ) {
        let native = Native::open(vg);
        let csi = driver.csi();
        while Instant::now() < end {
            match self {
                Self::Lvm2 => hands::step(&Lvm2 { vg }, ledger, &mut rng),
                Self::Engine => hands::step(&EngineHands { native: &native }, ledger, &mut rng),
                Self::CommandLine => hands::step(&CommandLine { vg }, ledger, &mut rng),
                Self::Csi => volume(vg, ledger, &native, &csi, &mut rng),
                Self::TheirReports => their_report(vg, ledger, &mut rng),
                Self::OurReports => our_report(ledger, &native),
            }
            if !matches!(self, Self::Lvm2 | Self::TheirReports) {
                let pause = Duration::from_millis(rng.below(PAUSE_MS));
                native.engine.host().clock.pause(pause);
            }
        }
    }
}

fn their_report(vg: &LoopVg, ledger: &Ledger, rng: &mut Rng) {
    // The last one takes the global lock too, and every VG's one by one.
    let args: &[&str] = match rng.below(3) {
        0 => &["lvs", "-a", &vg.name],
        1 => &["vgs", &vg.name],
        _ => &["vgs"],
    };
    match lvm2(args) {
        Ok(ran) => ledger.reported(Side::Lvm2, ran.took),
        Err(Trouble::Timeout) => ledger.timed_out(Side::Lvm2),
        Err(Trouble::Other(text)) => ledger.fault(text),
    }
}

fn our_report(ledger: &Ledger, native: &Native) {
    let start = Instant::now();
    match native.engine.vg(&native.vg) {
        Ok(_) => ledger.reported(Side::Lvcsi, start.elapsed()),
        Err(error) => ledger.fault(error.to_string()),
    }
}

/// One call of the CSI driver, on a raw block volume of its own.
fn volume(vg: &LoopVg, ledger: &Ledger, native: &Native, csi: &Csi, rng: &mut Rng) {
    let count = ledger.count(true);
    let start = Instant::now();
    if count == 0 || (count < VOLUMES && rng.below(3) == 0) {
        let name = hands::fresh_name(rng);
        let mib = 4 * (1 + rng.below(2));
        let made = insist(ledger, || csi.create(&vg.name, &name, mib as i64 * MIB, ""));
        if made.is_some() {
            ledger.changed(Side::Lvcsi, Op::CsiCreate, start.elapsed());
            let found = native.engine.find(&lv(&name)).expect("the volume");
            let node = found[0].node.clone().expect("a node");
            let mut lv = StormLv::new(name, mib, node, true);
            lv.write();
            ledger.give(lv);
        }
        return;
    }
    let Some(mut lv) = ledger.take(true, rng.next_u64()) else {
        return;
    };
    lv.check(ledger);
    if lv.mib < LARGEST && rng.below(2) == 0 {
        let mib = lv.mib + 4;
        if insist(ledger, || csi.expand(&lv.name, mib as i64 * MIB)).is_some() {
            ledger.changed(Side::Lvcsi, Op::CsiExpand, start.elapsed());
            lv.mib = mib;
        }
    } else if insist(ledger, || csi.delete(&lv.name)).is_some() {
        ledger.changed(Side::Lvcsi, Op::CsiDelete, start.elapsed());
        return;
    }
    ledger.give(lv);
}

/// Repeats a call as an orchestrator would when its lock timed out.
fn insist<T>(ledger: &Ledger, call: impl Fn() -> Result<T, tonic::Status>) -> Option<T> {
    loop {
        match call() {
            Ok(answer) => return Some(answer),
            Err(status) if status.code() == Code::DeadlineExceeded => {
                ledger.timed_out(Side::Lvcsi);
            }
            Err(status) => {
                ledger.fault(status.to_string());
                return None;
            }
        }
    }
}
