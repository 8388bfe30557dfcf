//! Safe wrappers of the kernel interfaces that lvcsi needs: device-mapper,
//! block devices, growing and freezing file systems, the semaphores that udev
//! cookies are, work in a child process, signatures by libblkid, and loop
//! devices for tests.
//!
//! This is the only crate of the workspace with unsafe code. Each function is
//! one ioctl or system call unless it says otherwise; policy (retries, udev
//! flags, order of calls) belongs to the callers. Errors are
//! [`std::io::Error`] with the kernel's error number, so that callers can
//! match on `raw_os_error()`; replies of the kernel that make no sense are
//! [`InvalidData`](std::io::ErrorKind::InvalidData).

mod aligned;
pub mod apart;
mod bindings;
pub mod blkid;
pub mod block;
mod devno;
pub mod dm;
pub mod fs;
mod ioctl;
pub mod loopdev;
pub mod memory;
pub mod sem;

pub use aligned::{ALIGNMENT, AlignedBuf};
pub use devno::DevNo;
