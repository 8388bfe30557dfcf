//! What all actors of one VG share: the LVs, and who did what.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lvcsi_kit::pattern::{self, Content};
use lvcsi_kit::{LoopVg, decode};

use super::commits::{Commits, Op};

/// Whose code did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Lvm2,
    Lvcsi,
}

/// An LV of the storm. Whoever works on it has taken it out of the ledger.
#[derive(Debug, Clone)]
pub(super) struct StormLv {
    pub(super) name: String,
    /// The name in its pattern, which stays when it is renamed.
    pub(super) origin: String,
    pub(super) generation: u64,
    pub(super) mib: u64,
    /// A node that leads to its device.
    pub(super) node: PathBuf,
    /// A CSI volume, which nobody else touches.
    pub(super) csi: bool,
}

/// Bytes at the beginning of each LV that hold its pattern.
const WRITTEN: u64 = 512 << 10;

impl StormLv {
    /// One that was just made, without a pattern.
    pub(super) fn new(name: String, mib: u64, node: PathBuf, csi: bool) -> Self {
        Self {
            origin: name.clone(),
            name,
            generation: 0,
            mib,
            node,
            csi,
        }
    }

    /// Looks at the content.
    pub(super) fn check(&self, ledger: &Ledger) {
        if let Some(fault) = self.fault() {
            ledger.fault(fault);
        }
    }

    /// Writes the next generation of the pattern.
    pub(super) fn write(&mut self) {
        self.generation += 1;
        pattern::write_device(&self.node, &self.origin, self.generation, WRITTEN)
            .unwrap_or_else(|e| panic!("{}: {}: {e}", self.name, self.node.display()));
    }

    /// What is wrong with the content, if anything is.
    pub(super) fn fault(&self) -> Option<String> {
        let runs = match pattern::read_device(&self.node, &self.origin, WRITTEN) {
            Ok(runs) => runs,
            Err(error) => return Some(format!("{}: {}: {error}", self.name, self.node.display())),
        };
        let right = runs.len() == 1 && runs[0].content == Content::Own(self.generation);
        (!right).then(|| {
            format!(
                "{}: generation {}, holds {runs:?}",
                self.name, self.generation
            )
        })
    }
}

/// One side's work in a VG.
#[derive(Debug, Clone, Default)]
pub(super) struct Stats {
    pub(super) changes: u64,
    pub(super) reports: u64,
    pub(super) timeouts: u64,
    pub(super) longest: Duration,
}

impl Stats {
    pub(super) fn operations(&self) -> u64 {
        self.changes + self.reports
    }
}

#[derive(Default)]
struct Pages {
    lvs: Vec<StormLv>,
    sides: BTreeMap<Side, Stats>,
    commits: i64,
    faults: Vec<String>,
}

/// The ledger of one VG.
pub(super) struct Ledger {
    pages: Mutex<Pages>,
    start: i64,
    commits: Commits,
}

/// What the ledger says at the end.
pub(super) struct Outcome {
    pub(super) sides: BTreeMap<Side, Stats>,
    pub(super) faults: Vec<String>,
    commits: i64,
}

impl Ledger {
    pub(super) fn new(vg: &LoopVg, commits: &Commits) -> Self {
        Self {
            pages: Mutex::default(),
            start: vg.decode().seqno,
            commits: commits.clone(),
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many LVs of this kind are there for the taking.
    pub(super) fn count(&self, csi: bool) -> usize {
        self.pages().lvs.iter().filter(|lv| lv.csi == csi).count()
    }

    /// Takes one of this kind; `choice` is any number.
    pub(super) fn take(&self, csi: bool, choice: u64) -> Option<StormLv> {
        let mut pages = self.pages();
        let count = pages.lvs.iter().filter(|lv| lv.csi == csi).count() as u64;
        let wanted = choice.checked_rem(count)? as usize;
        let mut of_kind = pages.lvs.iter().enumerate().filter(|(_, lv)| lv.csi == csi);
        let (index, _) = of_kind.nth(wanted)?;
        Some(pages.lvs.swap_remove(index))
    }

    /// Gives it back, or gives a new one.
    pub(super) fn give(&self, lv: StormLv) {
        self.pages().lvs.push(lv);
    }

    /// Notes a change that was made.
    pub(super) fn changed(&self, side: Side, op: Op, took: Duration) {
        let commits = self.commits.of(op);
        let mut pages = self.pages();
        pages.commits += commits;
        let stats = pages.sides.entry(side).or_default();
        stats.changes += 1;
        stats.longest = stats.longest.max(took);
    }

    /// Notes a report that was read.
    pub(super) fn reported(&self, side: Side, took: Duration) {
        let mut pages = self.pages();
        let stats = pages.sides.entry(side).or_default();
        stats.reports += 1;
        stats.longest = stats.longest.max(took);
    }

    /// Notes a lock that could not be had in time.
    pub(super) fn timed_out(&self, side: Side) {
        self.pages().sides.entry(side).or_default().timeouts += 1;
    }

    /// Notes something wrong.
    pub(super) fn fault(&self, fault: String) {
        println!("storm: {fault}");
        self.pages().faults.push(fault);
    }

    /// Compares with the disks: LVs, sizes, content, sequence number.
    pub(super) fn close(&self, vg: &LoopVg) -> Outcome {
        let decoded = vg.decode();
        let pages = self.pages();
        let mut faults = pages.faults.clone();
        let expected = self.start + pages.commits;
        if decoded.seqno != expected {
            faults.push(format!(
                "{}: seqno {}, and {expected} by the commits of both sides",
                vg.name, decoded.seqno
            ));
        }
        for lv in &pages.lvs {
            match decoded.lv(&lv.name) {
                None => faults.push(format!("{}/{}: lost", vg.name, lv.name)),
                Some(found) => faults.extend(wrong_size(vg, lv, found, decoded.extent_size)),
            }
            faults.extend(lv.fault());
        }
        let known = |name: &str| pages.lvs.iter().any(|lv| lv.name == name);
        for name in decoded.names().into_iter().filter(|name| !known(name)) {
            faults.push(format!("{}/{name}: left over", vg.name));
        }
        Outcome {
            sides: pages.sides.clone(),
            faults,
            commits: pages.commits,
        }
    }
}

fn wrong_size(vg: &LoopVg, lv: &StormLv, found: &decode::Lv, extent: i64) -> Option<String> {
    let mib = found.extents() * extent / 2048;
    let right = u64::try_from(mib) == Ok(lv.mib);
    (!right).then(|| format!("{}/{}: {mib} MiB, not {}", vg.name, lv.name, lv.mib))
}

impl Outcome {
    pub(super) fn changes(&self) -> u64 {
        self.sides.values().map(|stats| stats.changes).sum()
    }

    pub(super) fn timeouts(&self) -> u64 {
        self.sides.values().map(|stats| stats.timeouts).sum()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commits", self.commits)?;
        for (side, stats) in &self.sides {
            write!(
                f,
                "; {side:?}: {} changes, {} reports, {} lock time-outs, longest {:.1} s",
                stats.changes,
                stats.reports,
                stats.timeouts,
                stats.longest.as_secs_f64()
            )?;
        }
        Ok(())
    }
}
