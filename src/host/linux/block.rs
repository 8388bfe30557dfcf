//! Uncached I/O on a block device.
//!
//! Closing a descriptor that was open for writing makes udev probe the device
//! again (its `watch`), so a handle opens for writing only at the first write,
//! once, and keeps that descriptor as long as it lives.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use lvcsi_sys::AlignedBuf;
use lvm2::tables::DevNo;
use nix::errno::Errno;
use nix::libc;

use crate::host::{BlockDevice, DeviceInfo, HostError, HostResult};

/// Most that one system call transfers through a bounce buffer, in bytes.
const CHUNK: u64 = 1 << 20;
/// Up to here zeros are written, beyond the device is told to zero, in bytes.
/// Measured on loop and virtio: a write of one block costs half of the ioctl, at
/// 64 KiB they are equal, and 1 MiB takes the ioctl a tenth of the time or less.
const ZERO_BY_WRITE: u64 = 64 << 10;
/// Most that one BLKZEROOUT or BLKDISCARD covers, in bytes: neither can be
/// interrupted, so each call stays short enough to end soon after a signal.
const IOCTL_STEP: u64 = 1 << 30;

static ZEROS: LazyLock<AlignedBuf> = LazyLock::new(|| AlignedBuf::zeroed(256 << 10));

/// An open device.
#[derive(Debug)]
pub(super) struct LinuxBlockDevice {
    info: DeviceInfo,
    read: File,
    write: OnceLock<File>,
    may_write: bool,
}

impl LinuxBlockDevice {
    /// Opens the device that `info` describes; `may_write` allows writes later.
    ///
    /// # Errors
    /// [`HostError::Path`]; with `ENXIO` if the node leads to another device.
    pub(super) fn open(info: &DeviceInfo, may_write: bool) -> HostResult<Self> {
        let read = open_direct(&info.path, false)?;
        let device = Self {
            info: info.clone(),
            read,
            write: OnceLock::new(),
            may_write,
        };
        device.verify(&device.read)?;
        Ok(device)
    }

    /// Opens the device at `path` for reading and asks it for its shape.
    ///
    /// # Errors
    /// [`HostError::Path`]; with `ENOTBLK` if it is no block device.
    pub(super) fn open_path(path: &Path) -> HostResult<Self> {
        let failed = |source| path_error("open", path, source);
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.file_type().is_block_device() {
            return Err(failed(Errno::ENOTBLK.into()));
        }
        let read = open_direct(path, false)?;
        let info = DeviceInfo {
            devno: devno_of(&read).map_err(failed)?,
            path: path.to_owned(),
            size: lvcsi_sys::block::size_bytes(&read).map_err(failed)?,
            block_size: lvcsi_sys::block::logical_block_size(&read).map_err(failed)?,
        };
        Ok(Self {
            info,
            read,
            write: OnceLock::new(),
            may_write: false,
        })
    }

    /// Opens the device that `info` describes for this process alone.
    ///
    /// # Errors
    /// [`HostError::Claimed`] if somebody uses it, [`HostError::Changed`] if it
    /// has another size than `info` says.
    pub(super) fn open_exclusive(info: &DeviceInfo) -> HostResult<Self> {
        let path = &info.path;
        let failed = |source| path_error("open", path, source);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_NONBLOCK | libc::O_EXCL)
            .open(path)
            .map_err(|source| match source.raw_os_error() {
                Some(libc::EBUSY) => HostError::Claimed { path: path.clone() },
                _ => failed(source),
            })?;
        let read = file.try_clone().map_err(failed)?;
        let device = Self {
            info: info.clone(),
            read,
            write: OnceLock::from(file),
            may_write: true,
        };
        device.verify(&device.read)?;
        let size = lvcsi_sys::block::size_bytes(&device.read).map_err(failed)?;
        if size != info.size {
            return Err(HostError::Changed {
                path: path.clone(),
                detail: format!("it has {size} bytes, not {}", info.size),
            });
        }
        Ok(device)
    }

    /// A node may have been given to another device since discovery.
    fn verify(&self, file: &File) -> HostResult<()> {
        match devno_of(file) {
            Ok(devno) if devno == self.info.devno => Ok(()),
            Ok(_) => Err(path_error("open", &self.info.path, Errno::ENXIO.into())),
            Err(source) => Err(path_error("open", &self.info.path, source)),
        }
    }

    fn writer(&self) -> HostResult<&File> {
        if let Some(file) = self.write.get() {
            return Ok(file);
        }
        if !self.may_write {
            return Err(path_error("write", &self.info.path, Errno::EBADF.into()));
        }
        let file = open_direct(&self.info.path, true)?;
        self.verify(&file)?;
        // Two threads may both have opened it; one descriptor is kept.
        Ok(self.write.get_or_init(|| file))
    }

    fn block(&self) -> u64 {
        u64::from(self.info.block_size).max(512)
    }

    fn failed(&self, op: &'static str, offset: u64) -> impl Fn(io::Error) -> HostError {
        let path = self.info.path.clone();
        move |source| HostError::Io {
            op,
            path: path.clone(),
            offset,
            source,
        }
    }

    /// Whether the kernel can take `buf` as it is.
    fn direct(&self, offset: u64, buf: &[u8]) -> bool {
        let block = self.block();
        let address = buf.as_ptr().addr() as u64;
        (offset | buf.len() as u64 | address).is_multiple_of(block)
    }

    /// Writes any range: the blocks at its ends are read first where the range
    /// covers only part of them.
    fn write_through_buffer(&self, file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
        let block = self.block();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let start = at - at % block;
            let take = left(data.len() - done, CHUNK - (at - start));
            let end = (at + take as u64).next_multiple_of(block);
            let mut buf = AlignedBuf::zeroed(to_usize(end - start)?);
            let inside = to_usize(at - start)?;
            let tail = buf.len() - to_usize(block)?;
            if inside != 0 {
                let first = to_usize(block)?;
                read_exact(file, &mut buf[..first], start)?;
            }
            // One block that is covered in part at both ends is read once.
            if inside + take != buf.len() && (inside == 0 || tail != 0) {
                read_exact(file, &mut buf[tail..], end - block)?;
            }
            buf[inside..inside + take].copy_from_slice(&data[done..done + take]);
            write_all(file, &buf, start)?;
            done += take;
        }
        Ok(())
    }

    fn write_zeros(&self, file: &File, offset: u64, length: u64) -> HostResult<()> {
        let mut done = 0;
        while done < length {
            let take = left(ZEROS.len(), length - done);
            let at = offset + done;
            let result = if self.direct(at, &ZEROS[..take]) {
                write_all(file, &ZEROS[..take], at)
            } else {
                self.write_through_buffer(file, at, &ZEROS[..take])
            };
            result.map_err(self.failed("zero", at))?;
            done += take as u64;
        }
        Ok(())
    }
}

impl BlockDevice for LinuxBlockDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> HostResult<()> {
        let file = self.write.get().unwrap_or(&self.read);
        if self.direct(offset, buf) {
            return read_exact(file, buf, offset).map_err(self.failed("read", offset));
        }
        let block = self.block();
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let failed = self.failed("read", at);
            let start = at - at % block;
            let take = left(buf.len() - done, CHUNK - (at - start));
            let end = (at + take as u64).next_multiple_of(block);
            let mut bounce = AlignedBuf::zeroed(to_usize(end - start).map_err(&failed)?);
            read_exact(file, &mut bounce, start).map_err(&failed)?;
            let inside = to_usize(at - start).map_err(&failed)?;
            buf[done..done + take].copy_from_slice(&bounce[inside..inside + take]);
            done += take;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> HostResult<()> {
        let file = self.writer()?;
        if self.direct(offset, data) {
            write_all(file, data, offset)
        } else {
            self.write_through_buffer(file, offset, data)
        }
        .map_err(self.failed("write", offset))
    }

    fn zero(&self, offset: u64, length: u64) -> HostResult<()> {
        let file = self.writer()?;
        let block = self.block();
        let end = self.end_of("zero", offset, length)?;
        let (first, last) = (offset.next_multiple_of(block), end - end % block);
        if length <= ZERO_BY_WRITE || last <= first {
            return self.write_zeros(file, offset, length);
        }
        self.write_zeros(file, offset, first - offset)?;
        let mut at = first;
        while at < last {
            let step = (last - at).min(IOCTL_STEP);
            match lvcsi_sys::block::zero_out(file, at..at + step) {
                Ok(()) => {}
                Err(error) if not_offered(&error) => self.write_zeros(file, at, step)?,
                Err(source) => return Err(self.failed("zero", at)(source)),
            }
            at += step;
        }
        self.write_zeros(file, last, end - last)
    }

    /// Discards the whole blocks inside the range.
    ///
    /// # Errors
    /// [`HostError::Io`], with `EOPNOTSUPP` if the device cannot discard.
    fn discard(&self, offset: u64, length: u64) -> HostResult<()> {
        let file = self.writer()?;
        let block = self.block();
        let end = self.end_of("discard", offset, length)?;
        let (mut at, last) = (offset.next_multiple_of(block), end - end % block);
        while at < last {
            let step = (last - at).min(IOCTL_STEP);
            lvcsi_sys::block::discard(file, at..at + step).map_err(self.failed("discard", at))?;
            at += step;
        }
        Ok(())
    }

    fn flush(&self) -> HostResult<()> {
        // Nothing was written through a handle that never opened for writing.
        match self.write.get() {
            Some(file) => lvcsi_sys::block::flush(file).map_err(self.failed("flush", 0)),
            None => Ok(()),
        }
    }
}

impl LinuxBlockDevice {
    fn end_of(&self, op: &'static str, offset: u64, length: u64) -> HostResult<u64> {
        offset
            .checked_add(length)
            .filter(|end| *end <= self.info.size)
            .ok_or_else(|| self.failed(op, offset)(Errno::EINVAL.into()))
    }
}

/// Opens a device without the page cache.
pub(super) fn open_direct(path: &Path, write: bool) -> HostResult<File> {
    OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(libc::O_DIRECT | libc::O_NONBLOCK)
        .open(path)
        .map_err(|source| path_error("open", path, source))
}

pub(super) fn read_exact(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buf, offset)
}

fn write_all(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(data, offset)
}

/// The device number of an open device node.
pub(super) fn devno_of(file: &File) -> io::Result<DevNo> {
    let rdev = lvcsi_sys::DevNo::from_rdev(file.metadata()?.rdev());
    Ok(number(rdev))
}

/// The same number as the layers above know it.
pub(super) fn number(dev: lvcsi_sys::DevNo) -> DevNo {
    DevNo {
        major: dev.major,
        minor: dev.minor,
    }
}

pub(super) fn path_error(op: &'static str, path: &Path, source: io::Error) -> HostError {
    HostError::Path {
        op,
        path: path.to_owned(),
        source,
    }
}

fn not_offered(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL)
    )
}

/// The smaller of a length in memory and a number of bytes.
fn left(len: usize, bytes: u64) -> usize {
    usize::try_from(bytes).map_or(len, |bytes| bytes.min(len))
}

fn to_usize(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| Errno::EINVAL.into())
}

#[cfg(test)]
#[path = "block_tests.rs"]
pub(super) mod tests;
