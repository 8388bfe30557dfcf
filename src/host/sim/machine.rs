//! The machine that all simulated processes share.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lvm2::tables::DevNo;

use super::candidate::Notes;
use super::disk::{Data, Disk};
use super::dm::Mapped;
use super::fault::{Call, CallKind, Fault, Faults, eio};
use super::fs::Mounted;
use super::journal::DiskEvent;
use super::locks::Holder;
use super::pages::index;
use super::table::Spot;

/// An open device of a process.
pub(super) struct OpenFile {
    pub(super) process: u64,
    pub(super) dev: DevNo,
    /// Nobody else may use the device.
    pub(super) exclusive: bool,
}

/// Everything there is on the machine.
pub(super) struct State {
    pub(super) disks: BTreeMap<DevNo, Disk>,
    pub(super) mapped: BTreeMap<DevNo, Mapped>,
    pub(super) open: BTreeMap<u64, OpenFile>,
    pub(super) locks: BTreeMap<String, Vec<Holder>>,
    /// The lock directory that is missing.
    pub(super) no_locks: Option<PathBuf>,
    pub(super) mounts: Vec<Mounted>,
    /// Directories (`true`) and files.
    pub(super) paths: BTreeMap<PathBuf, bool>,
    /// Copies of metadata: content and time.
    pub(super) files: BTreeMap<PathBuf, (Vec<u8>, u64)>,
    /// Whether lvm2's directory of backups is there.
    pub(super) lvm2_dir: bool,
    pub(super) faults: Faults,
    /// What the disks were told, while somebody wants to know.
    pub(super) journal: Option<Vec<DiskEvent>>,
    pub(super) notes: Notes,
    /// Processes that died by themselves.
    dead: BTreeSet<u64>,
    /// Every process up to this number died with the others.
    all_dead: u64,
    /// Changes when devices come, go or change size.
    pub(super) generation: u64,
    pub(super) now: Duration,
    pub(super) random: u64,
    next_id: u64,
    next_write: u64,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        let mut paths = BTreeMap::new();
        paths.insert(PathBuf::from("/"), true);
        paths.insert(PathBuf::from("/dev"), true);
        Self {
            disks: BTreeMap::new(),
            mapped: BTreeMap::new(),
            open: BTreeMap::new(),
            locks: BTreeMap::new(),
            no_locks: None,
            mounts: Vec::new(),
            paths,
            files: BTreeMap::new(),
            lvm2_dir: false,
            faults: Faults::default(),
            journal: None,
            notes: Notes::default(),
            dead: BTreeSet::new(),
            all_dead: 0,
            generation: 1,
            now: Duration::from_secs(1000),
            random: seed,
            next_id: 0,
            next_write: 0,
        }
    }

    /// A number that was not used for a process, file or lock before.
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Records an event, if there is a record.
    pub(super) fn note(&mut self, event: impl FnOnce() -> DiskEvent) {
        if let Some(journal) = &mut self.journal {
            journal.push(event());
        }
    }

    /// The process is gone: so are its locks and open files.
    pub(super) fn kill(&mut self, process: u64) {
        self.dead.insert(process);
        self.open.retain(|_, file| file.process != process);
        for holders in self.locks.values_mut() {
            holders.retain(|holder| holder.process != process);
        }
    }

    /// Every process there is dies.
    pub(super) fn kill_all(&mut self) {
        self.all_dead = self.id();
        self.dead.clear();
        self.open.clear();
        for holders in self.locks.values_mut() {
            holders.clear();
        }
    }

    /// The next word of the seeded sequence (splitmix64).
    pub(super) fn random_word(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// The disk or mapped device that a path names.
    pub(super) fn resolve(&self, path: &Path) -> Option<DevNo> {
        let disk = self
            .disks
            .values()
            .find(|disk| disk.attached && disk.info.path == path);
        if let Some(disk) = disk {
            return Some(disk.info.devno);
        }
        let text = path.to_str()?;
        let found = self.mapped.iter().find(|(dev, mapped)| {
            text == format!("/dev/dm-{}", dev.minor) || mapped.links.iter().any(|link| link == text)
        });
        found.map(|(dev, _)| *dev)
    }

    /// The node of a device, for messages and logs.
    pub(super) fn node(&self, dev: DevNo) -> PathBuf {
        match self.disks.get(&dev) {
            Some(disk) => disk.info.path.clone(),
            None => format!("/dev/dm-{}", dev.minor).into(),
        }
    }

    /// Size in bytes; `None` if there is no such device.
    pub(super) fn size(&self, dev: DevNo) -> Option<u64> {
        match self.disks.get(&dev) {
            Some(disk) => disk.attached.then_some(disk.info.size),
            None => self.mapped.get(&dev).map(Mapped::size),
        }
    }

    pub(super) fn block_size(&self, dev: DevNo) -> u32 {
        if let Some(disk) = self.disks.get(&dev) {
            return disk.info.block_size;
        }
        let below = self.mapped.get(&dev).map(Mapped::below).unwrap_or_default();
        below
            .iter()
            .map(|dev| self.block_size(*dev))
            .max()
            .unwrap_or(512)
    }

    /// Whether the process that `enter`ed may still go on.
    pub(super) fn alive(&self, process: u64) -> io::Result<()> {
        if process <= self.all_dead || self.dead.contains(&process) {
            Err(eio())
        } else {
            Ok(())
        }
    }

    pub(super) fn read(&self, dev: DevNo, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        for run in self.map(dev, offset, buf.len() as u64)? {
            let part = &mut buf[index(run.at)..index(run.at + run.len)];
            match run.spot {
                Spot::Disk { dev, offset } => self.disk(dev)?.read(offset, part),
                Spot::Zero => part.fill(0),
                Spot::Error => return Err(eio()),
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, dev: DevNo, offset: u64, data: &[u8]) -> io::Result<()> {
        for run in self.map(dev, offset, data.len() as u64)? {
            let part = &data[index(run.at)..index(run.at + run.len)];
            self.put(run.spot, Data::Bytes(part.to_vec()))?;
        }
        Ok(())
    }

    pub(super) fn zero(&mut self, dev: DevNo, offset: u64, length: u64) -> io::Result<()> {
        for run in self.map(dev, offset, length)? {
            self.put(run.spot, Data::Zeros(run.len))?;
        }
        Ok(())
    }

    fn put(&mut self, spot: Spot, data: Data) -> io::Result<()> {
        let seq = self.next_write;
        match spot {
            Spot::Disk { dev, offset } => {
                self.disk(dev)?;
                let disk = self.disks.get_mut(&dev).ok_or_else(eio)?;
                if let Some(journal) = &mut self.journal {
                    journal.push(DiskEvent::write(disk, offset, &data));
                }
                disk.write(seq, offset, data);
                self.next_write += 1;
                Ok(())
            }
            Spot::Zero => Ok(()),
            Spot::Error => Err(eio()),
        }
    }

    /// Makes the writes of a device and of all below it durable.
    pub(super) fn flush(&mut self, dev: DevNo) -> io::Result<()> {
        if self.disks.contains_key(&dev) {
            self.disk(dev)?;
            if let Some(disk) = self.disks.get_mut(&dev) {
                disk.flush();
                if let Some(journal) = &mut self.journal {
                    journal.push(DiskEvent::flush(disk));
                }
            }
            return Ok(());
        }
        let below = self.mapped.get(&dev).map(Mapped::below).ok_or_else(eio)?;
        below.into_iter().try_for_each(|dev| self.flush(dev))
    }

    fn disk(&self, dev: DevNo) -> io::Result<&Disk> {
        self.disks
            .get(&dev)
            .filter(|disk| disk.attached)
            .ok_or_else(eio)
    }

    /// Whether somebody has claimed the device: an exclusive opener, a file
    /// system or a table. Plain openers do not.
    pub(super) fn claimed(&self, dev: DevNo) -> bool {
        let alone = |file: &OpenFile| file.dev == dev && file.exclusive;
        self.open.values().any(alone)
            || self.mounts.iter().any(|mount| mount.device == Some(dev))
            || self.mapped.values().any(|mapped| mapped.holds(dev))
    }

    /// Who has a device open: processes, file systems and tables on top.
    pub(super) fn open_count(&self, dev: DevNo) -> u32 {
        let files = self.open.values().filter(|file| file.dev == dev).count();
        let mounted = usize::from(self.mounts.iter().any(|mount| mount.device == Some(dev)));
        let above = self
            .mapped
            .values()
            .filter(|mapped| mapped.holds(dev))
            .count();
        u32::try_from(files + mounted + above).unwrap_or(u32::MAX)
    }
}

/// The shared machine and its waiting room.
pub(super) struct Machine {
    state: Mutex<State>,
    /// Signalled at every event that a call may wait for.
    pub(super) changed: Condvar,
}

impl Machine {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(State::new(seed)),
            changed: Condvar::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait_for<'a>(
        &self,
        state: MutexGuard<'a, State>,
        time: Duration,
    ) -> MutexGuard<'a, State> {
        let answer = self.changed.wait_timeout(state, time);
        answer.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A process on the machine: what one [`Host`](crate::host::Host) stands for.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) machine: Arc<Machine>,
    pub(super) id: u64,
}

/// How much of a failing write reaches the disk.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Half,
    All,
}

/// A call that was let in.
pub(super) struct Entered<'a> {
    pub(super) state: MutexGuard<'a, State>,
    /// The write shall be answered by an error after this much of it.
    pub(super) fails_after: Option<Part>,
}

impl Process {
    /// Logs a call and lets it in, or makes it fail as the rules say.
    pub(super) fn enter(
        &self,
        kind: CallKind,
        object: impl Into<String>,
        offset: u64,
        len: u64,
    ) -> io::Result<Entered<'_>> {
        let mut state = self.machine.state();
        state.alive(self.id)?;
        let fault = state.faults.enter(Call {
            kind,
            object: object.into(),
            offset,
            len,
        });
        match fault {
            None => Ok(Entered {
                state,
                fails_after: None,
            }),
            Some(Fault::ShortWrite) if kind == CallKind::Write => Ok(Entered {
                state,
                fails_after: Some(Part::Half),
            }),
            Some(Fault::LostAnswer) if kind == CallKind::Write => Ok(Entered {
                state,
                fails_after: Some(Part::All),
            }),
            Some(Fault::Hang) => {
                let before = state.faults.releases;
                state.faults.hanging += 1;
                self.machine.changed.notify_all();
                while state.faults.releases == before && state.alive(self.id).is_ok() {
                    state = self.machine.wait(state);
                }
                state.faults.hanging -= 1;
                state.alive(self.id)?;
                Ok(Entered {
                    state,
                    fails_after: None,
                })
            }
            Some(Fault::Crash) => {
                state.kill(self.id);
                self.machine.changed.notify_all();
                Err(eio())
            }
            Some(fault) => Err(fault.error()),
        }
    }

    /// Waits until no device on the way down from `dev` is suspended.
    pub(super) fn unsuspended<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        dev: DevNo,
    ) -> io::Result<MutexGuard<'a, State>> {
        while state.held_back(dev) {
            state.alive(self.id)?;
            state = self.machine.wait(state);
        }
        state.alive(self.id)?;
        Ok(state)
    }
}
