//! From bytes to the tree, in one pass.

use std::ops::Range;
use std::sync::Arc;

use super::error::{Expected, TextError};
use super::tree::{Item, Kind, Section};
use super::trivia;
use super::value::{Scalar, Value, unescape};
use super::{MAX_DEPTH, MAX_TEXT};

/// Parses a whole text.
pub(super) fn parse(bytes: &[u8]) -> Result<Section, TextError> {
    let bytes = bytes.split(|b| *b == 0).next().unwrap_or_default();
    if bytes.len() > MAX_TEXT {
        return Err(TextError::TooLarge {
            size: bytes.len(),
            max: MAX_TEXT,
        });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| syntax(bytes, error.valid_up_to(), Expected::Utf8))?;
    let mut parser = Parser {
        source: Arc::from(text),
        pos: 0,
    };
    let root = parser.section(0)?;
    match parser.peek() {
        None => Ok(root),
        Some(_) => Err(parser.error(Expected::Key)),
    }
}

fn syntax(bytes: &[u8], pos: usize, expected: Expected) -> TextError {
    let before = bytes.get(..pos).unwrap_or(bytes);
    let last_line = before.rsplit(|b| *b == b'\n').next().unwrap_or_default();
    TextError::Syntax {
        line: before.split(|b| *b == b'\n').count(),
        column: String::from_utf8_lossy(last_line)
            .chars()
            .count()
            .saturating_add(1),
        expected,
    }
}

/// Whether a byte ends a key.
fn ends_key(byte: u8) -> bool {
    trivia::is_space(byte) || matches!(byte, b'#' | b'=' | b'{' | b'}')
}

/// Whether a byte ends a bare word.
fn ends_bare(byte: u8) -> bool {
    ends_key(byte) || matches!(byte, b'[' | b']' | b',' | b'"' | b'\'')
}

struct Parser {
    source: Arc<str>,
    pos: usize,
}

impl Parser {
    fn error(&self, expected: Expected) -> TextError {
        syntax(self.source.as_bytes(), self.pos, expected)
    }

    fn peek(&self) -> Option<u8> {
        self.source.as_bytes().get(self.pos).copied()
    }

    fn bump(&mut self) {
        self.pos = self.pos.saturating_add(1);
    }

    fn skip_while(&mut self, keep: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&keep) {
            self.bump();
        }
    }

    fn slice(&self, range: Range<usize>) -> &str {
        self.source.get(range).unwrap_or_default()
    }

    fn skip_trivia(&mut self) {
        loop {
            self.skip_while(trivia::is_space);
            if self.peek() != Some(b'#') {
                return;
            }
            self.skip_while(|b| b != b'\n');
        }
    }

    /// Items up to `}` or the end of the text, which is not consumed.
    fn section(&mut self, depth: usize) -> Result<Section, TextError> {
        let mut items = Vec::new();
        loop {
            let start = self.pos;
            self.skip_trivia();
            if matches!(self.peek(), None | Some(b'}')) {
                let tail = self.slice(start..self.pos).into();
                items.shrink_to_fit();
                return Ok(Section { items, tail });
            }
            items.push(Arc::new(self.item(start, depth)?));
        }
    }

    fn item(&mut self, start: usize, depth: usize) -> Result<Item, TextError> {
        let key = self.pos;
        self.key()?;
        let mid = self.pos;
        self.skip_trivia();
        let (body, kind) = match self.peek() {
            Some(b'=') => {
                self.bump();
                self.skip_trivia();
                (self.pos, Kind::Value(self.value()?))
            }
            Some(b'{') => {
                let body = self.pos;
                let depth = depth.saturating_add(1);
                if depth > MAX_DEPTH {
                    return Err(self.error(Expected::LessNesting));
                }
                self.bump();
                let section = self.section(depth)?;
                if self.peek() != Some(b'}') {
                    return Err(self.error(Expected::Brace));
                }
                self.bump();
                (body, Kind::untouched(section))
            }
            _ => return Err(self.error(Expected::EqualsOrBrace)),
        };
        Ok(Item {
            source: Arc::clone(&self.source),
            start,
            key,
            mid,
            body,
            end: self.pos,
            kind,
        })
    }

    fn key(&mut self) -> Result<(), TextError> {
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote).map(|_| ()),
            Some(b'[' | b']' | b',' | b'=' | b'{') | None => Err(self.error(Expected::Key)),
            Some(_) => {
                self.skip_while(|b| !ends_key(b));
                Ok(())
            }
        }
    }

    /// Consumes a quoted string; gives the range between the quotes.
    fn quoted(&mut self, quote: u8) -> Result<Range<usize>, TextError> {
        let opening = self.pos;
        self.bump();
        let start = self.pos;
        loop {
            match self.peek() {
                None => {
                    self.pos = opening;
                    return Err(self.error(Expected::Quote));
                }
                Some(byte) if byte == quote => break,
                // The next byte is part of the string whatever it is.
                Some(b'\\') if quote == b'"' => {
                    self.bump();
                    self.bump();
                }
                Some(_) => self.bump(),
            }
        }
        let range = start..self.pos;
        self.bump();
        Ok(range)
    }

    fn value(&mut self) -> Result<Value, TextError> {
        if self.peek() != Some(b'[') {
            return self.scalar(Expected::Value).map(Value::Scalar);
        }
        self.bump();
        let mut elements = Vec::new();
        loop {
            self.skip_trivia();
            if self.peek() == Some(b']') {
                self.bump();
                return Ok(Value::Array(elements));
            }
            elements.push(self.scalar(Expected::ElementOrBracket)?);
            self.skip_trivia();
            if self.peek() == Some(b',') {
                self.bump();
            }
        }
    }

    fn scalar(&mut self, expected: Expected) -> Result<Scalar, TextError> {
        match self.peek() {
            Some(b'"') => {
                let range = self.quoted(b'"')?;
                Ok(Scalar::Str(unescape(self.slice(range))))
            }
            Some(b'\'') => {
                let range = self.quoted(b'\'')?;
                Ok(Scalar::Str(self.slice(range).into()))
            }
            Some(b'0'..=b'9' | b'+' | b'-' | b'.') => self.number(),
            Some(byte) if !ends_bare(byte) => {
                let start = self.pos;
                self.skip_while(|b| !ends_bare(b));
                Ok(Scalar::Bare(self.slice(start..self.pos).into()))
            }
            _ => Err(self.error(expected)),
        }
    }

    fn number(&mut self) -> Result<Scalar, TextError> {
        let start = self.pos;
        if matches!(self.peek(), Some(b'+' | b'-')) {
            self.bump();
        }
        let digits = self.pos;
        self.skip_while(|b| b.is_ascii_digit());
        let point = self.pos;
        if self.peek() == Some(b'.') {
            self.bump();
            self.skip_while(|b| b.is_ascii_digit());
        }
        let number = if self.pos > point {
            let has_digit = self.slice(digits..self.pos).len() > 1;
            has_digit.then(|| Scalar::Float(self.slice(start..self.pos).into()))
        } else {
            integer(self.slice(start..digits), self.slice(digits..self.pos)).map(Scalar::Int)
        };
        number.ok_or_else(|| {
            self.pos = start;
            self.error(Expected::Number)
        })
    }
}

/// Reads an integer as C does without a given base: a leading zero means octal.
fn integer(sign: &str, digits: &str) -> Option<i64> {
    let radix = if digits.len() > 1 && digits.starts_with('0') {
        8
    } else {
        10
    };
    let magnitude = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let signed = if sign == "-" {
        magnitude.checked_neg()?
    } else {
        magnitude
    };
    i64::try_from(signed).ok()
}
