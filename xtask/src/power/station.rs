//! One machine with its disks: boot, judge, load, cut, and again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::books::{Books, Faults};
use super::machine::{Machine, Parts};
use super::nbd::Served;
use super::rng::Rng;
use super::wire::{Found, Line, Request};
use crate::guest::qemu::with_path;

const DISKS: usize = 2;
/// Bytes of a disk.
const SIZE: u64 = 64 << 20;
/// The power goes while the machine says one of its first lines of load. Lines
/// and not seconds: how much it gets done in a second depends on who else uses
/// the host.
const LINES: u64 = 40;
/// A machine that gets nothing done is cut too.
const LONGEST: Duration = Duration::from_secs(60);

/// What a cut does to writes that were not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    /// Nothing: whatever reached the emulator is on its file.
    Kept,
    /// Each sector may be lost, whatever the order.
    Lost,
}

/// What a station has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Cuts in the middle of load, judged.
    pub(super) cuts: u64,
    /// Requests acknowledged before them.
    pub(super) acknowledged: u64,
    /// Requests in flight at the cuts.
    pub(super) in_flight: u64,
    /// Cuts after which metadata areas differed.
    pub(super) differed: u64,
    /// LVs found half made.
    pub(super) incomplete: u64,
    /// Sectors that the disks' caches lost.
    pub(super) sectors: u64,
    /// What was wrong.
    pub(super) faults: Faults,
}

/// A machine whose power is cut again and again.
pub(super) struct Station<'a> {
    pub(super) name: &'static str,
    pub(super) parts: &'a Parts,
    /// Folder of the disks and the console.
    pub(super) dir: PathBuf,
    /// Folder of the sockets.
    pub(super) sockets: PathBuf,
    pub(super) cache: Cache,
    pub(super) rng: Rng,
}

impl Station<'_> {
    /// Cuts until `wanted` cuts were judged or the time is up, and judges the
    /// last one too. Stops at the first fault.
    pub(super) fn run(&mut self, wanted: u64, until: Option<Instant>) -> Result<Counts> {
        let mut counts = Counts::default();
        let mut books = Books::default();
        let mut fresh = true;
        let mut cut_in_load = false;
        loop {
            let booted = Instant::now();
            let (disks, served) = self.plug_in()?;
            let mut machine = Machine::start(self.parts, &self.dir, &disks)?;
            let found = Self::recovered(&mut machine, fresh, &mut counts)?;
            fresh = false;
            counts.faults = books.judge(&found);
            counts.cuts += u64::from(cut_in_load);
            let enough = counts.cuts >= wanted || until.is_some_and(|end| Instant::now() >= end);
            if enough || !counts.faults.is_empty() {
                machine.cut()?;
                counts.acknowledged = books.acknowledged();
                return Ok(counts);
            }
            let boot = booted.elapsed();
            let before = books.acknowledged();
            let begun = self.load(machine, &mut books, &mut counts)?;
            // A cut that hit nothing proves nothing.
            cut_in_load = begun > 0;
            counts.in_flight += books.in_flight();
            for disk in served {
                counts.sectors += disk.lost().context("a disk")?;
            }
            println!(
                "power {}: cut {:>3}, booted in {:.1} s, {} volumes, then {} acknowledged, {} in flight",
                self.name,
                counts.cuts + u64::from(cut_in_load),
                boot.as_secs_f64(),
                found.len(),
                books.acknowledged() - before,
                books.in_flight()
            );
            if !counts.faults.is_empty() {
                return Ok(counts);
            }
        }
    }

    /// Makes the folders and the empty disks.
    pub(super) fn prepare(&self) -> Result<()> {
        for dir in [&self.dir, &self.sockets] {
            fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        }
        for path in self.files() {
            let file =
                File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
            file.set_len(SIZE)?;
        }
        Ok(())
    }

    fn files(&self) -> [PathBuf; DISKS] {
        std::array::from_fn(|number| self.dir.join(format!("disk{number}.raw")))
    }

    /// QEMU's names of the disks, and who serves them.
    fn plug_in(&mut self) -> Result<(Vec<String>, Vec<Served>)> {
        let files = self.files();
        if self.cache == Cache::Kept {
            let names = files.iter().map(|path| with_path("", path, ""));
            return Ok((names.collect(), Vec::new()));
        }
        let (mut names, mut served) = (Vec::new(), Vec::new());
        for (number, file) in files.iter().enumerate() {
            let socket = self.sockets.join(format!("disk{number}"));
            remove_old(&socket)?;
            let rng = Rng::new(self.rng.next());
            let disk = Served::start(&socket, file, rng)
                .with_context(|| format!("cannot serve {}", file.display()))?;
            served.push(disk);
            names.push(with_path("nbd:unix:", &socket, ""));
        }
        Ok((names, served))
    }

    /// Waits until the driver has recovered and lvm2 has judged; what is there.
    fn recovered(
        machine: &mut Machine,
        fresh: bool,
        counts: &mut Counts,
    ) -> Result<BTreeMap<String, Found>> {
        let mut found = BTreeMap::new();
        loop {
            match machine.line()? {
                Line::Booted => machine.answer(if fresh { "fresh" } else { "again" })?,
                Line::Cut { differ, incomplete } => {
                    counts.differed += u64::from(differ);
                    counts.incomplete += incomplete;
                    machine.answer("ok")?;
                }
                Line::Volume(name, volume) => {
                    found.insert(name, volume);
                    machine.answer("ok")?;
                }
                Line::Checked => return Ok(found),
                other => bail!("{other:?} out of turn"),
            }
        }
    }

    /// Lets the machine work until a random moment; how many requests it began.
    fn load(
        &mut self,
        mut machine: Machine,
        books: &mut Books,
        counts: &mut Counts,
    ) -> Result<u64> {
        machine.answer(&format!("load {}", self.rng.next()))?;
        let start = Instant::now();
        let mut end = start + LONGEST;
        let last = 1 + self.rng.below(LINES);
        let (mut lines, mut begun) = (0, 0);
        while let Some(line) = machine.line_until(end)? {
            begun += u64::from(matches!(line, Line::Begin(..)));
            let answer = note(line, books, &mut counts.faults)?;
            machine.answer(&answer)?;
            lines += 1;
            if lines == last {
                // Any moment within the time that two lines take.
                let two = start.elapsed().as_micros() * 2 / u128::from(lines);
                let two = u64::try_from(two).unwrap_or(u64::MAX);
                end = Instant::now() + Duration::from_micros(self.rng.below(two.max(1)));
            }
        }
        // Said before the cut, and not heard until now.
        for line in machine.cut()? {
            begun += u64::from(matches!(line, Line::Begin(..)));
            note(line, books, &mut counts.faults)?;
        }
        Ok(begun)
    }

    /// Removes the folder of the sockets.
    pub(super) fn remove_sockets(&self) -> Result<()> {
        fs::remove_dir_all(&self.sockets)
            .with_context(|| format!("cannot remove {}", self.sockets.display()))
    }
}

/// Enters a line of the load into the books; the answer to it.
fn note(line: Line, books: &mut Books, faults: &mut Faults) -> Result<String> {
    match line {
        Line::Begin(name, request) => {
            let generation = books.begin(&name, request);
            return Ok(match request {
                Request::Write { .. } => generation.to_string(),
                _ => "ok".to_owned(),
            });
        }
        Line::Done(name, size) => faults.extend(books.done(&name, size)),
        Line::Refused(name) => books.refused(&name),
        Line::Failed(why) => bail!("the machine cannot go on: {why}"),
        other => bail!("{other:?} out of turn"),
    }
    Ok("ok".to_owned())
}

/// A socket that an earlier machine left.
fn remove_old(socket: &Path) -> Result<()> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", socket.display()))
        }
        _ => Ok(()),
    }
}
