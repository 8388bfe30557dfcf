//! What the host knows of every volume: what was acknowledged, and what was
//! asked for and not answered when the power went. It judges what the machine
//! finds after the next boot.

use std::collections::BTreeMap;

use super::wire::{Found, Holds, Kind, Request, Run};

/// Bytes of a sector.
const SECTOR: u64 = 512;
/// What the driver wipes at both ends of a volume for a file system.
const WIPED: u64 = 512 << 10;

/// A volume that was acknowledged, or that the machine has shown.
#[derive(Debug, Clone)]
struct Volume {
    kind: Kind,
    /// Bytes now, and when it was made.
    size: u64,
    made: u64,
    /// The last acknowledged pattern, and how many bytes it has.
    written: Option<(u64, u64)>,
    /// Patterns that a cut interrupted since then; any sector of theirs may
    /// have come through.
    begun: Vec<(u64, u64)>,
}

/// The books of one VG.
#[derive(Debug, Default)]
pub(super) struct Books {
    volumes: BTreeMap<String, Volume>,
    /// Requests without an answer, by volume.
    in_flight: BTreeMap<String, Request>,
    generation: u64,
    acknowledged: u64,
}

/// What stands against the machine, one sentence each.
pub(super) type Faults = Vec<String>;

impl Books {
    /// Notes that the machine is about to do something; returns what it has to
    /// write, if it writes.
    pub(super) fn begin(&mut self, name: &str, request: Request) -> u64 {
        if let Request::Write { size, .. } = request {
            self.generation += 1;
            let generation = self.generation;
            self.in_flight
                .insert(name.to_owned(), Request::Write { size, generation });
        } else {
            self.in_flight.insert(name.to_owned(), request);
        }
        self.generation
    }

    /// Notes that it was done; of a volume made or grown, its size as answered.
    pub(super) fn done(&mut self, name: &str, size: u64) -> Faults {
        let Some(request) = self.in_flight.remove(name) else {
            return vec![format!("{name}: done, and nobody asked for it")];
        };
        self.acknowledged += 1;
        let mut faults = Vec::new();
        match request {
            Request::Create { size: wanted, kind } => {
                if size < wanted {
                    faults.push(format!("{name}: {wanted} bytes asked for, {size} given"));
                }
                self.volumes
                    .insert(name.to_owned(), Volume::new(kind, size));
            }
            Request::Extend { to } => match self.volumes.get_mut(name) {
                Some(volume) if size >= to => volume.size = size,
                _ => faults.push(format!("{name}: {to} bytes asked for, {size} given")),
            },
            Request::Remove => _ = self.volumes.remove(name),
            Request::Write { size, generation } => {
                if let Some(volume) = self.volumes.get_mut(name) {
                    volume.written = Some((generation, size));
                    volume.begun.clear();
                }
            }
        }
        faults
    }

    /// Notes that it was refused and nothing done.
    pub(super) fn refused(&mut self, name: &str) {
        self.in_flight.remove(name);
    }

    /// Requests without an answer.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.len() as u64
    }

    /// Requests answered since the beginning.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Compares with what the machine has after a recovery, and goes on from
    /// there: what was in flight has happened or not.
    pub(super) fn judge(&mut self, found: &BTreeMap<String, Found>) -> Faults {
        let mut faults = Vec::new();
        for (name, request) in std::mem::take(&mut self.in_flight) {
            self.settle(&name, request, found.get(&name), &mut faults);
        }
        for (name, found) in found {
            match self.volumes.get(name) {
                Some(volume) => volume.judge(name, found, &mut faults),
                None => faults.push(format!("{name}: there, and nobody asked for it")),
            }
        }
        for name in self
            .volumes
            .keys()
            .filter(|name| !found.contains_key(*name))
        {
            faults.push(format!("{name}: acknowledged, and gone"));
        }
        faults
    }

    fn settle(&mut self, name: &str, request: Request, found: Option<&Found>, faults: &mut Faults) {
        match (request, found) {
            (Request::Create { size, kind }, Some(found)) => {
                if found.size != size {
                    faults.push(format!("{name}: made with {} of {size} bytes", found.size));
                }
                self.volumes
                    .insert(name.to_owned(), Volume::new(kind, found.size));
            }
            (Request::Create { .. }, None) => {}
            (Request::Remove, None) => _ = self.volumes.remove(name),
            (Request::Remove, Some(_)) => {}
            (Request::Extend { to }, Some(found)) => {
                if let Some(volume) = self.volumes.get_mut(name)
                    && found.size == to
                {
                    volume.size = to;
                }
            }
            (Request::Write { size, generation }, _) => {
                if let Some(volume) = self.volumes.get_mut(name) {
                    volume.begun.push((generation, size));
                }
            }
            // Its absence is found below.
            (Request::Extend { .. }, None) => {}
        }
    }
}

impl Volume {
    fn new(kind: Kind, size: u64) -> Self {
        Self {
            kind,
            size,
            made: size,
            written: None,
            begun: Vec::new(),
        }
    }

    fn judge(&self, name: &str, found: &Found, faults: &mut Faults) {
        if found.size != self.size {
            faults.push(format!("{name}: {} bytes, not {}", found.size, self.size));
        }
        if found.incomplete {
            faults.push(format!("{name}: still marked incomplete"));
        }
        if found.kind != Some(self.kind) {
            faults.push(format!("{name}: {:?}, not {:?}", found.kind, self.kind));
        }
        let mut at = 0;
        for run in &found.runs {
            let end = at + run.sectors * SECTOR;
            if let Some(wrong) = self.first_wrong(at, end, run) {
                faults.push(format!(
                    "{name}: byte {wrong} of {} holds {:?}; written {:?}, begun {:?}",
                    self.size, run.holds, self.written, self.begun
                ));
                return;
            }
            at = end;
        }
        if at != found.size {
            faults.push(format!("{name}: {at} bytes reported of {}", found.size));
        }
    }

    /// The first byte of the run that may not hold this.
    fn first_wrong(&self, start: u64, end: u64, run: &Run) -> Option<u64> {
        // Between these bytes the same rules hold.
        let mut edges = vec![
            start,
            end,
            WIPED,
            self.made.saturating_sub(WIPED),
            self.made,
        ];
        edges.extend(
            self.written
                .iter()
                .chain(&self.begun)
                .map(|(_, size)| *size),
        );
        edges.retain(|edge| (start..end).contains(edge));
        edges.sort_unstable();
        edges
            .into_iter()
            .find(|edge| !self.allows(*edge, run.holds))
    }

    fn allows(&self, at: u64, holds: Holds) -> bool {
        let begun = self
            .begun
            .iter()
            .any(|(generation, size)| at < *size && holds == Holds::Own(*generation));
        if begun {
            return true;
        }
        match self.written {
            Some((generation, size)) if at < size => holds == Holds::Own(generation),
            // Never written: a raw volume shows zeros, one for a file system
            // shows them where signatures would be.
            _ if self.kind == Kind::Block => holds == Holds::Zero,
            _ => {
                let head = at < WIPED.min(self.made);
                let tail = (self.made.saturating_sub(WIPED)..self.made).contains(&at);
                !(head || tail) || holds == Holds::Zero
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn runs(parts: &[(Holds, u64)]) -> Vec<Run> {
        let run = |&(holds, bytes): &(Holds, u64)| Run {
            sectors: bytes / SECTOR,
            holds,
        };
        parts.iter().map(run).collect()
    }

    fn found(size: u64, parts: &[(Holds, u64)]) -> BTreeMap<String, Found> {
        let found = Found {
            size,
            kind: Some(Kind::Block),
            incomplete: false,
            runs: runs(parts),
        };
        BTreeMap::from([("v".to_owned(), found)])
    }

    fn create(size: u64) -> Request {
        Request::Create {
            size,
            kind: Kind::Block,
        }
    }

    /// A raw volume of 2 MiB that holds generation 1.
    fn written() -> Books {
        let mut books = Books::default();
        books.begin("v", create(2 * MIB));
        assert!(books.done("v", 2 * MIB).is_empty());
        let write = Request::Write {
            size: 2 * MIB,
            generation: 0,
        };
        assert_eq!(books.begin("v", write), 1);
        assert!(books.done("v", 2 * MIB).is_empty());
        books
    }

    #[test]
    fn what_was_acknowledged_must_be_there() {
        let own = [(Holds::Own(1), 2 * MIB)];
        assert!(written().judge(&found(2 * MIB, &own)).is_empty());
        assert_eq!(written().judge(&BTreeMap::new()).len(), 1);
        let one_sector = [
            (Holds::Own(1), MIB),
            (Holds::Zero, 512),
            (Holds::Own(1), MIB - 512),
        ];
        let faults = written().judge(&found(2 * MIB, &one_sector));
        assert!(faults[0].contains("byte 1048576"), "{faults:?}");
        assert_eq!(
            written().judge(&found(MIB, &[(Holds::Own(1), MIB)])).len(),
            1
        );
    }

    #[test]
    fn what_was_removed_must_not_come_back() {
        let mut books = written();
        books.begin("v", Request::Remove);
        let own = found(2 * MIB, &[(Holds::Own(1), 2 * MIB)]);
        assert!(books.judge(&own).is_empty(), "in flight, not done yet");
        books.begin("v", Request::Remove);
        assert!(books.judge(&BTreeMap::new()).is_empty(), "in flight, done");
        let mut books = written();
        books.begin("v", Request::Remove);
        assert!(books.done("v", 0).is_empty());
        assert_eq!(books.judge(&own).len(), 1);
    }

    #[test]
    fn what_was_in_flight_may_be_there_but_whole() {
        let mut books = Books::default();
        books.begin("v", create(MIB));
        assert!(books.judge(&BTreeMap::new()).is_empty());
        books.begin("v", create(MIB));
        assert!(books.judge(&found(MIB, &[(Holds::Zero, MIB)])).is_empty());
        let old_content = found(MIB, &[(Holds::Zero, 512), (Holds::Foreign, MIB - 512)]);
        assert_eq!(books.judge(&old_content).len(), 1);
        books.begin("w", create(MIB));
        let mut half = found(MIB, &[(Holds::Zero, MIB)]);
        let mut incomplete = half["v"].clone();
        incomplete.incomplete = true;
        half.insert("w".to_owned(), incomplete);
        assert_eq!(books.judge(&half).len(), 1);
    }

    #[test]
    fn an_interrupted_write_leaves_old_and_new_sectors_and_an_extension_zeros() {
        let mut books = written();
        let write = Request::Write {
            size: 2 * MIB,
            generation: 0,
        };
        assert_eq!(books.begin("v", write), 2);
        let mixed = [(Holds::Own(2), MIB), (Holds::Own(1), MIB)];
        assert!(books.judge(&found(2 * MIB, &mixed)).is_empty());
        books.begin("v", Request::Extend { to: 3 * MIB });
        assert!(books.judge(&found(2 * MIB, &mixed)).is_empty());
        books.begin("v", Request::Extend { to: 3 * MIB });
        let mut grown = mixed.to_vec();
        grown.push((Holds::Zero, MIB));
        assert!(books.judge(&found(3 * MIB, &grown)).is_empty());
        grown[2].0 = Holds::Foreign;
        assert_eq!(books.judge(&found(3 * MIB, &grown)).len(), 1);
    }

    #[test]
    fn under_a_file_system_only_the_ends_are_zero() {
        let mut books = Books::default();
        let kind = Kind::Mount;
        books.begin(
            "v",
            Request::Create {
                size: 2 * MIB,
                kind,
            },
        );
        assert!(books.done("v", 2 * MIB).is_empty());
        let parts = [
            (Holds::Zero, WIPED),
            (Holds::Foreign, MIB),
            (Holds::Zero, WIPED),
        ];
        let mut map = found(2 * MIB, &parts);
        let volume = map.get_mut("v").unwrap();
        volume.kind = Some(Kind::Mount);
        assert!(books.judge(&map).is_empty());
        map.get_mut("v").unwrap().runs =
            runs(&[(Holds::Zero, WIPED), (Holds::Foreign, 2 * MIB - WIPED)]);
        assert_eq!(books.judge(&map).len(), 1);
    }
}
