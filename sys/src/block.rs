//! Block devices: sizes, modes, discarding and zeroing, uncached I/O.
//!
//! Every function takes an open descriptor of a block device. Given one of
//! another kind of file, all ioctls answer `ENOTTY` (or `EINVAL`).

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use libc::{c_int, c_long, c_uint, c_ulong};
use nix::errno::Errno;

use crate::{bindings, ioctl};

/// Size of the device in bytes.
///
/// # Errors
/// The kernel's.
pub fn size_bytes(device: impl AsFd) -> io::Result<u64> {
    let mut size = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64.
    unsafe { ioctl::with_pointer(device.as_fd(), bindings::REQ_BLKGETSIZE64, &raw mut size) }?;
    Ok(size)
}

/// Logical block size in bytes: the unit and alignment of uncached I/O.
///
/// # Errors
/// The kernel's.
pub fn logical_block_size(device: impl AsFd) -> io::Result<u32> {
    let mut size: c_int = 0;
    // SAFETY: BLKSSZGET writes one int.
    unsafe { ioctl::with_pointer(device.as_fd(), bindings::REQ_BLKSSZGET, &raw mut size) }?;
    u32::try_from(size).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Physical block size in bytes: what the device writes without having to read
/// the surroundings first.
///
/// # Errors
/// The kernel's.
pub fn physical_block_size(device: impl AsFd) -> io::Result<u32> {
    let mut size: c_uint = 0;
    // SAFETY: BLKPBSZGET writes one unsigned int.
    unsafe { ioctl::with_pointer(device.as_fd(), bindings::REQ_BLKPBSZGET, &raw mut size) }?;
    Ok(size)
}

/// Whether the kernel refuses writes to the device.
///
/// # Errors
/// The kernel's.
pub fn read_only(device: impl AsFd) -> io::Result<bool> {
    let mut flag: c_int = 0;
    // SAFETY: BLKROGET writes one int.
    unsafe { ioctl::with_pointer(device.as_fd(), bindings::REQ_BLKROGET, &raw mut flag) }?;
    Ok(flag != 0)
}

/// Read-ahead in sectors of 512 bytes.
///
/// # Errors
/// The kernel's.
pub fn read_ahead(device: impl AsFd) -> io::Result<u64> {
    let mut sectors: c_long = 0;
    // SAFETY: BLKRAGET writes one long.
    unsafe { ioctl::with_pointer(device.as_fd(), bindings::REQ_BLKRAGET, &raw mut sectors) }?;
    u64::try_from(sectors).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Sets the read-ahead, in sectors of 512 bytes; the kernel rounds it down to
/// whole pages.
///
/// # Errors
/// `EACCES` without `CAP_SYS_ADMIN`, `EINVAL` for a number that no `long` holds.
pub fn set_read_ahead(device: impl AsFd, sectors: u64) -> io::Result<()> {
    let sectors = c_ulong::try_from(sectors).map_err(|_| io::Error::from(Errno::EINVAL))?;
    // SAFETY: BLKRASET takes a number.
    unsafe { ioctl::with_number(device.as_fd(), bindings::REQ_BLKRASET, sectors) }?;
    Ok(())
}

/// Discards a range of bytes; its content is undefined afterwards. An empty
/// range is nothing to do.
///
/// # Errors
/// `EINVAL` if the range is not made of whole logical blocks or lies beyond the
/// end, `EOPNOTSUPP` if the device cannot discard, `EBADF` if it is not open
/// for writing.
pub fn discard(device: impl AsFd, bytes: Range<u64>) -> io::Result<()> {
    on_range(device, bindings::REQ_BLKDISCARD, &bytes)
}

/// Writes zeros over a range of bytes, by a command of the device where it has
/// one. An empty range is nothing to do.
///
/// # Errors
/// `EINVAL` if the range is not made of whole logical blocks or lies beyond the
/// end, `EBADF` if the device is not open for writing, `EIO`.
pub fn zero_out(device: impl AsFd, bytes: Range<u64>) -> io::Result<()> {
    on_range(device, bindings::REQ_BLKZEROOUT, &bytes)
}

/// Calls an ioctl that takes a start and a length in bytes.
fn on_range(device: impl AsFd, request: c_ulong, bytes: &Range<u64>) -> io::Result<()> {
    let mut range = match bytes.end.checked_sub(bytes.start) {
        None => return Err(Errno::EINVAL.into()),
        Some(0) => return Ok(()),
        Some(length) => [bytes.start, length],
    };
    // SAFETY: BLKDISCARD and BLKZEROOUT read two u64.
    unsafe { ioctl::with_pointer(device.as_fd(), request, range.as_mut_ptr()) }?;
    Ok(())
}

/// Makes every completed write durable (fdatasync(2)).
///
/// # Errors
/// `EIO` and the like. The kernel reports a lost write once only: after an error
/// nothing that was written since the last success can be relied on.
pub fn flush(device: impl AsFd) -> io::Result<()> {
    Ok(nix::unistd::fdatasync(device)?)
}
