//! The tree and what can be read from it.

use std::sync::Arc;

use super::error::TextError;
use super::parse;
use super::value::Value;

/// The items of a section, or of a whole text.
///
/// Lookups by key are linear and give the first item of that key, which is the
/// one that counts for LVM2.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub(super) items: Vec<Arc<Item>>,
    /// Blanks and comments behind the last item.
    pub(super) tail: Box<str>,
}

/// An assignment or a section, with the blanks and comments before it.
#[derive(Clone, Debug)]
pub struct Item {
    /// The text that holds this item, shared with its neighbours. The offsets
    /// cut it into lead, key, what stands before the body, and the body.
    pub(super) source: Arc<str>,
    pub(super) start: usize,
    pub(super) key: usize,
    pub(super) mid: usize,
    pub(super) body: usize,
    pub(super) end: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Value(Value),
    Section {
        section: Arc<Section>,
        /// Whether `section` may differ from the source text.
        touched: bool,
    },
}

impl Kind {
    pub(super) fn untouched(section: Section) -> Self {
        Self::Section {
            section: Arc::new(section),
            touched: false,
        }
    }
}

impl Item {
    fn slice(&self, start: usize, end: usize) -> &str {
        self.source.get(start..end).unwrap_or_default()
    }

    /// The key; of a quoted key what stands between the quotes.
    #[must_use]
    pub fn key(&self) -> &str {
        let raw = self.raw_key();
        for quote in ['"', '\''] {
            let inner = raw
                .strip_prefix(quote)
                .and_then(|rest| rest.strip_suffix(quote));
            if let Some(inner) = inner {
                return inner;
            }
        }
        raw
    }

    /// Blanks and comments between the item before and the key.
    #[must_use]
    pub fn lead(&self) -> &str {
        self.slice(self.start, self.key)
    }

    pub(super) fn raw_key(&self) -> &str {
        self.slice(self.key, self.mid)
    }

    /// What stands between key and body: ` = ` or a blank.
    pub(super) fn raw_mid(&self) -> &str {
        self.slice(self.mid, self.body)
    }

    /// The source of the body; stale when the section was touched.
    pub(super) fn raw_body(&self) -> &str {
        self.slice(self.body, self.end)
    }

    /// The value, unless this is a section.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match &self.kind {
            Kind::Value(value) => Some(value),
            Kind::Section { .. } => None,
        }
    }

    /// The section, unless this is an assignment.
    #[must_use]
    pub fn section(&self) -> Option<&Arc<Section>> {
        match &self.kind {
            Kind::Section { section, .. } => Some(section),
            Kind::Value(_) => None,
        }
    }

    /// Appends the text of this item, blanks and comments before it included.
    pub fn print_into(&self, out: &mut String) {
        match &self.kind {
            Kind::Section {
                section,
                touched: true,
            } => {
                out.push_str(self.slice(self.start, self.body));
                out.push('{');
                section.print_into(out);
                out.push('}');
            }
            _ => out.push_str(self.slice(self.start, self.end)),
        }
    }
}

impl Section {
    /// Parses a whole text, up to a NUL if there is one.
    ///
    /// # Errors
    /// When it is not in the language, not UTF-8, larger than
    /// [`MAX_TEXT`](super::MAX_TEXT) or nested deeper than
    /// [`MAX_DEPTH`](super::MAX_DEPTH).
    pub fn parse(bytes: &[u8]) -> Result<Self, TextError> {
        parse::parse(bytes)
    }

    /// The text: byte for byte the parsed one where nothing was changed. It
    /// has no NUL at the end.
    #[must_use]
    pub fn print(&self) -> String {
        let mut out = String::new();
        self.print_into(&mut out);
        out
    }

    /// Appends the text of all items and what follows them.
    pub fn print_into(&self, out: &mut String) {
        for item in &self.items {
            item.print_into(out);
        }
        out.push_str(&self.tail);
    }

    /// The items in order.
    #[must_use]
    pub fn items(&self) -> &[Arc<Item>] {
        &self.items
    }

    /// Blanks and comments behind the last item.
    #[must_use]
    pub fn tail(&self) -> &str {
        &self.tail
    }

    /// The keys of values and sections in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|item| item.key())
    }

    /// The sections in order, with their keys.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Arc<Section>)> {
        self.items
            .iter()
            .filter_map(|item| Some((item.key(), item.section()?)))
    }

    pub(super) fn position(&self, key: &str) -> Option<usize> {
        self.items.iter().position(|item| item.key() == key)
    }

    /// The first item of this key.
    #[must_use]
    pub fn item(&self, key: &str) -> Option<&Arc<Item>> {
        self.items.iter().find(|item| item.key() == key)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.item(key)?.value()
    }

    /// The section of a key.
    #[must_use]
    pub fn section(&self, key: &str) -> Option<&Arc<Section>> {
        self.item(key)?.section()
    }

    /// The value of a key, if it is a single integer.
    #[must_use]
    pub fn int(&self, key: &str) -> Option<i64> {
        self.get(key)?.as_int()
    }

    /// The value of a key, if it is a single string or bare word.
    #[must_use]
    pub fn str(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// The value of a key, if it is an array of strings or a single one.
    #[must_use]
    pub fn strings(&self, key: &str) -> Option<Vec<&str>> {
        self.get(key)?.as_strings()
    }

    /// The value of a key, if it is a list of areas: pairs of a name and a
    /// number.
    #[must_use]
    pub fn areas(&self, key: &str) -> Option<Vec<(&str, u64)>> {
        self.get(key)?.as_areas()
    }
}

/// Two sections are equal when they print the same text.
impl PartialEq for Section {
    fn eq(&self, other: &Self) -> bool {
        self.print() == other.print()
    }
}

impl Eq for Section {}
