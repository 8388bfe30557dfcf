//! Sizes that cannot be mixed up: bytes, sectors and extents.

use std::fmt;

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

/// Bytes in one `unit`, which is case-insensitive: `b`, `s` or one of
/// `k m g t p e`, the latter also as `ki` or `kib` and so on. All are binary.
fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (first, rest) = unit.split_at_checked(1)?;
    let power = match first {
        "b" if rest.is_empty() => return Some(1),
        "s" if rest.is_empty() => return Some(SECTOR),
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        "e" => 60,
        _ => return None,
    };
    matches!(rest, "" | "i" | "b" | "ib").then_some(1u64 << power)
}

/// Reads a size as LVM2's `-L` does: a number, perhaps with a fraction, and an
/// optional unit of `b s k m g t p e` in either case, also as `KiB` or `Ki`.
/// All units are binary; `s` is sectors; without a unit the number is MiB.
/// A fraction of a byte is cut off.
///
/// ```
/// # use lvm2::units::{parse_size, Bytes};
/// assert_eq!(parse_size("1.5g"), Ok(Bytes(1_610_612_736)));
/// assert_eq!(parse_size("4"), Ok(Bytes(4 << 20)));
/// ```
///
/// # Errors
/// When the text is no size, has an unknown unit or is too large.
pub fn parse_size(text: &str) -> Result<Bytes, UnitError> {
    let syntax = || UnitError::Syntax {
        text: text.to_owned(),
    };
    let too_large = || UnitError::TooLarge {
        text: text.to_owned(),
    };
    let body = text.trim();
    let digits_end = body
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(body.len());
    let (number, unit) = body.split_at_checked(digits_end).ok_or_else(syntax)?;
    let unit = unit.trim_start();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(syntax());
    }
    let scale = match unit {
        "" => 1 << 20,
        _ => unit_bytes(unit).ok_or_else(|| UnitError::Unit {
            text: text.to_owned(),
            unit: unit.to_owned(),
        })?,
    };
    let whole = match whole {
        "" => 0,
        digits => digits.parse::<u64>().map_err(|_| too_large())?,
    };
    let bytes = u128::from(whole) * u128::from(scale) + fraction_of(fraction, scale);
    u64::try_from(bytes).map(Bytes).map_err(|_| too_large())
}

/// `0.digits` of `scale`, rounded down. Digits past the 18th are below the
/// resolution of a byte and ignored.
fn fraction_of(digits: &str, scale: u64) -> u128 {
    let mut numerator = 0u128;
    let mut denominator = 1u128;
    for digit in digits.bytes().take(18) {
        numerator = numerator * 10 + u128::from(digit.wrapping_sub(b'0'));
        denominator *= 10;
    }
    // Below 10^18 * 2^60, which fits in 128 bits.
    numerator * u128::from(scale) / denominator
}

/// A size for people, as LVM2's reports print it: `4.00m`, `1.50g`, `512b`.
#[must_use]
pub fn format_size(size: Bytes) -> String {
    let mut power = 0u32;
    for candidate in [10, 20, 30, 40, 50, 60] {
        if size.0 >> candidate > 0 {
            power = candidate;
        }
    }
    if power == 0 {
        return format!("{size}b");
    }
    let unit = u128::from(1u64 << power);
    let hundredths = (u128::from(size.0) * 100 + unit / 2) / unit;
    let letter = match power {
        10 => 'k',
        20 => 'm',
        30 => 'g',
        40 => 't',
        50 => 'p',
        _ => 'e',
    };
    format!("{}.{:02}{letter}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_as_lvm2_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("1", 1 << 20),
            ("1b", 1),
            ("1S", 512),
            ("7k", 7 << 10),
            ("7Ki", 7 << 10),
            ("7KiB", 7 << 10),
            ("7 kb", 7 << 10),
            ("4M", 4 << 20),
            ("2G", 2 << 30),
            ("1.5g", 3 << 29),
            (".5t", 1 << 39),
            ("3P", 3 << 50),
            ("1e", 1 << 60),
            ("15.999e", 18_445_591_152_204_944_769),
            ("0.0000000001g", 0),
        ] {
            assert_eq!(parse_size(text), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn bad_sizes_are_refused() {
        for text in ["", "g", ".", "1.2.3", "-1g", "+1", "1..2", "ü"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(matches!(parse_size("1x"), Err(UnitError::Unit { .. })));
        assert!(matches!(parse_size("1bb"), Err(UnitError::Unit { .. })));
        assert!(matches!(parse_size("16e"), Err(UnitError::TooLarge { .. })));
        assert!(matches!(
            parse_size("99999999999999999999"),
            Err(UnitError::TooLarge { .. })
        ));
    }

    #[test]
    fn formats_like_reports() {
        for (bytes, text) in [
            (0, "0b"),
            (512, "512b"),
            (4 << 20, "4.00m"),
            (3 << 29, "1.50g"),
            (u64::MAX, "16.00e"),
        ] {
            assert_eq!(format_size(Bytes(bytes)), text);
        }
    }

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

    proptest! {
        #[test]
        fn exact_bytes_survive(n: u64) {
            prop_assert_eq!(parse_size(&format!("{n}b")), Ok(Bytes(n)));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}") {
            let _ = parse_size(&text);
        }

        #[test]
        fn rounding_brackets_the_size(n in 0..u64::MAX / 2, sectors in 1u32..100) {
            let size = ExtentSize::new(Sectors(u64::from(sectors) * 256)).unwrap();
            let (low, high) = (size.floor(Bytes(n)), size.ceil(Bytes(n)));
            prop_assert!(size.bytes_of(low) <= Bytes(n) && Bytes(n) <= size.bytes_of(high));
            prop_assert!(high.0 - low.0 <= 1);
        }
    }
}
