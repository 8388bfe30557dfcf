//! Building requests: a header, and what the call passes behind it.

use std::io;
use std::mem::offset_of;

use nix::errno::Errno;

use super::types::{DmId, TargetLine};
use crate::AlignedBuf;
use crate::bindings::{self, dm_ioctl, dm_target_spec};

/// Where the data begin: behind the header, at a multiple of 8.
pub(super) const DATA_START: usize = size_of::<dm_ioctl>();
const _: () = assert!(DATA_START == 312 && DATA_START.is_multiple_of(8));

/// The oldest minor version that has every call; the kernel refuses newer ones
/// than its own.
const INTERFACE: [u32; 3] = [bindings::DM_VERSION_MAJOR, 0, 0];

/// The header fields that calls set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header<'a> {
    pub(super) name: &'a str,
    pub(super) uuid: &'a str,
    pub(super) dev: u64,
    pub(super) flags: u32,
    pub(super) event_nr: u32,
    pub(super) target_count: u32,
}

impl<'a> Header<'a> {
    /// A header that addresses a device. The kernel wants exactly one of name,
    /// uuid and number.
    pub(super) fn of(id: DmId<'a>, flags: u32) -> Self {
        let header = Self {
            flags,
            ..Self::default()
        };
        match id {
            DmId::Name(name) => Self { name, ..header },
            DmId::Uuid(uuid) => Self { uuid, ..header },
            DmId::Dev(dev) => Self {
                dev: dev.to_kernel(),
                flags: flags | bindings::DM_PERSISTENT_DEV_FLAG,
                ..header
            },
        }
    }
}

/// Writes a request into a new buffer of at least `room` bytes, whose length
/// the header tells the kernel.
pub(super) fn encode(header: &Header<'_>, payload: &[u8], room: usize) -> io::Result<AlignedBuf> {
    let end = DATA_START.checked_add(payload.len()).ok_or(Errno::E2BIG)?;
    let size = u32::try_from(end.max(room)).map_err(|_| io::Error::from(Errno::E2BIG))?;
    let mut buf = AlignedBuf::zeroed(end.max(room));
    for (part, value) in INTERFACE.into_iter().enumerate() {
        put_u32(
            &mut buf,
            offset_of!(dm_ioctl, version) + part * size_of::<u32>(),
            value,
        );
    }
    put_u32(&mut buf, offset_of!(dm_ioctl, data_size), size);
    // 312, as asserted above.
    #[allow(clippy::cast_possible_truncation, reason = "asserted to be 312")]
    put_u32(
        &mut buf,
        offset_of!(dm_ioctl, data_start),
        DATA_START as u32,
    );
    put_u32(
        &mut buf,
        offset_of!(dm_ioctl, target_count),
        header.target_count,
    );
    put_u32(&mut buf, offset_of!(dm_ioctl, flags), header.flags);
    put_u32(&mut buf, offset_of!(dm_ioctl, event_nr), header.event_nr);
    put_u64(&mut buf, offset_of!(dm_ioctl, dev), header.dev);
    put_str(
        &mut buf,
        offset_of!(dm_ioctl, name),
        bindings::DM_NAME_LEN,
        header.name,
    )?;
    put_str(
        &mut buf,
        offset_of!(dm_ioctl, uuid),
        bindings::DM_UUID_LEN,
        header.uuid,
    )?;
    buf[DATA_START..end].copy_from_slice(payload);
    Ok(buf)
}

/// The payload of a table load: specifications, each followed by its
/// parameters and padded to a multiple of 8.
pub(super) fn table(targets: &[TargetLine]) -> io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    for target in targets {
        let params = terminated(&target.params)?;
        let length = (size_of::<dm_target_spec>() + params.len()).next_multiple_of(8);
        let next = u32::try_from(length).map_err(|_| io::Error::from(Errno::E2BIG))?;
        let at = payload.len();
        payload.resize(at + length, 0);
        let spec = &mut payload[at..];
        put_u64(spec, offset_of!(dm_target_spec, sector_start), target.start);
        put_u64(spec, offset_of!(dm_target_spec, length), target.length);
        put_u32(spec, offset_of!(dm_target_spec, next), next);
        let kind = offset_of!(dm_target_spec, target_type);
        put_str(spec, kind, bindings::DM_MAX_TYPE_NAME, &target.kind)?;
        spec[size_of::<dm_target_spec>()..][..params.len()].copy_from_slice(&params);
    }
    Ok(payload)
}

/// The payload of a message.
pub(super) fn message(sector: u64, text: &str) -> io::Result<Vec<u8>> {
    let mut payload = sector.to_ne_bytes().to_vec();
    payload.extend(terminated(text)?);
    Ok(payload)
}

/// `text` as a C string.
pub(super) fn terminated(text: &str) -> io::Result<Vec<u8>> {
    if text.contains('\0') {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    Ok(bytes)
}

fn put_u32(buf: &mut [u8], at: usize, value: u32) {
    buf[at..at + size_of::<u32>()].copy_from_slice(&value.to_ne_bytes());
}

fn put_u64(buf: &mut [u8], at: usize, value: u64) {
    buf[at..at + size_of::<u64>()].copy_from_slice(&value.to_ne_bytes());
}

/// Writes a C string into a field of `room` bytes.
fn put_str(buf: &mut [u8], at: usize, room: u32, text: &str) -> io::Result<()> {
    let bytes = terminated(text)?;
    if u32::try_from(bytes.len()).map_or(true, |length| length > room) {
        return Err(Errno::ENAMETOOLONG.into());
    }
    buf[at..at + bytes.len()].copy_from_slice(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DevNo;

    fn u32_at(buf: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(buf[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn header_fields_are_where_the_kernel_reads_them() {
        let header = Header {
            event_nr: 0x0043_0007,
            target_count: 2,
            ..Header::of(DmId::Dev(DevNo::new(253, 257)), bindings::DM_SUSPEND_FLAG)
        };
        let buf = encode(&header, b"payload", 2048).unwrap();
        assert_eq!(buf.len(), 2048);
        assert_eq!(
            (u32_at(&buf, 0), u32_at(&buf, 4), u32_at(&buf, 8)),
            (4, 0, 0)
        );
        assert_eq!((u32_at(&buf, 12), u32_at(&buf, 16)), (2048, 312));
        assert_eq!((u32_at(&buf, 20), u32_at(&buf, 28)), (2, 2 | 8));
        assert_eq!(u32_at(&buf, 32), 0x0043_0007);
        assert_eq!(buf[40..48], 0x10_fd01u64.to_ne_bytes());
        assert!(buf[48..312].iter().all(|byte| *byte == 0));
        assert_eq!(&buf[312..320], b"payload\0");
    }

    #[test]
    fn strings_must_fit_and_hold_no_zero() {
        let encode = |name: &str, uuid: &str| {
            encode(
                &Header {
                    name,
                    uuid,
                    ..Header::default()
                },
                &[],
                512,
            )
            .map_err(|error| error.raw_os_error().unwrap())
        };
        let buf = encode(&"n".repeat(127), &"u".repeat(128)).unwrap();
        assert_eq!((buf[48 + 126], buf[48 + 127]), (b'n', 0));
        assert_eq!((buf[176 + 127], buf[176 + 128]), (b'u', 0));
        assert_eq!(
            encode(&"n".repeat(128), "").unwrap_err(),
            libc::ENAMETOOLONG
        );
        assert_eq!(
            encode("", &"u".repeat(129)).unwrap_err(),
            libc::ENAMETOOLONG
        );
        assert_eq!(encode("a\0b", "").unwrap_err(), libc::EINVAL);
    }

    #[test]
    fn table_specifications_are_linked_and_padded() {
        let line = |start, kind: &str, params: &str| TargetLine {
            start,
            length: 8,
            kind: kind.to_owned(),
            params: params.to_owned(),
        };
        let payload = table(&[line(0, "linear", "7:0 2048"), line(8, "error", "")]).unwrap();
        // 40 bytes, 8 of parameters and their zero, padded to 56.
        assert_eq!(u32_at(&payload, 20), 56);
        assert_eq!(&payload[24..31], b"linear\0");
        assert_eq!(&payload[40..56], b"7:0 2048\0\0\0\0\0\0\0\0");
        assert_eq!(payload[56..64], 8u64.to_ne_bytes());
        assert_eq!(u32_at(&payload, 56 + 20), 48);
        assert_eq!(payload.len(), 56 + 48);
        assert!(table(&[line(0, &"k".repeat(16), "")]).is_err());
        assert!(table(&[line(0, "linear", "7:0\0")]).is_err());
    }

    #[test]
    fn messages_are_a_sector_and_a_string() {
        let payload = message(5, "create_thin 1").unwrap();
        assert_eq!(payload[..8], 5u64.to_ne_bytes());
        assert_eq!(&payload[8..], b"create_thin 1\0");
    }
}
