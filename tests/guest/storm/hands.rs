//! The three tools that change LVs of each other: lvm2's commands, our engine
//! and our command line. One loop drives them all.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lvcsi::engine::{EngineError, LvState, Request, Size};
use lvcsi::host::HostError;
use lvcsi_kit::{LoopVg, Ran, Rng, host, lvm, run};
use lvm2::units::Bytes;

use super::commits::Op;
use super::ledger::{Ledger, Side, StormLv};
use crate::common::{Native, create, lv, tag};

/// LVs that may be taken: no fewer are left, and no more are made.
const FEWEST: usize = 3;
const MOST: usize = 10;
/// MiB of the largest LV.
const LARGEST: u64 = 32;
/// The exit status of our command line for a lock time-out.
const TIMED_OUT: i32 = 7;

/// Why something was not done.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nothing was changed, because the lock was not to be had in time.
    Timeout,
    /// Anything else: nothing of the kind may happen.
    Other(String),
}

type Done<T> = Result<T, Trouble>;

/// A tool.
pub(super) trait Hands {
    fn side(&self) -> Side;
    /// Makes an active LV; returns a node that leads to it.
    fn create(&self, name: &str, mib: u64) -> Done<PathBuf>;
    fn extend(&self, name: &str, mib: u64) -> Done<()>;
    fn rename(&self, from: &str, to: &str) -> Done<()>;
    fn remove(&self, name: &str) -> Done<()>;
    /// Adds a tag; false if the tool cannot.
    fn tag(&self, name: &str, tag: &str) -> Done<bool>;
    /// Takes the device down and brings it up; `None` if the tool does not.
    fn reactivate(&self, name: &str) -> Done<Option<PathBuf>>;

    /// The name of an operation in the table of commits.
    fn op(&self, theirs: Op, ours: Op) -> Op {
        match self.side() {
            Side::Lvm2 => theirs,
            Side::Lvcsi => ours,
        }
    }
}

/// What lvm2 says when two of its reports find a commit of ours that has no copy
/// in /etc/lvm/backup: both write one under one name, and the copy of one of them
/// is there.
const COPIED_TWICE: [&str; 2] = [
    ".tmp: rename to /etc/lvm/backup/",
    "Backup of volume group ",
];

/// An lvm2 command that must succeed without a complaint.
pub(super) fn lvm2(args: &[&str]) -> Done<Ran> {
    let ran = run("lvm", args);
    let expected = |line: &str| COPIED_TWICE.iter().any(|words| line.contains(words));
    if ran.success() && lvm::complaints(&ran).into_iter().all(expected) {
        Ok(ran)
    } else {
        Err(Trouble::Other(ran.to_string()))
    }
}

/// lvm2's commands. They wait for locks as long as it takes.
pub(super) struct Lvm2<'a> {
    pub(super) vg: &'a LoopVg,
}

impl Lvm2<'_> {
    /// udev has made the link when the command has ended.
    fn node(&self, name: &str) -> Done<PathBuf> {
        let link = format!("/dev/{}/{name}", self.vg.name);
        std::fs::canonicalize(&link).map_err(|e| Trouble::Other(format!("{link}: {e}")))
    }
}

impl Hands for Lvm2<'_> {
    fn side(&self) -> Side {
        Side::Lvm2
    }

    fn create(&self, name: &str, mib: u64) -> Done<PathBuf> {
        let size = format!("-L{mib}M");
        lvm2(&["lvcreate", "-y", &size, "-n", name, &self.vg.name])?;
        self.node(name)
    }

    fn extend(&self, name: &str, mib: u64) -> Done<()> {
        let size = format!("-L{mib}M");
        lvm2(&["lvextend", &size, &self.vg.lv(name)]).map(drop)
    }

    fn rename(&self, from: &str, to: &str) -> Done<()> {
        lvm2(&["lvrename", &self.vg.name, from, to]).map(drop)
    }

    fn remove(&self, name: &str) -> Done<()> {
        lvm2(&["lvremove", "-y", &self.vg.lv(name)]).map(drop)
    }

    fn tag(&self, name: &str, tag: &str) -> Done<bool> {
        lvm2(&["lvchange", "--addtag", tag, &self.vg.lv(name)]).map(|_| true)
    }

    fn reactivate(&self, name: &str) -> Done<Option<PathBuf>> {
        lvm2(&["lvchange", "-an", &self.vg.lv(name)])?;
        lvm2(&["lvchange", "-ay", &self.vg.lv(name)])?;
        self.node(name).map(Some)
    }
}

/// The engine in this process.
pub(super) struct EngineHands<'a> {
    pub(super) native: &'a Native,
}

impl EngineHands<'_> {
    fn ask(&self, request: Request) -> Done<LvState> {
        self.native.run(request).map_err(|error| trouble(&error))
    }
}

/// Only a lock that was not to be had says that nothing was changed.
fn trouble(error: &EngineError) -> Trouble {
    match error {
        EngineError::Host { source, .. } if matches!(**source, HostError::LockTimeout { .. }) => {
            Trouble::Timeout
        }
        _ => Trouble::Other(error.to_string()),
    }
}

impl Hands for EngineHands<'_> {
    fn side(&self) -> Side {
        Side::Lvcsi
    }

    fn create(&self, name: &str, mib: u64) -> Done<PathBuf> {
        let made = self.ask(create(name, Size::Bytes(Bytes(mib << 20))))?;
        made.node
            .ok_or_else(|| Trouble::Other(format!("{name}: no node")))
    }

    fn extend(&self, name: &str, mib: u64) -> Done<()> {
        let size = Size::Bytes(Bytes(mib << 20));
        self.ask(crate::common::extend(name, size, false)).map(drop)
    }

    fn rename(&self, from: &str, to: &str) -> Done<()> {
        let (name, to) = (lv(from), lv(to));
        self.ask(Request::Rename { name, to }).map(drop)
    }

    fn remove(&self, name: &str) -> Done<()> {
        let request = Request::Remove {
            name: lv(name),
            must_exist: true,
            require_tag: None,
        };
        self.ask(request).map(drop)
    }

    fn tag(&self, name: &str, text: &str) -> Done<bool> {
        let request = Request::Tags {
            name: lv(name),
            add: vec![tag(text)],
            remove: vec![],
        };
        self.ask(request).map(|_| true)
    }

    fn reactivate(&self, name: &str) -> Done<Option<PathBuf>> {
        self.ask(Request::Deactivate { name: lv(name) })?;
        Ok(self.ask(Request::Activate { name: lv(name) })?.node)
    }
}

/// A process of ours for each change.
pub(super) struct CommandLine<'a> {
    pub(super) vg: &'a LoopVg,
}

impl CommandLine<'_> {
    fn ask(&self, args: &[&str]) -> Done<serde_json::Value> {
        let binary = host::binary("lvcsi");
        let mut argv = vec!["lv"];
        argv.extend(args);
        argv.extend(["-o", "json"]);
        let ran = run(&binary.to_string_lossy(), &argv);
        match ran.status {
            Some(0) => serde_json::from_str(&ran.stdout)
                .map_err(|error| Trouble::Other(format!("{error}: {ran}"))),
            Some(TIMED_OUT) if ran.stderr.contains("gave up after") => Err(Trouble::Timeout),
            _ => Err(Trouble::Other(ran.to_string())),
        }
    }
}

impl Hands for CommandLine<'_> {
    fn side(&self) -> Side {
        Side::Lvcsi
    }

    fn create(&self, name: &str, mib: u64) -> Done<PathBuf> {
        let size = format!("{mib}m");
        let made = self.ask(&["create", "-L", &size, "-n", name, &self.vg.name])?;
        match made["node"].as_str() {
            Some(node) => Ok(PathBuf::from(node)),
            None => Err(Trouble::Other(format!("no node in {made}"))),
        }
    }

    fn extend(&self, name: &str, mib: u64) -> Done<()> {
        let size = format!("{mib}m");
        self.ask(&["extend", "-L", &size, &self.vg.lv(name)])
            .map(drop)
    }

    fn rename(&self, from: &str, to: &str) -> Done<()> {
        self.ask(&["rename", &self.vg.lv(from), to]).map(drop)
    }

    fn remove(&self, name: &str) -> Done<()> {
        self.ask(&["remove", "--yes", &self.vg.lv(name)]).map(drop)
    }

    fn tag(&self, _: &str, _: &str) -> Done<bool> {
        Ok(false)
    }

    fn reactivate(&self, _: &str) -> Done<Option<PathBuf>> {
        Ok(None)
    }
}

/// One operation of a tool, on an LV that it takes out of the ledger meanwhile.
pub(super) fn step(hands: &dyn Hands, ledger: &Ledger, rng: &mut Rng) {
    let count = ledger.count(false);
    if count < FEWEST || (count < MOST && rng.below(4) == 0) {
        return make(hands, ledger, rng);
    }
    let Some(mut lv) = ledger.take(false, rng.next_u64()) else {
        return;
    };
    if rng.below(3) == 0 {
        lv.check(ledger);
    }
    let start = Instant::now();
    let done = match rng.below(5) {
        0 if lv.mib < LARGEST => extend(hands, &mut lv),
        1 => rename(hands, &mut lv, rng),
        2 => tagged(hands, &lv, rng),
        3 => reactivated(hands, &mut lv),
        _ if count > FEWEST => {
            lv.check(ledger);
            return remove(hands, ledger, lv);
        }
        _ => extend(hands, &mut lv),
    };
    note(hands, ledger, done, start.elapsed());
    ledger.give(lv);
}

/// Enters what was done, if anything was.
fn note(hands: &dyn Hands, ledger: &Ledger, done: Done<Option<Op>>, took: Duration) {
    match done {
        Ok(Some(op)) => ledger.changed(hands.side(), op, took),
        Ok(None) => {}
        Err(Trouble::Timeout) => ledger.timed_out(hands.side()),
        Err(Trouble::Other(text)) => ledger.fault(format!("{:?} failed: {text}", hands.side())),
    }
}

fn make(hands: &dyn Hands, ledger: &Ledger, rng: &mut Rng) {
    let name = fresh_name(rng);
    let mib = 4 * (1 + rng.below(3));
    let start = Instant::now();
    let made = hands.create(&name, mib);
    let took = start.elapsed();
    let done = match made {
        Ok(node) => {
            let mut lv = StormLv::new(name, mib, node, false);
            lv.write();
            ledger.give(lv);
            Ok(Some(hands.op(Op::TheirCreate, Op::OurCreate)))
        }
        Err(trouble) => Err(trouble),
    };
    note(hands, ledger, done, took);
}

fn remove(hands: &dyn Hands, ledger: &Ledger, lv: StormLv) {
    let start = Instant::now();
    let removed = hands.remove(&lv.name);
    if removed.is_err() {
        ledger.give(lv);
    }
    let op = hands.op(Op::TheirRemove, Op::OurRemove);
    note(hands, ledger, removed.map(|()| Some(op)), start.elapsed());
}

fn extend(hands: &dyn Hands, lv: &mut StormLv) -> Done<Option<Op>> {
    let mib = lv.mib + 4;
    hands.extend(&lv.name, mib)?;
    lv.mib = mib;
    Ok(Some(hands.op(Op::TheirExtend, Op::OurExtend)))
}

fn rename(hands: &dyn Hands, lv: &mut StormLv, rng: &mut Rng) -> Done<Option<Op>> {
    let to = fresh_name(rng);
    hands.rename(&lv.name, &to)?;
    lv.name = to;
    Ok(Some(hands.op(Op::TheirRename, Op::OurRename)))
}

fn tagged(hands: &dyn Hands, lv: &StormLv, rng: &mut Rng) -> Done<Option<Op>> {
    let tag = fresh_name(rng);
    let done = hands.tag(&lv.name, &tag)?;
    Ok(done.then(|| hands.op(Op::TheirTag, Op::OurTag)))
}

fn reactivated(hands: &dyn Hands, lv: &mut StormLv) -> Done<Option<Op>> {
    let Some(node) = hands.reactivate(&lv.name)? else {
        return Ok(None);
    };
    lv.node = node;
    Ok(Some(Op::Activation))
}

/// A name that nobody has had.
pub(super) fn fresh_name(rng: &mut Rng) -> String {
    format!("s{:016x}", rng.next_u64())
}
