//! Changes of a tree. What is new is laid out as LVM2 does: `key = value`
//! without indentation, sections after a blank line.

use std::sync::Arc;

use super::error::EditError;
use super::tree::{Item, Kind, Section};
use super::trivia;
use super::value::{Scalar, Value, write_areas, write_str, write_strings};

/// A value or section that is to be written.
#[derive(Clone, Debug)]
pub enum New<'a> {
    /// A number.
    Int(i64),
    /// A quoted string.
    Str(&'a str),
    /// An array of quoted strings in one line.
    Strings(&'a [&'a str]),
    /// Pairs of a name and a number, one pair a line.
    Areas(&'a [(&'a str, u64)]),
    /// A section.
    Section(Section),
}

impl New<'_> {
    fn is_section(&self) -> bool {
        matches!(self, Self::Section(_))
    }

    /// The text of a value and the value as it would be parsed. A section has
    /// no text of its own: it is printed from the tree.
    fn render(self, key: &str) -> Result<(String, Kind), EditError> {
        let string = |text: &str| {
            check_string(key, text)?;
            Ok(Scalar::Str(text.into()))
        };
        let mut raw = String::new();
        let value = match self {
            Self::Int(number) => {
                raw = number.to_string();
                Value::Scalar(Scalar::Int(number))
            }
            Self::Str(text) => {
                write_str(&mut raw, text);
                Value::Scalar(string(text)?)
            }
            Self::Strings(texts) => {
                write_strings(&mut raw, texts);
                let elements: Result<_, EditError> = texts.iter().map(|t| string(t)).collect();
                Value::Array(elements?)
            }
            Self::Areas(areas) => {
                write_areas(&mut raw, areas);
                let mut elements = Vec::new();
                for (name, at) in areas {
                    elements.push(string(name)?);
                    let number = i64::try_from(*at).map_err(|_| EditError::Number {
                        key: key.to_owned(),
                        number: *at,
                    })?;
                    elements.push(Scalar::Int(number));
                }
                Value::Array(elements)
            }
            Self::Section(section) => {
                let section = Arc::new(section.embedded());
                let touched = true;
                return Ok((raw, Kind::Section { section, touched }));
            }
        };
        Ok((raw, Kind::Value(value)))
    }
}

fn check_string(key: &str, text: &str) -> Result<(), EditError> {
    match text.chars().find(|c| c.is_control()) {
        Some(found) => Err(EditError::Control {
            key: key.to_owned(),
            found,
        }),
        None => Ok(()),
    }
}

/// A new key must be one that needs no quotes and is no path.
fn check_key(key: &str) -> Result<(), EditError> {
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && !"#={}[],\"'/\\".contains(c);
    if !key.is_empty() && key.chars().all(plain) {
        Ok(())
    } else {
        Err(EditError::Key {
            key: key.to_owned(),
        })
    }
}

fn missing(key: &str) -> EditError {
    EditError::Missing {
        key: key.to_owned(),
    }
}

impl Item {
    fn compose(lead: &str, key: &str, mid: &str, body: &str, kind: Kind) -> Self {
        let mut source = String::with_capacity(
            [lead, key, mid, body]
                .iter()
                .fold(0usize, |sum, part| sum.saturating_add(part.len())),
        );
        let mut ends = [0usize; 4];
        for (end, part) in ends.iter_mut().zip([lead, key, mid, body]) {
            source.push_str(part);
            *end = source.len();
        }
        let [key, mid, body, end] = ends;
        Self {
            source: source.into(),
            start: 0,
            key,
            mid,
            body,
            end,
            kind,
        }
    }

    fn with_lead(&self, lead: &str) -> Self {
        let kind = self.kind.clone();
        Self::compose(lead, self.raw_key(), self.raw_mid(), self.raw_body(), kind)
    }
}

impl Section {
    /// A section without items, whose closing brace gets a line of its own.
    #[must_use]
    pub fn new() -> Self {
        Self {
            items: Vec::new(),
            tail: "\n".into(),
        }
    }

    /// Made fit to stand between braces: items and braces on separate lines.
    fn embedded(mut self) -> Self {
        let first_lead = self.items.first().map(|item| item.lead().to_owned());
        if let Some(lead) = first_lead.filter(|lead| !lead.contains('\n')) {
            self.replace_gap(0, &format!("\n{lead}"));
        }
        if !self.tail.contains('\n') {
            self.tail = format!("{}\n", self.tail).into();
        }
        self
    }

    /// What stands before item `index`, or closes the section.
    fn gap(&self, index: usize) -> &str {
        self.items.get(index).map_or(&self.tail, |item| item.lead())
    }

    /// Changes what stands before item `index`, or what closes the section.
    fn replace_gap(&mut self, index: usize, text: &str) {
        if self.gap(index) == text {
            return;
        }
        match self.items.get_mut(index) {
            Some(item) => *item = Arc::new(item.with_lead(text)),
            None => self.tail = text.into(),
        }
    }

    fn insert(&mut self, index: usize, key: &str, new: New<'_>) -> Result<(), EditError> {
        check_key(key)?;
        if self.position(key).is_some() {
            return Err(EditError::Exists {
                key: key.to_owned(),
            });
        }
        let first = index == 0;
        let (lead, behind) = trivia::open(self.gap(index), first, new.is_section());
        let mid = if new.is_section() { " " } else { " = " };
        let (body, kind) = new.render(key)?;
        let item = Item::compose(&lead, key, mid, &body, kind);
        self.replace_gap(index, &behind);
        self.items
            .insert(index.min(self.items.len()), Arc::new(item));
        Ok(())
    }

    /// Appends an item.
    ///
    /// # Errors
    /// When the key is there already or cannot be written, or a string has a
    /// control character. The section is then unchanged; so it is for every
    /// other method here.
    pub fn push(&mut self, key: &str, new: New<'_>) -> Result<(), EditError> {
        self.insert(self.items.len(), key, new)
    }

    /// Puts an item behind the item `anchor`.
    ///
    /// # Errors
    /// As [`push`](Self::push), or when there is no `anchor`.
    pub fn insert_after(&mut self, anchor: &str, key: &str, new: New<'_>) -> Result<(), EditError> {
        let index = self.position(anchor).ok_or_else(|| missing(anchor))?;
        self.insert(index.saturating_add(1), key, new)
    }

    /// Puts an item in front of the item `anchor`.
    ///
    /// # Errors
    /// As [`push`](Self::push), or when there is no `anchor`.
    pub fn insert_before(
        &mut self,
        anchor: &str,
        key: &str,
        new: New<'_>,
    ) -> Result<(), EditError> {
        let index = self.position(anchor).ok_or_else(|| missing(anchor))?;
        self.insert(index, key, new)
    }

    /// Gives a key a value: in place where there is one, else at the end.
    ///
    /// # Errors
    /// As [`push`](Self::push), or when a section would become a value or the
    /// reverse.
    pub fn set(&mut self, key: &str, new: New<'_>) -> Result<(), EditError> {
        let Some(index) = self.position(key) else {
            return self.push(key, new);
        };
        let Some(item) = self.items.get_mut(index) else {
            return Err(missing(key));
        };
        if new.is_section() == item.value().is_some() {
            return Err(EditError::WrongKind {
                key: key.to_owned(),
            });
        }
        let (body, kind) = new.render(key)?;
        let changed = Item::compose(item.lead(), item.raw_key(), item.raw_mid(), &body, kind);
        *item = Arc::new(changed);
        let next = index.saturating_add(1);
        if self.items.len() > next && self.gap(next).is_empty() {
            // A number would run into a key that begins with a digit.
            self.replace_gap(next, "\n");
        }
        Ok(())
    }

    /// Gives a key a number.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_int(&mut self, key: &str, value: i64) -> Result<(), EditError> {
        self.set(key, New::Int(value))
    }

    /// Gives a key a string.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_str(&mut self, key: &str, value: &str) -> Result<(), EditError> {
        self.set(key, New::Str(value))
    }

    /// Gives a key an array of strings.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_strings(&mut self, key: &str, values: &[&str]) -> Result<(), EditError> {
        self.set(key, New::Strings(values))
    }

    /// Gives a key a list of areas.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_areas(&mut self, key: &str, areas: &[(&str, u64)]) -> Result<(), EditError> {
        self.set(key, New::Areas(areas))
    }

    /// Appends a section.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_section(&mut self, key: &str, section: Section) -> Result<(), EditError> {
        self.push(key, New::Section(section))
    }

    /// Removes the first item of this key, if there is one, with the comment
    /// behind it.
    pub fn remove(&mut self, key: &str) -> Option<Arc<Item>> {
        let index = self.position(key)?;
        let next = index.saturating_add(1);
        let lead = self.gap(index);
        let closed = trivia::close(lead, self.gap(next), index == 0);
        self.replace_gap(next, &closed);
        Some(self.items.remove(index))
    }

    /// Removes the section of this key, if there is one.
    pub fn remove_section(&mut self, key: &str) -> Option<Arc<Section>> {
        self.section(key)?;
        self.remove(key)?.section().cloned()
    }

    /// Gives a section another key, at the same place.
    ///
    /// # Errors
    /// When there is no section `old`, or an item `new` already, or `new`
    /// cannot be written.
    pub fn rename_section(&mut self, old: &str, new: &str) -> Result<(), EditError> {
        check_key(new)?;
        if old != new && self.position(new).is_some() {
            return Err(EditError::Exists {
                key: new.to_owned(),
            });
        }
        let index = self.position(old).ok_or_else(|| missing(old))?;
        let item = self.items.get_mut(index).ok_or_else(|| missing(old))?;
        if item.section().is_none() {
            return Err(EditError::WrongKind {
                key: old.to_owned(),
            });
        }
        let kind = item.kind.clone();
        let renamed = Item::compose(item.lead(), new, item.raw_mid(), item.raw_body(), kind);
        *item = Arc::new(renamed);
        Ok(())
    }

    /// The section of a key, to be changed. It is copied if it is shared, but
    /// not what it contains, and printed from the tree from now on.
    pub fn section_mut(&mut self, key: &str) -> Option<&mut Section> {
        let index = self.position(key)?;
        match &mut Arc::make_mut(self.items.get_mut(index)?).kind {
            Kind::Section { section, touched } => {
                *touched = true;
                Some(Arc::make_mut(section))
            }
            Kind::Value(_) => None,
        }
    }

    /// Changes the blanks and comments before an item. They begin with the
    /// rest of the line of the item before it.
    ///
    /// # Errors
    /// When there is no such item, or the text is something else than blanks
    /// and comments or would swallow the key.
    pub fn set_lead(&mut self, key: &str, lead: &str) -> Result<(), EditError> {
        let index = self.position(key).ok_or_else(|| missing(key))?;
        self.set_gap(index, lead)
    }

    /// Changes the blanks and comments between an item and the next, whose key
    /// may be there a second time, or the end.
    ///
    /// # Errors
    /// As [`set_lead`](Self::set_lead).
    pub fn set_behind(&mut self, key: &str, gap: &str) -> Result<(), EditError> {
        let index = self.position(key).ok_or_else(|| missing(key))?;
        self.set_gap(index.saturating_add(1), gap)
    }

    fn set_gap(&mut self, index: usize, gap: &str) -> Result<(), EditError> {
        let swallows = trivia::ends_in_comment(gap);
        let glues = gap.is_empty() && (1..self.items.len()).contains(&index);
        if swallows || glues || !trivia::is_trivia(gap) {
            return Err(EditError::NotTrivia {
                text: gap.to_owned(),
            });
        }
        self.replace_gap(index, gap);
        Ok(())
    }

    /// Changes the blanks and comments behind the last item.
    ///
    /// # Errors
    /// When the text is something else than blanks and comments, or would
    /// swallow a closing brace.
    pub fn set_tail(&mut self, tail: &str) -> Result<(), EditError> {
        self.set_gap(self.items.len(), tail)
    }
}
