//! Which block devices cannot be PVs, judged from sysfs alone.

use std::collections::HashMap;

use super::sysfs::{LV_PREFIX, SysDevice};
use crate::host::SkipReason;

/// Smallest device that lvm2 takes, in bytes (`devices/pv_min_size`).
const SMALLEST: u64 = 2 << 20;
/// Characters of an LV's dm uuid without a suffix: `LVM-`, VG id, LV id.
const LV_UUID: usize = 4 + 32 + 32;

/// The rules that lvm.conf can change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// `devices/scan_lvs`
    pub scan_lvs: bool,
    /// `devices/multipath_component_detection`
    pub multipath: bool,
    /// `devices/md_component_detection`
    pub md: bool,
}

/// The first rule that leaves `device` out.
pub(super) fn reason(
    device: &SysDevice,
    all: &HashMap<String, SysDevice>,
    rules: Rules,
) -> Option<SkipReason> {
    if let Some(kind) = unusable_kind(&device.name) {
        return Some(SkipReason::Kind(kind.to_owned()));
    }
    if let Some(dm) = &device.dm {
        if dm.uuid.starts_with(LV_PREFIX) {
            if !rules.scan_lvs {
                return Some(SkipReason::LogicalVolume);
            }
            // `-real`, `-cow`, `_tdata` and the like have a suffix.
            if dm.uuid.len() > LV_UUID {
                return Some(SkipReason::Kind("internal layer of an LV".to_owned()));
            }
        }
        if dm.suspended {
            return Some(SkipReason::Suspended);
        }
    }
    if device.size < SMALLEST {
        return Some(SkipReason::TooSmall);
    }
    // What claims a disk claims its partitions too.
    let disk = device
        .partition_of
        .as_ref()
        .and_then(|(disk, _)| all.get(disk));
    let holders = || {
        [Some(device), disk]
            .into_iter()
            .flatten()
            .flat_map(|d| &d.holders)
    };
    if rules.multipath {
        let mpath = holders()
            .filter_map(|holder| all.get(holder)?.dm.as_ref())
            .find(|dm| dm.uuid.starts_with("mpath-"));
        if let Some(dm) = mpath {
            return Some(SkipReason::MultipathComponent(dm.name.clone()));
        }
    }
    if rules.md && holders().any(|holder| is_md(holder)) {
        return Some(SkipReason::MdComponent);
    }
    device.partitioned.then_some(SkipReason::Partitioned)
}

/// `md0`, `md127`, `md_d1`, `md_home`
pub(super) fn is_md(name: &str) -> bool {
    name.strip_prefix("md")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '_'))
}

/// `loop0`, `loop17`
pub(super) fn is_loop(name: &str) -> bool {
    name.strip_prefix("loop")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Memory, floppies, optical discs and flash without a translation layer.
fn unusable_kind(name: &str) -> Option<&str> {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(kind, "ram" | "zram" | "fd" | "sr" | "mtdblock" | "ubiblock").then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::{Sysfs, fake::FakeSysfs};
    use super::*;

    const LV: &str = "LVM-0123456789012345678901234567890101234567890123456789012345678901";

    fn judge(sysfs: &FakeSysfs, name: &str, scan_lvs: bool) -> Option<SkipReason> {
        let all = Sysfs::new(sysfs.root()).devices().unwrap();
        reason(
            &all[name],
            &all,
            Rules {
                scan_lvs,
                multipath: true,
                md: true,
            },
        )
    }

    #[test]
    fn each_rule() {
        let sysfs = FakeSysfs::new();
        let layer = format!("{LV}-real");
        sysfs.add("zram0", 100, &[]);
        sysfs.add("loop3", 0, &[]);
        sysfs.add("dm-0", 10, &[("dm/name", "vg-lv"), ("dm/uuid", LV)]);
        sysfs.add(
            "dm-1",
            10,
            &[("dm/name", "vg-lv-real"), ("dm/uuid", &layer)],
        );
        sysfs.add(
            "dm-2",
            10,
            &[("dm/name", "mpatha"), ("dm/uuid", "mpath-3600")],
        );
        sysfs.add(
            "dm-3",
            10,
            &[("dm/name", "x"), ("dm/uuid", ""), ("dm/suspended", "1")],
        );
        sysfs.add("sda", 10, &[("holders/dm-2", "")]);
        sysfs.add_partition("sda", 1, 5);
        sysfs.add("sdb", 10, &[("holders/md127", "")]);
        sysfs.add("sdc", 10, &[]);
        sysfs.add_partition("sdc", 1, 5);
        sysfs.add("sdd", 10, &[("holders/dm-0", "")]);
        sysfs.add("md127", 10, &[]);

        let kind = |kind: &str| Some(SkipReason::Kind(kind.to_owned()));
        let mpath = Some(SkipReason::MultipathComponent("mpatha".to_owned()));
        let expected = [
            ("zram0", kind("zram")),
            ("loop3", Some(SkipReason::TooSmall)),
            ("dm-0", Some(SkipReason::LogicalVolume)),
            ("dm-2", None),
            ("dm-3", Some(SkipReason::Suspended)),
            ("sda", mpath.clone()),
            ("sda1", mpath),
            ("sdb", Some(SkipReason::MdComponent)),
            ("sdc", Some(SkipReason::Partitioned)),
            ("sdc1", None),
            ("sdd", None),
            ("md127", None),
        ];
        for (name, reason) in expected {
            assert_eq!(judge(&sysfs, name, false), reason, "{name}");
        }
        assert_eq!(judge(&sysfs, "dm-0", true), None);
        assert_eq!(judge(&sysfs, "dm-1", true), kind("internal layer of an LV"));
    }
}
