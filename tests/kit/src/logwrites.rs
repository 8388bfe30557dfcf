//! Reading what the kernel's `dm-log-writes` recorded, and making from it every
//! state in which a power cut could have left the disk.
//!
//! The log is a superblock and then entries, each in a sector of its own and
//! followed by the data that was written. Entries are in the order of their
//! completion; what precedes an entry with the flush flag is durable from then
//! on, as is what an entry with the FUA flag wrote itself.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;

const FLUSH: u64 = 1;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;

/// What happened to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// First byte on the disk.
    pub offset: u64,
    /// What was written, zeros for a discard; empty for a pure flush or a mark.
    pub data: Vec<u8>,
    /// Everything before this is durable.
    pub flush: bool,
    /// What this wrote is durable.
    pub fua: bool,
    /// The text of a mark.
    pub mark: Option<String>,
}

/// Reads the whole log.
///
/// # Errors
/// The kernel's, or `InvalidData` if it is no log.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let file = File::open(path)?;
    let bytes = |offset: u64, length: u64| -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    };
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let head = bytes(0, 28)?;
    if word(&head, 0) != MAGIC || word(&head, 8) != VERSION {
        return Err(invalid("no dm-log-writes log of version 1"));
    }
    let count = word(&head, 16);
    let sector = u64::from(u32::from_le_bytes([head[24], head[25], head[26], head[27]]));
    let mut entries = Vec::new();
    let mut at = sector;
    for _ in 0..count {
        let entry = bytes(at, sector)?;
        at += sector;
        let flags = word(&entry, 16);
        let length = word(&entry, 8) * sector;
        let mut data = Vec::new();
        let mut mark = None;
        if flags & MARK != 0 {
            let end = usize::try_from(word(&entry, 24)).map_err(io::Error::other)?;
            let text = entry
                .get(32..32 + end)
                .ok_or_else(|| invalid("a long mark"))?;
            mark = Some(String::from_utf8_lossy(text).into_owned());
        } else if flags & DISCARD != 0 {
            data = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        } else {
            data = bytes(at, length)?;
            at += length;
        }
        entries.push(Entry {
            offset: word(&entry, 0) * sector,
            data,
            flush: flags & FLUSH != 0,
            fua: flags & FUA != 0,
            mark,
        });
    }
    Ok(entries)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The entries after the mark of this text, or `None` if there is no such mark.
#[must_use]
pub fn after_mark<'e>(entries: &'e [Entry], text: &str) -> Option<&'e [Entry]> {
    let is_mark = |entry: &Entry| entry.mark.as_deref() == Some(text);
    let at = entries.iter().position(is_mark)?;
    Some(&entries[at + 1..])
}

/// Which entries a power cut may leave after the first `prefix` of them: those
/// that are durable, and of the others those that `kept` says. In their order.
pub fn surviving(
    entries: &[Entry],
    prefix: usize,
    mut kept: impl FnMut(usize) -> bool,
) -> Vec<usize> {
    let done = &entries[..prefix];
    let flushed = done.iter().rposition(|entry| entry.flush).unwrap_or(0);
    (0..prefix)
        .filter(|&index| !done[index].data.is_empty())
        .filter(|&index| index < flushed || done[index].fua || kept(index))
        .collect()
}

/// Writes these entries to a copy of the disk as it was at the mark.
///
/// # Errors
/// The kernel's.
pub fn replay(file: &File, entries: &[Entry], chosen: &[usize]) -> io::Result<()> {
    for &index in chosen {
        file.write_all_at(&entries[index].data, entries[index].offset)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: usize = 512;

    fn log(entries: &[(u64, u64, u64, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [MAGIC, VERSION, entries.len() as u64] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(512_u32.to_le_bytes());
        bytes.resize(SECTOR, 0);
        for (sector, sectors, flags, data) in entries {
            for word in [*sector, *sectors, *flags, data.len() as u64] {
                bytes.extend(word.to_le_bytes());
            }
            if flags & MARK != 0 {
                bytes.extend(*data);
            }
            bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
            if flags & MARK == 0 {
                bytes.extend(*data);
            }
        }
        bytes
    }

    fn entries(parts: &[(u64, u64, u64, &[u8])]) -> Vec<Entry> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), log(parts)).unwrap();
        read(file.path()).unwrap()
    }

    #[test]
    fn a_log_is_taken_apart() {
        let (one, two) = ([1; SECTOR], [2; 2 * SECTOR]);
        let found = entries(&[
            (9, 1, 0, &one),
            (0, 0, MARK, b"begin"),
            (4, 2, FUA, &two),
            (8, 3, DISCARD, &[]),
            (0, 0, FLUSH, &[]),
        ]);
        let after = after_mark(&found, "begin").unwrap();
        assert_eq!(after.len(), 3);
        assert_eq!(
            (after[0].offset, after[0].data.as_slice()),
            (2048, &two[..])
        );
        assert_eq!(after[1].data, [0; 3 * SECTOR]);
        assert!(after[2].flush && after[2].data.is_empty());
        assert_eq!(after_mark(&found, "end"), None);
    }

    #[test]
    fn what_was_flushed_or_forced_survives_every_cut() {
        let one = [1; SECTOR];
        let found = entries(&[
            (0, 1, 0, &one),
            (0, 0, FLUSH, &[]),
            (1, 1, 0, &one),
            (2, 1, FUA, &one),
            (3, 1, 0, &one),
        ]);
        assert_eq!(surviving(&found, 5, |_| true), [0, 2, 3, 4]);
        assert_eq!(surviving(&found, 5, |_| false), [0, 3]);
        assert_eq!(surviving(&found, 1, |_| false), Vec::<usize>::new());
        assert_eq!(surviving(&found, 4, |index| index == 2), [0, 2, 3]);
    }
}
