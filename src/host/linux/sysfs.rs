//! Block devices as sysfs shows them, without touching the devices.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use lvm2::tables::DevNo;

use super::block::path_error;
use crate::host::{DeviceInfo, HostResult};

/// Layers of a stack of devices that are looked at; more are never built.
const DEEPEST: u32 = 16;

/// How the dm uuids of LVs begin.
pub(super) const LV_PREFIX: &str = "LVM-";

/// What is to know about a device before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SysDevice {
    /// Kernel name, e.g. `nvme0n1p2`.
    pub name: String,
    pub devno: DevNo,
    /// Node in `/dev`, relative, e.g. `cciss/c0d0`.
    pub node: String,
    /// Bytes.
    pub size: u64,
    /// Logical block size in bytes.
    pub block_size: u32,
    /// The whole disk, if this is a partition, and the partition's number.
    pub partition_of: Option<(String, u32)>,
    /// Has partitions that the kernel knows.
    pub partitioned: bool,
    /// Kernel names of the devices stacked on this one.
    pub holders: Vec<String>,
    /// device-mapper's view, for its devices.
    pub dm: Option<SysDm>,
    /// The directory in sysfs.
    pub dir: PathBuf,
}

impl SysDevice {
    /// The device as others know it, by the node `path`.
    pub(super) fn info(&self, path: PathBuf) -> DeviceInfo {
        DeviceInfo {
            devno: self.devno,
            path,
            size: self.size,
            block_size: self.block_size,
        }
    }
}

/// A device-mapper device in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SysDm {
    pub name: String,
    pub uuid: String,
    pub suspended: bool,
}

/// The sysfs mount.
#[derive(Clone, Debug)]
pub(super) struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn class(&self) -> PathBuf {
        self.root.join("class/block")
    }

    /// All block devices, by name. Devices that vanish meanwhile are left out.
    pub(super) fn devices(&self) -> HostResult<HashMap<String, SysDevice>> {
        let class = self.class();
        let entries = fs::read_dir(&class).map_err(|error| path_error("list", &class, error))?;
        Ok(entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let device = self.device(&name)?;
                Some((name, device))
            })
            .collect())
    }

    fn device(&self, name: &str) -> Option<SysDevice> {
        // Resolved, so that `..` of a partition is its disk.
        let dir = fs::canonicalize(self.class().join(name)).ok()?;
        let uevent = fs::read_to_string(dir.join("uevent")).ok()?;
        let property = |key: &str| {
            uevent
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        };
        // Hidden paths of native NVMe multipath have no node and no number.
        let node = property("DEVNAME")?.to_owned();
        let devno = DevNo {
            major: property("MAJOR")?.parse().ok()?,
            minor: property("MINOR")?.parse().ok()?,
        };
        let sectors: u64 = read(&dir, "size")?.parse().ok()?;
        let partition: Option<u32> = read(&dir, "partition").and_then(|n| n.parse().ok());
        let disk = if partition.is_some() {
            dir.parent()?
        } else {
            &dir
        };
        let block_size = read(disk, "queue/logical_block_size")?.parse().ok()?;
        let partition_of = match partition {
            Some(number) => Some((disk.file_name()?.to_str()?.to_owned(), number)),
            None => None,
        };
        Some(SysDevice {
            partitioned: partition.is_none() && has_partitions(&dir, name),
            holders: names(&dir.join("holders")),
            dm: dm(&dir),
            name: name.to_owned(),
            devno,
            node,
            size: sectors.saturating_mul(512),
            block_size,
            partition_of,
            dir,
        })
    }

    /// The dm uuid of the device with this kernel name, if it is one of dm's.
    pub(super) fn dm_uuid(&self, name: &str) -> Option<String> {
        read(&self.class().join(name), "dm/uuid")
    }

    /// Whether this is an LV's device.
    pub(super) fn is_lv(&self, dev: DevNo) -> bool {
        read(&self.root.join(format!("dev/block/{dev}")), "dm/uuid")
            .is_some_and(|uuid| uuid.starts_with(LV_PREFIX))
    }

    /// The name of a suspended device-mapper device that I/O to `dev` passes:
    /// the device itself or one below it.
    pub(super) fn suspended_at_or_below(&self, dev: DevNo) -> Option<String> {
        let dir = fs::canonicalize(self.root.join(format!("dev/block/{dev}"))).ok()?;
        self.suspended(&dir, DEEPEST)
    }

    fn suspended(&self, dir: &Path, depth: u32) -> Option<String> {
        if let Some(dm) = dm(dir).filter(|dm| dm.suspended) {
            return Some(dm.name);
        }
        let depth = depth.checked_sub(1)?;
        let mut below = names(&dir.join("slaves"));
        // A partition's disk is the directory that it lies in.
        if dir.join("partition").exists() {
            let disk = dir.parent()?.file_name()?.to_str()?.to_owned();
            below.push(disk);
        }
        below.iter().find_map(|name| {
            let dir = fs::canonicalize(self.class().join(name)).ok()?;
            self.suspended(&dir, depth)
        })
    }

    /// Names of all block devices, without looking at them.
    pub(super) fn names(&self) -> Vec<String> {
        names(&self.class())
    }
}

fn dm(dir: &Path) -> Option<SysDm> {
    let name = read(dir, "dm/name")?;
    Some(SysDm {
        name,
        uuid: read(dir, "dm/uuid").unwrap_or_default(),
        suspended: read(dir, "dm/suspended").is_some_and(|value| value == "1"),
    })
}

fn has_partitions(dir: &Path, name: &str) -> bool {
    names(dir)
        .iter()
        .any(|child| child.starts_with(name) && dir.join(child).join("partition").exists())
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

/// An attribute without the newline at its end; nothing if it is absent.
pub(super) fn read(dir: &Path, attribute: &str) -> Option<String> {
    let text = fs::read_to_string(dir.join(attribute)).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
pub(super) mod fake {
    //! A made-up sysfs.

    use super::*;

    pub(in crate::host::linux) struct FakeSysfs {
        dir: tempfile::TempDir,
        next_minor: std::cell::Cell<u32>,
    }

    impl FakeSysfs {
        pub(in crate::host::linux) fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("class/block")).unwrap();
            Self {
                dir,
                next_minor: 0.into(),
            }
        }

        pub(in crate::host::linux) fn root(&self) -> PathBuf {
            self.dir.path().to_owned()
        }

        /// Adds a disk of `mib` MiB with further attributes.
        pub(in crate::host::linux) fn add(
            &self,
            name: &str,
            mib: u64,
            attributes: &[(&str, &str)],
        ) {
            let minor = self.next_minor.replace(self.next_minor.get() + 1);
            self.add_at(name, DevNo { major: 8, minor }, mib, attributes);
        }

        /// The same with a number of its own.
        pub(in crate::host::linux) fn add_at(
            &self,
            name: &str,
            dev: DevNo,
            mib: u64,
            attributes: &[(&str, &str)],
        ) {
            let dir = self.dir.path().join("devices").join(name);
            self.fill(&dir, name, dev, mib, attributes);
            let queue = dir.join("queue");
            fs::create_dir_all(&queue).unwrap();
            fs::write(queue.join("logical_block_size"), "512\n").unwrap();
        }

        pub(in crate::host::linux) fn add_partition(&self, disk: &str, number: u32, mib: u64) {
            let name = format!("{disk}{number}");
            let dir = self.dir.path().join("devices").join(disk).join(&name);
            let minor = self.next_minor.replace(self.next_minor.get() + 1);
            let dev = DevNo { major: 8, minor };
            self.fill(&dir, &name, dev, mib, &[("partition", &number.to_string())]);
        }

        fn fill(&self, dir: &Path, name: &str, dev: DevNo, mib: u64, attributes: &[(&str, &str)]) {
            fs::create_dir_all(dir.join("holders")).unwrap();
            let DevNo { major, minor } = dev;
            fs::write(
                dir.join("uevent"),
                format!("MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\n"),
            )
            .unwrap();
            let numbers = self.dir.path().join("dev/block");
            fs::create_dir_all(&numbers).unwrap();
            std::os::unix::fs::symlink(dir, numbers.join(dev.to_string())).unwrap();
            fs::write(dir.join("size"), format!("{}\n", mib * 2048)).unwrap();
            for (attribute, value) in attributes {
                let path = dir.join(attribute);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{value}\n")).unwrap();
            }
            std::os::unix::fs::symlink(dir, self.dir.path().join("class/block").join(name))
                .unwrap();
        }
    }

    #[test]
    fn reads_disks_and_partitions() {
        let sysfs = FakeSysfs::new();
        sysfs.add("sda", 100, &[("holders/md0", "")]);
        sysfs.add_partition("sda", 1, 50);
        sysfs.add(
            "dm-0",
            8,
            &[
                ("dm/name", "a-b"),
                ("dm/uuid", "LVM-x"),
                ("dm/suspended", "1"),
            ],
        );
        fs::create_dir_all(sysfs.root().join("class/block/nvme0c0n1")).unwrap();
        let devices = Sysfs::new(sysfs.root()).devices().unwrap();
        assert_eq!(devices.len(), 3, "a device without a node is left out");
        let sda = &devices["sda"];
        assert_eq!(
            (sda.size, sda.block_size, sda.partitioned),
            (100 << 20, 512, true)
        );
        assert_eq!(sda.holders, ["md0"]);
        let part = &devices["sda1"];
        assert_eq!(part.partition_of, Some(("sda".to_owned(), 1)));
        assert_eq!(
            (part.size, part.block_size, part.partitioned),
            (50 << 20, 512, false)
        );
        let dm = devices["dm-0"].dm.as_ref().unwrap();
        assert_eq!(
            (dm.name.as_str(), dm.uuid.as_str(), dm.suspended),
            ("a-b", "LVM-x", true)
        );
    }
    #[test]
    fn finds_what_is_suspended_below_a_partition() {
        let sysfs = FakeSysfs::new();
        sysfs.add("dm-0", 8, &[("dm/name", "low"), ("dm/suspended", "1")]);
        let upper = [
            ("dm/name", "up"),
            ("dm/suspended", "0"),
            ("slaves/dm-0", ""),
        ];
        sysfs.add("dm-1", 8, &upper);
        sysfs.add_partition("dm-1", 1, 4);
        sysfs.add("sda", 8, &[]);
        let sysfs = Sysfs::new(sysfs.root());
        let below = |minor| sysfs.suspended_at_or_below(DevNo { major: 8, minor });
        for minor in 0..3 {
            assert_eq!(below(minor).as_deref(), Some("low"), "8:{minor}");
        }
        assert_eq!(below(3), None);
        assert_eq!(below(9), None, "no such device");
    }
}
