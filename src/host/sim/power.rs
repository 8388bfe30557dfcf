//! Deaths of processes and of the machine.

use super::SimHost;
use super::disk::Disk;
use crate::host::Host;

/// What becomes of writes that were not flushed when the power goes. Flushed
/// writes always stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPolicy {
    /// All of them stay.
    Keep,
    /// All of them are lost.
    Drop,
    /// The oldest ones stay, over all disks, and some blocks of the next one.
    Prefix {
        /// So many whole writes.
        writes: usize,
        /// So many logical blocks of the write after these.
        blocks: u64,
    },
    /// Every logical block of every write stays or goes by a coin with this
    /// seed: disks write in any order.
    Subset {
        /// Seed of the coin.
        seed: u64,
    },
}

impl SimHost {
    /// Number of writes that a power cut could still undo.
    #[must_use]
    pub fn unflushed(&self) -> usize {
        self.machine
            .state()
            .disks
            .values()
            .map(|disk| disk.pending.len())
            .sum()
    }

    /// Cuts the power and boots again: processes are dead, locks free,
    /// device-mapper and the mount table empty, and the disks hold what was
    /// flushed and what `policy` leaves of the rest.
    pub fn crash(&self, policy: CrashPolicy) {
        self.kill();
        let mut state = self.machine.state();
        state.mounts.clear();
        state.mapped.clear();
        state.locks.clear();
        state.generation += 1;
        // The number of the first write that is not kept whole.
        let mut numbers: Vec<u64> = state
            .disks
            .values()
            .flat_map(|disk| &disk.pending)
            .map(|write| write.seq)
            .collect();
        numbers.sort_unstable();
        let mut coin = match policy {
            CrashPolicy::Subset { seed } => seed,
            _ => 0,
        };
        let mut flip = || {
            // A linear congruence, of which the top bit is good enough.
            coin = coin
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            coin >> 63 == 1
        };
        for disk in state.disks.values_mut() {
            let block = u64::from(disk.info.block_size);
            disk.power_cut(|write, pages| match policy {
                CrashPolicy::Keep => Disk::keep_all(write, pages),
                CrashPolicy::Drop => {}
                CrashPolicy::Prefix { writes, blocks } => match numbers.get(writes) {
                    Some(limit) if write.seq > *limit => {}
                    Some(limit) if write.seq == *limit => {
                        let mut left = blocks;
                        write.apply_some(pages, block, || {
                            let keep = left > 0;
                            left = left.saturating_sub(1);
                            keep
                        });
                    }
                    _ => Disk::keep_all(write, pages),
                },
                CrashPolicy::Subset { .. } => write.apply_some(pages, block, &mut flip),
            });
        }
        self.machine.changed.notify_all();
    }

    /// Kills every process: locks and open files go; disks with their caches,
    /// device-mapper and mounts stay.
    pub fn kill(&self) {
        self.machine.state().kill_all();
        self.machine.changed.notify_all();
    }

    /// Kills every process and starts a new one.
    #[must_use]
    pub fn restart(&self) -> Host {
        self.kill();
        self.host()
    }
}
