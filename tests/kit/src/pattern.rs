//! Content that says where it belongs: each sector names its volume, its
//! generation and its place, so that one look tells whether it is the right
//! one, an older one, or another volume's.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use crate::decode;

/// Bytes that a disk writes at once or not at all.
pub const SECTOR: usize = 512;

const MAGIC: u64 = u64::from_le_bytes(*b"lvcsipat");
const WORD: usize = 8;
/// Bytes that are written or read at a time.
const CHUNK: usize = 1 << 18;

/// What a sector of a volume holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Nothing but zeros.
    Zero,
    /// This volume's pattern of that generation, in its place.
    Own(u64),
    /// Anything else: another volume's, another place's, torn, or no pattern.
    Foreign,
}

/// Sectors of one content that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub sectors: u64,
    /// What they hold.
    pub content: Content,
}

/// `Z*8`, `g3*8` or `x*8`.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.content {
            Content::Zero => write!(f, "z*{}", self.sectors),
            Content::Own(generation) => write!(f, "g{generation}*{}", self.sectors),
            Content::Foreign => write!(f, "x*{}", self.sectors),
        }
    }
}

/// FNV-1a: the name as one word.
fn word_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The words that a sector repeats from its beginning to its end.
fn words(name: u64, generation: u64, sector: u64) -> [u64; 4] {
    let mix = name ^ generation.rotate_left(17) ^ sector.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [MAGIC ^ mix, name, generation, sector]
}

/// Fills `buffer`, which begins at `first` sectors of the volume.
pub fn fill(buffer: &mut [u8], name: &str, generation: u64, first: u64) {
    let name = word_of(name);
    for (number, sector) in (first..).zip(buffer.chunks_exact_mut(SECTOR)) {
        let mut unit = [0; 4 * WORD];
        for (bytes, word) in unit
            .chunks_exact_mut(WORD)
            .zip(words(name, generation, number))
        {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        for part in sector.chunks_exact_mut(unit.len()) {
            part.copy_from_slice(&unit);
        }
    }
}

/// Fills the first `size` bytes of a device and makes them durable.
///
/// # Errors
/// The kernel's.
pub fn write_device(path: &Path, name: &str, generation: u64, size: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    while done < size {
        let length = usize::try_from(size - done).map_or(CHUNK, |left| left.min(CHUNK));
        fill(
            &mut buffer[..length],
            name,
            generation,
            done / SECTOR as u64,
        );
        file.write_all(&buffer[..length])?;
        done += length as u64;
    }
    file.sync_all()
}

/// What the first `size` bytes of a device hold, not of its page cache.
///
/// # Errors
/// The kernel's.
pub fn read_device(path: &Path, name: &str, size: u64) -> io::Result<Vec<Run>> {
    let mut runs = Vec::new();
    let mut done = 0;
    while done < size {
        let length = usize::try_from(size - done).map_or(CHUNK, |left| left.min(CHUNK));
        let bytes = decode::read(path, done, length)?;
        read(&bytes, name, done / SECTOR as u64, &mut runs);
        done += length as u64;
    }
    Ok(runs)
}

/// What the sectors of `buffer` hold, which begins at `first` sectors of the
/// volume; appended to `runs`.
pub fn read(buffer: &[u8], name: &str, first: u64, runs: &mut Vec<Run>) {
    let name = word_of(name);
    for (number, sector) in (first..).zip(buffer.chunks_exact(SECTOR)) {
        let content = content(sector, name, number);
        match runs.last_mut() {
            Some(last) if last.content == content => last.sectors += 1,
            _ => runs.push(Run {
                sectors: 1,
                content,
            }),
        }
    }
}

fn content(sector: &[u8], name: u64, number: u64) -> Content {
    let word = |at: usize| {
        let bytes = sector[at..at + WORD].try_into();
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    let unit = 4 * WORD;
    // Every part equals the one before it, so the first says it all.
    if sector[unit..] != sector[..SECTOR - unit] {
        return Content::Foreign;
    }
    let found = [0, 1, 2, 3].map(|index| word(index * WORD));
    if found == [0; 4] {
        Content::Zero
    } else if found == words(name, found[2], number) {
        Content::Own(found[2])
    } else {
        Content::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(buffer: &[u8], name: &str, first: u64) -> Vec<String> {
        let mut runs = Vec::new();
        read(buffer, name, first, &mut runs);
        runs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_kind_of_content_is_told_apart() {
        let mut buffer = vec![0; 8 * SECTOR];
        fill(&mut buffer[..2 * SECTOR], "a", 3, 100);
        fill(&mut buffer[2 * SECTOR..3 * SECTOR], "a", 4, 102);
        fill(&mut buffer[3 * SECTOR..4 * SECTOR], "b", 4, 103);
        fill(&mut buffer[4 * SECTOR..5 * SECTOR], "a", 4, 9);
        buffer[7 * SECTOR - 1] = 1;
        assert_eq!(
            runs(&buffer, "a", 100),
            ["g3*2", "g4*1", "x*2", "z*1", "x*1", "z*1"]
        );
    }

    #[test]
    fn a_changed_bit_anywhere_is_foreign() {
        let mut sector = vec![0; SECTOR];
        fill(&mut sector, "a", 1, 7);
        assert_eq!(runs(&sector, "a", 7), ["g1*1"]);
        for at in 0..SECTOR {
            sector[at] ^= 0x10;
            assert_eq!(runs(&sector, "a", 7), ["x*1"], "byte {at}");
            sector[at] ^= 0x10;
        }
    }
}
