//! Comparing whole disks before and after.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

/// Bytes that are compared at a time.
const CHUNK: usize = 1 << 18;

/// Something that differs if any byte of the file or device differs.
/// Two readings within one process can be compared, no more than that.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn disk_digest(path: &Path) -> u64 {
    let mut file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0_u8; CHUNK];
    let zeros = vec![0_u8; CHUNK];
    let mut offset = 0;
    loop {
        offset = next_data(&file, offset);
        file.seek(SeekFrom::Start(offset)).expect("seek");
        let n = file
            .read(&mut buffer)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if n == 0 {
            hasher.write_u64(file.seek(SeekFrom::End(0)).expect("size of a disk"));
            return hasher.finish();
        }
        // A hole and zeros that were written are the same to a reader.
        if buffer[..n] != zeros[..n] {
            hasher.write_u64(offset);
            hasher.write(&buffer[..n]);
        }
        offset += n as u64;
    }
}

/// Start of the chunk that has the next data: disks of tests are mostly holes.
fn next_data(file: &File, offset: u64) -> u64 {
    let Ok(from) = i64::try_from(offset) else {
        return offset;
    };
    match lseek(file, from, Whence::SeekData) {
        Ok(data) => u64::try_from(data)
            .map_or(offset, |data| data / CHUNK as u64 * CHUNK as u64)
            .max(offset),
        // ENXIO: nothing but a hole up to the end.
        Err(Errno::ENXIO) => file
            .metadata()
            .map_or(offset, |meta| meta.len().max(offset)),
        // Block devices know no holes.
        Err(_) => offset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_matters() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, vec![0_u8; 3 << 20]).unwrap();
        let empty = disk_digest(&path);
        let mut bytes = vec![0_u8; 3 << 20];
        bytes[2_500_000] = 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_ne!(disk_digest(&path), empty);
        bytes[2_500_000] = 0;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(disk_digest(&path), empty);
    }
}
