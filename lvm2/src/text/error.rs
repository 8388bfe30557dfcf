//! What can be wrong with a text or an edit of it.

use std::fmt;

/// What the parser was looking for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A key, or the end of the section or text.
    Key,
    /// `=` or `{` after a key.
    EqualsOrBrace,
    /// A value after `=`.
    Value,
    /// A value or `]`.
    ElementOrBracket,
    /// `}` before the end of the text.
    Brace,
    /// The closing quote of a string.
    Quote,
    /// Digits after a sign or a leading zero, fitting in 64 bits.
    Number,
    /// No more than [`MAX_DEPTH`](super::MAX_DEPTH) nested sections.
    LessNesting,
    /// UTF-8.
    Utf8,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "a key or the end of the section",
            Self::EqualsOrBrace => "'=' or '{' after the key",
            Self::Value => "a value",
            Self::ElementOrBracket => "an array element or ']'",
            Self::Brace => "'}' before the end of the text",
            Self::Quote => "a closing quote",
            Self::Number => "a 64-bit number",
            Self::LessNesting => "less deeply nested sections",
            Self::Utf8 => "UTF-8",
        })
    }
}

/// Why a text does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Not in the language.
    #[error("line {line}, column {column}: expected {expected}")]
    Syntax {
        /// Line of the offending place, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What would have been right there.
        expected: Expected,
    },
    /// Larger than [`MAX_TEXT`](super::MAX_TEXT).
    #[error("the text has {size} bytes, more than {max}")]
    TooLarge {
        /// Bytes of the text.
        size: usize,
        /// The limit.
        max: usize,
    },
}

/// Why a tree cannot be changed as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// A key that cannot be written without quotes.
    #[error("{key:?} cannot be a key")]
    Key {
        /// The refused key.
        key: String,
    },
    /// A string with a control character, which could break the layout that
    /// readers rely on.
    #[error("the value of {key:?} contains the control character {found:?}")]
    Control {
        /// The key whose value was refused.
        key: String,
        /// The character.
        found: char,
    },
    /// A number that is larger than readers take.
    #[error("{number} in the value of {key:?} does not fit in 63 bits")]
    Number {
        /// The key whose value was refused.
        key: String,
        /// The number.
        number: u64,
    },
    /// No item of this key where one is needed.
    #[error("there is no item {key:?}")]
    Missing {
        /// The key that was looked for.
        key: String,
    },
    /// An item of this key is there already.
    #[error("there is an item {key:?} already")]
    Exists {
        /// The key that is taken.
        key: String,
    },
    /// A section where a value is needed, or the reverse.
    #[error("{key:?} is a section where a value is needed, or a value where a section is")]
    WrongKind {
        /// The key in question.
        key: String,
    },
    /// Something other than blanks and comments between items.
    #[error("{text:?} before an item is neither blank nor a comment")]
    NotTrivia {
        /// The refused text.
        text: String,
    },
}
