//! Values, read and written.

use std::fmt::Write as _;

/// One value that is not an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A 64-bit number.
    Int(i64),
    /// A number with a point, as written.
    Float(Box<str>),
    /// A quoted string, without quotes and escapes.
    Str(Box<str>),
    /// A word without quotes.
    Bare(Box<str>),
}

impl Scalar {
    /// The number, if it is an integer.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The text, if it is a string or a bare word.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(s) | Self::Bare(s) => Some(s),
            _ => None,
        }
    }
}

/// What stands after `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A single value.
    Scalar(Scalar),
    /// Values in brackets.
    Array(Vec<Scalar>),
}

impl Value {
    /// The number, if this is a single integer.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Scalar(scalar) => scalar.as_int(),
            Self::Array(_) => None,
        }
    }

    /// The text, if this is a single string or bare word.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Scalar(scalar) => scalar.as_str(),
            Self::Array(_) => None,
        }
    }

    /// The elements; a single value is an array of one.
    #[must_use]
    pub fn elements(&self) -> &[Scalar] {
        match self {
            Self::Scalar(scalar) => std::slice::from_ref(scalar),
            Self::Array(elements) => elements,
        }
    }

    /// The elements if all are strings.
    #[must_use]
    pub fn as_strings(&self) -> Option<Vec<&str>> {
        self.elements().iter().map(Scalar::as_str).collect()
    }

    /// The elements if they are pairs of a name and a number that is not
    /// negative, such as `stripes` and `mirrors`.
    #[must_use]
    pub fn as_areas(&self) -> Option<Vec<(&str, u64)>> {
        let (pairs, rest) = self.elements().as_chunks::<2>();
        if !rest.is_empty() {
            return None;
        }
        pairs
            .iter()
            .map(|[name, at]| Some((name.as_str()?, u64::try_from(at.as_int()?).ok()?)))
            .collect()
    }
}

/// Removes the escapes `\"` and `\\`; any other backslash stands for itself.
pub(super) fn unescape(raw: &str) -> Box<str> {
    if !raw.contains('\\') {
        return raw.into();
    }
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' {
            out.push(chars.next_if(|n| matches!(n, '"' | '\\')).unwrap_or('\\'));
        } else {
            out.push(c);
        }
    }
    out.into()
}

/// Appends a quoted string.
pub(super) fn write_str(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// Appends strings as LVM2 does: `["a", "b"]`.
pub(super) fn write_strings(out: &mut String, strings: &[&str]) {
    out.push('[');
    for (index, text) in strings.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_str(out, text);
    }
    out.push(']');
}

/// Appends areas as LVM2 does, one a line.
pub(super) fn write_areas(out: &mut String, areas: &[(&str, u64)]) {
    out.push('[');
    for (index, (name, at)) in areas.iter().enumerate() {
        out.push_str(if index > 0 { ",\n" } else { "\n" });
        write_str(out, name);
        // Writing to a string cannot fail.
        let _ = write!(out, ", {at}");
    }
    out.push_str("\n]");
}
