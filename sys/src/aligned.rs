//! Memory for uncached I/O.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::slice;

/// Alignment of every [`AlignedBuf`] in bytes: enough for `O_DIRECT` on any
/// device whose logical block size lvm2 supports.
pub const ALIGNMENT: usize = 4096;

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

/// A zeroed heap buffer that starts at a multiple of [`ALIGNMENT`].
///
/// Its length is exactly what was asked for; only the start is aligned, and a
/// caller that does uncached I/O must ask for whole blocks.
#[derive(Clone)]
pub struct AlignedBuf {
    pages: Vec<Page>,
    len: usize,
}

impl AlignedBuf {
    /// Makes a buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self {
            pages: vec![Page([0; ALIGNMENT]); len.div_ceil(ALIGNMENT)],
            len,
        }
    }

    /// Sets every byte to zero.
    pub fn clear(&mut self) {
        self.fill(0);
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the pages are one allocation of initialised bytes without
        // padding, at least `len` of them (`zeroed` rounds up), borrowed as
        // long as `self`; a vector never exceeds isize::MAX bytes.
        unsafe { slice::from_raw_parts(self.pages.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `self` is borrowed exclusively, and any byte
        // pattern is a valid page.
        unsafe { slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), self.len) }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuf")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_zeroed_and_of_the_exact_length() {
        for len in [0, 1, 511, 512, 4096, 4097, 70_000] {
            let buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr().addr() % ALIGNMENT, 0, "{len} bytes");
            assert!(buf.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn keeps_what_is_written_and_clears() {
        let mut buf = AlignedBuf::zeroed(5000);
        buf[4999] = 7;
        buf[0] = 9;
        let copy = buf.clone();
        buf.clear();
        assert_eq!((copy[0], copy[4999]), (9, 7));
        assert!(buf.iter().all(|byte| *byte == 0));
    }
}
