//! Fields of a VG as the contract encodes them, in metrics and in LVMNode alike.

use lvm2::model::{Lv, Vg};

/// 0 writeable, 1 read-only.
#[must_use]
pub(crate) fn permissions(vg: &Vg) -> i32 {
    i32::from(!vg.writable())
}

/// The contract's number of a VG's allocation policy.
#[must_use]
pub(crate) fn allocation_policy(vg: &Vg) -> i32 {
    match vg.allocation_policy() {
        None | Some("normal") => 0,
        Some("contiguous") => 1,
        Some("cling" | "cling_by_tags") => 2,
        Some("anywhere") => 3,
        Some("inherit") => 4,
        Some(_) => -1,
    }
}

/// How many LVs lvm2 counts, and how many of them are thick snapshots. A VG
/// describes one of those by a hidden LV that has the status word of a visible
/// one, and by an LV that lacks it.
#[must_use]
pub(crate) fn lv_counts(vg: &Vg) -> (usize, usize) {
    let ties = |lv: &&std::sync::Arc<Lv>| lv.type_name().split('+').next() == Some("snapshot");
    let snapshots = vg.lvs().iter().filter(ties).count();
    let visible = vg
        .lvs()
        .iter()
        .filter(|lv| lv.visible() && !ties(lv))
        .count();
    (visible + snapshots, snapshots)
}
