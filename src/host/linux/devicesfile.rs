//! lvm2's devices file, read only.

use std::path::Path;

use super::sysfs::{SysDevice, read};

/// The devices that lvm2 is allowed to use on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DevicesFile {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    id_type: String,
    id: String,
    /// Last known node; may be out of date.
    devname: Option<String>,
    partition: Option<u32>,
}

impl DevicesFile {
    /// Reads the text of a devices file. Lines without an id are not entries.
    #[must_use]
    pub(super) fn parse(text: &str) -> Self {
        Self {
            entries: text.lines().filter_map(entry).collect(),
        }
    }

    /// Whether the file lists `device`, whose whole disk is `disk` (itself if
    /// it is no partition).
    pub(super) fn lists(&self, device: &SysDevice, disk: &SysDevice, node: &Path) -> bool {
        let number = device.partition_of.as_ref().map(|(_, number)| *number);
        self.entries.iter().any(|entry| {
            if entry.id_type == "devname" {
                return node == Path::new(&entry.id);
            }
            match ids(&entry.id_type, disk) {
                // Ids are those of the whole disk, with PART= for partitions.
                Some(ids) => entry.partition == number && ids.contains(&entry.id),
                // A kind of id that we cannot read: the name has to do.
                None => entry
                    .devname
                    .as_deref()
                    .is_some_and(|name| node == Path::new(name)),
            }
        })
    }
}

/// `KEY=VALUE …` in one line; comments and the head have no IDTYPE.
fn entry(line: &str) -> Option<Entry> {
    let value = |key: &str| {
        line.split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
            .filter(|value| *value != ".")
    };
    if line.trim_start().starts_with('#') {
        return None;
    }
    Some(Entry {
        id_type: value("IDTYPE")?.to_owned(),
        id: value("IDNAME")?.to_owned(),
        devname: value("DEVNAME").map(str::to_owned),
        partition: value("PART").and_then(|part| part.parse().ok()),
    })
}

/// What sysfs says about the id of this type; nothing if it is a type that
/// sysfs has no attribute for.
fn ids(id_type: &str, disk: &SysDevice) -> Option<Vec<String>> {
    let attributes: &[&str] = match id_type {
        "sys_wwid" | "wwid_naa" | "wwid_eui" | "wwid_t10" => &["device/wwid", "wwid"],
        "nvme_uuid" | "nvme_nguid" | "nvme_eui64" => &["wwid"],
        "sys_serial" => &["device/serial", "serial"],
        "mpath_uuid" | "crypt_uuid" | "lvmlv_uuid" => &["dm/uuid"],
        "md_uuid" => &["md/uuid"],
        "loop_file" => &["loop/backing_file"],
        _ => return None,
    };
    Some(
        attributes
            .iter()
            .filter_map(|attribute| read(&disk.dir, attribute))
            .flat_map(|raw| [without_blanks(&raw), raw])
            .collect(),
    )
}

/// The file cannot hold blanks: runs of them stand there as one underscore.
fn without_blanks(raw: &str) -> String {
    raw.split_whitespace().collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::{Sysfs, fake::FakeSysfs};
    use super::*;

    const TEXT: &str = "# LVM uses devices listed in this file.\n\
        # IDTYPE=devname IDNAME=/dev/commented\n\
        VERSION=1.1.2\n\
        IDTYPE=sys_wwid IDNAME=t10.ATA_QEMU_HARDDISK DEVNAME=/dev/sda PVID=x PART=1\n\
        IDTYPE=loop_file IDNAME=/var/lib/a.img DEVNAME=/dev/loop7 PVID=.\n\
        IDTYPE=devname IDNAME=/dev/vdb DEVNAME=/dev/vdb PVID=.\n\
        IDTYPE=future IDNAME=abc DEVNAME=/dev/vdc PVID=.\n";

    #[test]
    fn finds_devices_by_id_name_and_partition() {
        let sysfs = FakeSysfs::new();
        sysfs.add("sda", 10, &[("device/wwid", "t10.ATA  QEMU HARDDISK")]);
        sysfs.add_partition("sda", 1, 4);
        sysfs.add_partition("sda", 2, 4);
        sysfs.add("loop0", 10, &[("loop/backing_file", "/var/lib/a.img")]);
        sysfs.add("loop7", 10, &[("loop/backing_file", "/var/lib/b.img")]);
        for name in ["vdb", "vdc", "vdd", "commented"] {
            sysfs.add(name, 10, &[]);
        }
        let devices = Sysfs::new(sysfs.root()).devices().unwrap();
        let file = DevicesFile::parse(TEXT);
        let listed = |name: &str, disk: &str| {
            file.lists(
                &devices[name],
                &devices[disk],
                &Path::new("/dev").join(name),
            )
        };
        assert!(listed("sda1", "sda"));
        assert!(!listed("sda2", "sda"), "another partition");
        assert!(!listed("sda", "sda"), "the whole disk is not listed");
        assert!(listed("loop0", "loop0"), "the id counts, not the old name");
        assert!(!listed("loop7", "loop7"));
        assert!(listed("vdb", "vdb"));
        assert!(
            listed("vdc", "vdc"),
            "by name where the id is of a new kind"
        );
        assert!(!listed("vdd", "vdd"));
        assert!(!listed("commented", "commented"));
    }
}
