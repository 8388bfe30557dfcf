//! lvm2's devices file: which devices it lists, and the text with more of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lvm2::id::PvId;

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

/// What identifies a device in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceId {
    kind: &'static str,
    name: String,
    partition: Option<u32>,
}

impl DeviceId {
    /// The most lasting id that sysfs has for `device`, by lvm2's order: what
    /// stacks devices gives them an id of its own, disks have a wwid or a
    /// serial number, and of the rest only the name is known.
    pub(super) fn of(device: &SysDevice, disk: &SysDevice, node: &Path) -> Self {
        let partition = device.partition_of.as_ref().map(|(_, number)| *number);
        let lasting = |kind: &'static str| {
            let found = ids(kind, disk)?.into_iter().next()?;
            // The emulator gives all disks one name until they get serials;
            // a file that was deleted is found under no name again.
            let anonymous = found.starts_with("t10.") && found.contains("QEMU_HARDDISK");
            let deleted = kind == "loop_file" && found.contains("(deleted)");
            (!found.is_empty() && !anonymous && !deleted).then_some(Self {
                kind,
                name: found,
                partition,
            })
        };
        let kinds: &[&'static str] = match &disk.dm {
            Some(dm) if dm.uuid.starts_with("mpath-") => &["mpath_uuid"],
            Some(dm) if dm.uuid.starts_with("CRYPT-") => &["crypt_uuid"],
            Some(dm) if dm.uuid.starts_with("LVM-") => &["lvmlv_uuid"],
            Some(_) => &[],
            None if disk.name.starts_with("loop") => &["loop_file"],
            None if super::skip::is_md(&disk.name) => &["md_uuid"],
            None => &["sys_wwid", "sys_serial"],
        };
        kinds
            .iter()
            .find_map(|kind| lasting(kind))
            .unwrap_or_else(|| Self {
                kind: "devname",
                name: node.display().to_string(),
                // The name is that of the partition itself.
                partition: None,
            })
    }

    fn matches(&self, entry: &Entry) -> bool {
        entry.id_type == self.kind && entry.id == self.name && entry.partition == self.partition
    }
}

/// A device that the file shall list, and the PV on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: DeviceId,
    pub(super) node: PathBuf,
    pub(super) pv: Option<PvId>,
}

impl Listed {
    fn line(&self) -> String {
        let pv = self.pv.as_ref().map_or(".", |id| id.as_str());
        let DeviceId {
            kind,
            name,
            partition,
        } = &self.id;
        let mut line = format!(
            "IDTYPE={kind} IDNAME={name} DEVNAME={} PVID={pv}",
            self.node.display()
        );
        if let Some(number) = partition {
            // Writing to a string cannot fail.
            let _ = write!(line, " PART={number}");
        }
        line
    }
}

/// The text of a devices file that lists `devices` too. Lines of other devices
/// and lines that we do not understand stay as they are; the counter goes up,
/// and so does the checksum change if there is one.
pub(super) fn with_devices(text: &str, devices: &[Listed]) -> String {
    let mut missing: Vec<&Listed> = devices.iter().collect();
    let mut lines: Vec<String> = Vec::new();
    let mut versioned = false;
    for line in text.lines() {
        if let Some(version) = line.strip_prefix("VERSION=") {
            versioned = true;
            lines.push(format!("VERSION={}", next_version(version)));
            continue;
        }
        let known = entry(line).and_then(|entry| {
            let at = missing
                .iter()
                .position(|device| device.id.matches(&entry))?;
            Some(missing.remove(at))
        });
        lines.push(known.map_or_else(|| line.to_owned(), Listed::line));
    }
    if !versioned {
        let at = lines.iter().position(|line| !line.starts_with('#'));
        lines.insert(at.unwrap_or(lines.len()), "VERSION=1.1.1".to_owned());
    }
    lines.extend(missing.into_iter().map(Listed::line));
    let mut summed = String::new();
    for line in lines.iter().filter(|line| !line.starts_with('#')) {
        summed.push_str(line);
        summed.push('\n');
    }
    let sum = lvm2::crc::crc(summed.as_bytes());
    for line in &mut lines {
        if line.starts_with(HASH) {
            *line = format!("{HASH}{sum}");
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The comment that holds the checksum of all lines that are no comments.
const HASH: &str = "# HASH=";

/// `major.minor.counter` with a counter that is one higher.
fn next_version(version: &str) -> String {
    match version.trim().rsplit_once('.') {
        Some((format, counter)) => match counter.parse::<u64>() {
            Ok(counter) => format!("{format}.{}", counter.saturating_add(1)),
            Err(_) => "1.1.1".to_owned(),
        },
        None => "1.1.1".to_owned(),
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

    /// A file of a lvm2 that keeps a checksum.
    fn hashed() -> String {
        let counted = "PRODUCT_UUID=abc\nVERSION=1.1.2\n\
            IDTYPE=loop_file IDNAME=/a.img DEVNAME=/dev/loop7 PVID=.\n\
            IDTYPE=future IDNAME=abc DEVNAME=/dev/vdc PVID=. COLOUR=blue\n";
        let sum = lvm2::crc::crc(counted.as_bytes());
        format!("# LVM uses devices listed in this file.\n# HASH={sum}\n{counted}")
    }

    #[test]
    fn adds_and_updates_entries_and_keeps_the_rest() {
        let sysfs = FakeSysfs::new();
        sysfs.add("sda", 10, &[("device/wwid", "naa.5000")]);
        sysfs.add_partition("sda", 2, 4);
        sysfs.add("sdb", 10, &[("device/wwid", "t10.ATA  QEMU HARDDISK")]);
        sysfs.add("vda", 10, &[("serial", "disk  7")]);
        sysfs.add("loop0", 10, &[("loop/backing_file", "/a.img")]);
        let devices = Sysfs::new(sysfs.root()).devices().unwrap();
        let pv = PvId::from_random([1; 32]);
        let listed = |name: &str, disk: &str, pv| {
            let node = Path::new("/dev").join(name);
            Listed {
                id: DeviceId::of(&devices[name], &devices[disk], &node),
                node,
                pv,
            }
        };
        let wanted = [
            listed("sda2", "sda", Some(pv)),
            listed("sdb", "sdb", None),
            listed("vda", "vda", Some(pv)),
            listed("loop0", "loop0", Some(pv)),
        ];
        let text = with_devices(&hashed(), &wanted);
        let id = pv.as_str();
        let counted = format!(
            "PRODUCT_UUID=abc\nVERSION=1.1.3\n\
            IDTYPE=loop_file IDNAME=/a.img DEVNAME=/dev/loop0 PVID={id}\n\
            IDTYPE=future IDNAME=abc DEVNAME=/dev/vdc PVID=. COLOUR=blue\n\
            IDTYPE=sys_wwid IDNAME=naa.5000 DEVNAME=/dev/sda2 PVID={id} PART=2\n\
            IDTYPE=devname IDNAME=/dev/sdb DEVNAME=/dev/sdb PVID=.\n\
            IDTYPE=sys_serial IDNAME=disk_7 DEVNAME=/dev/vda PVID={id}\n"
        );
        let sum = lvm2::crc::crc(counted.as_bytes());
        assert_eq!(
            text,
            format!("# LVM uses devices listed in this file.\n# HASH={sum}\n{counted}")
        );
        let file = DevicesFile::parse(&text);
        for device in &wanted {
            let name = device.node.file_name().unwrap().to_str().unwrap();
            let disk = if name == "sda2" { "sda" } else { name };
            assert!(
                file.lists(&devices[name], &devices[disk], &device.node),
                "{name}"
            );
        }
        // The same again changes nothing but counter and sum.
        let again = with_devices(&text, &wanted);
        assert_eq!(again.lines().count(), text.lines().count());
        assert!(again.contains("VERSION=1.1.4\n"));
    }

    #[test]
    fn an_empty_file_gets_a_version() {
        let text = with_devices("# a comment", &[]);
        assert_eq!(text, "# a comment\nVERSION=1.1.1\n");
    }
}
