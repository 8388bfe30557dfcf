//! The head of a PV that somebody forged: labels, PV header, metadata area
//! header, ring. The input is the first four sectors, the header sector of every
//! metadata area, and the bytes that every text is read from.
//!
//! Checksums would stop nearly every mutation, so each input is tried twice: as
//! it is and with its checksums put right.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lvm2::crc::{crc, crc_from};
use lvm2::model::Vg;
use lvm2::ondisk::label::{self, FoundLabel, SEARCHED_BYTES};
use lvm2::ondisk::mda::{HEADER, MdaHeader};
use lvm2::ondisk::ring::{self, Piece};
use lvm2::ondisk::{Area, SECTOR};

/// Texts are cut to this, lest every input with a large size costs megabytes.
const TEXT: u64 = 64 << 10;

fuzz_target!(|data: &[u8]| {
    let mut image = vec![0; (SEARCHED_BYTES + SECTOR).max(data.len())];
    image[..data.len()].copy_from_slice(data);
    read(&image, data.len());
    mend(&mut image);
    read(&image, data.len());
});

/// Puts the checksums of labels and area header right.
fn mend(image: &mut [u8]) {
    let (head, rest) = image.split_at_mut(SEARCHED_BYTES);
    for (n, sector) in (0u64..).zip(head.chunks_exact_mut(SECTOR)) {
        if sector.starts_with(b"LABELONE") {
            sector[8..16].copy_from_slice(&n.to_le_bytes());
            let sum = crc(&sector[20..]);
            sector[16..20].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let sum = crc(&rest[4..SECTOR]);
    rest[..4].copy_from_slice(&sum.to_le_bytes());
}

fn read(image: &[u8], given: usize) {
    if given < SEARCHED_BYTES {
        let short = &image[..given];
        assert!(label::find(short).is_err() && label::candidates(short).is_err());
    }
    let head = &image[..SEARCHED_BYTES];
    let candidates = label::candidates(head).expect("four sectors are enough");
    assert!(candidates.len() <= 4);
    let Ok(Some(found)) = label::find(head) else {
        return;
    };
    written_again(&found);
    for area in &found.header.metadata_areas {
        metadata_area(image, *area);
    }
}

fn written_again(found: &FoundLabel) {
    let sector = label::encode(found.sector, &found.header).expect("what fitted fits");
    let mut head = [0; SEARCHED_BYTES];
    let at = usize::try_from(found.sector).unwrap_or(0) * SECTOR;
    head[at..at + SECTOR].copy_from_slice(&sector);
    let again = label::find(&head).ok().flatten();
    assert_eq!(
        again.map(|again| again.header).as_ref(),
        Some(&found.header)
    );
}

fn metadata_area(image: &[u8], area: Area) {
    let (_, rest) = image.split_at(SEARCHED_BYTES);
    let (sector, ring) = rest.split_at(SECTOR);
    // The header names its own place, which the input cannot know for each area.
    let start = u64::from_le_bytes(*sector[24..].first_chunk().expect("a whole sector"));
    assert!(MdaHeader::decode(sector, start.wrapping_add(1)).is_err());
    let Ok(header) = MdaHeader::decode(sector, start) else {
        return;
    };
    let again = MdaHeader::decode(&header.encode(), header.start);
    assert_eq!(again.as_ref(), Ok(&header));
    for size in [1, 511, 512, 5000, ring::max_text(header.size), area.size.0] {
        place(&header, size);
    }
    let Some(locn) = header.committed else { return };
    let Ok(pieces) = ring::pieces(header.size, locn.offset, locn.size) else {
        return;
    };
    inside(&header, &pieces, locn.size);
    if locn.size > TEXT {
        return;
    }
    let mut text = Vec::new();
    for piece in &pieces {
        text.extend((0..piece.range.len()).map(|n| {
            let at = piece.range.start.saturating_add(n);
            ring.get(at).copied().unwrap_or(0)
        }));
    }
    let sums = pieces.iter().map(|piece| &text[piece.range.clone()]);
    let sum = sums.fold(lvm2::crc::INITIAL, crc_from);
    assert_eq!(sum, crc(&text), "in pieces or at once");
    if let Ok(vg) = Vg::parse(&text) {
        let print = vg.print();
        assert!(text.starts_with(print.as_bytes()));
    }
}

/// A text that has a place is inside the ring, in one or two pieces.
fn inside(header: &MdaHeader, pieces: &[Piece], size: u64) {
    assert!((1..=2).contains(&pieces.len()));
    let mut next = 0;
    for piece in pieces {
        let len = piece.range.len() as u64;
        assert_eq!(piece.range.start, next);
        assert!(len > 0 && piece.offset_in_mda >= HEADER);
        assert!(
            piece
                .offset_in_mda
                .checked_add(len)
                .is_some_and(|end| end <= header.size)
        );
        next = piece.range.end;
    }
    assert_eq!(next as u64, size);
}

/// The next text never touches the one that counts, not even by its padding.
fn place(header: &MdaHeader, size: u64) {
    let Ok(placement) = ring::place(header, size) else {
        return;
    };
    assert_eq!(placement.start % 512, 0);
    inside(header, &placement.pieces, size);
    let Some(old) = header
        .committed
        .filter(|locn| !locn.ignored && locn.offset != 0)
    else {
        return;
    };
    for old in ring::pieces(header.size, old.offset, old.size).unwrap_or_default() {
        let old = old.offset_in_mda..old.offset_in_mda + old.range.len() as u64;
        for new in &placement.pieces {
            let end = new.offset_in_mda + new.range.len() as u64;
            let padded = end.next_multiple_of(512).min(header.size.max(end));
            assert!(padded <= old.start || old.end <= new.offset_in_mda);
        }
    }
}
