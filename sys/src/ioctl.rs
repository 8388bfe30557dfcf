//! The two shapes of ioctl(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{Ioctl, c_int, c_ulong};
use nix::errno::Errno;

/// Calls ioctl(2) with a pointer.
///
/// # Safety
/// `arg` must be valid for everything that the kernel reads and writes through
/// it when given `request`.
///
/// # Errors
/// The kernel's.
pub(crate) unsafe fn with_pointer<T>(
    fd: BorrowedFd<'_>,
    request: c_ulong,
    arg: *mut T,
) -> io::Result<c_int> {
    // SAFETY: a borrowed descriptor is open, and the caller vouches for `arg`.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as Ioctl, arg) };
    Ok(Errno::result(result)?)
}

/// Calls ioctl(2) with a number.
///
/// # Safety
/// The kernel must take the argument of `request` as a number, not as a
/// pointer.
///
/// # Errors
/// The kernel's.
pub(crate) unsafe fn with_number(
    fd: BorrowedFd<'_>,
    request: c_ulong,
    arg: c_ulong,
) -> io::Result<c_int> {
    // SAFETY: a borrowed descriptor is open, and the caller vouches that the
    // kernel follows no pointer.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as Ioctl, arg) };
    Ok(Errno::result(result)?)
}
