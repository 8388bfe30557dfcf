//! What lies on a PV in front of its data: the label in one of the first four
//! sectors, metadata areas each with a header sector, and in each area a ring
//! of texts. Everything here turns bytes into values and back.
//!
//! All numbers on the disk are little-endian; a sector is 512 bytes. Bytes
//! from a disk may be hostile: they are refused with an error, never with a
//! panic.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod bytes;
pub mod geometry;
pub mod label;
pub mod leftover;
pub mod mda;
pub mod ring;

use crate::units::Bytes;

/// Bytes in a sector, as `usize`.
pub const SECTOR: usize = 512;

/// A range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Area {
    /// Distance from the start of the device.
    pub offset: Bytes,
    /// Length; for a data area zero means up to the end.
    pub size: Bytes,
}
