//! A reader for lvm2's configuration grammar that keeps only what the tests
//! compare: sections, numbers and lists of words.

use std::iter::Peekable;
use std::str::CharIndices;

/// A section or a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// `key { … }`
    Section(Vec<(String, Node)>),
    /// `key = word`
    Word(String),
    /// `key = [ word, … ]`
    List(Vec<String>),
}

impl Node {
    fn items(&self) -> &[(String, Self)] {
        if let Self::Section(items) = self {
            items
        } else {
            &[]
        }
    }

    fn get(&self, key: &str) -> Option<&Self> {
        self.items()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, node)| node)
    }

    /// The sections in here, in order.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Self)> {
        let is_section = |(_, node): &&(String, Self)| matches!(node, Self::Section(_));
        self.items()
            .iter()
            .filter(is_section)
            .map(|(name, node)| (name.as_str(), node))
    }

    /// The section of this name.
    #[must_use]
    pub fn section(&self, key: &str) -> Option<&Self> {
        self.sections()
            .find(|(name, _)| *name == key)
            .map(|(_, node)| node)
    }

    /// The word after `key =`.
    #[must_use]
    pub fn str(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Self::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// The number after `key =`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn int(&self, key: &str) -> i64 {
        self.str(key)
            .and_then(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("{key}: no number in {self:?}"))
    }

    /// The words of the list after `key =`; empty if there is none.
    #[must_use]
    pub fn list(&self, key: &str) -> Vec<String> {
        match self.get(key) {
            Some(Self::List(words)) => words.clone(),
            _ => Vec::new(),
        }
    }
}

/// Reads a whole text.
///
/// # Errors
/// Where it ends too early or has a token that does not belong there.
pub fn parse(text: &str) -> Result<Node, String> {
    let tokens = tokens(text)?;
    let mut at = 0;
    let items = section(&tokens, &mut at, false)?;
    Ok(Node::Section(items))
}

fn section(tokens: &[String], at: &mut usize, nested: bool) -> Result<Vec<(String, Node)>, String> {
    let mut items = Vec::new();
    loop {
        let Some(key) = tokens.get(*at) else {
            return if nested {
                Err("section without end".to_owned())
            } else {
                Ok(items)
            };
        };
        *at += 1;
        if key == "}" {
            return if nested {
                Ok(items)
            } else {
                Err("} without section".to_owned())
            };
        }
        let sign = tokens.get(*at).map(String::as_str);
        *at += 1;
        let node = match (sign, tokens.get(*at).map(String::as_str)) {
            (Some("{"), _) => Node::Section(section(tokens, at, true)?),
            (Some("="), Some("[")) => {
                let length = tokens[*at..].iter().position(|token| token == "]");
                let end = *at + length.ok_or_else(|| format!("{key}: list without end"))?;
                let words = tokens[*at + 1..end].iter().filter(|token| *token != ",");
                let words = words.map(|word| unquote(word)).collect();
                *at = end + 1;
                Node::List(words)
            }
            (Some("="), Some(word)) => {
                *at += 1;
                Node::Word(unquote(word))
            }
            (sign, _) => return Err(format!("{key}: unexpected {sign:?}")),
        };
        items.push((unquote(key), node));
    }
}

fn unquote(token: &str) -> String {
    match token.strip_prefix('"') {
        Some(rest) => rest.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => token.to_owned(),
    }
}

/// Strings keep their first quotation mark, so that `"]"` is no bracket.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        match c {
            '#' => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            '{' | '}' | '[' | ']' | '=' | ',' => tokens.push(c.to_string()),
            '"' => tokens.push(string(text, start, &mut chars)?),
            c if c.is_whitespace() => {}
            _ => {
                let mut end = start + c.len_utf8();
                let word = |c: char| !c.is_whitespace() && !"{}[]=,#\"".contains(c);
                while let Some((at, c)) = chars.next_if(|(_, c)| word(*c)) {
                    end = at + c.len_utf8();
                }
                tokens.push(text[start..end].to_owned());
            }
        }
    }
    Ok(tokens)
}

fn string(
    text: &str,
    start: usize,
    chars: &mut Peekable<CharIndices<'_>>,
) -> Result<String, String> {
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok(text[start..at].to_owned()),
            '\\' => _ = chars.next_if(|(_, c)| *c == '"' || *c == '\\'),
            _ => {}
        }
    }
    Err("string without end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_words_lists() {
        let tree =
            parse("a {\nn = -3 # no\ns = \"x } \\\"y\\\"\"\nl = [\n\"p\", 0,\n\"]\"]\n}\nv = 1")
                .unwrap();
        let a = tree.section("a").unwrap();
        assert_eq!(a.int("n"), -3);
        assert_eq!(a.str("s"), Some("x } \"y\""));
        assert_eq!(a.list("l"), ["p", "0", "]"]);
        assert_eq!(tree.int("v"), 1);
        assert!(parse("a {").is_err());
        assert!(parse("}").is_err());
    }
}
