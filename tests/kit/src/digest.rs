//! Comparing whole disks before and after.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Read as _;
use std::path::Path;

/// Something that differs if any byte of the file or device differs.
/// Two readings within one process can be compared, no more than that.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn disk_digest(path: &Path) -> u64 {
    let mut file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0_u8; 1 << 20];
    let zeros = vec![0_u8; 1 << 20];
    loop {
        let n = file
            .read(&mut buffer)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if n == 0 {
            return hasher.finish();
        }
        // Disks of tests are nearly empty: comparing is faster than hashing.
        if buffer[..n] == zeros[..n] {
            hasher.write_usize(n);
        } else {
            hasher.write(&buffer[..n]);
        }
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
