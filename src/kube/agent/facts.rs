//! A VG as an LVMNode shows it.

use std::sync::Arc;

use lvm2::model::{Lv, Vg};
use lvm2::units::Extents;

use crate::engine::VgSummary;
use crate::engine::roles::Roles;
use crate::kube::crd::{ThinPool, VolumeGroup};
use crate::kube::quantity::Quantity;
use crate::metrics::vg_fields::{allocation_policy, lv_counts, permissions};

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn limit(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The contract's fields of one VG. What is free in a VG that may not be changed
/// is of no use to those who look for a place, so it does not count; without `locks`
/// that is every VG.
pub(crate) fn volume_group(summary: &VgSummary, locks: bool) -> VolumeGroup {
    let vg = &summary.vg;
    let extent = vg.extent_size();
    let metadata = &summary.metadata;
    let usable = locks && summary.obstacle().is_none();
    let free = if usable {
        vg.free_extents()
    } else {
        Extents(0)
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
        thin_pools: thin_pools(vg, usable),
    }
}

/// The thin pools of a VG. How full one is only its own metadata tells, so what
/// counts as free is what its volumes could never fill: too little at most. In a
/// VG that may not be changed that is nothing, as above.
fn thin_pools(vg: &Vg, usable: bool) -> Vec<ThinPool> {
    let is_pool = |kind: &str| kind.split('+').next() == Some("thin-pool");
    let mut pools = vg.lvs().iter().filter(|lv| is_pool(lv.type_name()));
    let Some(first) = pools.next() else {
        return Vec::new();
    };
    let roles = Roles::of(vg);
    let extent = vg.extent_size();
    let entry = |pool: &Arc<Lv>| {
        let size = pool.extents();
        let name = Some(pool.name.as_str());
        let within = |lv: &&Arc<Lv>| roles.str(lv.name.as_str(), "thin_pool") == name;
        let promised = vg.lvs().iter().filter(within).map(|lv| lv.extents().0);
        let promised = promised.fold(0, u64::saturating_add);
        let free = if usable {
            size.0.saturating_sub(promised)
        } else {
            0
        };
        ThinPool {
            name: pool.name.to_string(),
            size: Quantity::of(extent.bytes_of(size)),
            free: Quantity::of(extent.bytes_of(Extents(free))),
        }
    };
    std::iter::once(first).chain(pools).map(entry).collect()
}
