//! Sizes as people write and read them.

use super::{Bytes, SECTOR, UnitError};

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
        for unit in ["bb", "sb", "si", "kk", "kbb"] {
            let text = format!("1{unit}");
            assert!(matches!(parse_size(&text), Err(UnitError::Unit { .. })));
        }
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
            (1 << 10, "1.00k"),
            (4 << 20, "4.00m"),
            (3 << 29, "1.50g"),
            (5 << 40, "5.00t"),
            (1 << 50, "1.00p"),
            (u64::MAX, "16.00e"),
        ] {
            assert_eq!(format_size(Bytes(bytes)), text);
        }
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
    }
}
