//! Typed reading of keys, with errors that name the object.

use crate::id::IdError;
use crate::text::{Scalar, Section, Value};

use super::error::{ModelError, Object};

/// The keys of one section. The object's name is only made for an error.
pub(super) struct Keys<'a, F> {
    section: &'a Section,
    object: F,
}

impl<'a, F: Fn() -> Object> Keys<'a, F> {
    pub(super) fn new(section: &'a Section, object: F) -> Self {
        Self { section, object }
    }

    /// The error of a value that is not what it should be.
    pub(super) fn wrong(&self, key: &str, expected: &'static str) -> ModelError {
        ModelError::Value {
            object: Box::new((self.object)()),
            key: key.to_owned(),
            expected,
        }
    }

    fn missing(&self, key: &str) -> ModelError {
        ModelError::Missing {
            object: Box::new((self.object)()),
            key: key.to_owned(),
        }
    }

    fn required(&self, key: &str) -> Result<&'a Value, ModelError> {
        self.section.get(key).ok_or_else(|| self.missing(key))
    }

    /// The value under `key` through `read`, if the key is there.
    fn optional<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        match self.section.get(key) {
            Some(value) => read(value)
                .map(Some)
                .ok_or_else(|| self.wrong(key, expected)),
            None => Ok(None),
        }
    }

    fn need<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<T, ModelError> {
        self.optional(key, expected, read)?
            .ok_or_else(|| self.missing(key))
    }

    pub(super) fn text(&self, key: &str) -> Result<&'a str, ModelError> {
        self.need(key, "a string", Value::as_str)
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<String>, ModelError> {
        self.optional(key, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn int(&self, key: &str) -> Result<i64, ModelError> {
        self.need(key, "a number", Value::as_int)
    }

    pub(super) fn optional_int(&self, key: &str) -> Result<Option<i64>, ModelError> {
        self.optional(key, "a number", Value::as_int)
    }

    pub(super) fn unsigned(&self, key: &str) -> Result<u64, ModelError> {
        self.need(key, "a number that is not negative", unsigned)
    }

    pub(super) fn optional_unsigned(&self, key: &str) -> Result<Option<u64>, ModelError> {
        self.optional(key, "a number that is not negative", unsigned)
    }

    pub(super) fn u32(&self, key: &str) -> Result<u32, ModelError> {
        self.need(key, "a number of 32 bits", |value| {
            u32::try_from(value.as_int()?).ok()
        })
    }

    pub(super) fn words(&self, key: &str) -> Result<Vec<String>, ModelError> {
        self.need(key, "an array of strings", words)
    }

    pub(super) fn words_or_none(&self, key: &str) -> Result<Vec<String>, ModelError> {
        Ok(self
            .optional(key, "an array of strings", words)?
            .unwrap_or_default())
    }

    pub(super) fn elements(&self, key: &str) -> Result<&'a [Scalar], ModelError> {
        Ok(self.required(key)?.elements())
    }

    pub(super) fn id<T: std::str::FromStr<Err = IdError>>(
        &self,
        key: &str,
    ) -> Result<T, ModelError> {
        self.text(key)?.parse().map_err(|source| ModelError::Id {
            object: Box::new((self.object)()),
            source,
        })
    }
}

fn unsigned(value: &Value) -> Option<u64> {
    u64::try_from(value.as_int()?).ok()
}

fn words(value: &Value) -> Option<Vec<String>> {
    Some(value.as_strings()?.into_iter().map(str::to_owned).collect())
}
