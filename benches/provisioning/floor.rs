//! The floor: what any program must at least do for one new LV, with nothing
//! around it. Read the metadata header, write a text of the real size, flush,
//! write the header, flush; create, load and resume a linear device; zero its
//! first 4 KiB, flush.
//!
//! It works on a disk of its own, at the offsets where lvm2 would write.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};

use lvcsi_kit::Disk;
use lvcsi_sys::block::flush;
use lvcsi_sys::dm::{DmControl, DmId, TargetLine, UdevFlags};
use lvcsi_sys::{AlignedBuf, DevNo};
use nix::libc::O_DIRECT;

/// Where a metadata area starts by default.
const MDA: u64 = 4096;
/// Sectors of the device, 64 MiB as in the other programs.
const SECTORS: u64 = 64 << 11;
/// First sector of the data area: behind 16 MiB of metadata.
const DATA: u64 = 32 << 11;

/// The floor on one disk.
pub(crate) struct Floor {
    disk: File,
    number: DevNo,
    dm: DmControl,
    udev: bool,
    /// What the last creation made.
    device: Cell<Option<DevNo>>,
}

impl Floor {
    pub(crate) fn new(disk: &Disk, udev: bool) -> Self {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(O_DIRECT)
            .open(disk.path())
            .expect("disk of the floor");
        let dm = DmControl::open().expect("device-mapper");
        Self {
            disk: file,
            number: disk.devno(),
            dm,
            udev,
            device: Cell::new(None),
        }
    }

    /// One "creation" with a metadata text of `text` bytes.
    pub(crate) fn create(&self, name: &str, text: usize) -> Duration {
        let zeros = AlignedBuf::zeroed(4096);
        let uuid = format!("LVCSI-FLOOR-{name}");
        let table = [TargetLine {
            start: 0,
            length: SECTORS,
            kind: "linear".to_owned(),
            params: format!("{} {DATA}", self.number),
        }];
        let commit = Commit::new(text);

        let start = Instant::now();
        commit.run(&self.disk);
        let dev = self.dm.create(name, &uuid).expect("dm create").dev;
        let id = DmId::Dev(dev);
        self.dm.load(&id, &table, false).expect("dm load");
        self.dm.resume(&id, self.event()).expect("dm resume");
        let device = OpenOptions::new()
            .write(true)
            .custom_flags(O_DIRECT)
            .open(format!("/dev/dm-{}", dev.minor))
            .expect("node of the device");
        device.write_all_at(&zeros, 0).expect("zero");
        flush(&device).expect("flush zeros");
        let took = start.elapsed();
        self.device.set(Some(dev));
        took
    }

    /// One "removal" of what [`create`](Self::create) made last: the same
    /// metadata change, and the device goes.
    pub(crate) fn remove(&self, text: usize) -> Duration {
        let dev = self.device.take().expect("a device was created");
        let commit = Commit::new(text);
        let start = Instant::now();
        commit.run(&self.disk);
        self.dm
            .remove(&DmId::Dev(dev), self.event())
            .expect("dm remove");
        start.elapsed()
    }

    fn event(&self) -> u32 {
        let flags = UdevFlags::DISABLE_LIBRARY_FALLBACK.union(UdevFlags::PRIMARY_SOURCE);
        if self.udev { flags.event(None) } else { 0 }
    }
}

/// The least that changes metadata safely: header read, text, header.
struct Commit {
    text: AlignedBuf,
}

impl Commit {
    fn new(text: usize) -> Self {
        Self {
            text: AlignedBuf::zeroed(text.next_multiple_of(512)),
        }
    }

    fn run(&self, disk: &File) {
        let mut header = AlignedBuf::zeroed(512);
        disk.read_exact_at(&mut header, MDA).expect("read header");
        disk.write_all_at(&self.text, MDA + 512)
            .expect("write text");
        flush(disk).expect("flush text");
        disk.write_all_at(&header, MDA).expect("write header");
        flush(disk).expect("flush header");
    }
}
