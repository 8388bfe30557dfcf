//! A second opinion on what is on a PV, written from the layout alone and
//! sharing no code with the driver.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use lvcsi_sys::{ALIGNMENT, AlignedBuf};
use nix::libc::O_DIRECT;

use crate::text::{self, Node};

/// What is wrong with a PV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Defect {
    /// No label in the first four sectors.
    NoLabel,
    /// The label's checksum is wrong.
    LabelChecksum,
    /// The header of the metadata area at this byte has a wrong checksum.
    HeaderChecksum(u64),
    /// The header of the metadata area at this byte is not one.
    Header(u64),
    /// The text that the header at this byte names has a wrong checksum.
    TextChecksum(u64),
    /// The text that the header at this byte names is not metadata.
    Text(u64),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Defect {}

/// A PV as it is on the disk.
#[derive(Debug, Clone)]
pub struct Pv {
    /// 32 characters.
    pub uuid: String,
    /// Bytes, as the label says.
    pub device_size: u64,
    /// First byte of the data area.
    pub data_start: u64,
    /// Extension flags; bit 0 = used by a VG.
    pub flags: u32,
    /// Metadata areas in the label's order.
    pub mdas: Vec<Mda>,
}

/// A metadata area.
#[derive(Debug, Clone)]
pub struct Mda {
    /// First byte on the device.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Marked to be ignored: its text is stale.
    pub ignored: bool,
    /// Offset of the committed text in the area; 0 if there is none.
    pub offset: u64,
    /// Length of the text with its NUL.
    pub text_size: u64,
    /// The second slot is empty, as it must be between changes.
    pub slot1_empty: bool,
    /// The committed text without its NUL.
    pub text: Option<String>,
    /// The 512 bytes of the header.
    pub header: Vec<u8>,
}

/// Reads through the page cache's back, as lvm2 and the driver do.
///
/// # Errors
/// The kernel's.
pub fn read(path: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let align = ALIGNMENT as u64;
    let start = offset / align * align;
    let head = usize::try_from(offset - start).expect("less than a page");
    let span = (head + length).next_multiple_of(ALIGNMENT);
    let mut buffer = AlignedBuf::zeroed(span);
    let file = match OpenOptions::new()
        .read(true)
        .custom_flags(O_DIRECT)
        .open(path)
    {
        Ok(file) => file,
        // Some file systems of backing files cannot do it.
        Err(_) => OpenOptions::new().read(true).open(path)?,
    };
    let mut done = 0;
    while done < span {
        match file.read_at(&mut buffer[done..], start + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(buffer[head..head + length].to_vec())
}

/// CRC-32 bit by bit, with lvm2's start value.
#[must_use]
pub fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xf597_a6cf, |mut crc, &byte| {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            };
        }
        crc
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn areas(bytes: &[u8], at: &mut usize) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    loop {
        let area = (u64_at(bytes, *at), u64_at(bytes, *at + 8));
        *at += 16;
        if area.0 == 0 {
            return found;
        }
        found.push(area);
    }
}

/// Gives `length` bytes from `offset` of a PV.
pub type Reader<'a> = &'a dyn Fn(u64, usize) -> Vec<u8>;

/// Decodes the PV on `path`.
///
/// # Errors
/// The first [`Defect`] that is found.
///
/// # Panics
/// If the device cannot be read.
pub fn pv(path: &Path) -> Result<Pv, Defect> {
    pv_with(&|offset, length| {
        read(path, offset, length).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    })
}

/// Decodes the PV that `read` gives the bytes of.
///
/// # Errors
/// The first [`Defect`] that is found.
pub fn pv_with(read: Reader<'_>) -> Result<Pv, Defect> {
    let head = read(0, 2048);
    let label = head
        .chunks_exact(512)
        .find(|sector| sector.starts_with(b"LABELONE"))
        .ok_or(Defect::NoLabel)?;
    if crc(&label[20..]) != u32_at(label, 16) {
        return Err(Defect::LabelChecksum);
    }
    let mut at = 32 + 40;
    let data = areas(label, &mut at);
    let mdas = areas(label, &mut at);
    let flags = u32_at(label, at + 4);
    let uuid = String::from_utf8_lossy(&label[32..64]).into_owned();
    let mdas = mdas
        .iter()
        .map(|&(start, _)| mda(read, start))
        .collect::<Result<_, _>>()?;
    let data_start = data.first().map_or(0, |area| area.0);
    Ok(Pv {
        uuid,
        device_size: u64_at(label, 64),
        data_start,
        flags,
        mdas,
    })
}

fn mda(read: Reader<'_>, start: u64) -> Result<Mda, Defect> {
    let header = read(start, 512);
    if crc(&header[4..]) != u32_at(&header, 0) {
        return Err(Defect::HeaderChecksum(start));
    }
    let magic = b" LVM2 x[5A%r0N*>";
    if &header[4..20] != magic || u64_at(&header, 24) != start {
        return Err(Defect::Header(start));
    }
    let size = u64_at(&header, 32);
    let (offset, text_size) = (u64_at(&header, 40), u64_at(&header, 48));
    let ignored = u32_at(&header, 60) & 1 == 1;
    let mut text = None;
    if offset != 0 {
        let wrapped = (offset + text_size).saturating_sub(size);
        if text_size > size || wrapped > text_size {
            return Err(Defect::Header(start));
        }
        let length = |bytes: u64| usize::try_from(bytes).expect("size of a metadata text");
        let mut bytes = read(start + offset, length(text_size - wrapped));
        bytes.extend(read(start + 512, length(wrapped)));
        if crc(&bytes) != u32_at(&header, 56) {
            return Err(Defect::TextChecksum(start));
        }
        if bytes.pop() != Some(0) {
            return Err(Defect::Text(start));
        }
        text = Some(String::from_utf8(bytes).map_err(|_| Defect::Text(start))?);
    }
    let slot1_empty = header[64..112].iter().all(|&byte| byte == 0);
    Ok(Mda {
        start,
        size,
        ignored,
        offset,
        text_size,
        slot1_empty,
        text,
        header,
    })
}

/// A VG as the disks have it: all metadata areas in use must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vg {
    /// Name.
    pub name: String,
    /// Sequence number.
    pub seqno: i64,
    /// Sectors of an extent.
    pub extent_size: i64,
    /// LVs in the order of the text.
    pub lvs: Vec<Lv>,
    /// Extents of each PV (`pv0` …).
    pub pe_count: Vec<(String, i64)>,
    /// The text itself.
    pub text: String,
}

/// An LV of linear or striped segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lv {
    /// Name.
    pub name: String,
    /// Id with dashes.
    pub id: String,
    /// Tags in the order of the text.
    pub tags: Vec<String>,
    /// Status words.
    pub status: Vec<String>,
    /// Segments in the order of the text.
    pub segments: Vec<Segment>,
}

/// A linear (one stripe) or striped segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// First extent in the LV.
    pub start: i64,
    /// Extents.
    pub count: i64,
    /// PV (`pv0` …) and first extent of each stripe.
    pub stripes: Vec<(String, i64)>,
}

impl Lv {
    /// Extents in all.
    #[must_use]
    pub fn extents(&self) -> i64 {
        self.segments.iter().map(|segment| segment.count).sum()
    }
}

impl Vg {
    /// The LV of this name.
    #[must_use]
    pub fn lv(&self, name: &str) -> Option<&Lv> {
        self.lvs.iter().find(|lv| lv.name == name)
    }

    /// Names of the LVs, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.lvs.iter().map(|lv| lv.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Panics if an extent belongs to two LVs or to no PV, or if two LVs share
    /// a name or an id.
    ///
    /// # Panics
    /// See above.
    pub fn assert_sound(&self) {
        let mut used = Vec::new();
        for lv in &self.lvs {
            let mut next = 0;
            for Segment {
                start,
                count,
                stripes,
            } in &lv.segments
            {
                assert_eq!(*start, next, "{}/{}: gap in segments", self.name, lv.name);
                next += count;
                let legs = i64::try_from(stripes.len()).expect("number of stripes");
                assert_eq!(count % legs, 0, "{}/{}: uneven stripes", self.name, lv.name);
                for (pv, first) in stripes {
                    used.push((pv.clone(), *first, count / legs, lv.name.clone()));
                }
            }
        }
        used.sort();
        for pair in used.windows(2) {
            let overlap = pair[0].0 == pair[1].0 && pair[0].1 + pair[0].2 > pair[1].1;
            assert!(!overlap, "{}: extents given twice: {pair:?}", self.name);
        }
        for (pv, first, count, lv) in &used {
            let pe_count = self
                .pe_count
                .iter()
                .find(|(name, _)| name == pv)
                .map_or(0, |p| p.1);
            assert!(
                first + count <= pe_count,
                "{}/{lv}: beyond the end of {pv}",
                self.name
            );
        }
        for key in [|lv: &Lv| lv.name.clone(), |lv: &Lv| lv.id.clone()] {
            let mut keys: Vec<_> = self.lvs.iter().map(key).collect();
            keys.sort();
            let before = keys.len();
            keys.dedup();
            assert_eq!(
                keys.len(),
                before,
                "{}: a name or id is used twice",
                self.name
            );
        }
    }

    /// Reads `text` as lvm2 lays it out.
    ///
    /// # Panics
    /// If it is not metadata.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let tree = text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let (name, vg) = tree.sections().next().expect("a VG section comes first");
        let lvs = vg
            .section("logical_volumes")
            .map(|all| all.sections().map(lv).collect());
        let pvs = vg.section("physical_volumes").expect("physical_volumes");
        Self {
            name: name.to_owned(),
            seqno: vg.int("seqno"),
            extent_size: vg.int("extent_size"),
            lvs: lvs.unwrap_or_default(),
            pe_count: pvs
                .sections()
                .map(|(k, pv)| (k.to_owned(), pv.int("pe_count")))
                .collect(),
            text: text.to_owned(),
        }
    }
}

fn lv((name, node): (&str, &Node)) -> Lv {
    let segments = node.sections().map(|(_, segment)| {
        let flat = segment.list("stripes");
        let stripes = flat
            .chunks_exact(2)
            .map(|pair| (pair[0].clone(), pair[1].parse().expect("an extent number")))
            .collect();
        Segment {
            start: segment.int("start_extent"),
            count: segment.int("extent_count"),
            stripes,
        }
    });
    Lv {
        name: name.to_owned(),
        id: node.str("id").expect("id").to_owned(),
        tags: node.list("tags"),
        status: node.list("status"),
        segments: segments.collect(),
    }
}

/// Decodes the VG on these PVs.
///
/// # Panics
/// If a metadata area in use is damaged or differs from the others, or if a
/// second slot is in use.
#[must_use]
pub fn vg(paths: &[&Path]) -> Vg {
    let mut texts = Vec::new();
    for path in paths {
        let pv = pv(path).unwrap_or_else(|defect| panic!("{}: {defect}", path.display()));
        assert_eq!(pv.flags & 1, 1, "{}: not marked as used", path.display());
        for mda in pv.mdas.into_iter().filter(|mda| !mda.ignored) {
            assert!(
                mda.slot1_empty,
                "{}: precommitted text left over",
                path.display()
            );
            texts.push(mda.text.expect("a metadata text"));
        }
    }
    let first = texts.first().expect("a metadata area in use").clone();
    assert!(
        texts.iter().all(|text| *text == first),
        "metadata areas differ"
    );
    Vg::from_text(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_lvm2_wrote() {
        let text = "vg {\nseqno = 3\nextent_size = 8192\nphysical_volumes {\npv0 {\npe_count = 9\n}\n}\nlogical_volumes {\na {\nid = \"x\"\nstatus = [\"READ\"]\ntags = [\"t\", \"u\"]\nsegment_count = 1\nsegment1 {\nstart_extent = 0\nextent_count = 2\ntype = \"striped\"\nstripes = [\n\"pv0\", 4\n]\n}\n}\n}\n}\n";
        let vg = Vg::from_text(text);
        assert_eq!((vg.seqno, vg.lvs[0].extents()), (3, 2));
        assert_eq!(vg.lvs[0].segments[0].stripes, [("pv0".to_owned(), 4)]);
        assert_eq!(vg.lvs[0].tags, ["t", "u"]);
        vg.assert_sound();
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn extents_beyond_the_pv_are_found() {
        let lv = Lv {
            name: "a".into(),
            id: "i".into(),
            tags: vec![],
            status: vec![],
            segments: vec![Segment {
                start: 0,
                count: 2,
                stripes: vec![("pv0".into(), 8)],
            }],
        };
        let (name, text) = ("v".to_owned(), String::new());
        let pe_count = vec![("pv0".to_owned(), 9)];
        Vg {
            name,
            seqno: 1,
            extent_size: 8,
            lvs: vec![lv],
            pe_count,
            text,
        }
        .assert_sound();
    }
}
