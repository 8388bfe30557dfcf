//! Every signature on a device with its place, by libblkid. The safe binding
//! has no way to ask where a partition table's signature is, nor for the bytes
//! of a magic number.

use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use libblkid_rs_sys as ffi;

/// Most signatures that one device is searched for: more than libblkid knows.
const MOST: usize = 256;

/// A signature as libblkid reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// `ext4`, `LVM2_member`, `gpt`, …
    pub kind: String,
    /// Label of a file system.
    pub label: Option<String>,
    /// Its uuid, or that of a partition table.
    pub uuid: Option<String>,
    /// Where its magic number is, in bytes from the start, and how long it is;
    /// nothing if libblkid does not tell.
    pub magic: Option<(u64, u64)>,
}

/// A probe that is freed when it is dropped, and the file that it reads.
struct Probe<'a> {
    raw: ffi::blkid_probe,
    _file: &'a File,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        // SAFETY: `raw` came from `blkid_new_probe` and is not used afterwards.
        unsafe { ffi::blkid_free_probe(self.raw) }
    }
}

/// libblkid answers -1 without an error number.
fn check(answer: c_int, what: &'static str) -> io::Result<c_int> {
    if answer < 0 {
        return Err(io::Error::other(format!("libblkid cannot {what}")));
    }
    Ok(answer)
}

fn flags(flags: u32) -> c_int {
    // All flags of libblkid are small numbers.
    c_int::try_from(flags).unwrap_or(0)
}

impl<'a> Probe<'a> {
    fn new(file: &'a File) -> io::Result<Self> {
        // SAFETY: takes nothing; a null pointer means no memory.
        let raw = unsafe { ffi::blkid_new_probe() };
        if raw.is_null() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let probe = Self { raw, _file: file };
        // SAFETY: `raw` is a live probe, and the file outlives it.
        let answer = unsafe { ffi::blkid_probe_set_device(raw, file.as_raw_fd(), 0, 0) };
        check(answer, "read the device")?;
        // SAFETY: `raw` is a live probe.
        let answer = unsafe { ffi::blkid_probe_enable_superblocks(raw, 1) };
        check(answer, "search")?;
        // A signature with a bad checksum is still somebody's data.
        let wanted = flags(
            ffi::BLKID_SUBLKS_TYPE
                | ffi::BLKID_SUBLKS_LABEL
                | ffi::BLKID_SUBLKS_UUID
                | ffi::BLKID_SUBLKS_MAGIC
                | ffi::BLKID_SUBLKS_BADCSUM,
        );
        // SAFETY: `raw` is a live probe.
        let answer = unsafe { ffi::blkid_probe_set_superblocks_flags(raw, wanted) };
        check(answer, "search")?;
        // SAFETY: `raw` is a live probe.
        let answer = unsafe { ffi::blkid_probe_enable_partitions(raw, 1) };
        check(answer, "search")?;
        // The copy of a GPT at the end counts too.
        let wanted = flags(ffi::BLKID_PARTS_MAGIC | ffi::BLKID_PARTS_FORCE_GPT);
        // SAFETY: `raw` is a live probe.
        let answer = unsafe { ffi::blkid_probe_set_partitions_flags(raw, wanted) };
        check(answer, "search")?;
        Ok(probe)
    }

    /// The value of a tag of the signature that was found last, with its
    /// length without the NUL at its end.
    fn value(&self, name: &CStr) -> Option<Vec<u8>> {
        let mut data: *const c_char = ptr::null();
        let mut length = 0;
        // SAFETY: `raw` is a live probe, the name ends with a NUL, and both
        // results have a place.
        let answer = unsafe {
            ffi::blkid_probe_lookup_value(self.raw, name.as_ptr(), &raw mut data, &raw mut length)
        };
        if answer != 0 || data.is_null() {
            return None;
        }
        // SAFETY: libblkid gave `length` bytes that stay until the next probe.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
        Some(bytes.to_vec())
    }

    fn text(&self, name: &CStr) -> Option<String> {
        let mut bytes = self.value(name)?;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    fn magic(&self, offset: &CStr, magic: &CStr) -> Option<(u64, u64)> {
        let offset = self.text(offset)?.parse().ok()?;
        let length = self.value(magic)?.len() as u64;
        (length > 0).then_some((offset, length))
    }

    /// The signature that was found last.
    fn signature(&self) -> Signature {
        let superblock = self.text(c"TYPE");
        let (label, uuid, magic) = if superblock.is_some() {
            (
                self.text(c"LABEL"),
                self.text(c"UUID"),
                self.magic(c"SBMAGIC_OFFSET", c"SBMAGIC"),
            )
        } else {
            (
                None,
                self.text(c"PTUUID"),
                self.magic(c"PTMAGIC_OFFSET", c"PTMAGIC"),
            )
        };
        Signature {
            kind: superblock
                .or_else(|| self.text(c"PTTYPE"))
                .unwrap_or_else(|| "unknown".to_owned()),
            label,
            uuid,
            magic,
        }
    }
}

/// Every signature on a device: file systems, swap, RAID and LVM members,
/// encryption headers, partition tables. Of a kind that keeps several copies
/// it finds one; the others come up when that one is gone.
///
/// # Errors
/// If the device cannot be read.
pub fn signatures(device: &File) -> io::Result<Vec<Signature>> {
    let probe = Probe::new(device)?;
    let mut found = Vec::new();
    while found.len() < MOST {
        // SAFETY: `raw` is a live probe.
        let answer = unsafe { ffi::blkid_do_probe(probe.raw) };
        if check(answer, "read the device")? != 0 {
            break;
        }
        found.push(probe.signature());
    }
    Ok(found)
}
