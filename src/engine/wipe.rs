//! Making the content of a former tenant unreadable.
//!
//! Extents are wiped through their PVs while no committed metadata gives them
//! to anybody, so there is no moment at which an LV shows old content.

use std::sync::Arc;

use lvm2::id::PvId;
use lvm2::model::{Lv, Vg};
use lvm2::tables::{self, TableError};
use lvm2::units::Bytes;

use super::area::PvDevice;
use super::loaded::Loaded;
use crate::host::HostError;

/// Bytes at both ends of an LV that become zero. It covers what libblkid
/// looks at near the ends: ZFS labels reach furthest, 512 KiB.
pub(crate) const ENDS: u64 = 512 * 1024;
/// Btrfs keeps copies of its superblock at these byte offsets.
const BTRFS_MIRRORS: [u64; 2] = [64 * 1024 * 1024, 256 * 1024 * 1024 * 1024];
/// Size of such a copy.
const BTRFS_SUPERBLOCK: u64 = 4096;

/// Why a wipe failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WipeError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("PV {0} is not there")]
    Absent(PvId),
}

/// Byte ranges `(offset, length)` of an LV of `size` bytes in which
/// signatures are looked for, ascending and disjoint.
pub(crate) fn signature_ranges(size: u64) -> Vec<(u64, u64)> {
    if size <= 2 * ENDS {
        return vec![(0, size)];
    }
    let tail = size - ENDS;
    let mut ranges = vec![(0, ENDS)];
    for mirror in BTRFS_MIRRORS {
        if mirror + BTRFS_SUPERBLOCK <= tail {
            ranges.push((mirror, BTRFS_SUPERBLOCK));
        }
    }
    ranges.push((tail, ENDS));
    ranges
}

/// Zeroes byte ranges of `lv`, as `vg` lays it out, on its PVs, which are added
/// to `touched`: the zeros are durable once these are flushed, which the commit
/// does before its headers. No metadata that gives these extents to somebody
/// else may be committed.
pub(super) fn zero(
    loaded: &Loaded,
    vg: &Vg,
    lv: &Lv,
    ranges: &[(u64, u64)],
    touched: &mut Vec<Arc<PvDevice>>,
) -> Result<(), WipeError> {
    for (offset, length) in ranges {
        for range in tables::pv_ranges(vg, lv, Bytes(*offset), Bytes(*length))? {
            let device = loaded
                .device(&range.pv)
                .ok_or(WipeError::Absent(range.pv))?;
            device.writer()?.zero(range.device_offset.0, range.len.0)?;
            if !touched.iter().any(|known| Arc::ptr_eq(known, device)) {
                touched.push(Arc::clone(device));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_volumes_are_wiped_whole() {
        assert_eq!(signature_ranges(4096), [(0, 4096)]);
        assert_eq!(signature_ranges(2 * ENDS), [(0, 2 * ENDS)]);
    }

    #[test]
    fn ranges_stay_inside_and_do_not_meet() {
        for size in [
            2 * ENDS + 1,
            1 << 26,
            (1 << 26) + (1 << 20),
            1 << 30,
            1 << 40,
        ] {
            let ranges = signature_ranges(size);
            let mut end = 0;
            for (offset, length) in &ranges {
                assert!(*offset >= end, "{size}: {ranges:?}");
                end = offset + length;
            }
            assert_eq!(end, size);
        }
    }

    #[test]
    fn large_volumes_lose_both_btrfs_mirrors() {
        let ranges = signature_ranges(1 << 40);
        assert_eq!(ranges.len(), 4);
        assert!(ranges.contains(&(1 << 26, 4096)) && ranges.contains(&(1 << 38, 4096)));
    }
}
