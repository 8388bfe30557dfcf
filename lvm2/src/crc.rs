//! The checksum of LVM2: CRC-32 with LVM2's own initial value and no final xor.
//!
//! One function serves labels, metadata area headers and texts; a text in two
//! pieces is summed by passing the first result on.

/// The initial value that LVM2 uses everywhere.
pub const INITIAL: u32 = 0xf597_a6cf;

/// Checksum of one buffer.
///
/// ```
/// assert_eq!(lvm2::crc::crc(b""), lvm2::crc::INITIAL);
/// ```
#[must_use]
pub fn crc(bytes: &[u8]) -> u32 {
    crc_from(INITIAL, bytes)
}

/// Continues a checksum over the next piece of a buffer.
#[must_use]
pub fn crc_from(initial: u32, bytes: &[u8]) -> u32 {
    // crc32fast inverts the state on the way in and out; LVM2 does neither.
    let mut hasher = crc32fast::Hasher::new_with_initial(!initial);
    hasher.update(bytes);
    !hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, bit by bit, as an independent witness.
    fn slow(mut state: u32, bytes: &[u8]) -> u32 {
        for &byte in bytes {
            state ^= u32::from(byte);
            for _ in 0..8 {
                state = (state >> 1) ^ if state & 1 == 1 { 0xedb8_8320 } else { 0 };
            }
        }
        state
    }

    #[test]
    fn agrees_with_the_definition() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for len in [0, 1, 3, 16, 255, 4096, 5000] {
            assert_eq!(crc(&bytes[..len]), slow(INITIAL, &bytes[..len]));
        }
    }

    #[test]
    fn pieces_chain() {
        let bytes = b"a text that wraps around the end of the ring";
        for cut in 0..=bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(crc_from(crc(a), b), crc(bytes));
        }
    }
}
