//! What metadata texts and headers a machine was told to write.

use std::collections::BTreeMap;

use lvm2::crc::crc;
use lvm2::ondisk::mda::MdaHeader;

use crate::host::sim::DiskEvent;

/// Byte offset of the metadata area on every disk of [`super::machine`].
pub(super) const AREA: u64 = 4096;

/// A write to a metadata area.
pub(super) enum AreaWrite {
    /// A text, or the first piece of one.
    Text { seqno: u32, checksum: u32 },
    /// A header that names a text with this checksum.
    Header { checksum: u32 },
}

/// What a write to the metadata area is, whether it went well or not.
pub(super) fn area_write(event: &DiskEvent) -> Option<AreaWrite> {
    let (DiskEvent::Write { offset, data, .. } | DiskEvent::Failed { offset, data, .. }) = event
    else {
        return None;
    };
    if *offset == AREA && data.len() == 512 {
        let header = MdaHeader::decode(data, AREA).ok()?;
        let checksum = header.committed?.checksum;
        return Some(AreaWrite::Header { checksum });
    }
    let end = data.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&data[..end]).ok()?;
    let seqno = text
        .lines()
        .find_map(|line| line.strip_prefix("seqno = "))?;
    Some(AreaWrite::Text {
        seqno: seqno.parse().ok()?,
        checksum: crc(&data[..=end]),
    })
}

/// The text of every sequence number that a header was ever to name. Panics if
/// there are two for one number.
pub(super) fn one_text_for_each_number(events: &[DiskEvent], what: &str) -> BTreeMap<u32, u32> {
    let mut texts = BTreeMap::new();
    let mut named = BTreeMap::new();
    for write in events.iter().filter_map(area_write) {
        match write {
            AreaWrite::Text { seqno, checksum } => _ = texts.insert(checksum, seqno),
            AreaWrite::Header { checksum } => {
                let seqno = *texts
                    .get(&checksum)
                    .unwrap_or_else(|| panic!("{what}: a header before its text"));
                let known = *named.entry(seqno).or_insert(checksum);
                assert_eq!(known, checksum, "{what}: number {seqno} with two texts");
            }
        }
    }
    named
}
