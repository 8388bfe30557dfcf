//! A machine in memory, for tests: disks with a volatile write cache,
//! device-mapper, locks, mounts and a clock, any call of which can be made to
//! fail.
//!
//! [`SimHost`] is the machine. Every [`SimHost::host`] is one process on it:
//! processes share disks, device-mapper and mounts, exclude each other by
//! locks, and die one by one ([`Fault::Crash`], [`SimHost::kill`]) or all at
//! once with the power ([`SimHost::crash`]).

mod block;
mod candidate;
mod clock;
mod disk;
mod dm;
mod fault;
mod fs;
mod journal;
mod locks;
mod machine;
mod pages;
mod power;
mod setup;
mod store;
mod superblock;
mod table;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod trouble;

use std::path::Path;
use std::sync::Arc;

use lvm2::tables::DevNo;

pub use fault::{Call, CallKind, Fault};
pub use journal::{DiskEvent, DiskImage};
pub use power::CrashPolicy;
pub use setup::{SetupError, VgLayout};

use self::disk::Disk;
use self::machine::{Machine, Process};
use super::{Host, Identity};

/// A simulated machine. Clones are the same machine.
#[derive(Clone)]
pub struct SimHost {
    machine: Arc<Machine>,
}

impl Default for SimHost {
    fn default() -> Self {
        Self::new()
    }
}

impl SimHost {
    /// A machine without disks. Its clock and randomness are the same in
    /// every run.
    #[must_use]
    pub fn new() -> Self {
        Self::with_seed(1)
    }

    /// Like [`new`](Self::new) with other random numbers.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        Self {
            machine: Arc::new(Machine::new(seed)),
        }
    }

    /// A new process on the machine, called `sim` and without a system id.
    #[must_use]
    pub fn host(&self) -> Host {
        self.host_as(Identity {
            hostname: "sim".to_owned(),
            kernel: "Linux 6.1.0 #1 SMP x86_64".to_owned(),
            ..Identity::default()
        })
    }

    /// A new process on the machine that knows it by another identity.
    #[must_use]
    pub fn host_as(&self, identity: Identity) -> Host {
        let id = self.machine.state().id();
        let process = Arc::new(Process {
            machine: Arc::clone(&self.machine),
            id,
        });
        Host {
            block: Arc::<Process>::clone(&process),
            dm: Arc::<Process>::clone(&process),
            locks: Arc::<Process>::clone(&process),
            lvm2: Arc::<Process>::clone(&process),
            fs: Arc::<Process>::clone(&process),
            clock: Arc::<Process>::clone(&process),
            copies: process,
            identity,
        }
    }

    /// Adds an empty disk of `size` bytes with logical blocks of `block_size`
    /// bytes (512 or 4096) at the node `path`.
    pub fn add_disk(&self, path: &str, size: u64, block_size: u32) -> DevNo {
        let mut state = self.machine.state();
        let count = u32::try_from(state.disks.len()).unwrap_or(u32::MAX);
        let devno = DevNo {
            major: 8,
            minor: count.saturating_mul(16),
        };
        state
            .disks
            .insert(devno, Disk::new(devno, path, size, block_size));
        state.generation += 1;
        devno
    }

    /// Raw access to the disk at `path`, past faults, log and write cache.
    #[must_use]
    pub fn disk(&self, path: &str) -> RawDisk {
        RawDisk {
            sim: self.clone(),
            path: path.to_owned(),
        }
    }

    /// Pulls the plug of the disk: reads and writes fail, discovery does not
    /// list it any more.
    pub fn detach(&self, path: &str) {
        self.plug(path, false);
    }

    /// Puts a detached disk back, with its content and number.
    pub fn attach(&self, path: &str) {
        self.plug(path, true);
    }

    /// What udev reports when a program has written to a disk and closed it.
    pub fn touch(&self) {
        self.machine.state().generation += 1;
        self.machine.changed.notify_all();
    }

    fn plug(&self, path: &str, attached: bool) {
        let mut state = self.machine.state();
        state.generation += 1;
        let disk = state
            .disks
            .values_mut()
            .find(|disk| disk.info.path == Path::new(path));
        if let Some(disk) = disk {
            disk.attached = attached;
        }
        drop(state);
        self.machine.changed.notify_all();
    }

    /// Every call of every process since the start or
    /// [`clear_calls`](Self::clear_calls), in order. Its index is the number
    /// that [`fail_at`](Self::fail_at) takes.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.machine.state().faults.calls.clone()
    }

    /// Forgets the log: the next call has number 0.
    pub fn clear_calls(&self) {
        self.machine.state().faults.calls.clear();
    }

    /// Makes the call of this number fail.
    pub fn fail_at(&self, number: u64, fault: Fault) {
        self.machine.state().faults.at(number, fault);
    }

    /// Makes this call and every later one of `kind` fail, on this object or
    /// on any, until [`clear_faults`](Self::clear_faults).
    pub fn fail_from(&self, number: u64, kind: CallKind, object: Option<&str>, fault: Fault) {
        self.machine
            .state()
            .faults
            .from(number, kind, object, fault);
    }

    /// Makes one call of this kind fail, after `nth` more of them went well.
    pub fn on(&self, kind: CallKind, nth: u64, fault: Fault) {
        self.machine.state().faults.on(kind, nth, fault);
    }

    /// Makes every call on `object` (as the log names it) fail, if it is of
    /// this kind, until [`clear_faults`](Self::clear_faults).
    pub fn always(&self, kind: Option<CallKind>, object: &str, fault: Fault) {
        self.machine.state().faults.always(kind, object, fault);
    }

    /// Forgets every fault that has not happened yet.
    pub fn clear_faults(&self) {
        self.machine.state().faults.clear();
    }

    /// Lets every hanging call go on.
    pub fn unhang(&self) {
        self.machine.state().faults.releases += 1;
        self.machine.changed.notify_all();
    }

    /// Number of calls that hang now.
    #[must_use]
    pub fn hanging(&self) -> usize {
        self.machine.state().faults.hanging
    }

    /// Names of the locks that somebody holds.
    #[must_use]
    pub fn held_locks(&self) -> Vec<String> {
        let state = self.machine.state();
        let held = state
            .locks
            .iter()
            .filter(|(_, holders)| !holders.is_empty());
        held.map(|(name, _)| name.clone()).collect()
    }

    /// Takes the lock directory away, as in a container that was not given the
    /// host's.
    pub fn hide_locks(&self) {
        self.machine.state().no_locks = Some("/run/lock/lvm".into());
    }

    /// Removes every link to a device-mapper device.
    pub fn unlink(&self, dev: DevNo) {
        if let Some(mapped) = self.machine.state().mapped.get_mut(&dev) {
            mapped.links.clear();
        }
    }

    /// Makes lvm2's directory of backups, `/etc/lvm/backup`, be there.
    pub fn add_lvm2_dir(&self) {
        self.machine.state().lvm2_dir = true;
    }

    /// Number of openers of a device: processes, file systems and tables.
    #[must_use]
    pub fn open_count(&self, dev: DevNo) -> u32 {
        self.machine.state().open_count(dev)
    }
}

/// Raw access to a disk's content. Reads see what the machine sees; writes
/// are durable at once.
#[derive(Clone)]
pub struct RawDisk {
    sim: SimHost,
    path: String,
}

impl RawDisk {
    /// The `len` bytes at `offset`; empty if there is no such disk.
    #[must_use]
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let state = self.sim.machine.state();
        let found = state
            .disks
            .values()
            .find(|disk| disk.info.path == Path::new(&self.path));
        let Some(disk) = found else { return Vec::new() };
        let mut buf = vec![0; len];
        disk.read(offset, &mut buf);
        buf
    }

    /// Puts `data` at `offset`.
    pub fn write(&self, offset: u64, data: &[u8]) {
        let mut state = self.sim.machine.state();
        let disk = state
            .disks
            .values_mut()
            .find(|disk| disk.info.path == Path::new(&self.path));
        if let Some(disk) = disk {
            disk.poke(offset, data);
        }
    }
}
