//! Sizes as lvm2's reports print them.

use std::str::FromStr;

use lvm2::units::Bytes;

/// How sizes are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// The largest fitting unit, with `<` before what was rounded up.
    #[default]
    Rounded,
    /// The largest fitting unit.
    Human,
    /// Bytes.
    Bytes,
    /// Sectors of 512 bytes.
    Sectors,
    /// A power of 1024: 1 = KiB, 2 = MiB and so on to 6.
    Power(u32),
}

/// Units that do not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no unit: use one of r, h, b, s, k, m, g, t, p, e")]
pub struct UnknownUnits(String);

const LETTERS: [char; 6] = ['k', 'm', 'g', 't', 'p', 'e'];

impl FromStr for Units {
    type Err = UnknownUnits;

    fn from_str(text: &str) -> Result<Self, UnknownUnits> {
        Ok(match text {
            "r" => Self::Rounded,
            "h" => Self::Human,
            "b" => Self::Bytes,
            "s" => Self::Sectors,
            _ => {
                let power = (1..)
                    .zip(LETTERS)
                    .find(|(_, letter)| text == letter.to_string());
                Self::Power(power.ok_or_else(|| UnknownUnits(text.to_owned()))?.0)
            }
        })
    }
}

impl Units {
    /// The size as text, with its unit.
    #[must_use]
    pub fn show(self, size: Bytes) -> String {
        match self {
            Self::Bytes => format!("{}B", size.0),
            Self::Sectors => format!("{}S", size.0 / 512),
            Self::Power(power) => in_unit(size.0, power, false),
            Self::Rounded | Self::Human if size.0 == 0 => "0 ".to_owned(),
            Self::Rounded | Self::Human if size.0 < 1024 => format!("{}.00b", size.0),
            Self::Rounded | Self::Human => {
                // The number of whole powers of 1024 in the size.
                let power = size.0.ilog2() / 10;
                in_unit(size.0, power, self == Self::Rounded)
            }
        }
    }
}

fn in_unit(size: u64, power: u32, mark: bool) -> String {
    let letter = LETTERS
        .get(power.saturating_sub(1) as usize)
        .copied()
        .unwrap_or('e');
    if size == 0 {
        return format!("0{letter}");
    }
    let unit = 1u128 << (10 * power);
    let hundredths = (u128::from(size) * 100 + unit / 2) / unit;
    let rounded_up = mark && hundredths * unit > u128::from(size) * 100;
    let prefix = if rounded_up { "<" } else { "" };
    format!(
        "{prefix}{}.{:02}{letter}",
        hundredths / 100,
        hundredths % 100
    )
}

/// How many percent of `whole` a part is, with two digits.
pub(super) fn percent(part: Bytes, whole: Bytes) -> String {
    if whole.0 == 0 {
        return String::new();
    }
    let hundredths = u128::from(part.0) * 10_000 / u128::from(whole.0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_lvm2_prints_them() {
        for (units, size, text) in [
            ("r", 0, "0 "),
            ("r", 512, "512.00b"),
            ("r", 12 << 20, "12.00m"),
            ("r", (4 << 30) - (4 << 20), "<4.00g"),
            ("h", (4 << 30) - (4 << 20), "4.00g"),
            ("r", (1 << 30) + (4 << 20), "1.00g"),
            ("r", 1020 << 20, "1020.00m"),
            ("b", 4096, "4096B"),
            ("s", 4096, "8S"),
            ("k", 4096, "4.00k"),
            ("m", 1 << 30, "1024.00m"),
            ("g", 0, "0g"),
            ("t", 1 << 40, "1.00t"),
            ("r", u64::MAX, "<16.00e"),
        ] {
            let units: Units = units.parse().unwrap();
            assert_eq!(units.show(Bytes(size)), text);
        }
    }

    #[test]
    fn other_units_are_refused() {
        for text in ["", "x", "mm", "K"] {
            assert_eq!(text.parse::<Units>(), Err(UnknownUnits(text.to_owned())));
        }
    }
}
