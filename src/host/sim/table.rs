//! Interpreter of device-mapper tables: linear, striped, error and zero.

use std::io;

use lvm2::tables::{DevNo, Target};
use lvm2::units::{SECTOR, Sectors};

use super::fault::eio;
use super::machine::State;

/// Where a byte of a device really lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    Disk { dev: DevNo, offset: u64 },
    Zero,
    Error,
}

/// A run of bytes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// First byte, counted from the start of the request.
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) spot: Spot,
}

/// A target in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) start: u64,
    pub(super) len: u64,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Linear(Leg),
    Striped { chunk: u64, legs: Vec<Leg> },
    Zero,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Leg {
    dev: DevNo,
    /// Bytes.
    offset: u64,
}

fn einval() -> io::Error {
    const EINVAL: i32 = 22;
    io::Error::from_raw_os_error(EINVAL)
}

impl Line {
    /// Devices that the target uses.
    pub(super) fn below(&self) -> impl Iterator<Item = DevNo> {
        let legs: &[Leg] = match &self.kind {
            Kind::Linear(leg) => std::slice::from_ref(leg),
            Kind::Striped { legs, .. } => legs,
            Kind::Zero | Kind::Error => &[],
        };
        legs.iter().map(|leg| leg.dev)
    }

    /// The target as the kernel prints it: devices as numbers.
    pub(super) fn print(&self) -> Target {
        let leg = |leg: &Leg| format!("{} {}", leg.dev, leg.offset / SECTOR);
        let (kind, params) = match &self.kind {
            Kind::Linear(one) => ("linear", leg(one)),
            Kind::Striped { chunk, legs } => {
                let legs: Vec<String> = legs.iter().map(leg).collect();
                (
                    "striped",
                    format!("{} {} {}", legs.len(), chunk / SECTOR, legs.join(" ")),
                )
            }
            Kind::Zero => ("zero", String::new()),
            Kind::Error => ("error", String::new()),
        };
        Target {
            start: Sectors(self.start / SECTOR),
            len: Sectors(self.len / SECTOR),
            kind: kind.to_owned(),
            params,
        }
    }

    /// The leg and the bytes from `inside` (an offset in the target) that lie
    /// together, at most `len`.
    fn place(&self, inside: u64, len: u64) -> (Option<(DevNo, u64)>, u64) {
        match &self.kind {
            Kind::Linear(leg) => (Some((leg.dev, leg.offset + inside)), len),
            Kind::Striped { chunk, legs } => {
                let count = legs.len() as u64;
                let (number, rest) = (inside / chunk, inside % chunk);
                let leg = &legs[super::pages::index(number % count)];
                let offset = leg.offset + number / count * chunk + rest;
                (Some((leg.dev, offset)), len.min(chunk - rest))
            }
            Kind::Zero | Kind::Error => (None, len),
        }
    }
}

impl State {
    /// Reads a table as the kernel would: targets in order and without gaps,
    /// known types, devices that exist and are large enough.
    pub(super) fn read_table(&self, table: &[Target]) -> io::Result<Vec<Line>> {
        let mut lines = Vec::with_capacity(table.len());
        let mut end = 0;
        for target in table {
            let start = target.start.bytes().0;
            let len = target.len.bytes().0;
            if start != end || len == 0 {
                return Err(einval());
            }
            end = start.checked_add(len).ok_or_else(einval)?;
            lines.push(Line {
                start,
                len,
                kind: self.read_kind(target, len)?,
            });
        }
        Ok(lines)
    }

    fn read_kind(&self, target: &Target, len: u64) -> io::Result<Kind> {
        let words: Vec<&str> = target.params.split_whitespace().collect();
        Ok(match (target.kind.as_str(), words.as_slice()) {
            ("zero", []) => Kind::Zero,
            ("error", []) => Kind::Error,
            ("linear", [dev, offset]) => Kind::Linear(self.leg(dev, offset, len)?),
            ("striped", [count, chunk, legs @ ..]) => {
                let count: usize = count.parse().map_err(|_| einval())?;
                let chunk: u64 = chunk.parse().map_err(|_| einval())?;
                let chunk = chunk.checked_mul(SECTOR).ok_or_else(einval)?;
                let fits = count > 0 && legs.len() == count * 2 && chunk >= 4096;
                if !fits || !len.is_multiple_of(count as u64 * chunk) {
                    return Err(einval());
                }
                let each = len / count as u64;
                let legs: io::Result<_> = legs
                    .chunks(2)
                    .map(|pair| self.leg(pair[0], pair[1], each))
                    .collect();
                Kind::Striped { chunk, legs: legs? }
            }
            _ => return Err(einval()),
        })
    }

    fn leg(&self, dev: &str, offset: &str, len: u64) -> io::Result<Leg> {
        const ENXIO: i32 = 6;
        let named = || self.resolve(dev.as_ref());
        let dev: DevNo = dev.parse().ok().or_else(named).ok_or_else(einval)?;
        let sectors: u64 = offset.parse().map_err(|_| einval())?;
        let offset = sectors.checked_mul(SECTOR).ok_or_else(einval)?;
        let size = self
            .size(dev)
            .ok_or_else(|| io::Error::from_raw_os_error(ENXIO))?;
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(Leg { dev, offset }),
            _ => Err(einval()),
        }
    }

    /// Where the bytes of a request lie.
    pub(super) fn map(&self, dev: DevNo, offset: u64, len: u64) -> io::Result<Vec<Run>> {
        let size = self.size(dev).ok_or_else(eio)?;
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut runs = Vec::new();
        self.map_into(dev, offset, len, 0, &mut runs)?;
        Ok(runs)
    }

    fn map_into(
        &self,
        dev: DevNo,
        offset: u64,
        len: u64,
        at: u64,
        runs: &mut Vec<Run>,
    ) -> io::Result<()> {
        if self.disks.contains_key(&dev) {
            runs.push(Run {
                at,
                len,
                spot: Spot::Disk { dev, offset },
            });
            return Ok(());
        }
        let lines = self
            .mapped
            .get(&dev)
            .and_then(|m| m.active.as_ref())
            .ok_or_else(eio)?;
        let mut done = 0;
        while done < len {
            let here = offset + done;
            let line = lines
                .iter()
                .find(|line| here >= line.start && here - line.start < line.len)
                .ok_or_else(eio)?;
            let inside = here - line.start;
            let (below, part) = line.place(inside, (len - done).min(line.len - inside));
            match below {
                Some((dev, offset)) => self.map_into(dev, offset, part, at + done, runs)?,
                None => {
                    let zero = matches!(line.kind, Kind::Zero);
                    let spot = if zero { Spot::Zero } else { Spot::Error };
                    runs.push(Run {
                        at: at + done,
                        len: part,
                        spot,
                    });
                }
            }
            done += part;
        }
        Ok(())
    }

    /// Whether I/O to a device would wait for a resume.
    pub(super) fn held_back(&self, dev: DevNo) -> bool {
        self.mapped.get(&dev).is_some_and(|mapped| {
            mapped.suspended
                || mapped
                    .active
                    .iter()
                    .flatten()
                    .flat_map(Line::below)
                    .any(|d| self.held_back(d))
        })
    }
}
