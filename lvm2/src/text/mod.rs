//! The language of LVM2 metadata as a tree that loses nothing.
//!
//! [`Section::parse`] keeps every byte: blanks, comments, order, keys that
//! nobody knows. Printing an unmodified tree gives the input back, and an edit
//! changes the text of the touched item only. Cloning a tree copies pointers,
//! and an untouched item prints by copying its source text.
//!
//! The grammar: assignments `key = value` and sections `key { … }`, where a
//! value is an integer, a float, a string in `"` (with `\"` and `\\`) or `'`,
//! a bare word, or an array of these in `[ ]` with optional commas. `#` starts
//! a comment. A NUL ends the text.
//!
//! Unlike LVM2 we require UTF-8: its own programs only write what was typed
//! on a command line, and a text that cannot be shown should not be edited.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod edit;
mod error;
mod indent;
mod parse;
mod tree;
mod trivia;
mod value;

pub use edit::New;
pub use error::{EditError, Expected, TextError};
pub use tree::{Item, Section};
pub use value::{Scalar, Value};

/// Largest text that is parsed, in bytes. LVM2's default area holds half a
/// megabyte; the bound keeps a hostile disk from filling our memory.
pub const MAX_TEXT: usize = 16 << 20;

/// Deepest nesting of sections that is parsed. LVM2 uses five levels.
pub const MAX_DEPTH: usize = 32;
