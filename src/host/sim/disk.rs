//! A disk with a volatile write cache.

use lvm2::ondisk::geometry::Topology;
use lvm2::tables::DevNo;

use super::pages::{Pages, index};
use crate::host::{DeviceInfo, Unfit};

/// A write that a power cut may still undo.
#[derive(Clone)]
pub(super) struct Pending {
    /// Number of the write, over all disks.
    pub(super) seq: u64,
    pub(super) offset: u64,
    pub(super) data: Data,
}

/// What a write put on the disk.
#[derive(Clone)]
pub(super) enum Data {
    Bytes(Vec<u8>),
    Zeros(u64),
}

impl Data {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(len) => *len,
        }
    }
}

impl Pending {
    fn apply(&self, pages: &mut Pages) {
        match &self.data {
            Data::Bytes(bytes) => pages.write(self.offset, bytes),
            Data::Zeros(len) => pages.zero(self.offset, *len),
        }
    }

    /// Sectors of `block` bytes that the write touches. A long run of zeros
    /// counts in pieces of 64 KiB, which is what a disk might do too, and
    /// keeps a zeroed terabyte from being a billion choices.
    fn pieces(&self, block: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        const LONG: u64 = 1 << 20;
        let step = match self.data {
            Data::Zeros(len) if len > LONG => 1 << 16,
            _ => block,
        };
        let (start, end) = (self.offset, self.offset + self.data.len());
        let mut at = start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let next = ((at / step + 1) * step).min(end);
            let piece = (at, next - at);
            at = next;
            Some(piece)
        })
    }

    /// Applies those pieces for which `keep` says so.
    pub(super) fn apply_some(&self, pages: &mut Pages, block: u64, mut keep: impl FnMut() -> bool) {
        for (offset, len) in self.pieces(block) {
            if !keep() {
                continue;
            }
            match &self.data {
                Data::Bytes(bytes) => {
                    let from = index(offset - self.offset);
                    pages.write(offset, &bytes[from..from + index(len)]);
                }
                Data::Zeros(_) => pages.zero(offset, len),
            }
        }
    }
}

/// A simulated disk.
pub(super) struct Disk {
    pub(super) info: DeviceInfo,
    pub(super) attached: bool,
    pub(super) topology: Topology,
    /// What stands against the disk becoming a PV, beside what the machine
    /// does with it.
    pub(super) unfit: Vec<Unfit>,
    /// What reads see.
    current: Pages,
    /// What survives a power cut for certain.
    durable: Pages,
    /// What lies between the two, oldest first.
    pub(super) pending: Vec<Pending>,
}

impl Disk {
    pub(super) fn new(devno: DevNo, path: &str, size: u64, block_size: u32) -> Self {
        let info = DeviceInfo {
            devno,
            path: path.into(),
            size,
            block_size,
        };
        Self {
            info,
            attached: true,
            topology: Topology::default(),
            unfit: Vec::new(),
            current: Pages::default(),
            durable: Pages::default(),
            pending: Vec::new(),
        }
    }

    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        self.current.read(offset, buf);
    }

    pub(super) fn write(&mut self, seq: u64, offset: u64, data: Data) {
        let write = Pending { seq, offset, data };
        write.apply(&mut self.current);
        self.pending.push(write);
    }

    /// Makes every write durable.
    pub(super) fn flush(&mut self) {
        for write in self.pending.drain(..) {
            self.durable
                .adopt(&self.current, write.offset, write.data.len());
        }
    }

    /// Puts bytes on the disk behind everybody's back, durably.
    pub(super) fn poke(&mut self, offset: u64, data: &[u8]) {
        self.current.write(offset, data);
        self.durable.write(offset, data);
    }

    /// What reads see.
    pub(super) fn content(&self) -> &Pages {
        &self.current
    }

    /// Makes `pages` the durable content.
    pub(super) fn restore(&mut self, pages: Pages) {
        self.pending.clear();
        self.durable = pages.clone();
        self.current = pages;
    }

    /// What a power cut leaves: the durable content, with those of the
    /// pending writes that `apply` chooses to put on it.
    pub(super) fn power_cut(&mut self, mut apply: impl FnMut(&Pending, &mut Pages)) {
        for write in self.pending.drain(..) {
            apply(&write, &mut self.durable);
        }
        self.current = self.durable.clone();
    }

    /// Applies the whole of a write.
    pub(super) fn keep_all(write: &Pending, pages: &mut Pages) {
        write.apply(pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Disk {
        Disk::new(DevNo { major: 8, minor: 0 }, "/dev/sda", 1 << 30, 512)
    }

    fn bytes(disk: &Disk, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        disk.read(offset, &mut buf);
        buf
    }

    #[test]
    fn a_flushed_write_survives_and_an_unflushed_one_need_not() {
        let mut disk = disk();
        disk.write(0, 0, Data::Bytes(b"kept".to_vec()));
        disk.flush();
        disk.write(1, 0, Data::Bytes(b"lost".to_vec()));
        assert_eq!(bytes(&disk, 0, 4), b"lost");
        disk.power_cut(|_, _| {});
        assert_eq!(bytes(&disk, 0, 4), b"kept");
    }

    #[test]
    fn a_flush_does_not_make_a_neighbour_in_the_same_page_volatile() {
        let mut disk = disk();
        disk.write(0, 0, Data::Bytes(vec![1; 512]));
        disk.flush();
        disk.write(1, 512, Data::Bytes(vec![2; 512]));
        disk.power_cut(|_, _| {});
        assert_eq!(bytes(&disk, 0, 1024), [vec![1; 512], vec![0; 512]].concat());
    }

    #[test]
    fn a_torn_write_is_torn_at_block_borders() {
        let mut disk = disk();
        disk.write(0, 256, Data::Bytes(vec![9; 1024]));
        let mut first = true;
        disk.power_cut(|write, pages| {
            write.apply_some(pages, 512, || std::mem::replace(&mut first, false));
        });
        assert_eq!(bytes(&disk, 256, 256), vec![9; 256]);
        assert_eq!(bytes(&disk, 512, 1024), vec![0; 1024]);
    }

    #[test]
    fn zeros_are_volatile_like_any_write() {
        let mut disk = disk();
        disk.write(0, 0, Data::Bytes(vec![5; 8192]));
        disk.flush();
        disk.write(1, 0, Data::Zeros(8192));
        assert_eq!(bytes(&disk, 0, 8192), vec![0; 8192]);
        disk.power_cut(|_, _| {});
        assert_eq!(bytes(&disk, 0, 8192), vec![5; 8192]);
        disk.write(2, 0, Data::Zeros(8192));
        disk.power_cut(Disk::keep_all);
        assert_eq!(bytes(&disk, 0, 8192), vec![0; 8192]);
    }
}
