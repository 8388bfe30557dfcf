//! VGs on the disks of the machine, as lvm2 leaves them.
//!
//! Labels and metadata areas are laid out here from the format's numbers and
//! not by `lvm2::ondisk`: what reads them is tested against a second writer.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lvm2::crc::crc;
use lvm2::id::{IdError, PvId, VgId};
use lvm2::name::{NameError, VgName};
use lvm2::units::{Bytes, ExtentSize, SECTOR};

use super::SimHost;

const LABEL: u64 = 512;
const MDA: u64 = 4096;
const RING: u64 = 512;
const MIB: u64 = 1 << 20;
const MAGIC: &[u8; 16] = b" LVM2 x[5A%r0N*>";

/// Why a VG could not be put on the disks.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There is no disk at this node.
    #[error("there is no disk {0}")]
    NoSuchDisk(PathBuf),
    /// The disk has no room for an extent.
    #[error("{path} has {size}: too small for a PV with extents of {extent}")]
    TooSmall {
        /// The disk.
        path: PathBuf,
        /// Its size.
        size: Bytes,
        /// The extent size.
        extent: Bytes,
    },
    /// The name is none for a VG.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A PV's id in the text is none.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The text has no metadata areas that could hold it.
    #[error("the text of {len} does not fit into an area of {area}")]
    TooLong {
        /// Length of the text.
        len: Bytes,
        /// Size of a metadata area.
        area: Bytes,
    },
}

/// How the PVs of a new VG are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VgLayout {
    /// Size of an extent.
    pub extent_size: ExtentSize,
    /// Where the data begins on each PV, in bytes; the metadata area reaches up
    /// to it.
    pub data_start: u64,
    /// A second metadata area of the same size at the end of each PV.
    pub second_area: bool,
    /// So many of the first PVs have no metadata area at all.
    pub without_area: usize,
    /// Whether the LVs may be activated when the devices appear.
    pub autoactivation: bool,
}

impl VgLayout {
    /// As `pvcreate` and `vgcreate` do it by themselves.
    #[must_use]
    pub fn new(extent_size: ExtentSize) -> Self {
        Self {
            extent_size,
            data_start: MIB,
            second_area: false,
            without_area: 0,
            autoactivation: true,
        }
    }

    /// Start and size of the second metadata area of a disk of `size` bytes.
    fn second(&self, size: u64) -> Option<(u64, u64)> {
        let area = self.data_start.saturating_sub(MDA);
        self.second_area
            .then(|| (size.saturating_sub(area) / MIB * MIB, area))
    }
}

/// A PV as a text names it.
struct PvLines {
    id: PvId,
    device: String,
    dev_size: u64,
    pe_start: u64,
    missing: bool,
}

impl SimHost {
    /// Makes the disks PVs of a new VG without LVs, the data beginning at 1 MiB.
    ///
    /// # Errors
    /// When the name is none, or a disk is missing or too small.
    pub fn add_vg(
        &self,
        name: &str,
        disks: &[&str],
        extent_size: ExtentSize,
    ) -> Result<VgId, SetupError> {
        self.add_vg_with(name, disks, VgLayout::new(extent_size))
    }

    /// The same with another layout of the PVs.
    ///
    /// # Errors
    /// When the name is none, or a disk is missing or too small.
    pub fn add_vg_with(
        &self,
        name: &str,
        disks: &[&str],
        layout: VgLayout,
    ) -> Result<VgId, SetupError> {
        VgName::new(name)?;
        let extent_size = layout.extent_size;
        let id = VgId::from_random(self.random_bytes());
        let mut text = format!(
            "{name} {{\nid = \"{id}\"\nseqno = 1\nformat = \"lvm2\"\n\
             status = [\"RESIZEABLE\", \"READ\", \"WRITE\"]\nflags = [{}]\nextent_size = {}\n\
             max_lv = 0\nmax_pv = 0\nmetadata_copies = 0\n\nphysical_volumes {{\n",
            if layout.autoactivation {
                ""
            } else {
                "\"NOAUTOACTIVATE\""
            },
            extent_size.sectors()
        );
        for (number, disk) in disks.iter().enumerate() {
            let size = self.size_of(disk)?;
            let end = layout.second(size).map_or(size, |(start, _)| start);
            let extents = extent_size.floor(Bytes(end.saturating_sub(layout.data_start)));
            if extents.is_zero() {
                let extent = extent_size.bytes();
                return Err(SetupError::TooSmall {
                    path: disk.into(),
                    size: Bytes(size),
                    extent,
                });
            }
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\npv{number} {{\nid = \"{}\"\ndevice = \"{disk}\"\n\n\
                 status = [\"ALLOCATABLE\"]\nflags = []\ndev_size = {}\npe_start = {}\n\
                 pe_count = {extents}\n}}\n",
                PvId::from_random(self.random_bytes()),
                size / SECTOR,
                layout.data_start / SECTOR,
            );
        }
        let now = self.machine.state().now.as_secs();
        let _ = write!(
            text,
            "}}\n\n\n}}\n# Generated by LVM2 version 2.03.16(2) (2022-05-18): then\n\n\
             contents = \"Text Format Volume Group\"\nversion = 1\n\n\
             description = \"Write from vgcreate {name} {}.\"\n\n\
             creation_host = \"sim\"\t# Linux sim 6.1.0 #1 x86_64\ncreation_time = {now}\t# then\n\n",
            disks.join(" "),
        );
        let bare = disks.get(..layout.without_area).unwrap_or(disks);
        self.put_text(&text, |disk, first, size| {
            let first = (!bare.contains(&disk)).then_some(first);
            let second = first.and_then(|_| layout.second(size));
            first.into_iter().chain(second).collect()
        })?;
        Ok(id)
    }

    /// Puts a VG on disk that lvm2 wrote: each PV at its device hint, which
    /// becomes a disk of its size if there is none. PVs that the text calls
    /// missing stay missing. The text must be laid out as lvm2 does it.
    ///
    /// # Errors
    /// When an id is none, or the text is too long for a metadata area.
    pub fn add_vg_text(&self, text: &str) -> Result<(), SetupError> {
        self.put_text(text, |_, first, _| vec![first])
    }

    /// `areas` chooses the metadata areas of a disk from its node, the start and
    /// size of the usual area, and its size.
    fn put_text(
        &self,
        text: &str,
        areas: impl Fn(&str, (u64, u64), u64) -> Vec<(u64, u64)>,
    ) -> Result<(), SetupError> {
        for pv in pv_lines(text)?.into_iter().filter(|pv| !pv.missing) {
            let size = match self.size_of(&pv.device) {
                Ok(size) => size,
                Err(_) => {
                    self.add_disk(&pv.device, pv.dev_size, 512);
                    pv.dev_size
                }
            };
            let usual = (MDA, pv.pe_start.saturating_sub(MDA));
            let head = PvHead {
                id: pv.id,
                size,
                data_start: pv.pe_start,
                areas: &areas(&pv.device, usual, size),
            };
            self.write_pv(&pv.device, &head, Some(text))?;
        }
        Ok(())
    }

    /// Makes the disk a PV of no VG.
    ///
    /// # Errors
    /// When there is no such disk.
    pub fn add_pv(&self, disk: &str) -> Result<PvId, SetupError> {
        let id = PvId::from_random(self.random_bytes());
        let head = PvHead {
            id,
            size: self.size_of(disk)?,
            data_start: MIB,
            areas: &[(MDA, MIB - MDA)],
        };
        self.write_pv(disk, &head, None)?;
        Ok(id)
    }

    fn write_pv(
        &self,
        path: &str,
        head: &PvHead<'_>,
        text: Option<&str>,
    ) -> Result<(), SetupError> {
        let disk = self.disk(path);
        for &(start, area) in head.areas {
            let mut locations = Vec::new();
            if let Some(text) = text {
                let mut bytes = text.as_bytes().to_vec();
                bytes.push(0);
                let len = bytes.len() as u64;
                if RING + len > area {
                    return Err(SetupError::TooLong {
                        len: Bytes(len),
                        area: Bytes(area),
                    });
                }
                for word in [RING, len, u64::from(crc(&bytes))] {
                    locations.extend(word.to_le_bytes());
                }
                disk.write(start + RING, &bytes);
            }
            disk.write(start, &mda_header(start, area, &locations));
        }
        disk.write(LABEL, &label(head, text.is_some()));
        Ok(())
    }

    fn size_of(&self, path: &str) -> Result<u64, SetupError> {
        let state = self.machine.state();
        let found = state
            .disks
            .values()
            .find(|disk| disk.info.path == Path::new(path));
        found
            .map(|disk| disk.info.size)
            .ok_or_else(|| SetupError::NoSuchDisk(path.into()))
    }

    fn random_bytes(&self) -> [u8; 32] {
        let mut state = self.machine.state();
        std::array::from_fn(|_| state.random_word().to_le_bytes()[0])
    }
}

fn put(sector: &mut [u8; 512], at: usize, bytes: &[u8]) {
    sector[at..at + bytes.len()].copy_from_slice(bytes);
}

fn mda_header(start: u64, area: u64, locations: &[u8]) -> [u8; 512] {
    let mut sector = [0; 512];
    put(&mut sector, 4, MAGIC);
    put(&mut sector, 20, &1u32.to_le_bytes());
    put(&mut sector, 24, &start.to_le_bytes());
    put(&mut sector, 32, &area.to_le_bytes());
    put(&mut sector, 40, locations);
    let sum = crc(&sector[4..]);
    put(&mut sector, 0, &sum.to_le_bytes());
    sector
}

/// What a label says.
struct PvHead<'a> {
    id: PvId,
    size: u64,
    data_start: u64,
    /// Start and size of each metadata area.
    areas: &'a [(u64, u64)],
}

fn label(head: &PvHead<'_>, in_use: bool) -> [u8; 512] {
    let mut sector = [0; 512];
    put(&mut sector, 0, b"LABELONE");
    put(&mut sector, 8, &1u64.to_le_bytes());
    put(&mut sector, 20, &32u32.to_le_bytes());
    put(&mut sector, 24, b"LVM2 001");
    put(&mut sector, 32, head.id.as_str().as_bytes());
    // Size; one data area to the end; terminator; metadata areas; terminator.
    let mut words = vec![head.size, head.data_start, 0, 0, 0];
    words.extend(head.areas.iter().flat_map(|&(start, size)| [start, size]));
    words.extend([0, 0]);
    let mut at = 64;
    for word in words {
        put(&mut sector, at, &word.to_le_bytes());
        at += 8;
    }
    put(&mut sector, at, &2u32.to_le_bytes());
    put(&mut sector, at + 4, &u32::from(in_use).to_le_bytes());
    let sum = crc(&sector[20..]);
    put(&mut sector, 16, &sum.to_le_bytes());
    sector
}

/// The PVs of a text that is laid out as lvm2 does it: a key a line.
fn pv_lines(text: &str) -> Result<Vec<PvLines>, SetupError> {
    let section = text
        .split("physical_volumes {\n")
        .nth(1)
        .unwrap_or_default();
    let section = section.split("\n}\n}\n").next().unwrap_or_default();
    section
        .split("\n}\n")
        .map(|pv| {
            let value = |key: &str| {
                let line = pv
                    .lines()
                    .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
                line.unwrap_or_default().trim_matches('"')
            };
            let sectors = |key: &str, default: u64| {
                value(key)
                    .parse::<u64>()
                    .map_or(default, |sectors| sectors * SECTOR)
            };
            let pe_start = sectors("pe_start", MIB);
            Ok(PvLines {
                id: PvId::parse(value("id"))?,
                device: value("device").to_owned(),
                dev_size: sectors("dev_size", pe_start + MIB),
                pe_start,
                missing: value("flags").contains("MISSING"),
            })
        })
        .collect()
}
