//! What goes into and comes out of device-mapper calls.

use std::ops::{BitOr, BitOrAssign};

use crate::DevNo;

/// Which device a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmId<'a> {
    /// By kernel name, at most 127 bytes.
    Name(&'a str),
    /// By uuid, at most 128 bytes.
    Uuid(&'a str),
    /// By number.
    Dev(DevNo),
}

/// One line of a table or of its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetLine {
    /// First sector (512 bytes) of the device that the target maps.
    pub start: u64,
    /// Sectors that it maps.
    pub length: u64,
    /// Kind of target, e.g. `linear`; at most 15 bytes.
    pub kind: String,
    /// The target's parameters or, in a status, its state. Bytes that are not
    /// UTF-8 are replaced when read.
    pub params: String,
}

/// A device as the kernel describes it in the reply to most calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DmInfo {
    /// Device number; 0:0 in the reply to a removal by name or uuid.
    pub dev: DevNo,
    /// Kernel name. Bytes that are not UTF-8 are replaced: address such a
    /// device by number.
    pub name: String,
    /// uuid, empty if the device has none.
    pub uuid: String,
    /// Number of openers.
    pub open_count: u32,
    /// Number of events (table changes, target events) so far.
    pub event_nr: u32,
    /// I/O is held back.
    pub suspended: bool,
    /// Writes are refused.
    pub read_only: bool,
    /// A live table is there.
    pub active_table: bool,
    /// A loaded table waits for the next resume.
    pub inactive_table: bool,
    /// Lines of the live table.
    pub target_count: u32,
    /// The call made the kernel send an event to udev. If not, nobody will
    /// count the call's cookie down.
    pub uevent_generated: bool,
    /// The device goes away when it is closed.
    pub deferred_remove: bool,
}

/// One row of the kernel's list of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmEntry {
    /// Device number.
    pub dev: DevNo,
    /// Kernel name; as in [`DmInfo::name`].
    pub name: String,
    /// uuid, if the device has one.
    pub uuid: Option<String>,
    /// Number of events so far.
    pub event_nr: u32,
}

/// How to suspend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuspendFlags {
    /// Queue I/O in flight again instead of waiting for it. Not allowed where
    /// the table to come shrinks the device or moves data.
    pub noflush: bool,
    /// Do not freeze the file system that is mounted from the device.
    pub skip_lockfs: bool,
}

/// Version of the interface or of a target: major, minor, patch level.
pub type Version = (u32, u32, u32);

/// What udev's device-mapper rules shall do with an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UdevFlags(u16);

impl UdevFlags {
    /// No `/dev/mapper` link by udev.
    pub const DISABLE_DM_RULES: Self = Self(0x0001);
    /// No `/dev/VG/LV` link by udev.
    pub const DISABLE_SUBSYSTEM_RULES: Self = Self(0x0002);
    /// No scan for content, no `/dev/disk` links.
    pub const DISABLE_DISK_RULES: Self = Self(0x0004);
    /// All other rules (md, lvm on top, …) leave the device alone.
    pub const DISABLE_OTHER_RULES: Self = Self(0x0008);
    /// Links by content yield to those of other devices.
    pub const LOW_PRIORITY: Self = Self(0x0010);
    /// libdevmapper makes no nodes itself.
    pub const DISABLE_LIBRARY_FALLBACK: Self = Self(0x0020);
    /// The event stems from a change of the device; without it the rules take
    /// the event for a synthetic one and reuse older flags.
    pub const PRIMARY_SOURCE: Self = Self(0x0040);
    /// lvm2's use of the first subsystem flag: do not scan, old content is not
    /// wiped yet.
    pub const NOSCAN: Self = Self(0x0100);

    /// The flags as the rules see them.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Both sets together; `|` for constants.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every flag of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The event number for a resume, removal or rename: flags above, cookie
    /// below. Without a cookie nobody waits for udev.
    #[must_use]
    pub fn event(self, cookie: Option<u16>) -> u32 {
        u32::from(self.0) << 16 | u32::from(cookie.unwrap_or(0))
    }
}

impl BitOr for UdevFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOrAssign for UdevFlags {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.union(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_numbers_as_lvm2_sends_them() {
        let plain = UdevFlags::PRIMARY_SOURCE
            | UdevFlags::DISABLE_DM_RULES
            | UdevFlags::DISABLE_SUBSYSTEM_RULES;
        assert_eq!(plain.event(None), 0x0043_0000);
        assert_eq!((plain | UdevFlags::NOSCAN).event(Some(0xbeef)), 0x0143_beef);
        assert!(plain.contains(UdevFlags::PRIMARY_SOURCE));
        assert!(!plain.contains(UdevFlags::NOSCAN));
    }
}
