//! The disks on which the operations run, with old content all over them.

use lvcsi::host::sim::{DiskImage, SimHost, VgLayout};
use lvm2::units::{ExtentSize, Sectors};

/// Name of the VG.
pub(crate) const VG: &str = "lvcsicrash";
pub(crate) const MIB: u64 = 1 << 20;
/// Old content lies in the first and the last page of every such piece.
pub(crate) const PIECE: u64 = 128 << 10;
/// Bytes of a page.
pub(crate) const PAGE: u64 = PAGE_LEN as u64;
const PAGE_LEN: usize = 4096;
/// What a former tenant left.
const OLD: u8 = 0xa5;

/// How the disks of the VG look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) disks: usize,
    pub(crate) block_size: u32,
    two_areas: bool,
    without_area: usize,
    data_start: u64,
}

impl Layout {
    pub(crate) fn new(disks: usize) -> Self {
        Self {
            disks,
            block_size: 512,
            two_areas: false,
            without_area: 0,
            data_start: MIB,
        }
    }

    pub(crate) fn sectors(self, block_size: u32) -> Self {
        Self { block_size, ..self }
    }

    pub(crate) fn two_areas(self) -> Self {
        Self {
            two_areas: true,
            ..self
        }
    }

    /// The first PV, which is filled first, has no metadata area.
    pub(crate) fn first_without_area(self) -> Self {
        Self {
            without_area: 1,
            ..self
        }
    }

    /// Metadata areas of 60 KiB.
    pub(crate) fn small_ring(self) -> Self {
        Self {
            data_start: 64 << 10,
            ..self
        }
    }

    /// Metadata areas of the VG.
    pub(crate) fn areas(self) -> usize {
        (self.disks - self.without_area) * if self.two_areas { 2 } else { 1 }
    }

    pub(crate) fn is_small(self) -> bool {
        self.data_start < MIB
    }

    pub(crate) fn path(number: usize) -> String {
        let letters = ["a", "b", "c"];
        format!("/dev/sd{}", letters[number])
    }

    /// A machine with the empty VG; the data areas are full of old content.
    pub(crate) fn machine(self, seed: u64) -> SimHost {
        let sim = SimHost::with_seed(seed);
        // Room for all LVs of the stories, and no more than that.
        let size = match self.disks {
            1 => 72 * MIB,
            2 => 40 * MIB,
            _ => 28 * MIB,
        };
        let paths: Vec<String> = (0..self.disks).map(Self::path).collect();
        let old = [OLD; PAGE_LEN];
        for path in &paths {
            sim.add_disk(path, size, self.block_size);
            let disk = sim.disk(path);
            let mut at = self.data_start;
            while at < size {
                disk.write(at, &old);
                disk.write(at + PIECE - PAGE, &old);
                at += PIECE;
            }
        }
        let extent = ExtentSize::new(Sectors(2048)).expect("an extent of 1 MiB");
        let layout = VgLayout {
            data_start: self.data_start,
            second_area: self.two_areas,
            without_area: self.without_area,
            // Nobody's udev shall activate what lvm2 is shown on loop devices.
            autoactivation: false,
            ..VgLayout::new(extent)
        };
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        sim.add_vg_with(VG, &paths, layout)
            .expect("a VG on the disks");
        sim
    }
}

/// The disks as the machine sees them.
pub(crate) fn images(sim: &SimHost, disks: usize) -> Vec<DiskImage> {
    (0..disks)
        .map(|number| sim.disk(&Layout::path(number)).image().expect("a disk"))
        .collect()
}

/// A new machine with such disks.
pub(crate) fn machine_on(images: &[DiskImage]) -> SimHost {
    let sim = SimHost::with_seed(7);
    for image in images {
        sim.add_image(image);
    }
    sim
}
