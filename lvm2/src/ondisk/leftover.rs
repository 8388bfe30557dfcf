//! Texts of earlier commits that are still in the ring of an area. No header
//! names them any more; nothing may be concluded from one but what was.

use super::SECTOR;
use super::mda::{HEADER, RawLocn};
use crate::name::MAX_NAME;

/// A text that no header names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Distance from the start of the area, in bytes.
    pub offset: u64,
    /// What is left of it, without its NUL.
    pub text: Vec<u8>,
    /// Another text begins before this one ends.
    pub overwritten: bool,
}

/// Whether a metadata text begins here: a name, a brace and the VG's id.
fn begins(bytes: &[u8]) -> bool {
    // No line with a name is longer; the rest of the ring may be one long line.
    let longest = MAX_NAME.saturating_add(3);
    let start = bytes.get(..longest).unwrap_or(bytes);
    let line = start
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let Some(name) = line.strip_suffix(b" {") else {
        return false;
    };
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._+-".contains(byte);
    !name.is_empty()
        && name.iter().all(in_name)
        && bytes
            .get(line.len().saturating_add(1)..)
            .is_some_and(|rest| rest.starts_with(b"id = \""))
}

/// Texts in the ring of `area`, the bytes of a whole metadata area, but for
/// the one that the header names.
#[must_use]
pub fn leftovers(area: &[u8], live: Option<&RawLocn>) -> Vec<Leftover> {
    let header = usize::try_from(HEADER).unwrap_or(SECTOR);
    let Some(ring) = area.get(header..) else {
        return Vec::new();
    };
    let starts: Vec<usize> = (0..ring.len())
        .step_by(SECTOR)
        .filter(|at| ring.get(*at..).is_some_and(begins))
        .collect();
    let live = live.and_then(|locn| usize::try_from(locn.offset.checked_sub(HEADER)?).ok());
    starts
        .iter()
        .filter(|start| Some(**start) != live)
        .map(|start| leftover(ring, *start, &starts))
        .collect()
}

fn leftover(ring: &[u8], start: usize, starts: &[usize]) -> Leftover {
    // The text may go on at the start of the ring.
    let (head, tail) = ring.split_at_checked(start).unwrap_or((ring, &[]));
    let mut text: Vec<u8> = tail
        .iter()
        .chain(head)
        .copied()
        .take_while(|byte| *byte != 0)
        .collect();
    // Where the next text begins, this one was overwritten.
    let distance = |other: &usize| match other.checked_sub(start) {
        Some(behind) => behind,
        None => tail.len().saturating_add(*other),
    };
    let next = starts
        .iter()
        .map(distance)
        .filter(|distance| *distance > 0)
        .min();
    let overwritten = next.is_some_and(|next| next < text.len());
    if let (true, Some(next)) = (overwritten, next) {
        text.truncate(next);
    }
    Leftover {
        offset: HEADER.saturating_add(start as u64),
        text,
        overwritten,
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "a test"
    )]

    use super::*;

    fn put(area: &mut [u8], at: usize, text: &str) {
        area[at..at + text.len()].copy_from_slice(text.as_bytes());
    }

    #[test]
    fn finds_whole_wrapped_and_overwritten_texts_but_not_the_live_one() {
        let mut area = vec![0; 8 * SECTOR];
        let long = format!("vg {{\nid = \"1\"\n{}}}", "x = 1\n".repeat(150));
        put(&mut area, 512, &long);
        put(&mut area, 1024, "vg {\nid = \"2\"\n}");
        put(&mut area, 2048, "no {\nseqno = 1\n}");
        // From the last sector on to the first of the ring.
        let (head, tail) = ("vg {\nid = \"3\"\n".to_owned() + &"#".repeat(499), "tail");
        put(&mut area, 3584, &head[..512]);
        let live = RawLocn {
            offset: 1024,
            size: 16,
            checksum: 0,
            ignored: false,
            flags: 0,
        };
        let found = leftovers(&area, Some(&live));
        let offsets: Vec<_> = found.iter().map(|f| (f.offset, f.overwritten)).collect();
        assert_eq!(offsets, [(512, true), (3584, true)]);
        assert_eq!(found[0].text.len(), 512);
        area[512..1024].fill(0);
        put(&mut area, 512, tail);
        let found = leftovers(&area, Some(&live));
        assert_eq!(found.len(), 1);
        assert!(!found[0].overwritten && found[0].text.ends_with(b"#tail"));
        assert!(leftovers(&area[..100], None).is_empty());
    }

    #[test]
    fn only_a_line_with_a_name_begins_a_text() {
        assert!(begins(b"vg-0_a.b+c {\nid = \"1\""));
        assert!(!begins(b" {\nid = \"1\""));
        assert!(!begins(b"v g {\nid = \"1\""));
        assert!(!begins(b"vg{\nid = \"1\""));
        assert!(!begins(b"vg {\nseqno = 1"));
    }
}
