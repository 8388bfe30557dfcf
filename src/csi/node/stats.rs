//! NodeGetVolumeStats.

use crate::engine::VgOutline;
use crate::host::{FsUsage, MountEntry};

use super::super::driver::Driver;
use super::super::proto::volume_usage::Unit;
use super::super::proto::{
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeCondition, VolumeUsage,
};
use super::super::status::{CsiError, OfVolume};
use super::mounted::{at, is_filesystem, is_node, is_read_only, is_superblock_read_only};
use super::target::components;

/// Use and condition of the volume at a path.
pub(super) fn stats(
    driver: &Driver,
    request: &NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, CsiError> {
    let volume = &request.volume_id;
    let lv = driver.usable(volume)?;
    let fs = &driver.engine.host().fs;
    let mounts = fs.mounts().of_volume(volume)?;
    let path = fs
        .resolve(&components(&request.volume_path))
        .of_volume(volume)?;
    let entry = at(&mounts, &path).filter(|entry| is_filesystem(entry, &lv) || is_node(entry, &lv));
    let Some(entry) = entry else {
        let path = request.volume_path.clone();
        return Err(CsiError::NotPublished {
            volume: volume.clone(),
            path,
        });
    };
    let outline = driver.engine.outline(&lv.vg).of_volume(volume)?;
    let usage = if is_node(entry, &lv) {
        vec![VolumeUsage {
            total: signed(lv.size.0),
            unit: Unit::Bytes.into(),
            ..VolumeUsage::default()
        }]
    } else {
        of_filesystem(fs.usage(&path).of_volume(volume)?)
    };
    let volume_condition = Some(remounted(entry).unwrap_or_else(|| condition(&outline)));
    Ok(NodeGetVolumeStatsResponse {
        usage,
        volume_condition,
    })
}

fn of_filesystem(usage: FsUsage) -> Vec<VolumeUsage> {
    let bytes = VolumeUsage {
        available: signed(usage.available_bytes),
        total: signed(usage.total_bytes),
        used: signed(usage.used_bytes),
        unit: Unit::Bytes.into(),
    };
    let inodes = VolumeUsage {
        available: signed(usage.free_inodes),
        total: signed(usage.total_inodes),
        used: signed(usage.total_inodes.saturating_sub(usage.free_inodes)),
        unit: Unit::Inodes.into(),
    };
    vec![bytes, inodes]
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A file system that was mounted for writing and is not any more has met an
/// error.
fn remounted(entry: &MountEntry) -> Option<VolumeCondition> {
    (is_superblock_read_only(entry) && !is_read_only(entry)).then(|| VolumeCondition {
        abnormal: true,
        message: "the file system became read-only after an error; see the kernel's log".to_owned(),
    })
}

/// The condition of the volumes of a VG, as far as LVM can tell.
pub(in super::super) fn condition(outline: &VgOutline) -> VolumeCondition {
    let trouble = outline
        .hazards
        .first()
        .map(ToString::to_string)
        .or_else(|| outline.refusal.as_ref().map(ToString::to_string));
    VolumeCondition {
        abnormal: trouble.is_some(),
        message: trouble.map_or_else(
            || "ok".to_owned(),
            |trouble| format!("VG {}: {trouble}", outline.vg.name()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_inodes_add_up() {
        let usage = of_filesystem(FsUsage {
            total_bytes: 100,
            available_bytes: 30,
            used_bytes: 60,
            total_inodes: 10,
            free_inodes: 4,
        });
        assert_eq!(
            (usage[0].total, usage[0].used, usage[0].available),
            (100, 60, 30)
        );
        assert_eq!(
            (usage[1].total, usage[1].used, usage[1].available),
            (10, 6, 4)
        );
        assert_eq!(usage[1].unit, i32::from(Unit::Inodes));
        assert_eq!(signed(u64::MAX), i64::MAX);
    }
}
