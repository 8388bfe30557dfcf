//! Little-endian numbers at offsets, without indexing.

use super::SECTOR;

/// Reads fields one after another from a buffer.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `N` bytes, or nothing behind the end.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Builds one sector, field by field; what is not written is zero.
pub(super) struct Writer {
    sector: [u8; SECTOR],
    at: usize,
    overflow: bool,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            sector: [0; SECTOR],
            at: 0,
            overflow: false,
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let end = self.at.saturating_add(bytes.len());
        match self.sector.get_mut(self.at..end) {
            Some(slot) => slot.copy_from_slice(bytes),
            None => self.overflow = true,
        }
        self.at = end;
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Puts the checksum of everything behind `covered` at `at` and gives the
    /// sector, or nothing if it did not hold all fields.
    pub(super) fn seal(mut self, at: usize, covered: usize) -> Option<[u8; SECTOR]> {
        let sum = crate::crc::crc(self.sector.get(covered..)?);
        self.at = at;
        self.u32(sum);
        (!self.overflow).then_some(self.sector)
    }
}
