//! A VG as an LVMNode shows it.

use lvm2::units::Extents;

use crate::engine::VgSummary;
use crate::kube::crd::VolumeGroup;
use crate::kube::quantity::Quantity;
use crate::metrics::vg_fields::{allocation_policy, lv_counts, permissions};

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn limit(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The contract's fields of one VG. What is free in a VG that may not be changed
/// is of no use to those who look for a place, so it does not count.
pub(crate) fn volume_group(summary: &VgSummary) -> VolumeGroup {
    let vg = &summary.vg;
    let extent = vg.extent_size();
    let metadata = &summary.metadata;
    let free = match summary.obstacle() {
        None => vg.free_extents(),
        Some(_) => Extents(0),
    };
    let (lvs, snapshots) = lv_counts(vg);
    let missing = summary.pvs.iter().filter(|pv| pv.missing).count();
    VolumeGroup {
        name: vg.name().to_string(),
        uuid: vg.id().to_string(),
        size: Quantity::of(extent.bytes_of(vg.extents_total())),
        free: Quantity::of(extent.bytes_of(free)),
        lv_count: count(lvs),
        pv_count: count(vg.pvs().len()),
        max_lv: limit(vg.max_lv()),
        max_pv: limit(vg.max_pv()),
        snap_count: count(snapshots),
        missing_pv_count: count(missing),
        metadata_count: count(metadata.areas),
        metadata_used_count: count(metadata.used_areas),
        metadata_free: Quantity::of(metadata.free()),
        metadata_size: Quantity::of(metadata.size),
        permissions: permissions(vg),
        allocation_policy: allocation_policy(vg),
        thin_pools: Vec::new(),
    }
}
