//! Why a text does not describe a VG.

use std::fmt;

use crate::id::IdError;
use crate::name::NameError;
use crate::text::TextError;
use crate::units::UnitError;

/// The part of a VG that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// The lines around the VG.
    File,
    /// The VG itself.
    Vg {
        /// VG name.
        vg: String,
    },
    /// A PV.
    Pv {
        /// VG name.
        vg: String,
        /// The PV's key in the text.
        key: String,
    },
    /// An LV.
    Lv {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
    },
    /// A segment of an LV.
    Segment {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// The segment's key in the text.
        segment: String,
    },
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => write!(f, "metadata text"),
            Self::Vg { vg } => write!(f, "VG {vg}"),
            Self::Pv { vg, key } => write!(f, "VG {vg}, PV {key}"),
            Self::Lv { vg, lv } => write!(f, "LV {vg}/{lv}"),
            Self::Segment { vg, lv, segment } => write!(f, "LV {vg}/{lv}, {segment}"),
        }
    }
}

/// Why a text does not describe a VG.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The text breaks the grammar.
    #[error(transparent)]
    Text(#[from] TextError),
    /// There is no VG in the text.
    #[error("the metadata text describes no VG")]
    NoVg,
    /// There are two.
    #[error("the metadata text describes VG {first} and also VG {second}")]
    SeveralVgs {
        /// The first section's name.
        first: String,
        /// The second section's name.
        second: String,
    },
    /// The text is not of lvm2's format 1.
    #[error("the metadata text has {key} = {found}, not {expected}")]
    Format {
        /// `contents` or `version`.
        key: &'static str,
        /// What is there.
        found: String,
        /// What must be there.
        expected: &'static str,
    },
    /// A key is missing.
    #[error("{object}: {key} is missing")]
    Missing {
        /// Where.
        object: Box<Object>,
        /// The key.
        key: String,
    },
    /// A key has a value of a wrong type or outside its range.
    #[error("{object}: {key} is not {expected}")]
    Value {
        /// Where.
        object: Box<Object>,
        /// The key.
        key: String,
        /// What the value must be.
        expected: &'static str,
    },
    /// An identifier is none.
    #[error("{object}: {source}")]
    Id {
        /// Where.
        object: Box<Object>,
        /// What is wrong.
        source: IdError,
    },
    /// A name is none.
    #[error("{object}: {source}")]
    Name {
        /// Where.
        object: Box<Object>,
        /// What is wrong.
        source: NameError,
    },
    /// The extent size is none.
    #[error("{object}: {source}")]
    ExtentSize {
        /// Where.
        object: Box<Object>,
        /// What is wrong.
        source: UnitError,
    },
}
