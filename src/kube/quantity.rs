//! Kubernetes' quantities, as far as they are bytes.
//!
//! The text is kept as it was written; two quantities are equal if they mean
//! the same number. What we write has the binary suffixes of the contract.

use std::borrow::Cow;
use std::fmt;

use lvm2::units::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The pattern by which an API server checks quantities.
const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// Decimal places that matter: nano is the smallest suffix.
const NANO: u32 = 9;

/// A text that is no quantity of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no quantity of bytes: a number of at least 0 with one of the suffixes Ki Mi Gi Ti Pi Ei n u m k M G T P E, or with an exponent, and less than 2^64"
)]
pub struct QuantityError {
    /// The text.
    pub text: String,
}

/// A number of bytes as Kubernetes writes it.
#[derive(Clone, Debug, Eq)]
pub struct Quantity(String);

impl Quantity {
    /// The quantity of so many bytes, in its canonical binary form.
    #[must_use]
    pub fn of(bytes: Bytes) -> Self {
        // Below 1024 the canonical form has decimal suffixes.
        if bytes.0 == 1000 {
            return Self("1k".to_owned());
        }
        let mut number = bytes.0;
        let mut suffix = "";
        for next in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
            if number == 0 || !number.is_multiple_of(1024) {
                break;
            }
            number /= 1024;
            suffix = next;
        }
        Self(format!("{number}{suffix}"))
    }

    /// The bytes; a fraction of one counts as a whole one.
    ///
    /// # Errors
    /// If the text is no quantity, is negative or too large.
    pub fn bytes(&self) -> Result<Bytes, QuantityError> {
        parse(&self.0).map(Bytes).ok_or_else(|| QuantityError {
            text: self.0.clone(),
        })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let quantity = Self(text.to_owned());
        quantity.bytes()?;
        Ok(quantity)
    }
}

/// The value in bytes, rounded up.
fn parse(text: &str) -> Option<u64> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = magnitude(unsigned)?;
    // Minus nothing is nothing.
    (value == 0 || !negative).then_some(value)
}

/// The value of a quantity without a sign.
fn magnitude(unsigned: &str) -> Option<u64> {
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (factor, power) = scale(suffix)?;
    // Digits as one integer, in units of 10^-places.
    let fraction = fraction.trim_end_matches('0');
    let places = u32::try_from(fraction.len()).ok()?;
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let scaled = digits.parse::<u128>().ok()?.checked_mul(factor)?;
    let power = power - i32::try_from(places).ok()?;
    let value = match u32::try_from(power) {
        Ok(power) => scaled.checked_mul(10u128.checked_pow(power)?)?,
        // Whatever is left of a byte counts as one.
        Err(_) => 10u128
            .checked_pow(power.unsigned_abs())
            .map_or(1, |divisor| scaled.div_ceil(divisor)),
    };
    u64::try_from(value).ok()
}

/// A suffix as a factor and a power of ten.
fn scale(suffix: &str) -> Option<(u128, i32)> {
    let binary = |n: u32| Some((1u128 << (10 * n), 0));
    let nano = i32::try_from(NANO).ok()?;
    match suffix {
        "" => Some((1, 0)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        "n" => Some((1, -nano)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            Some((1, exponent.parse().ok()?))
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        match (parse(&self.0), parse(&other.0)) {
            (Some(a), Some(b)) => a == b,
            _ => self.0 == other.0,
        }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self("0".to_owned())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

/// A quantity is a text or a bare number.
struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": PATTERN,
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_as_the_api_server_reads_them() {
        let gib = 1u64 << 30;
        for (text, bytes) in [
            ("0", 0),
            ("-0", 0),
            ("1", 1),
            ("+5", 5),
            ("1Ki", 1024),
            ("1.5Gi", gib + gib / 2),
            (".5Ki", 512),
            ("5.", 5),
            ("10Gi", 10 * gib),
            ("1k", 1000),
            ("1M", 1_000_000),
            ("2G", 2_000_000_000),
            ("3T", 3_000_000_000_000),
            ("1e3", 1000),
            ("1E3", 1000),
            ("12e-1", 2),
            ("1E", 1_000_000_000_000_000_000),
            ("15Ei", 15 << 60),
            ("100m", 1),
            ("1500m", 2),
            ("1n", 1),
            ("0n", 0),
            ("18446744073709551615", u64::MAX),
            ("0000000000000000000000000000000000000000000007", 7),
            ("1.00000000000000000000000000000000000000000", 1),
        ] {
            let quantity: Quantity = text.parse().unwrap();
            assert_eq!(quantity.bytes(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "-1",
            "--0",
            "+-0",
            "Ki",
            ".",
            "1.2.3",
            "1KiB",
            "1 Gi",
            "ten",
            "1e",
            "16Ei",
            "1e99",
            "0x10",
            "18446744073709551616",
        ] {
            let read: Result<Quantity, _> = text.parse();
            assert_eq!(
                read,
                Err(QuantityError {
                    text: text.to_owned()
                }),
                "{text}"
            );
        }
    }

    #[test]
    fn written_in_canonical_binary_form() {
        for (bytes, text) in [
            (0, "0"),
            (1, "1"),
            (999, "999"),
            (1000, "1k"),
            (1023, "1023"),
            (1024, "1Ki"),
            (1025, "1025"),
            (2000, "2000"),
            (4 << 20, "4Mi"),
            (21_470_642_176, "20476Mi"),
            (1 << 40, "1Ti"),
            (u64::MAX, "18446744073709551615"),
        ] {
            let quantity = Quantity::of(Bytes(bytes));
            assert_eq!(quantity.as_str(), text);
            assert_eq!(quantity.bytes(), Ok(Bytes(bytes)));
        }
    }

    #[test]
    fn equal_if_they_mean_the_same() {
        let read = |json: &str| serde_json::from_str::<Quantity>(json).unwrap();
        assert_eq!(read("\"1Gi\""), read("1073741824"));
        assert_ne!(read("\"1Gi\""), read("\"1G\""));
        assert_eq!(read("\"odd\""), read("\"odd\""));
        assert_eq!(
            serde_json::to_string(&read("\"1024Mi\"")).unwrap(),
            "\"1024Mi\"",
            "the text stays"
        );
    }
}
