//! What stands against making a PV of a device, from sysfs and procfs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lvm2::ondisk::geometry::Topology;
use lvm2::units::Bytes;
use nix::errno::Errno;

use super::block::path_error;
use super::discover::device_at;
use super::sysfs::{SysDevice, read};
use super::{mount, skip};
use crate::host::{HostResult, SkipReason, Unfit};

/// Active swap, one device or file a line behind a heading.
const SWAPS: &str = "/proc/swaps";

/// The device that `path` leads to.
///
/// # Errors
/// [`HostError::Path`]; with `ENOTBLK` if it leads to something else.
pub(super) fn find<'a>(
    path: &Path,
    all: &'a HashMap<String, SysDevice>,
) -> HostResult<&'a SysDevice> {
    // Says so if there is no such path.
    std::fs::metadata(path).map_err(|error| path_error("open", path, error))?;
    let failed = |errno: Errno| path_error("open", path, errno.into());
    let devno = device_at(path).ok_or_else(|| failed(Errno::ENOTBLK))?;
    all.values()
        .find(|device| device.devno == devno)
        .ok_or_else(|| failed(Errno::ENODEV))
}

/// Everything that stands against a device; `reason` is why it would not be
/// searched for a PV, if so.
pub(super) fn unfit(
    device: &SysDevice,
    all: &HashMap<String, SysDevice>,
    reason: Option<SkipReason>,
) -> HostResult<Vec<Unfit>> {
    let mut found = Vec::new();
    let mounts = mount::mounts()?;
    let mounted = mounts.into_iter().find(|mount| mount.dev == device.devno);
    found.extend(mounted.map(|mount| Unfit::Mounted(mount.target)));
    let swaps = match std::fs::read_to_string(SWAPS) {
        Ok(text) => swaps(&text),
        // A kernel without swap.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(path_error("read", Path::new(SWAPS), error)),
    };
    if swaps
        .iter()
        .any(|path| device_at(path) == Some(device.devno))
    {
        found.push(Unfit::Swap);
    }
    found.extend(reason.map(Unfit::Skipped));
    if !device.holders.is_empty() {
        let name = |kernel: &String| {
            let dm = all.get(kernel).and_then(|holder| holder.dm.as_ref());
            dm.map_or_else(|| kernel.clone(), |dm| format!("{kernel} ({})", dm.name))
        };
        found.push(Unfit::Held(device.holders.iter().map(name).collect()));
    }
    if read(&device.dir, "ro").is_some_and(|value| value == "1") {
        found.push(Unfit::ReadOnly);
    }
    Ok(found)
}

/// Nodes of the devices that are swapped to. Blanks come as octal numbers;
/// no node of a block device has any.
fn swaps(text: &str) -> Vec<PathBuf> {
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(PathBuf::from)
        .collect()
}

/// How the kernel says that the device likes to be used. What it does not say
/// is zero.
pub(super) fn topology(device: &SysDevice, disk: &SysDevice) -> Topology {
    let bytes = |value: Option<String>| {
        // An offset of -1 means that nothing can be aligned.
        let number = value.and_then(|value| value.parse::<u64>().ok());
        Bytes(number.unwrap_or(0))
    };
    Topology {
        minimum_io: bytes(read(&disk.dir, "queue/minimum_io_size")),
        optimal_io: bytes(read(&disk.dir, "queue/optimal_io_size")),
        alignment_offset: bytes(read(&device.dir, "alignment_offset")),
        stripe: if skip::is_md(&disk.name) {
            stripe(&disk.dir).unwrap_or_default()
        } else {
            Bytes::ZERO
        },
    }
}

/// Data in a full stripe of the md array with this directory in sysfs.
fn stripe(dir: &Path) -> Option<Bytes> {
    let number = |attribute: &str| read(dir, attribute)?.parse::<u64>().ok();
    let disks = number("md/raid_disks")?;
    let data = match read(dir, "md/level")?.as_str() {
        "raid0" => disks,
        "raid4" | "raid5" => disks.checked_sub(1)?,
        "raid6" => disks.checked_sub(2)?,
        // Two copies of everything, the usual case.
        "raid10" => disks / 2,
        _ => return None,
    };
    number("md/chunk_size")?.checked_mul(data).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::{Sysfs, fake::FakeSysfs};
    use super::*;
    use crate::host::HostError;

    #[test]
    fn what_sysfs_says_about_alignment() {
        let sysfs = FakeSysfs::new();
        sysfs.add(
            "sda",
            10,
            &[
                ("queue/minimum_io_size", "4096"),
                ("queue/optimal_io_size", "1048576"),
                ("alignment_offset", "3584"),
            ],
        );
        sysfs.add("sdb", 10, &[("alignment_offset", "-1")]);
        sysfs.add(
            "md0",
            10,
            &[
                ("md/level", "raid5"),
                ("md/raid_disks", "4"),
                ("md/chunk_size", "524288"),
            ],
        );
        sysfs.add("md1", 10, &[("md/level", "raid1"), ("md/raid_disks", "2")]);
        let all = Sysfs::new(sysfs.root()).devices().unwrap();
        let of = |name: &str| topology(&all[name], &all[name]);
        assert_eq!(
            of("sda"),
            Topology {
                minimum_io: Bytes(4096),
                optimal_io: Bytes(1 << 20),
                alignment_offset: Bytes(3584),
                stripe: Bytes::ZERO,
            }
        );
        assert_eq!(of("sdb").alignment_offset, Bytes::ZERO);
        assert_eq!(of("md0").stripe, Bytes(3 << 19));
        assert_eq!(of("md1").stripe, Bytes::ZERO);
    }

    #[test]
    fn what_is_in_use_is_named() {
        let sysfs = FakeSysfs::new();
        sysfs.add("sda", 10, &[("holders/dm-0", ""), ("ro", "1")]);
        sysfs.add("dm-0", 10, &[("dm/name", "vg-lv"), ("dm/uuid", "LVM-x")]);
        let all = Sysfs::new(sysfs.root()).devices().unwrap();
        let found = unfit(&all["sda"], &all, Some(SkipReason::Partitioned)).unwrap();
        let words: Vec<String> = found.iter().map(ToString::to_string).collect();
        // The made-up number may be one that is mounted here.
        let words: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .filter(|word| !word.contains("mounted") && !word.contains("swap"))
            .collect();
        assert_eq!(
            words,
            [
                "it is partitioned",
                "it is in use by dm-0 (vg-lv)",
                "it is read-only"
            ]
        );
    }

    #[test]
    fn swap_is_listed_behind_a_heading() {
        let text = "Filename\t\tType\t\tSize\tUsed\tPriority\n/dev/sda2  partition\t8\t0\t-2\n";
        assert_eq!(swaps(text), [PathBuf::from("/dev/sda2")]);
    }

    #[test]
    fn a_path_that_is_no_device_is_refused() {
        let all = HashMap::new();
        for path in ["/dev/no-such-device", "/dev/null", "/etc"] {
            let error = find(Path::new(path), &all).unwrap_err();
            assert!(matches!(error, HostError::Path { .. }), "{error}");
            assert!(error.to_string().contains(path), "{error}");
        }
    }
}
