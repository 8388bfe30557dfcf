//! Growing and freezing mounted file systems.
//!
//! Every function takes an open descriptor of any file or directory of the
//! mounted file system, and needs `CAP_SYS_ADMIN` (`EPERM` otherwise). A file
//! system of another kind answers `ENOTTY`.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;

use nix::errno::Errno;

use crate::bindings::{self, btrfs_ioctl_vol_args, xfs_fsop_geom_v4, xfs_growfs_data};
use crate::ioctl;

// The structures of XFS are written by hand in wrapper.h. Request numbers contain
// the size, so a wrong size would only be ENOTTY; wrong offsets would be wrong
// numbers.
const _: () = {
    assert!(size_of::<xfs_growfs_data>() == 16);
    assert!(offset_of!(xfs_growfs_data, imaxpct) == 8);
    assert!(size_of::<xfs_fsop_geom_v4>() == 112);
    assert!(offset_of!(xfs_fsop_geom_v4, imaxpct) == 28);
    assert!(offset_of!(xfs_fsop_geom_v4, datablocks) == 32);
    assert!(offset_of!(xfs_fsop_geom_v4, uuid) == 64);
};

/// Grows a mounted ext2, ext3 or ext4 to `blocks` file system blocks. Needs
/// `CAP_SYS_RESOURCE` in place of `CAP_SYS_ADMIN`.
///
/// # Errors
/// `EPERM` without that or if the file system is marked as broken, `ENOSPC` or
/// (depending on the kernel) `EIO` if the device is smaller than that, `EINVAL`
/// if the file system would shrink, `EOPNOTSUPP` if it lacks the feature to grow
/// that far, `EBUSY` while another resize is running, `EROFS`.
pub fn ext4_resize(file: impl AsFd, blocks: u64) -> io::Result<()> {
    let mut blocks = blocks;
    // SAFETY: EXT4_IOC_RESIZE_FS reads one u64.
    unsafe {
        ioctl::with_pointer(
            file.as_fd(),
            bindings::REQ_EXT4_IOC_RESIZE_FS,
            &raw mut blocks,
        )
    }?;
    Ok(())
}

/// Shape of a mounted XFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XfsGeometry {
    /// Bytes of a block.
    pub block_size: u32,
    /// Size of the data section in blocks.
    pub data_blocks: u64,
    /// Most of the space that inodes may take, in per cent.
    pub inode_max_percent: u32,
}

/// Asks for the shape of a mounted XFS.
///
/// # Errors
/// The kernel's.
pub fn xfs_geometry(file: impl AsFd) -> io::Result<XfsGeometry> {
    let mut geometry = xfs_fsop_geom_v4::default();
    // SAFETY: XFS_IOC_FSGEOMETRY_V4 writes one xfs_fsop_geom_v4, whose size and
    // offsets are asserted above.
    unsafe {
        ioctl::with_pointer(
            file.as_fd(),
            bindings::REQ_XFS_IOC_FSGEOMETRY_V4,
            &raw mut geometry,
        )
    }?;
    Ok(XfsGeometry {
        block_size: geometry.blocksize,
        data_blocks: geometry.datablocks,
        inode_max_percent: geometry.imaxpct,
    })
}

/// Grows the data section of a mounted XFS to `blocks` blocks. Keeps the share
/// of inodes, for which it asks [`xfs_geometry`] first.
///
/// # Errors
/// `EINVAL` if the device is smaller than that or the file system would shrink,
/// `EWOULDBLOCK` while another resize is running, `EROFS`.
pub fn xfs_growfs_data(file: impl AsFd, blocks: u64) -> io::Result<()> {
    let imaxpct = xfs_geometry(&file)?.inode_max_percent;
    let mut request = xfs_growfs_data {
        newblocks: blocks,
        imaxpct,
    };
    // SAFETY: XFS_IOC_FSGROWFSDATA reads one xfs_growfs_data.
    unsafe {
        ioctl::with_pointer(
            file.as_fd(),
            bindings::REQ_XFS_IOC_FSGROWFSDATA,
            &raw mut request,
        )
    }?;
    Ok(())
}

/// Grows the first device (id 1) of a mounted Btrfs to the device's size.
///
/// # Errors
/// `ENODEV` if there is no such device, `EROFS`, `EINPROGRESS` while a balance
/// or another exclusive operation is running.
pub fn btrfs_resize_max(file: impl AsFd) -> io::Result<()> {
    btrfs_resize_to(file, "max")
}

/// Sets device `devid` of a mounted Btrfs to `bytes` bytes, which the kernel
/// rounds down to whole sectors.
///
/// # Errors
/// As [`btrfs_resize_max`]; `EINVAL` for less than 256 MiB, `EFBIG` if the device is smaller than that, `ENOSPC`
/// if the file system cannot shrink so far.
pub fn btrfs_resize(file: impl AsFd, devid: u64, bytes: u64) -> io::Result<()> {
    btrfs_resize_to(file, &format!("{devid}:{bytes}"))
}

fn btrfs_resize_to(file: impl AsFd, size: &str) -> io::Result<()> {
    let mut request = btrfs_ioctl_vol_args::default();
    // The last byte stays the terminating zero.
    let room = request.name.len() - 1;
    if size.len() > room {
        return Err(Errno::ENAMETOOLONG.into());
    }
    for (slot, byte) in request.name.iter_mut().zip(size.bytes()) {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    // SAFETY: BTRFS_IOC_RESIZE reads one btrfs_ioctl_vol_args with a
    // zero-terminated name.
    unsafe {
        ioctl::with_pointer(
            file.as_fd(),
            bindings::REQ_BTRFS_IOC_RESIZE,
            &raw mut request,
        )
    }?;
    Ok(())
}

/// Freezes the file system: makes it consistent on the device and holds back
/// all writes until [`thaw`]. Frozen file systems hang whoever writes to them;
/// keep the time short.
///
/// # Errors
/// `EBUSY` if it is frozen already, `EOPNOTSUPP` if this kind cannot freeze.
pub fn freeze(file: impl AsFd) -> io::Result<()> {
    // SAFETY: FIFREEZE ignores its argument.
    unsafe { ioctl::with_number(file.as_fd(), bindings::REQ_FIFREEZE, 0) }?;
    Ok(())
}

/// Ends a [`freeze`].
///
/// # Errors
/// `EINVAL` if it is not frozen.
pub fn thaw(file: impl AsFd) -> io::Result<()> {
    // SAFETY: FITHAW ignores its argument.
    unsafe { ioctl::with_number(file.as_fd(), bindings::REQ_FITHAW, 0) }?;
    Ok(())
}
