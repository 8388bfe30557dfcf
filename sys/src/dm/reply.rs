//! Reading replies of the kernel: pure functions over bytes.
//!
//! The kernel is trusted to be the kernel, yet every length and link in a reply
//! is checked, so that no reply, however broken, makes this code panic, read
//! outside the buffer or run forever. Numbers are in the machine's byte order.

use std::io;
use std::mem::offset_of;

use super::types::{DmEntry, DmInfo, TargetLine, Version};
use crate::DevNo;
use crate::bindings::{
    self, dm_ioctl, dm_name_list, dm_target_deps, dm_target_spec, dm_target_versions,
};

/// A reply that does not hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// The reply ends inside a field.
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where the field would begin, in bytes.
        offset: usize,
        /// Bytes there are.
        length: usize,
    },
    /// A string has no end.
    Unterminated {
        /// What was being read.
        what: &'static str,
        /// Where the string begins, in bytes.
        offset: usize,
    },
    /// A record's link leads backwards or into the record itself.
    BadLink {
        /// What was being read.
        what: &'static str,
        /// Where the record begins, in bytes.
        offset: usize,
        /// The link.
        next: u32,
    },
}

impl std::fmt::Display for ReplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated {
                what,
                offset,
                length,
            } => write!(
                f,
                "device-mapper's reply of {length} bytes ends inside the {what} at byte {offset}"
            ),
            Self::Unterminated { what, offset } => {
                write!(
                    f,
                    "the {what} at byte {offset} of device-mapper's reply has no end"
                )
            }
            Self::BadLink { what, offset, next } => write!(
                f,
                "the {what} at byte {offset} of device-mapper's reply links to {next}, not onwards"
            ),
        }
    }
}

impl std::error::Error for ReplyError {}

impl From<ReplyError> for io::Error {
    fn from(error: ReplyError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Result of reading a reply.
pub type Result<T> = std::result::Result<T, ReplyError>;

/// The uuid in a row of the device list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedUuid {
    /// The kernel told it, or that there is none.
    Told(Option<String>),
    /// The kernel is too old to tell (before interface 4.45).
    NotTold,
}

/// The flags of the reply's header (`DM_*_FLAG`).
///
/// # Errors
/// The reply is shorter than a header.
pub fn flags(reply: &[u8]) -> Result<u32> {
    u32_at(reply, offset_of!(dm_ioctl, flags), "header")
}

/// Whether the reply did not fit into the buffer.
///
/// # Errors
/// The reply is shorter than a header.
pub fn buffer_full(reply: &[u8]) -> Result<bool> {
    Ok(flags(reply)? & bindings::DM_BUFFER_FULL_FLAG != 0)
}

/// The version of the kernel's interface.
///
/// # Errors
/// The reply is shorter than a header.
pub fn version(reply: &[u8]) -> Result<Version> {
    triple_at(reply, offset_of!(dm_ioctl, version), "header")
}

/// The device that the header describes.
///
/// # Errors
/// The reply is shorter than a header, or its name or uuid has no end.
pub fn info(reply: &[u8]) -> Result<DmInfo> {
    let flags = flags(reply)?;
    let set = |flag: u32| flags & flag != 0;
    let name = offset_of!(dm_ioctl, name);
    let uuid = offset_of!(dm_ioctl, uuid);
    let open_count = u32_at(reply, offset_of!(dm_ioctl, open_count), "header")?.cast_signed();
    Ok(DmInfo {
        dev: DevNo::from_kernel(u64_at(reply, offset_of!(dm_ioctl, dev), "header")?),
        name: string_at(reply, name, uuid, "device name")?,
        uuid: string_at(reply, uuid, offset_of!(dm_ioctl, data), "device uuid")?,
        open_count: u32::try_from(open_count).unwrap_or(0),
        event_nr: u32_at(reply, offset_of!(dm_ioctl, event_nr), "header")?,
        suspended: set(bindings::DM_SUSPEND_FLAG),
        read_only: set(bindings::DM_READONLY_FLAG),
        active_table: set(bindings::DM_ACTIVE_PRESENT_FLAG),
        inactive_table: set(bindings::DM_INACTIVE_PRESENT_FLAG),
        target_count: u32_at(reply, offset_of!(dm_ioctl, target_count), "header")?,
        uevent_generated: set(bindings::DM_UEVENT_GENERATED_FLAG),
        deferred_remove: set(bindings::DM_DEFERRED_REMOVE),
    })
}

/// The lines of a table or status.
///
/// # Errors
/// See [`ReplyError`].
pub fn targets(reply: &[u8]) -> Result<Vec<TargetLine>> {
    let count = u32_at(reply, offset_of!(dm_ioctl, target_count), "header")?;
    let data = payload(reply)?;
    let mut lines = Vec::new();
    let mut at = 0;
    for _ in 0..count {
        let params = at + size_of::<dm_target_spec>();
        let kind = at + offset_of!(dm_target_spec, target_type);
        // Counted from the start of the data, unlike in a request.
        let next = u32_at(data, at + offset_of!(dm_target_spec, next), "target")?;
        let end = index(next);
        if end <= params {
            return Err(ReplyError::BadLink {
                what: "target",
                offset: at,
                next,
            });
        }
        lines.push(TargetLine {
            start: u64_at(
                data,
                at + offset_of!(dm_target_spec, sector_start),
                "target",
            )?,
            length: u64_at(data, at + offset_of!(dm_target_spec, length), "target")?,
            kind: string_at(data, kind, params, "target type")?,
            params: string_at(data, params, end, "target parameters")?,
        });
        at = end;
    }
    Ok(lines)
}

/// The rows of the device list.
///
/// # Errors
/// See [`ReplyError`].
pub fn devices(reply: &[u8]) -> Result<Vec<(DmEntry, ListedUuid)>> {
    let data = payload(reply)?;
    let mut rows = Vec::new();
    let mut at = 0;
    // No device at all is an empty list or a first row without a number.
    while at < data.len() {
        let dev = u64_at(data, at, "device")?;
        if dev == 0 && at == 0 {
            break;
        }
        let next = u32_at(data, at + offset_of!(dm_name_list, next), "device")?;
        let start = at + offset_of!(dm_name_list, name);
        let end = if next == 0 {
            data.len()
        } else {
            at.saturating_add(index(next))
        };
        if end <= start {
            return Err(ReplyError::BadLink {
                what: "device",
                offset: at,
                next,
            });
        }
        let (name, after) = bytes_at(data, start, end, "device name")?;
        let (event_nr, uuid) = device_extras(data, after.next_multiple_of(8), end)?;
        let name = lossy(name);
        let told = match &uuid {
            ListedUuid::Told(uuid) => uuid.clone(),
            ListedUuid::NotTold => None,
        };
        rows.push((
            DmEntry {
                dev: DevNo::from_kernel(dev),
                name,
                uuid: told,
                event_nr,
            },
            uuid,
        ));
        if next == 0 {
            break;
        }
        at = end;
    }
    Ok(rows)
}

/// Event number and uuid behind a name in the device list.
fn device_extras(data: &[u8], at: usize, end: usize) -> Result<(u32, ListedUuid)> {
    let flags_at = at + size_of::<u32>();
    let uuid_at = flags_at + size_of::<u32>();
    if uuid_at > end.min(data.len()) {
        // Interfaces before 4.37 have no event number, those before 4.45 no
        // flags, and either may end the row here.
        let event_nr = if flags_at > end {
            0
        } else {
            u32_at(data, at, "event number").unwrap_or(0)
        };
        return Ok((event_nr, ListedUuid::NotTold));
    }
    let event_nr = u32_at(data, at, "event number")?;
    let flags = u32_at(data, flags_at, "device")?;
    let uuid = if flags & bindings::DM_NAME_LIST_FLAG_HAS_UUID != 0 {
        ListedUuid::Told(Some(string_at(data, uuid_at, end, "device uuid")?))
    } else if flags & bindings::DM_NAME_LIST_FLAG_DOESNT_HAVE_UUID != 0 {
        ListedUuid::Told(None)
    } else {
        ListedUuid::NotTold
    };
    Ok((event_nr, uuid))
}

/// The devices that a table uses.
///
/// # Errors
/// See [`ReplyError`].
pub fn deps(reply: &[u8]) -> Result<Vec<DevNo>> {
    let data = payload(reply)?;
    // Without a live table there is no data at all.
    if data.is_empty() {
        return Ok(Vec::new());
    }
    let count = u32_at(data, offset_of!(dm_target_deps, count), "dependency count")?;
    let first = size_of::<dm_target_deps>();
    (0..index(count))
        .map(|n| {
            u64_at(
                data,
                first.saturating_add(n.saturating_mul(8)),
                "dependency",
            )
        })
        .map(|dev| dev.map(DevNo::from_kernel))
        .collect()
}

/// The kinds of targets that the kernel has loaded, with their versions.
///
/// # Errors
/// See [`ReplyError`].
pub fn target_versions(reply: &[u8]) -> Result<Vec<(String, Version)>> {
    let data = payload(reply)?;
    let mut kinds = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let next = u32_at(
            data,
            at + offset_of!(dm_target_versions, next),
            "target version",
        )?;
        let version = triple_at(
            data,
            at + offset_of!(dm_target_versions, version),
            "target version",
        )?;
        let name = at + offset_of!(dm_target_versions, name);
        let end = if next == 0 {
            data.len()
        } else {
            at.saturating_add(index(next))
        };
        if end <= name {
            return Err(ReplyError::BadLink {
                what: "target version",
                offset: at,
                next,
            });
        }
        kinds.push((string_at(data, name, end, "target type")?, version));
        if next == 0 {
            break;
        }
        at = end;
    }
    Ok(kinds)
}

/// A target's answer to a message, if it gave one.
///
/// # Errors
/// See [`ReplyError`].
pub fn message(reply: &[u8]) -> Result<Option<String>> {
    if flags(reply)? & bindings::DM_DATA_OUT_FLAG == 0 {
        return Ok(None);
    }
    let data = payload(reply)?;
    // The string may fill the data without a zero.
    Ok(Some(lossy(
        data.split(|byte| *byte == 0).next().unwrap_or_default(),
    )))
}

/// What is behind the header. Replies without data claim to be shorter than
/// their header.
fn payload(reply: &[u8]) -> Result<&[u8]> {
    let start = index(u32_at(reply, offset_of!(dm_ioctl, data_start), "header")?);
    let size = index(u32_at(reply, offset_of!(dm_ioctl, data_size), "header")?);
    if size <= start {
        return Ok(&[]);
    }
    reply.get(start..size).ok_or(ReplyError::Truncated {
        what: "data",
        offset: start,
        length: reply.len(),
    })
}

/// A number of the reply as an index; `usize` has at least 32 bits on Linux.
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn array_at<const N: usize>(data: &[u8], offset: usize, what: &'static str) -> Result<[u8; N]> {
    data.get(offset..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .ok_or(ReplyError::Truncated {
            what,
            offset,
            length: data.len(),
        })
}

fn u32_at(data: &[u8], offset: usize, what: &'static str) -> Result<u32> {
    array_at(data, offset, what).map(u32::from_ne_bytes)
}

fn u64_at(data: &[u8], offset: usize, what: &'static str) -> Result<u64> {
    array_at(data, offset, what).map(u64::from_ne_bytes)
}

fn triple_at(data: &[u8], offset: usize, what: &'static str) -> Result<Version> {
    Ok((
        u32_at(data, offset, what)?,
        u32_at(data, offset + 4, what)?,
        u32_at(data, offset + 8, what)?,
    ))
}

/// The bytes from `offset` to the next zero, which must come before `end`, and
/// the offset behind that zero.
fn bytes_at<'a>(
    data: &'a [u8],
    offset: usize,
    end: usize,
    what: &'static str,
) -> Result<(&'a [u8], usize)> {
    let field = data
        .get(offset..end.min(data.len()))
        .ok_or(ReplyError::Truncated {
            what,
            offset,
            length: data.len(),
        })?;
    match field.iter().position(|byte| *byte == 0) {
        Some(length) => Ok((&field[..length], offset + length + 1)),
        None => Err(ReplyError::Unterminated { what, offset }),
    }
}

fn string_at(data: &[u8], offset: usize, end: usize, what: &'static str) -> Result<String> {
    bytes_at(data, offset, end, what).map(|(bytes, _)| lossy(bytes))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
