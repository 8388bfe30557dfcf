//! Loop devices. Only tests and the demonstration attach any.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, mknod};

use crate::bindings::{self, loop_config, loop_info64};
use crate::{DevNo, ioctl};

/// Major number of loop devices (Documentation/admin-guide/devices.txt).
const LOOP_MAJOR: u32 = 7;
/// How often another process may snatch the free device before we give up.
const ATTEMPTS: u32 = 64;

/// How a file is to be attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopOptions {
    /// Logical block size in bytes; 0 is the kernel's default (512).
    pub block_size: u32,
    /// Bypass the page cache of the file's file system.
    pub direct_io: bool,
    /// Refuse writes.
    pub read_only: bool,
}

/// A file attached as a block device.
///
/// Detached on drop, and by the kernel when the process dies; in both cases
/// only after the last opener (a mount, a dm table) has let go of it.
#[derive(Debug)]
pub struct LoopDevice {
    device: File,
    path: PathBuf,
    devno: DevNo,
}

impl LoopDevice {
    /// Attaches `backing` to a free loop device, whose node is made if `/dev`
    /// lacks it. Takes two ioctls, more if other processes compete.
    ///
    /// # Errors
    /// `ENOENT` where the kernel has no loop devices, `EACCES` or `EPERM`
    /// without `CAP_SYS_ADMIN`, `EINVAL` for a block size that is no power of
    /// two from 512 to the page size, `EBUSY` if others kept being faster.
    pub fn attach(backing: &File, options: LoopOptions) -> io::Result<Self> {
        let control = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/loop-control")?;
        for _ in 0..ATTEMPTS {
            // SAFETY: LOOP_CTL_GET_FREE ignores its argument.
            let number =
                unsafe { ioctl::with_number(control.as_fd(), bindings::REQ_LOOP_CTL_GET_FREE, 0) }?;
            let number = u32::try_from(number).map_err(|_| io::ErrorKind::InvalidData)?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let devno = DevNo::new(LOOP_MAJOR, number);
            let attached = open_node(&path, devno, options.read_only)
                .and_then(|device| configure(&device, backing, options).map(|()| device));
            match attached {
                Ok(device) => {
                    return Ok(Self {
                        device,
                        path,
                        devno,
                    });
                }
                // Somebody else took the device since it was free, and has it,
                // or is just detaching it.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::ENXIO)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EBUSY.into())
    }

    /// The device's node.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The device's number.
    #[must_use]
    pub fn devno(&self) -> DevNo {
        self.devno
    }

    /// Takes over the present size of the backing file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_capacity(&self) -> io::Result<()> {
        // SAFETY: LOOP_SET_CAPACITY ignores its argument.
        unsafe { ioctl::with_number(self.as_fd(), bindings::REQ_LOOP_SET_CAPACITY, 0) }?;
        Ok(())
    }

    /// Detaches the file; while others have the device open the kernel does it
    /// when the last of them closes it. Dropping does the same, without telling
    /// whether it worked.
    ///
    /// # Errors
    /// `ENXIO` if it was detached already by somebody else.
    pub fn detach(self) -> io::Result<()> {
        // SAFETY: LOOP_CLR_FD ignores its argument.
        unsafe { ioctl::with_number(self.as_fd(), bindings::REQ_LOOP_CLR_FD, 0) }?;
        Ok(())
    }
}

impl AsFd for LoopDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// The block device that a loop device, or a partition of one, is attached to;
/// nothing if that is a file, or if it is not attached. Asks the file system that
/// holds the backing file or node, which can hang with it.
///
/// # Errors
/// The kernel's.
pub fn backing_device(device: BorrowedFd<'_>) -> io::Result<Option<DevNo>> {
    let mut info = loop_info64::default();
    // SAFETY: LOOP_GET_STATUS64 writes one loop_info64.
    let asked =
        unsafe { ioctl::with_pointer(device, bindings::REQ_LOOP_GET_STATUS64, &raw mut info) };
    match asked {
        // Old kernels give a file's own device in place of zero.
        Ok(_) if info.lo_rdevice == 0 || info.lo_rdevice == info.lo_device => Ok(None),
        Ok(_) => Ok(Some(DevNo::from_kernel(info.lo_rdevice))),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

fn configure(device: &File, backing: &File, options: LoopOptions) -> io::Result<()> {
    let mut config = loop_config {
        fd: backing.as_raw_fd().cast_unsigned(),
        block_size: options.block_size,
        ..loop_config::default()
    };
    // With autoclear the last close detaches: no drop code is needed, and a
    // test that is killed leaves no device behind.
    config.info.lo_flags = bindings::LO_FLAGS_AUTOCLEAR;
    if options.direct_io {
        config.info.lo_flags |= bindings::LO_FLAGS_DIRECT_IO;
    }
    if options.read_only {
        config.info.lo_flags |= bindings::LO_FLAGS_READ_ONLY;
    }
    // SAFETY: LOOP_CONFIGURE reads one loop_config, whose descriptor is open.
    unsafe {
        ioctl::with_pointer(
            device.as_fd(),
            bindings::REQ_LOOP_CONFIGURE,
            &raw mut config,
        )
    }?;
    Ok(())
}

/// Opens the node of a loop device, and makes it first where `/dev` is no
/// devtmpfs and lacks it.
fn open_node(path: &Path, devno: DevNo, read_only: bool) -> io::Result<File> {
    let mut open = OpenOptions::new();
    open.read(true).write(!read_only);
    match open.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match mknod(
                path,
                SFlag::S_IFBLK,
                Mode::S_IRUSR | Mode::S_IWUSR,
                devno.to_rdev(),
            ) {
                Ok(()) | Err(Errno::EEXIST) => open.open(path),
                Err(error) => Err(error.into()),
            }
        }
        result => result,
    }
}
