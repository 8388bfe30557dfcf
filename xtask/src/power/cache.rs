//! A disk with a volatile cache that a power cut empties, whole or in part.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::rng::Rng;

/// Bytes that a disk writes at once or not at all.
pub(super) const SECTOR: usize = 512;

type Sector = Box<[u8; SECTOR]>;

/// The disk: a file for what is durable, memory for what is not yet.
#[derive(Debug)]
pub(super) struct CachedDisk {
    file: File,
    size: u64,
    /// Sectors written since the last flush; `None` is a sector of zeros.
    volatile: HashMap<u64, Option<Sector>>,
}

impl CachedDisk {
    /// A disk on this file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            file,
            size,
            volatile: HashMap::new(),
        })
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether these bytes are whole sectors of the disk.
    pub(super) fn has(&self, offset: u64, length: usize) -> bool {
        let whole = offset.is_multiple_of(SECTOR as u64) && length.is_multiple_of(SECTOR);
        let end = offset.checked_add(length as u64);
        whole && end.is_some_and(|end| end <= self.size)
    }

    /// What the machine reads: the newest content, durable or not.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)?;
        if self.volatile.is_empty() {
            return Ok(());
        }
        for (number, sector) in (offset / SECTOR as u64..).zip(buffer.chunks_mut(SECTOR)) {
            match self.volatile.get(&number) {
                Some(Some(bytes)) => sector.copy_from_slice(&bytes[..]),
                Some(None) => sector.fill(0),
                None => {}
            }
        }
        Ok(())
    }

    /// Into the cache.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (number, sector) in (offset / SECTOR as u64..).zip(bytes.chunks_exact(SECTOR)) {
            let mut copy = Box::new([0; SECTOR]);
            copy.copy_from_slice(sector);
            self.volatile.insert(number, Some(copy));
        }
    }

    /// Zeros into the cache.
    pub(super) fn zero(&mut self, offset: u64, length: usize) {
        let first = offset / SECTOR as u64;
        let count = (length / SECTOR) as u64;
        self.volatile
            .extend((first..first + count).map(|number| (number, None)));
    }

    /// Makes the sectors of this range durable: a write that asks for it.
    pub(super) fn force(&mut self, offset: u64, length: usize) -> io::Result<()> {
        let first = offset / SECTOR as u64;
        for number in first..first + (length / SECTOR) as u64 {
            if let Some(sector) = self.volatile.remove(&number) {
                self.keep(number, sector.as_ref())?;
            }
        }
        Ok(())
    }

    /// Makes everything durable.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        for (number, sector) in std::mem::take(&mut self.volatile) {
            self.keep(number, sector.as_ref())?;
        }
        Ok(())
    }

    /// The power goes: of the sectors that no flush made durable, some were
    /// written in time, whatever their order. Returns how many were lost.
    pub(super) fn cut(&mut self, rng: &mut Rng) -> io::Result<u64> {
        // All, most, half, few or none: a cache may just have been written
        // back, or not for a long time.
        let kept_of_four = rng.below(5);
        let mut lost = 0;
        let mut sectors: Vec<_> = std::mem::take(&mut self.volatile).into_iter().collect();
        // In an order that the seed can repeat.
        sectors.sort_by_key(|(number, _)| *number);
        for (number, sector) in sectors {
            if rng.below(4) < kept_of_four {
                self.keep(number, sector.as_ref())?;
            } else {
                lost += 1;
            }
        }
        Ok(lost)
    }

    fn keep(&self, number: u64, sector: Option<&Sector>) -> io::Result<()> {
        let offset = number * SECTOR as u64;
        let zeros = [0; SECTOR];
        self.file
            .write_all_at(sector.map_or(&zeros[..], |bytes| &bytes[..]), offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str) -> CachedDisk {
        let path = std::env::temp_dir().join(format!("lvcsi-{name}-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        file.set_len(64 << 10).unwrap();
        let disk = CachedDisk::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        disk
    }

    fn first_bytes(disk: &CachedDisk) -> Vec<u8> {
        let mut all = vec![0; 64 << 10];
        disk.read(0, &mut all).unwrap();
        all.chunks(SECTOR).map(|sector| sector[0]).collect()
    }

    #[test]
    fn what_was_flushed_or_forced_survives_and_the_rest_may_not() {
        let mut lost_some = 0;
        for seed in 0..50 {
            let mut disk = disk("cut");
            disk.write(0, &[1; 8 * SECTOR]);
            disk.flush().unwrap();
            disk.write(8 * 512, &[2; 8 * SECTOR]);
            disk.force(8 * 512, 8 * SECTOR).unwrap();
            disk.write(0, &[3; SECTOR]);
            disk.zero(SECTOR as u64, 7 * SECTOR);
            let before = first_bytes(&disk);
            assert_eq!(
                before[..16],
                [3, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2]
            );
            let lost = disk.cut(&mut Rng::new(seed)).unwrap();
            let after = first_bytes(&disk);
            assert_eq!(after[8..16], [2; 8], "forced");
            let old = after[..8].iter().filter(|byte| **byte == 1).count();
            assert_eq!(old as u64, lost);
            lost_some += u64::from(lost > 0 && lost < 8);
        }
        assert!(lost_some > 10, "a cut is rarely all or nothing");
    }

    #[test]
    fn only_whole_sectors_of_the_disk_are_its_own() {
        let disk = disk("bounds");
        assert!(disk.has(0, 64 << 10));
        assert!(!disk.has(512, 64 << 10));
        assert!(!disk.has(1, 512));
        assert!(!disk.has(u64::MAX - 511, 512));
    }
}
