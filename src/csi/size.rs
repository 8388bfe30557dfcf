//! How large a volume becomes.
//!
//! The contract rounds up to whole GiB above one GiB and to whole MiB below;
//! LVM rounds up to whole extents. Where the first rounding would exceed the
//! caller's limit, only the second is done.

use lvm2::units::{Bytes, ExtentSize, Extents};

use super::proto::CapacityRange;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The size of a volume for which none was asked.
pub(crate) const DEFAULT: Bytes = Bytes(GIB);

/// Why a size cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SizeError {
    /// A negative number of bytes.
    #[error("capacity_range.{field} is {bytes}: it cannot be negative")]
    Negative {
        /// `required_bytes` or `limit_bytes`.
        field: &'static str,
        /// The number.
        bytes: i64,
    },
    /// More is required than allowed.
    #[error("capacity_range: required_bytes {required} exceeds limit_bytes {limit}")]
    Crossed {
        /// Least bytes.
        required: Bytes,
        /// Most bytes.
        limit: Bytes,
    },
    /// No whole number of extents lies in the range.
    #[error(
        "capacity_range: no multiple of the extent size {extent} lies between required_bytes \
         {required} and limit_bytes {limit}"
    )]
    NoMultiple {
        /// Least bytes.
        required: Bytes,
        /// Most bytes.
        limit: Bytes,
        /// Extent size in bytes.
        extent: Bytes,
    },
    /// Neither bound is given where one is needed.
    #[error("capacity_range: required_bytes or limit_bytes must be given")]
    Unset,
}

/// A checked range; both ends in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Least; 0 where the caller leaves it open.
    pub(crate) required: Bytes,
    /// Most, if bounded.
    pub(crate) limit: Option<Bytes>,
}

impl Range {
    /// Checks what the caller sent.
    pub(crate) fn of(range: Option<&CapacityRange>) -> Result<Self, SizeError> {
        let Some(range) = range else {
            return Ok(Self {
                required: Bytes(0),
                limit: None,
            });
        };
        let required = bytes("required_bytes", range.required_bytes)?;
        let limit = Some(bytes("limit_bytes", range.limit_bytes)?).filter(|limit| limit.0 > 0);
        match limit {
            Some(limit) if required > limit => Err(SizeError::Crossed { required, limit }),
            _ => Ok(Self { required, limit }),
        }
    }

    /// As [`Range::of`], but at least one bound must be there.
    pub(crate) fn required(range: Option<&CapacityRange>) -> Result<Self, SizeError> {
        let range = Self::of(range)?;
        if range.required.0 == 0 && range.limit.is_none() {
            return Err(SizeError::Unset);
        }
        Ok(range)
    }

    /// Whether a volume of `size` fulfils the range.
    pub(crate) fn contains(self, size: Bytes) -> bool {
        size >= self.required && self.limit.is_none_or(|limit| size <= limit)
    }

    /// The bytes of a volume of this range where the extent size is not
    /// known: as the contract rounds, and where that is too much, in smaller
    /// steps.
    pub(crate) fn capacity(self) -> Result<Bytes, SizeError> {
        let fits = |size: Bytes| size.0 > 0 && self.limit.is_none_or(|limit| size <= limit);
        let least = if self.required.0 == 0 {
            DEFAULT
        } else {
            self.required
        };
        let generous = round(least);
        if fits(generous) {
            return Ok(generous);
        }
        let Some(limit) = self.limit else {
            return Ok(generous);
        };
        // LVM's usual extent, then the contract's unit.
        for step in [4 * MIB, MIB] {
            let tight = match self.required.0 {
                0 => limit.0 / step * step,
                required => required.checked_next_multiple_of(step).unwrap_or(u64::MAX),
            };
            if fits(Bytes(tight)) {
                return Ok(Bytes(tight));
            }
        }
        Err(SizeError::NoMultiple {
            required: self.required,
            limit,
            extent: Bytes(MIB),
        })
    }

    /// The extents of a volume of this range in a VG with `extent` sized ones.
    pub(crate) fn extents(self, extent: ExtentSize) -> Result<Extents, SizeError> {
        let fits = |extents: Extents| {
            self.limit
                .is_none_or(|limit| extent.bytes_of(extents) <= limit)
        };
        let least = if self.required.0 == 0 {
            DEFAULT
        } else {
            self.required
        };
        let generous = extent.ceil(round(least));
        if fits(generous) {
            return Ok(generous);
        }
        let tight = match self.limit {
            // Only the upper end is given: as much of it as extents allow.
            Some(limit) if self.required.0 == 0 => extent.floor(limit),
            _ => extent.ceil(self.required),
        };
        if tight.0 > 0 && fits(tight) {
            return Ok(tight);
        }
        Err(SizeError::NoMultiple {
            required: self.required,
            limit: self.limit.unwrap_or_default(),
            extent: extent.bytes(),
        })
    }
}

fn bytes(field: &'static str, bytes: i64) -> Result<Bytes, SizeError> {
    u64::try_from(bytes)
        .map(Bytes)
        .map_err(|_| SizeError::Negative { field, bytes })
}

/// The largest size to which the contract would round a request that fits in
/// `free` bytes.
pub(crate) fn largest(free: Bytes) -> Bytes {
    let unit = if free.0 > GIB { GIB } else { MIB };
    Bytes(free.0 / unit * unit)
}

/// The contract's rounding. What cannot be rounded up stays as it is: no VG
/// can hold it anyway.
fn round(size: Bytes) -> Bytes {
    let unit = if size.0 > GIB { GIB } else { MIB };
    Bytes(size.0.checked_next_multiple_of(unit).unwrap_or(size.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lvm2::units::Sectors;

    fn range(required: i64, limit: i64) -> Result<Range, SizeError> {
        Range::of(Some(&CapacityRange {
            required_bytes: required,
            limit_bytes: limit,
        }))
    }

    fn size(required: i64, limit: i64) -> Result<u64, SizeError> {
        let extent = ExtentSize::new(Sectors(8192)).unwrap();
        Ok(extent.bytes_of(range(required, limit)?.extents(extent)?).0)
    }

    #[test]
    fn rounds_as_the_contract_says() {
        for (from, to) in [
            (1, MIB),
            (MIB, MIB),
            (MIB + 1, 2 * MIB),
            (GIB, GIB),
            (GIB + 1, 2 * GIB),
            (5_000_000, 5 * MIB),
            (5_000_000_000, 5 * GIB),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(round(Bytes(from)), Bytes(to), "{from}");
        }
    }

    #[test]
    fn the_limit_is_never_exceeded() {
        let gib = i64::try_from(GIB).unwrap();
        assert_eq!(size(gib + 1, 0), Ok(2 * GIB));
        assert_eq!(size(gib + 1, gib + gib / 2), Ok(GIB + 4 * MIB));
        assert_eq!(size(0, 0), Ok(GIB));
        assert_eq!(size(0, 10 << 20), Ok(8 * MIB));
        assert!(matches!(
            size(1, 1 << 20),
            Err(SizeError::NoMultiple { .. })
        ));
        assert!(matches!(size(0, 1), Err(SizeError::NoMultiple { .. })));
        assert!(matches!(size(5, 4), Err(SizeError::Crossed { .. })));
        assert!(matches!(size(-1, 4), Err(SizeError::Negative { .. })));
        assert!(size(i64::MAX, 0).is_ok());
    }

    #[test]
    fn without_extents_the_limit_holds_too() {
        let gib = i64::try_from(GIB).unwrap();
        let size = |required, limit| range(required, limit)?.capacity().map(|size| size.0);
        for (required, limit, bytes) in [
            (0, 0, GIB),
            (1, 0, MIB),
            (gib + 1, 0, 2 * GIB),
            (gib + 1, gib + gib / 2, GIB + 4 * MIB),
            (gib + 1, gib + (2 << 20), GIB + MIB),
            (0, 10 << 20, 8 * MIB),
            (0, 3 << 20, 3 * MIB),
        ] {
            assert_eq!(size(required, limit), Ok(bytes), "{required} {limit}");
        }
        assert!(matches!(size(0, 1), Err(SizeError::NoMultiple { .. })));
        assert!(matches!(size(5, 7), Err(SizeError::NoMultiple { .. })));
        for free in [0, 5, MIB, 5 * MIB + 1, GIB, GIB + 1, 7 * GIB - 1] {
            let most = largest(Bytes(free));
            assert!(round(most) <= Bytes(free), "{free}");
        }
    }

    #[test]
    fn an_existing_size_is_compared_with_both_ends() {
        let range = range(10, 20).unwrap();
        assert!(range.contains(Bytes(10)) && range.contains(Bytes(20)));
        assert!(!range.contains(Bytes(9)) && !range.contains(Bytes(21)));
        assert_eq!(Range::required(None), Err(SizeError::Unset));
    }
}
