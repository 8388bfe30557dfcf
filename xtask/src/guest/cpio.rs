//! Archives that the kernel unpacks as its first file system, written here so
//! that neither cpio nor root is needed.

use anyhow::{Context, Result};

/// A cpio archive in the "newc" format of the kernel's initramfs documentation.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    /// Adds a file, a folder or a node; what is above it comes first.
    pub(crate) fn add(&mut self, name: &str, mode: u32, data: &[u8]) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(data.len())
            .with_context(|| format!("{name} is too large for a cpio archive"))?;
        let name_size = u32::try_from(name.len() + 1)?;
        let links = 1;
        // inode, mode, uid, gid, links, mtime, size, device and rdevice (major,
        // minor), length of the name with its NUL, checksum (unused).
        let fields = [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The archive, ended.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.add("TRAILER!!!", 0, &[])?;
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn entries_are_aligned_and_end_with_the_trailer() {
        let mut archive = Archive::default();
        archive.add("init", 0o100_755, b"hello").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        // 110 bytes of header, "init\0" padded to 116, data padded to 124.
        assert_eq!(&bytes[110..115], b"init\0");
        assert_eq!(&bytes[116..121], b"hello");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes.windows(11).any(|w| w == b"TRAILER!!!\0"));
    }
}
