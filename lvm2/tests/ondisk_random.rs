//! The ring over many commits, and bytes that mean harm.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use std::ops::Range;

use lvm2::crc::crc;
use lvm2::id::PvId;
use lvm2::ondisk::Area;
use lvm2::ondisk::label::{self, PvHeader};
use lvm2::ondisk::mda::{MdaHeader, RawLocn};
use lvm2::ondisk::ring::{self, Piece, Placement, RingError};
use lvm2::units::Bytes;
use proptest::prelude::*;

fn empty(size: u64) -> MdaHeader {
    MdaHeader {
        start: 4096,
        size,
        committed: None,
        precommitted: None,
    }
}

fn locn(offset: u64, size: u64) -> RawLocn {
    RawLocn {
        offset,
        size,
        checksum: 0,
        ignored: false,
        flags: 0,
    }
}

fn commit(header: &mut MdaHeader, size: u64) -> Result<Placement, RingError> {
    let placement = ring::place(header, size)?;
    header.committed = Some(locn(placement.start, size));
    Ok(placement)
}

fn bytes_of(piece: &Piece) -> Range<u64> {
    piece.offset_in_mda..piece.offset_in_mda + piece.range.len() as u64
}

/// A ring as bytes: writes the text with zeros up to the next sector, as lvm2
/// does, and reads what the header names.
struct Ring {
    header: MdaHeader,
    bytes: Vec<u8>,
}

impl Ring {
    fn write(&mut self, text: &[u8]) -> Result<Vec<Piece>, RingError> {
        let placement = commit(&mut self.header, text.len() as u64)?;
        for piece in &placement.pieces {
            let at = usize::try_from(piece.offset_in_mda).unwrap();
            let part = &text[piece.range.clone()];
            let end = at + part.len();
            let padded = end.next_multiple_of(512).min(self.bytes.len());
            self.bytes[at..end].copy_from_slice(part);
            self.bytes[end..padded].fill(0);
        }
        Ok(placement.pieces)
    }

    fn read(&self, locn: &RawLocn) -> Vec<u8> {
        let pieces = ring::pieces(self.header.size, locn.offset, locn.size).unwrap();
        let mut text = Vec::new();
        for piece in pieces {
            assert_eq!(piece.range.start, text.len());
            let at = usize::try_from(piece.offset_in_mda).unwrap();
            text.extend_from_slice(&self.bytes[at..at + piece.range.len()]);
        }
        text
    }
}

/// A thousand texts that grow and shrink: each leaves the one before readable.
fn thousand_commits(sectors: u64, seed: u64) -> usize {
    let size = sectors * 512;
    let max = ring::max_text(size);
    let mut ring = Ring {
        header: empty(size),
        bytes: vec![0xaa; usize::try_from(size).unwrap()],
    };
    let mut state = seed;
    let mut before: Option<(RawLocn, Vec<u8>)> = None;
    let mut wrapped = 0;
    for round in 0..1000u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let wave = (round % 100).min(100 - round % 100) * max / 50;
        let len = 1 + (wave + (state >> 40) % 700) % max;
        let fill = u8::try_from(round % 251).unwrap();
        let text = vec![fill; usize::try_from(len).unwrap()];
        let old = ring.header.committed;
        let pieces = ring.write(&text).unwrap();
        wrapped += usize::from(pieces.len() == 2);
        let new = ring.header.committed.unwrap();
        assert_eq!(new.offset % 512, 0);
        assert_eq!(pieces[0].offset_in_mda, new.offset);
        for piece in &pieces {
            let bytes = bytes_of(piece);
            assert!(512 <= bytes.start && bytes.end <= size);
        }
        if let (Some(old), Some((_, text))) = (old, &before) {
            assert_eq!(&ring.read(&old), text, "round {round} of {sectors} sectors");
        }
        assert_eq!(ring.read(&new), text);
        before = Some((new, text));
    }
    wrapped
}

#[test]
fn the_ring_of_the_default_size() {
    // The default area is 1044480 bytes; its limit is a known number.
    assert_eq!(ring::max_text(1_044_480), 521_472);
    assert!(thousand_commits(2040, 1) > 100, "texts wrap");
}

#[test]
fn tiny_rings() {
    for sectors in 4..20 {
        let size = sectors * 512;
        if ring::max_text(size) > 0 {
            thousand_commits(sectors, sectors);
        }
    }
    for size in [0, 511, 512, 1024, 1536] {
        assert_eq!(ring::max_text(size), 0);
        assert_eq!(
            ring::place(&empty(size), 1),
            Err(RingError::TooLarge { size: 1, max: 0 })
        );
    }
}

#[test]
fn a_text_at_the_limit_fits_and_one_byte_more_does_not() {
    let mut header = empty(61440);
    let max = ring::max_text(61440);
    for _ in 0..50 {
        commit(&mut header, max).unwrap();
    }
    assert_eq!(
        ring::place(&header, max + 1),
        Err(RingError::TooLarge { size: max + 1, max })
    );
    assert!(ring::place(&empty(u64::MAX), u64::MAX).is_err());
    assert!(ring::place(&header, 0).is_err());
}

#[test]
fn the_slot_rule_at_the_end_of_the_area() {
    let mut header = empty(61440);
    let mut next_after = |offset, size| {
        header.committed = Some(locn(offset, size));
        ring::place(&header, 600).unwrap()
    };
    assert_eq!(next_after(512, 512).start, 1024);
    assert_eq!(next_after(512, 513).start, 1536);
    // The last sector can hold the beginning of a text that wraps.
    let wrapping = next_after(60416, 512);
    assert_eq!(wrapping.start, 60928);
    assert_eq!(wrapping.pieces.len(), 2);
    assert_eq!(wrapping.pieces[1].offset_in_mda, 512);
    assert_eq!(next_after(60416, 513).start, 512);
    assert_eq!(next_after(60416, 1024).start, 512);
    // A text that wraps ends behind the header.
    assert_eq!(next_after(60416, 1025).start, 1024);
    header.committed = Some(RawLocn {
        ignored: true,
        ..locn(2048, 100)
    });
    assert_eq!(ring::place(&header, 600).unwrap().start, 512);
}

#[test]
fn locations_outside_the_ring_are_refused() {
    for (offset, len) in [
        (0, 1),
        (511, 1),
        (8192, 1),
        (512, 0),
        (512, 7681),
        (u64::MAX, 1),
    ] {
        assert!(ring::pieces(8192, offset, len).is_err(), "{offset} {len}");
        if len > 0 && offset > 0 {
            let mut header = empty(8192);
            header.committed = Some(locn(offset, len));
            assert!(matches!(
                ring::place(&header, 10),
                Err(RingError::Outside { .. })
            ));
        }
    }
    assert!(matches!(
        ring::pieces(u64::MAX, 512, 1 << 40),
        Err(RingError::TooLarge { .. })
    ));
    // lvm2 would not write a text of more than half the ring, and leaves no
    // place for the next.
    let mut header = empty(8192);
    header.committed = Some(locn(512, 7680));
    assert!(matches!(
        ring::place(&header, 600),
        Err(RingError::Overlap { .. })
    ));
}

#[test]
fn a_text_is_one_piece_unless_it_goes_beyond_the_end() {
    let parts = |offset, len| -> Vec<(u64, Range<usize>)> {
        ring::pieces(8192, offset, len)
            .unwrap()
            .into_iter()
            .map(|piece| (piece.offset_in_mda, piece.range))
            .collect()
    };
    assert_eq!(parts(512, 100), [(512, 0..100)]);
    assert_eq!(parts(7168, 1024), [(7168, 0..1024)]);
    assert_eq!(parts(7168, 1025), [(7168, 0..1024), (512, 1024..1025)]);
    // Nobody writes a text as long as the ring, but one can be read.
    assert_eq!(parts(512, 7680), [(512, 0..7680)]);
    assert_eq!(parts(1024, 7680), [(1024, 0..7168), (512, 7168..7680)]);
}

fn areas(max: usize) -> impl Strategy<Value = Vec<Area>> {
    let area = (1u64.., any::<u64>()).prop_map(|(offset, size)| Area {
        offset: Bytes(offset),
        size: Bytes(size),
    });
    prop::collection::vec(area, 0..max)
}

proptest! {
    #[test]
    fn any_ring_keeps_the_old_text(sectors in 5u64..300, seed: u64) {
        thousand_commits(sectors, seed);
    }

    #[test]
    fn a_text_placed_oddly_is_never_overwritten(
        size in 512u64..20_000,
        offset in 0u64..20_000,
        len in 0u64..20_000,
        new in 1u64..10_000,
    ) {
        let mut header = empty(size);
        header.committed = Some(locn(offset, len));
        let Ok(placement) = ring::place(&header, new) else { return Ok(()) };
        if offset == 0 || len == 0 {
            prop_assert_eq!(placement.start, 512);
            return Ok(());
        }
        let old = ring::pieces(size, offset, len).unwrap();
        for (new, old) in placement.pieces.iter().flat_map(|n| old.iter().map(move |o| (n, o))) {
            let (new, old) = (bytes_of(new), bytes_of(old));
            let padded = new.end.next_multiple_of(512).min(size);
            prop_assert!(padded <= old.start || old.end <= new.start);
        }
    }

    #[test]
    fn any_ring_numbers_are_survived(size: u64, offset: u64, len: u64, new: u64) {
        let mut header = empty(size);
        header.committed = Some(locn(offset, len));
        let _ = ring::place(&header, new % 5000);
        let _ = ring::pieces(size, offset, len);
    }

    #[test]
    fn area_headers_survive_encoding(
        start: u64,
        size in 512u64..,
        slots in prop::array::uniform2(prop::option::of((1u64.., any::<u64>(), any::<u32>(), any::<bool>(), any::<u32>()))),
    ) {
        let [committed, precommitted] = slots.map(|slot| slot.map(|(offset, size, checksum, ignored, flags)| RawLocn {
            offset, size, checksum, ignored, flags: flags & !1,
        }));
        let header = MdaHeader { start, size, committed, precommitted };
        prop_assert_eq!(MdaHeader::decode(&header.encode(), start), Ok(header));
    }

    #[test]
    fn pv_headers_survive_encoding(
        id: [u8; 32],
        device_size: u64,
        data_areas in areas(4),
        metadata_areas in areas(4),
        ext in prop::option::of((1u32.., any::<u32>(), areas(3))),
        sector in 0u64..4,
    ) {
        let (ext_version, ext_flags, bootloader_areas) = ext.unwrap_or_default();
        let header = PvHeader {
            id: PvId::from_random(id),
            device_size: Bytes(device_size),
            data_areas,
            metadata_areas,
            ext_version,
            ext_flags,
            bootloader_areas,
        };
        let mut head = [0; 2048];
        let at = usize::try_from(sector).unwrap() * 512;
        head[at..at + 512].copy_from_slice(&label::encode(sector, &header).unwrap());
        let found = label::find(&head).unwrap().unwrap();
        prop_assert_eq!((found.sector, found.header), (sector, header));
    }

    #[test]
    fn hostile_labels_never_panic(mut sector in prop::collection::vec(any::<u8>(), 512), offset in 0u32..600) {
        sector[..8].copy_from_slice(b"LABELONE");
        sector[8..16].copy_from_slice(&1u64.to_le_bytes());
        sector[20..24].copy_from_slice(&offset.to_le_bytes());
        sector[24..32].copy_from_slice(b"LVM2 001");
        let sum = crc(&sector[20..]);
        sector[16..20].copy_from_slice(&sum.to_le_bytes());
        let mut head = vec![0; 512];
        head.extend(sector);
        head.resize(2048, 0);
        if let Ok(found) = label::find(&head) {
            prop_assert_eq!(found.map(|f| f.sector), Some(1));
        }
        prop_assert_eq!(label::candidates(&head).unwrap().len(), 1);
    }

    #[test]
    fn hostile_area_headers_never_panic(mut sector in prop::collection::vec(any::<u8>(), 512), genuine: bool) {
        if genuine {
            sector[4..20].copy_from_slice(b" LVM2 x[5A%r0N*>");
            sector[20..24].copy_from_slice(&1u32.to_le_bytes());
            sector[24..32].copy_from_slice(&4096u64.to_le_bytes());
        }
        let sum = crc(&sector[4..]);
        sector[..4].copy_from_slice(&sum.to_le_bytes());
        if let Ok(header) = MdaHeader::decode(&sector, 4096) {
            let _ = ring::place(&header, 5000);
            if let Some(locn) = header.committed {
                let _ = ring::pieces(header.size, locn.offset, locn.size);
            }
            let again = MdaHeader::decode(&header.encode(), 4096);
            prop_assert_eq!(again, Ok(header));
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert_eq!(label::find(&bytes).is_err(), bytes.len() < 2048);
        prop_assert!(MdaHeader::decode(&bytes, 0).is_err());
    }
}
