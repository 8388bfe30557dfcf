//! Sizes that cannot be mixed up: bytes, sectors and extents.

mod size;

use std::fmt;

pub use size::{format_size, parse_size};

/// Bytes in a sector: always 512, whatever the block size of the device.
pub const SECTOR: u64 = 512;

/// Extent sizes that are no power of two must be a multiple of this (128 KiB).
const ODD_EXTENT_UNIT: u64 = 256;

/// Why a size cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a size at all.
    #[error(
        "{text:?} is not a size: expected a number and an optional unit, such as 512MiB or 10G"
    )]
    Syntax {
        /// The text as given.
        text: String,
    },
    /// A number with a unit that we do not know.
    #[error("size {text:?} has the unknown unit {unit:?} (known: b s k m g t p e)")]
    Unit {
        /// The text as given.
        text: String,
        /// What stands after the number.
        unit: String,
    },
    /// Does not fit in 64 bits of bytes.
    #[error("size {text:?} is too large")]
    TooLarge {
        /// The text as given.
        text: String,
    },
    /// An extent size that LVM2 does not allow.
    #[error(
        "extent size of {sectors} sectors is neither a power of two nor a multiple of 128 KiB, \
         or not between 1 and 4294967295 sectors"
    )]
    ExtentSize {
        /// The refused size in sectors.
        sectors: u64,
    },
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Nothing.
            pub const ZERO: Self = Self(0);

            /// Sum, or nothing when it does not fit.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(n) => Some(Self(n)),
                    None => None,
                }
            }

            /// Difference, or nothing when it would be negative.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(n) => Some(Self(n)),
                    None => None,
                }
            }

            /// Product with a plain number, or nothing when it does not fit.
            #[must_use]
            pub const fn checked_mul(self, times: u64) -> Option<Self> {
                match self.0.checked_mul(times) {
                    Some(n) => Some(Self(n)),
                    None => None,
                }
            }

            /// Sum, at most the largest value.
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// Difference, at least zero.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Whether this is nothing.
            #[must_use]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::iter::Sum for $name {
            /// Adds up, at most the largest value.
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Self::saturating_add)
            }
        }
    };
}

quantity!(
    /// A number of bytes. Displays as the bare number; see [`format_size`].
    Bytes
);
quantity!(
    /// A number of 512-byte sectors.
    Sectors
);
quantity!(
    /// A number of extents of some VG.
    Extents
);

impl Sectors {
    /// The same size in bytes, at most the largest value.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(SECTOR))
    }
}

impl Bytes {
    /// Whole sectors in this size.
    #[must_use]
    pub const fn sectors_floor(self) -> Sectors {
        Sectors(self.0 / SECTOR)
    }

    /// Sectors that hold this size.
    #[must_use]
    pub const fn sectors_ceil(self) -> Sectors {
        Sectors(self.0.div_ceil(SECTOR))
    }
}

/// The size of an extent: a power of two of sectors or a multiple of 128 KiB,
/// at least one sector, at most 4294967295 sectors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExtentSize(u32);

impl ExtentSize {
    /// Checks an extent size.
    ///
    /// # Errors
    /// When LVM2 does not allow this size.
    pub fn new(size: Sectors) -> Result<Self, UnitError> {
        match u32::try_from(size.0) {
            Ok(n) if n.is_power_of_two() || (n > 0 && size.0.is_multiple_of(ODD_EXTENT_UNIT)) => {
                Ok(Self(n))
            }
            _ => Err(UnitError::ExtentSize { sectors: size.0 }),
        }
    }

    /// The size in sectors.
    #[must_use]
    pub fn sectors(self) -> Sectors {
        Sectors(u64::from(self.0))
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(self) -> Bytes {
        self.sectors().bytes()
    }

    /// Extents that hold `size`.
    #[must_use]
    pub fn ceil(self, size: Bytes) -> Extents {
        Extents(size.0.div_ceil(self.bytes().0))
    }

    /// Whole extents in `size`.
    #[must_use]
    pub fn floor(self, size: Bytes) -> Extents {
        Extents(size.0 / self.bytes().0)
    }

    /// The sectors of some extents, or nothing when they do not fit.
    #[must_use]
    pub fn sectors_of(self, extents: Extents) -> Option<Sectors> {
        self.sectors().checked_mul(extents.0)
    }

    /// The bytes of some extents, at most the largest value.
    #[must_use]
    pub fn bytes_of(self, extents: Extents) -> Bytes {
        Bytes(self.bytes().0.saturating_mul(extents.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn extent_sizes() {
        for ok in [1, 2, 8192, 256, 768, 1 << 31, 256 * 3] {
            assert!(ExtentSize::new(Sectors(ok)).is_ok(), "{ok}");
        }
        for bad in [0, 3, 255, 257, 1 << 32] {
            assert_eq!(
                ExtentSize::new(Sectors(bad)),
                Err(UnitError::ExtentSize { sectors: bad })
            );
        }
        let size = ExtentSize::new(Sectors(8192)).unwrap();
        assert_eq!(size.ceil(Bytes(1)), Extents(1));
        assert_eq!(size.floor(Bytes((4 << 20) - 1)), Extents(0));
        assert_eq!(size.sectors_of(Extents(u64::MAX)), None);
        assert_eq!(size.bytes_of(Extents(u64::MAX)), Bytes(u64::MAX));
    }

    #[test]
    fn bytes_are_counted_in_sectors() {
        for (bytes, floor, ceil) in [(0, 0, 0), (1, 0, 1), (512, 1, 1), (1025, 2, 3)] {
            assert_eq!(Bytes(bytes).sectors_floor(), Sectors(floor));
            assert_eq!(Bytes(bytes).sectors_ceil(), Sectors(ceil));
        }
        assert_eq!(Sectors(3).bytes(), Bytes(1536));
        assert_eq!(Sectors(u64::MAX).bytes(), Bytes(u64::MAX));
    }

    proptest! {
        #[test]
        fn rounding_brackets_the_size(n in 0..u64::MAX / 2, sectors in 1u32..100) {
            let size = ExtentSize::new(Sectors(u64::from(sectors) * 256)).unwrap();
            let (low, high) = (size.floor(Bytes(n)), size.ceil(Bytes(n)));
            prop_assert!(size.bytes_of(low) <= Bytes(n) && Bytes(n) <= size.bytes_of(high));
            prop_assert!(high.0 - low.0 <= 1);
        }
    }
}
