//! Superblocks of md arrays, found on members that no array claims just now.

use std::fs::File;
use std::io;

use lvcsi_sys::AlignedBuf;

use super::block::read_exact;

const MAGIC: u32 = 0xa92b_4efc;
const SECTOR: u64 = 512;
/// Covers the places of formats 1.1 (byte 0) and 1.2 (byte 4096).
const HEAD: usize = 8192;
/// Covers the places of formats 0.90 and 1.0 at the end of any device.
const TAIL: u64 = 128 << 10;

/// Reads the start of a device of `size` bytes, and its end if `end` is set, and
/// tells whether a superblock is there. The end is read too where a PV begins
/// that is smaller than the device: on a leg of an array that has its superblock
/// there, while the array is stopped. `file` is open for uncached I/O.
pub(super) fn is_member(file: &File, size: u64, end: bool) -> io::Result<bool> {
    let mut head = AlignedBuf::zeroed(HEAD);
    read_exact(file, &mut head, 0)?;
    if version_1(&head, 0, 0) || version_1(&head, 4096, 8) {
        return Ok(true);
    }
    if !end && !pv_of_other_size(&head, size) {
        return Ok(false);
    }
    let start = size.saturating_sub(TAIL) & !4095;
    let mut tail = AlignedBuf::zeroed(usize::try_from(size - start).unwrap_or(0) & !4095);
    read_exact(file, &mut tail, start)?;
    Ok(in_tail(&tail, start, size))
}

fn in_tail(tail: &[u8], start: u64, size: u64) -> bool {
    let at = |offset: u64| usize::try_from(offset.checked_sub(start)?).ok();
    // 0.90: in the last whole 64 KiB but one; its version is the next number.
    let old = (size & !0xffff)
        .checked_sub(0x1_0000)
        .and_then(at)
        .is_some_and(|at| number(tail, at) == Some(MAGIC) && number(tail, at + 4) == Some(0));
    // 1.0: at least 8 KiB before the end, at a multiple of 4 KiB.
    let sector = (size / SECTOR).saturating_sub(16) & !7;
    old || at(sector * SECTOR).is_some_and(|at| version_1(tail, at, sector))
}

/// A superblock of format 1 at `at` that says it is at `sector`.
fn version_1(buf: &[u8], at: usize, sector: u64) -> bool {
    let own_sector = buf
        .get(at + 144..)
        .and_then(|rest| rest.first_chunk())
        .map(|bytes| u64::from_le_bytes(*bytes));
    number(buf, at) == Some(MAGIC) && number(buf, at + 4) == Some(1) && own_sector == Some(sector)
}

/// Whether the label of a PV says that its device has another size.
fn pv_of_other_size(head: &[u8], size: u64) -> bool {
    let sectors = head.chunks_exact(512).take(4);
    let label = sectors
        .into_iter()
        .find(|sector| sector.starts_with(b"LABELONE") && sector[24..].starts_with(b"LVM2 001"));
    label
        .and_then(|label| label[64..].first_chunk())
        .is_some_and(|bytes| u64::from_le_bytes(*bytes) != size)
}

fn number(buf: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*buf.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const SIZE: u64 = 10 << 20;

    fn member(end: bool, superblock: Option<(u64, u32, u64)>) -> bool {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        if let Some((at, version, sector)) = superblock {
            file.write_all_at(&MAGIC.to_le_bytes(), at).unwrap();
            file.write_all_at(&version.to_le_bytes(), at + 4).unwrap();
            file.write_all_at(&sector.to_le_bytes(), at + 144).unwrap();
        }
        is_member(&file, SIZE, end).unwrap()
    }

    #[test]
    fn pitfall_29_a_leg_of_a_stopped_array_is_known_by_the_pv_that_is_too_small() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        let last = SIZE / 512 - 16;
        for (offset, bytes) in [
            (0, &MAGIC.to_le_bytes()[..]),
            (4, &1_u32.to_le_bytes()),
            (144, &last.to_le_bytes()),
        ] {
            file.write_all_at(bytes, last * 512 + offset).unwrap();
        }
        file.write_all_at(b"LABELONE", 512).unwrap();
        file.write_all_at(b"LVM2 001", 512 + 24).unwrap();
        let pv = |bytes: u64| file.write_all_at(&bytes.to_le_bytes(), 512 + 64).unwrap();
        pv(SIZE);
        assert!(
            !is_member(&file, SIZE, false).unwrap(),
            "a PV of the whole disk"
        );
        pv(SIZE - 0x1_0000);
        assert!(is_member(&file, SIZE, false).unwrap());
    }

    #[test]
    fn finds_every_format_where_it_belongs() {
        let last = SIZE / 512 - 16;
        assert!(!member(true, None));
        assert!(member(false, Some((0, 1, 0))), "1.1");
        assert!(member(false, Some((4096, 1, 8))), "1.2");
        assert!(member(true, Some((last * 512, 1, last))), "1.0");
        assert!(member(true, Some((SIZE - 0x1_0000, 0, 0))), "0.90");
        assert!(
            !member(false, Some((SIZE - 0x1_0000, 0, 0))),
            "the end was not asked for"
        );
        assert!(!member(true, Some((4096, 1, 0))), "a copy at another place");
    }
}
