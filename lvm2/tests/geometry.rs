//! The layout of new PVs: lvm2's numbers, and what must hold for all.

#![allow(clippy::unwrap_used, reason = "tests")]

use lvm2::id::PvId;
use lvm2::ondisk::geometry::{
    DEFAULT_DATA_START, Geometry, GeometryError, SMALLEST_AREA, Topology, Wish, extents,
};
use lvm2::ondisk::label::{self, PvHeader};
use lvm2::ondisk::mda::MdaHeader;
use lvm2::units::{Bytes, ExtentSize, Sectors};
use proptest::prelude::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// lvm2's own default of the metadata area, for which its tables hold.
const LVM2_AREA: Bytes = Bytes(MIB - 4096);

fn wish(metadata: u64, alignment: Option<u64>) -> Wish {
    Wish {
        metadata_size: Some(Bytes(metadata)),
        data_alignment: alignment.map(Bytes),
    }
}

/// `minimum_io_size` (the physical block), `optimal_io_size`,
/// `alignment_offset`, then the start of data and the size of the metadata
/// area that stock lvm2 makes of them.
#[test]
fn the_topologies_of_scsi_disks() {
    let table = [
        (512, 512 * KIB, 0, MIB, 1_044_480),
        (4096, 512 * KIB, 3584, MIB + 3584, 1_048_064),
        (512, 64 * KIB, 0, MIB, 1_044_480),
        (512, 768 * KIB, 0, 3 * MIB / 2, 1_568_768),
        (512, 3 * MIB / 2, 0, 3 * MIB / 2, 1_568_768),
        (4096, 3 * MIB / 2, 3584, 3 * MIB / 2 + 3584, 1_572_352),
        (512, 2 * MIB, 0, 2 * MIB, 2_093_056),
        (4096, 4 * MIB, 0, 4 * MIB, 4_190_208),
    ];
    for (minimum, optimal, offset, start, area) in table {
        let topology = Topology {
            minimum_io: Bytes(minimum),
            optimal_io: Bytes(optimal),
            alignment_offset: Bytes(offset),
            stripe: Bytes::ZERO,
        };
        let wish = wish(LVM2_AREA.0, None);
        let found = Geometry::new(Bytes(1 << 30), topology, wish).unwrap();
        assert_eq!(
            (found.data_start, found.metadata.size),
            (Bytes(start), Bytes(area)),
            "{topology:?}"
        );
        assert_eq!(found.metadata.offset, Bytes(4096));
    }
}

/// Metadata size and alignment asked for, and the start of data that
/// `pvcreate --metadatasize --dataalignment` of lvm2 2.03.16 makes of them.
#[test]
fn the_wishes_of_administrators() {
    let table = [
        (LVM2_AREA.0, None, MIB),
        (64 * KIB, None, MIB),
        (MIB, None, 2 * MIB),
        (2 * MIB, None, 3 * MIB),
        (16 * MIB, None, 17 * MIB),
        (16 * MIB - 4096, None, 16 * MIB),
        (100 * MIB, None, 101 * MIB),
        (LVM2_AREA.0, Some(64 * KIB), MIB),
        (32 * KIB, Some(64 * KIB), 64 * KIB),
        (64 * KIB, Some(64 * KIB), 128 * KIB),
        (MIB, Some(3 * MIB), 3 * MIB),
        (5 * MIB, Some(4 * MIB), 8 * MIB),
        (700 * KIB, Some(512 * KIB), MIB),
        (32 * KIB, Some(4 * KIB), 36 * KIB),
        (33 * KIB, Some(8 * KIB), 40 * KIB),
        (32 * KIB, Some(96 * KIB), 96 * KIB),
    ];
    for (metadata, alignment, start) in table {
        let found = Geometry::new(
            Bytes(256 * MIB),
            Topology::default(),
            wish(metadata, alignment),
        );
        assert_eq!(
            found.unwrap().data_start,
            Bytes(start),
            "{metadata} {alignment:?}"
        );
    }
}

#[test]
fn an_md_array_is_aligned_to_its_stripe() {
    let topology = Topology {
        minimum_io: Bytes(512 * KIB),
        optimal_io: Bytes(3 * 512 * KIB),
        alignment_offset: Bytes::ZERO,
        stripe: Bytes(3 * 512 * KIB),
    };
    let found = Geometry::new(Bytes(1 << 30), topology, wish(LVM2_AREA.0, None)).unwrap();
    assert_eq!(found.data_start, Bytes(3 * 512 * KIB));
}

#[test]
fn the_default_is_room_for_thousands_of_volumes_and_a_small_part_of_the_disk() {
    let start = |size: u64| {
        let size = Bytes(size);
        Geometry::new(size, Topology::default(), Wish::default())
            .unwrap()
            .data_start
    };
    assert_eq!(start(2 * MIB), Bytes(MIB));
    assert_eq!(start(31 * MIB), Bytes(MIB));
    assert_eq!(start(64 * MIB), Bytes(4 * MIB));
    assert_eq!(start(256 * MIB), DEFAULT_DATA_START);
    assert_eq!(start(1 << 44), DEFAULT_DATA_START);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let new = |size: u64, wish| Geometry::new(Bytes(size), Topology::default(), wish);
    let refused = [
        (new(2 * MIB - 512, Wish::default()), "smallest PV"),
        (
            new(64 * MIB, wish(28 * KIB, Some(4 * KIB))),
            "metadata area",
        ),
        (new(64 * MIB, wish(MIB, Some(0))), "aligned to 0"),
        (new(64 * MIB, wish(MIB, Some(1000))), "aligned to 1000"),
        (new(64 * MIB, wish(64 * MIB, None)), "no room"),
        (new(64 * MIB, wish(u64::MAX, None)), "no room"),
        (new(64 * MIB, wish(MIB, Some(64 * MIB))), "no room"),
    ];
    for (outcome, words) in refused {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(matches!(
        new(64 * MIB, wish(0, None)),
        Err(GeometryError::SmallArea { .. })
    ));
}

#[test]
fn extents_are_whole_and_countable() {
    let extent = ExtentSize::new(Sectors(8192)).unwrap();
    assert_eq!(extents(Bytes(64 * MIB), Bytes(MIB), extent).0, 15);
    assert_eq!(extents(Bytes(MIB), Bytes(2 * MIB), extent).0, 0);
    let tiny = ExtentSize::new(Sectors(1)).unwrap();
    let all = extents(Bytes(1 << 50), Bytes(MIB), tiny);
    assert_eq!(all.0, u64::from(u32::MAX));
}

proptest! {
    #[test]
    fn every_geometry_is_sound(
        size in 2 * MIB..1 << 44,
        minimum in prop::sample::select(vec![0, 512, 4096, 65536, 512 * KIB]),
        optimal in 0..65_536_u64,
        offset in prop::sample::select(vec![0, 512, 3584]),
        metadata in prop::option::of(SMALLEST_AREA.0..64 * MIB),
        pages in prop::option::of(1..4096_u64),
    ) {
        let topology = Topology {
            minimum_io: Bytes(minimum),
            optimal_io: Bytes(optimal * 512),
            alignment_offset: Bytes(offset),
            stripe: Bytes::ZERO,
        };
        let wish = Wish {
            metadata_size: metadata.map(Bytes),
            data_alignment: pages.map(|pages| Bytes(pages * 4096)),
        };
        let Ok(found) = Geometry::new(Bytes(size), topology, wish) else {
            // Only for want of room.
            prop_assert!(metadata.is_some() || pages.is_some() || optimal * 512 >= MIB);
            return Ok(());
        };
        prop_assert!(found.metadata.offset == Bytes(4096));
        prop_assert!(found.metadata.size >= metadata.map_or(SMALLEST_AREA, Bytes));
        prop_assert_eq!(found.metadata.offset.0 + found.metadata.size.0, found.data_start.0);
        prop_assert!(found.data_start < Bytes(size));
        prop_assert!(found.data_start.0.is_multiple_of(512));
        if let Some(pages) = pages {
            prop_assert!((found.data_start.0 - offset).is_multiple_of(pages * 4096));
        }
        // What is written is read back as it was meant.
        let id = PvId::from_random([7; 32]);
        let (at, sector) = found.label(id).unwrap();
        let mut head = vec![0; label::SEARCHED_BYTES];
        let at = usize::try_from(at.0).unwrap();
        head[at..at + 512].copy_from_slice(&sector);
        let back = label::find(&head).unwrap().unwrap();
        prop_assert_eq!((back.sector, &back.header), (1, &found.pv_header(id)));
        let area = MdaHeader::decode(&found.area_header().encode(), 4096).unwrap();
        prop_assert_eq!(area, found.area_header());
    }

    #[test]
    fn the_in_use_flag_is_all_that_changes(
        version in 0..4_u32,
        flags in any::<u32>(),
        in_use in any::<bool>(),
        second in any::<bool>(),
    ) {
        let geometry = Geometry::new(Bytes(64 * MIB), Topology::default(), Wish::default()).unwrap();
        let mut header = geometry.pv_header(PvId::from_random([9; 32]));
        header.ext_version = version;
        header.ext_flags = if version == 0 { 0 } else { flags };
        if second {
            header.metadata_areas.push(lvm2::ondisk::Area { offset: Bytes(63 * MIB), size: Bytes(MIB) });
        }
        let changed = header.with_in_use(in_use);
        prop_assert_eq!(changed.in_use(), in_use);
        prop_assert!(changed.ext_version >= 2);
        if version >= 2 {
            prop_assert_eq!(changed.ext_flags & !label::FLAG_IN_USE, flags & !label::FLAG_IN_USE);
        }
        let rest = PvHeader { ext_version: version, ext_flags: header.ext_flags, ..changed.clone() };
        prop_assert_eq!(&rest, &header);
        let sector = label::encode(1, &changed).unwrap();
        let mut head = vec![0; label::SEARCHED_BYTES];
        head[512..1024].copy_from_slice(&sector);
        prop_assert_eq!(label::find(&head).unwrap().unwrap().header, changed);
    }
}
