//! The ring of texts in a metadata area: where a text is, where the next goes.
//!
//! The ring is everything behind the header of the area. A text that reaches
//! the end of the area continues right behind the header.

use std::ops::Range;

use super::mda::{HEADER, MdaHeader, RawLocn};
use crate::text::MAX_TEXT;

/// Texts begin at multiples of this.
const ALIGN: u64 = 512;

/// Why a text has no place in a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// More than a ring of this size takes, or than we read.
    #[error("a text of {size} bytes does not fit, the limit is {max}")]
    TooLarge {
        /// Bytes of the text with its NUL.
        size: u64,
        /// The most that would fit.
        max: u64,
    },
    /// A location that is not inside the ring.
    #[error("{size} bytes at offset {offset} are not in the ring of an area of {area} bytes")]
    Outside {
        /// Distance from the start of the area.
        offset: u64,
        /// Bytes of the text.
        size: u64,
        /// Bytes of the area.
        area: u64,
    },
    /// The text that counts now is so large or placed so oddly that LVM2's
    /// rule would overwrite it.
    #[error(
        "a text of {size} bytes has no place beside the {old_size} bytes at offset {old_offset}"
    )]
    Overlap {
        /// Bytes of the new text.
        size: u64,
        /// Where the text is that counts now.
        old_offset: u64,
        /// Its bytes.
        old_size: u64,
    },
}

/// A contiguous part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it lies, from the start of the area, in bytes.
    pub offset_in_mda: u64,
    /// Which bytes of the text it is.
    pub range: Range<usize>,
}

/// Where a new text goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Offset for the header, from the start of the area, in bytes.
    pub start: u64,
    /// One piece, or two when the text wraps.
    pub pieces: Vec<Piece>,
}

/// The largest text, with its NUL, that LVM2 writes to an area of this many
/// bytes: half the ring, so that the old text stays beside the new one.
#[must_use]
pub fn max_text(mda_size: u64) -> u64 {
    let half = mda_size.saturating_sub(HEADER) / 2;
    half.saturating_sub(ALIGN)
}

/// The places of `len` bytes at `offset` in an area of `mda_size` bytes.
///
/// # Errors
/// When they are not inside the ring, are none, or are more than
/// [`MAX_TEXT`](crate::text::MAX_TEXT).
pub fn pieces(mda_size: u64, offset: u64, len: u64) -> Result<Vec<Piece>, RingError> {
    let outside = RingError::Outside {
        offset,
        size: len,
        area: mda_size,
    };
    let ring = mda_size.saturating_sub(HEADER);
    if offset < HEADER || offset >= mda_size || len == 0 || len > ring {
        return Err(outside);
    }
    let too_large = RingError::TooLarge {
        size: len,
        max: MAX_TEXT as u64,
    };
    let total = usize::try_from(len)
        .ok()
        .filter(|total| *total <= MAX_TEXT)
        .ok_or(too_large)?;
    let to_end = mda_size.saturating_sub(offset);
    let first = usize::try_from(to_end).map_or(total, |to_end| to_end.min(total));
    let mut pieces = vec![Piece {
        offset_in_mda: offset,
        range: 0..first,
    }];
    if first < total {
        pieces.push(Piece {
            offset_in_mda: HEADER,
            range: first..total,
        });
    }
    Ok(pieces)
}

/// Chooses the place of a new text by LVM2's rule: at the next multiple of 512
/// behind the text that counts now, or at the start of the ring when that is
/// too near to the end.
///
/// Padding the last piece with zeros up to a multiple of 512 is safe.
///
/// # Errors
/// [`RingError::TooLarge`] with the limit; the other errors when the header
/// names a text that LVM2 would not have put there.
pub fn place(header: &MdaHeader, text_len_with_nul: u64) -> Result<Placement, RingError> {
    let size = text_len_with_nul;
    let max = max_text(header.size).min(MAX_TEXT as u64);
    if size > max {
        return Err(RingError::TooLarge { size, max });
    }
    let old = header
        .committed
        .filter(|locn| !locn.ignored && locn.offset != 0 && locn.size != 0);
    let start = match old {
        Some(old) => next_start(header.size, &old)?,
        None => HEADER,
    };
    let new = pieces(header.size, start, size)?;
    if let Some(old) = old {
        let apart = |new: &Piece| {
            let (new, old) = (extent(header.size, new), ranges(header.size, &old));
            old.into_iter()
                .all(|old| new.end <= old.start || old.end <= new.start)
        };
        if !new.iter().all(apart) {
            return Err(RingError::Overlap {
                size,
                old_offset: old.offset,
                old_size: old.size,
            });
        }
    }
    Ok(Placement { start, pieces: new })
}

/// Where LVM2 puts the text after `old`.
fn next_start(mda_size: u64, old: &RawLocn) -> Result<u64, RingError> {
    let outside = || RingError::Outside {
        offset: old.offset,
        size: old.size,
        area: mda_size,
    };
    if old.offset < HEADER || old.offset >= mda_size || old.size > mda_size.saturating_sub(HEADER) {
        return Err(outside());
    }
    let end = old.offset.checked_add(old.size).ok_or_else(outside)?;
    let after = match end.saturating_sub(mda_size) {
        0 => end,
        wrapped => HEADER.saturating_add(wrapped),
    };
    let start = after.checked_next_multiple_of(ALIGN).ok_or_else(outside)?;
    // Less than a sector up to the end is not used.
    Ok(if start > mda_size.saturating_sub(ALIGN) {
        HEADER
    } else {
        start
    })
}

/// The bytes of the area that `locn` names, exactly: one range or two.
fn ranges(mda_size: u64, locn: &RawLocn) -> [Range<u64>; 2] {
    let end = locn.offset.saturating_add(locn.size);
    let wrapped = end.saturating_sub(mda_size);
    [
        locn.offset..end.min(mda_size),
        HEADER..HEADER.saturating_add(wrapped),
    ]
}

/// The bytes of the area that writing a piece changes, padding included.
fn extent(mda_size: u64, piece: &Piece) -> Range<u64> {
    let end = piece.offset_in_mda.saturating_add(piece.range.len() as u64);
    let padded = end.checked_next_multiple_of(ALIGN).unwrap_or(end);
    piece.offset_in_mda..padded.min(mda_size.max(end))
}
