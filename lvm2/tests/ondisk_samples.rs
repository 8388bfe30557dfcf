//! Heads of genuine PVs: they decode, encode to the same bytes again, and the
//! ring gives the text whose checksum the header names.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod common;

use std::io::Read as _;

use lvm2::crc::{crc, crc_from};
use lvm2::ondisk::label::{self, Candidate, FoundLabel, LabelError};
use lvm2::ondisk::mda::{MdaError, MdaHeader, RawLocn};
use lvm2::ondisk::{Area, ring};
use lvm2::text::Section;
use lvm2::units::Bytes;

fn heads() -> Vec<(String, Vec<u8>)> {
    common::samples(|name| name.ends_with(".head.gz"))
        .into_iter()
        .map(|(name, packed)| {
            let mut image = Vec::new();
            flate2::read::GzDecoder::new(packed.as_slice())
                .read_to_end(&mut image)
                .unwrap();
            (name, image)
        })
        .collect()
}

fn head(part: &str) -> Vec<u8> {
    let found = heads().into_iter().find(|(name, _)| name.starts_with(part));
    found.unwrap().1
}

fn at(image: &[u8], offset: u64, len: usize) -> &[u8] {
    let offset = usize::try_from(offset).unwrap();
    &image[offset..offset + len]
}

fn label_of(image: &[u8]) -> FoundLabel {
    label::find(image).unwrap().unwrap()
}

/// The headers of the areas that are inside the image.
fn areas(image: &[u8]) -> Vec<MdaHeader> {
    label_of(image)
        .header
        .metadata_areas
        .iter()
        .filter(|area| area.offset.0 < image.len() as u64)
        .map(|area| {
            let header = MdaHeader::decode(at(image, area.offset.0, 512), area.offset.0).unwrap();
            assert_eq!(header.size, area.size.0);
            header
        })
        .collect()
}

/// The text that counts, in the pieces that the ring names.
fn text_pieces(image: &[u8], header: &MdaHeader) -> Vec<Vec<u8>> {
    let locn = header.committed.unwrap();
    ring::pieces(header.size, locn.offset, locn.size)
        .unwrap()
        .into_iter()
        .map(|piece| at(image, header.start + piece.offset_in_mda, piece.range.len()).to_vec())
        .collect()
}

#[test]
fn labels_and_headers_encode_to_the_same_bytes() {
    let heads = heads();
    assert_eq!(heads.len(), 7, "a sample is missing");
    for (name, image) in heads {
        let found = label_of(&image);
        assert_eq!((found.sector, found.further.len()), (1, 0), "{name}");
        let sector = label::encode(found.sector, &found.header).unwrap();
        assert_eq!(sector.as_slice(), at(&image, 512, 512), "{name}: label");
        let areas = areas(&image);
        assert_eq!(areas.len(), 1, "{name}");
        for header in areas {
            let sector = header.encode();
            assert_eq!(
                sector.as_slice(),
                at(&image, header.start, 512),
                "{name}: header"
            );
            assert_eq!(header.precommitted, None);
        }
    }
}

#[test]
fn pitfall_06_texts_have_the_checksum_and_parse() {
    let mut texts = 0;
    for (name, image) in heads() {
        for header in areas(&image) {
            let Some(locn) = header.committed else {
                assert!(name.starts_with("pv-orphan"), "{name}");
                continue;
            };
            let pieces = text_pieces(&image, &header);
            let sum = pieces
                .iter()
                .fold(lvm2::crc::INITIAL, |sum, piece| crc_from(sum, piece));
            assert_eq!(sum, locn.checksum, "{name}");
            let text = pieces.concat();
            assert_eq!(crc(&text), locn.checksum, "{name}");
            assert_eq!(text.last(), Some(&0));
            assert_eq!(text.len() as u64, locn.size);
            let tree = Section::parse(&text).unwrap();
            assert_eq!(tree.print().as_bytes(), &text[..text.len() - 1], "{name}");
            assert_eq!(header.ignored(), name.starts_with("pv-ignored"), "{name}");
            texts += 1;
        }
    }
    assert_eq!(texts, 6);
}

#[test]
fn the_wrapped_text_is_in_two_pieces() {
    let image = head("pv-wrapped");
    let header = areas(&image).remove(0);
    let locn = header.committed.unwrap();
    assert_eq!((header.size, locn.offset, locn.size), (61440, 60416, 1360));
    let lengths: Vec<usize> = text_pieces(&image, &header).iter().map(Vec::len).collect();
    assert_eq!(lengths, [1024, 336]);
    // The next text goes behind the second piece, at the next multiple of 512.
    let next = ring::place(&header, 1400).unwrap();
    assert_eq!(next.start, 1024);
}

#[test]
fn the_samples_say_what_is_known_of_them() {
    let orphan = label_of(&head("pv-orphan")).header;
    assert!(!orphan.in_use());
    assert_eq!(orphan.device_size, Bytes(300 << 20));
    let default = Area {
        offset: Bytes(1 << 20),
        size: Bytes(0),
    };
    assert_eq!(orphan.data_areas, [default]);
    let second = label_of(&head("pv-vg0-b-2mda")).header;
    assert!(second.in_use());
    let offsets: Vec<u64> = second.metadata_areas.iter().map(|a| a.offset.0).collect();
    assert_eq!(offsets, [4096, 0x12b0_0000]);
    let ignored = areas(&head("pv-ignored-mda."));
    assert!(ignored[0].ignored());
    assert_eq!(ring::place(&ignored[0], 100).unwrap().start, 512);
}

#[test]
fn a_damaged_label_is_no_label_and_can_be_explained() {
    let good = head("pv-orphan")[..2048].to_vec();
    let explain = |image: &[u8]| -> LabelError {
        assert_eq!(label::find(image), Ok(None));
        let Candidate { sector, outcome } = label::candidates(image).unwrap().remove(0);
        assert!(sector < 4);
        outcome.unwrap_err()
    };
    let mut flipped = good.clone();
    flipped[600] ^= 1;
    assert!(matches!(
        explain(&flipped),
        LabelError::Checksum { sector: 1, .. }
    ));
    let mut moved = vec![0; 2048];
    moved[1024..1536].copy_from_slice(&good[512..1024]);
    assert_eq!(
        explain(&moved),
        LabelError::Sector {
            sector: 2,
            claimed: 1
        }
    );
    let mut other = good.clone();
    other[512 + 24..512 + 32].copy_from_slice(b"LVM9 001");
    reseal(&mut other);
    assert!(matches!(explain(&other), LabelError::Type { .. }));
    assert_eq!(
        label::find(&good[..2047]),
        Err(LabelError::Short { len: 2047 })
    );
    assert_eq!(label::find(&[0; 2048]), Ok(None));
}

/// Such a device is not taken for an empty one.
#[test]
fn a_damaged_label_of_a_pv_is_told_from_a_wiped_one() {
    let good = head("pv-orphan")[..2048].to_vec();
    assert_eq!(label::damaged(&good), None);
    assert_eq!(label::damaged(&good[..2047]), None);
    let mut flipped = good.clone();
    flipped[600] ^= 1;
    assert!(matches!(
        label::damaged(&flipped),
        Some(LabelError::Checksum { sector: 1, .. })
    ));
    // What wipefs leaves of it.
    flipped[512 + 24..512 + 32].fill(0);
    assert_eq!(label::damaged(&flipped), None);
}

/// Puts the right checksum into the label of sector 1.
fn reseal(image: &mut [u8]) {
    let sum = crc(&image[512 + 20..1024]);
    image[512 + 16..512 + 20].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn the_first_valid_label_counts() {
    let header = label_of(&head("pv-orphan")).header;
    let mut image = vec![0; 2048];
    for sector in [2u64, 3] {
        let from = usize::try_from(sector).unwrap() * 512;
        let bytes = label::encode(sector, &header).unwrap();
        image[from..from + 512].copy_from_slice(&bytes);
    }
    let found = label_of(&image);
    assert_eq!((found.sector, found.further.as_slice()), (2, &[3][..]));
    assert_eq!(found.header, header);
}

#[test]
fn a_pv_header_with_a_right_checksum_can_still_be_refused() {
    let good = head("pv-orphan")[..2048].to_vec();
    let mut endless = good.clone();
    endless[512 + 72..1024].fill(1);
    reseal(&mut endless);
    assert_eq!(
        label::find(&endless),
        Err(LabelError::Truncated { sector: 1 })
    );
    let mut nameless = good.clone();
    nameless[512 + 40] = b'?';
    reseal(&mut nameless);
    assert!(matches!(label::find(&nameless), Err(LabelError::Id { .. })));
    let mut elsewhere = good;
    elsewhere[512 + 20..512 + 24].copy_from_slice(&600u32.to_le_bytes());
    reseal(&mut elsewhere);
    assert!(label::find(&elsewhere).is_err());
}

#[test]
fn what_does_not_fit_a_label_is_not_written() {
    let mut header = label_of(&head("pv-orphan")).header;
    let area = header.data_areas[0];
    header.data_areas = vec![area; 40];
    assert!(matches!(
        label::encode(1, &header),
        Err(LabelError::Truncated { .. })
    ));
    // 25 areas fill the sector if no extension follows.
    header.data_areas = vec![area; 25];
    header.metadata_areas.clear();
    header.ext_version = 0;
    header.ext_flags = 0;
    let mut image = [0; 2048];
    image[512..1024].copy_from_slice(&label::encode(1, &header).unwrap());
    assert_eq!(label_of(&image).header, header);
    header.data_areas = vec![Area {
        offset: Bytes(0),
        size: Bytes(1),
    }];
    assert!(matches!(
        label::encode(1, &header),
        Err(LabelError::AreaAtZero { .. })
    ));
}

/// An area that LVM2 does not use must stay so, whatever the caller thinks
/// its other flags are.
#[test]
fn an_ignored_area_is_written_as_ignored() {
    let mut header = areas(&head("pv-ignored-mda.")).remove(0);
    let locn = header.committed.unwrap();
    for flags in [0, 1, 2, 3] {
        for ignored in [true, false] {
            header.committed = Some(RawLocn {
                ignored,
                flags,
                ..locn
            });
            let back = MdaHeader::decode(&header.encode(), header.start).unwrap();
            assert_eq!(back.ignored(), ignored, "flags {flags}");
            assert_eq!(back.committed.unwrap().flags, flags & !1);
        }
    }
}

#[test]
fn wrong_area_headers_are_refused() {
    let image = head("pv-vg0-a");
    let good = at(&image, 4096, 512).to_vec();
    let altered = |from: usize, bytes: &[u8]| {
        let mut sector = good.clone();
        sector[from..from + bytes.len()].copy_from_slice(bytes);
        let sum = crc(&sector[4..]);
        sector[..4].copy_from_slice(&sum.to_le_bytes());
        MdaHeader::decode(&sector, 4096)
    };
    assert!(altered(0, &[]).is_ok());
    assert_eq!(altered(4, b"x"), Err(MdaError::Magic));
    assert_eq!(altered(20, &[2]), Err(MdaError::Version { found: 2 }));
    assert_eq!(
        altered(32, &511u64.to_le_bytes()),
        Err(MdaError::Size { found: 511 })
    );
    assert!(altered(32, &512u64.to_le_bytes()).is_ok());
    assert_eq!(
        MdaHeader::decode(&good, 8192),
        Err(MdaError::Start {
            expected: 8192,
            found: 4096
        })
    );
    assert_eq!(
        MdaHeader::decode(&good[..511], 4096),
        Err(MdaError::Short { len: 511 })
    );
    let mut flipped = good.clone();
    flipped[100] ^= 0x80;
    assert!(matches!(
        MdaHeader::decode(&flipped, 4096),
        Err(MdaError::Checksum { .. })
    ));
}
