//! What device-mapper has to be told about an LV.

mod plan;

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use crate::units::Sectors;

pub use plan::{Device, PvArea, PvRange, TableError, plan, pv_areas, pv_ranges};

/// A block device's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevNo {
    /// Driver number.
    pub major: u32,
    /// Device number within the driver.
    pub minor: u32,
}

impl fmt::Display for DevNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// A text that is not `major:minor`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DevNoError {
    /// There is no colon.
    #[error("device number {0:?} has no colon")]
    NoColon(String),
    /// A half is not a number of 32 bits.
    #[error("device number {text:?}: {source}")]
    NotANumber {
        /// The whole text.
        text: String,
        /// What is wrong with the number.
        source: ParseIntError,
    },
}

impl FromStr for DevNo {
    type Err = DevNoError;

    fn from_str(text: &str) -> Result<Self, DevNoError> {
        let (major, minor) = text
            .trim()
            .split_once(':')
            .ok_or_else(|| DevNoError::NoColon(text.to_owned()))?;
        let number = |part: &str| {
            part.parse().map_err(|source| DevNoError::NotANumber {
                text: text.to_owned(),
                source,
            })
        };
        Ok(Self {
            major: number(major)?,
            minor: number(minor)?,
        })
    }
}

/// One line of a device-mapper table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Where the target begins on the mapped device.
    pub start: Sectors,
    /// How long it is.
    pub len: Sectors,
    /// The target type's name, `linear` for example.
    pub kind: String,
    /// What the kernel calls the parameters.
    pub params: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.start.0, self.len.0, self.kind)?;
        // Targets such as `error` and `zero` take no parameters: no blank then.
        if !self.params.is_empty() {
            write!(f, " {}", self.params)?;
        }
        Ok(())
    }
}
