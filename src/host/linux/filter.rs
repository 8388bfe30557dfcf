//! lvm.conf's `filter` and `global_filter`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use regex::bytes::Regex;

/// A list of patterns, each accepting or rejecting the paths that it matches.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    patterns: Vec<(bool, Regex)>,
}

/// A pattern that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    /// It begins with neither `a` nor `r`.
    #[error("filter pattern {0:?} must begin with a or r")]
    NoAction(String),
    /// It does not end with the character that follows the `a` or `r`.
    #[error("filter pattern {0:?} has no closing delimiter")]
    NoDelimiter(String),
    /// What is between the delimiters is no regular expression.
    #[error("filter pattern {pattern:?}: {source}")]
    Regex {
        /// The whole pattern.
        pattern: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
}

impl Filter {
    /// Understands patterns such as `a|^/dev/sd|` and `r/.*/`; any character
    /// may delimit, and brackets close with their counterpart.
    ///
    /// # Errors
    /// [`FilterError`] names the first pattern that is wrong.
    pub(super) fn new<'a>(
        patterns: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, FilterError> {
        let patterns = patterns
            .into_iter()
            .map(pattern)
            .collect::<Result<_, _>>()?;
        Ok(Self { patterns })
    }

    /// Whether everything passes.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a device passes that is known by `paths`. For each path the
    /// first pattern that matches decides; one accepted path is enough, and a
    /// device that no pattern matches passes.
    pub(super) fn accepts<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) -> bool {
        let mut rejected = false;
        for path in paths {
            let bytes = path.as_os_str().as_bytes();
            match self
                .patterns
                .iter()
                .find(|(_, regex)| regex.is_match(bytes))
            {
                Some((true, _)) => return true,
                Some((false, _)) => rejected = true,
                None => {}
            }
        }
        !rejected
    }
}

fn pattern(text: &str) -> Result<(bool, Regex), FilterError> {
    let mut chars = text.chars();
    let accept = match chars.next() {
        Some('a') => true,
        Some('r') => false,
        _ => return Err(FilterError::NoAction(text.to_owned())),
    };
    let no_delimiter = || FilterError::NoDelimiter(text.to_owned());
    let close = match chars.next().ok_or_else(no_delimiter)? {
        '(' => ')',
        '[' => ']',
        '{' => '}',
        other => other,
    };
    let inner = chars
        .as_str()
        .strip_suffix(close)
        .ok_or_else(no_delimiter)?;
    let regex = Regex::new(inner).map_err(|source| FilterError::Regex {
        pattern: text.to_owned(),
        source: Box::new(source),
    })?;
    Ok((accept, regex))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(patterns: &[&str], paths: &[&str]) -> bool {
        Filter::new(patterns.iter().copied())
            .unwrap()
            .accepts(paths.iter().map(Path::new))
    }

    #[test]
    fn first_match_decides() {
        let list = ["a|^/dev/sd[ab]$|", "r|.*|"];
        assert!(accepts(&list, &["/dev/sda"]));
        assert!(!accepts(&list, &["/dev/sdc"]));
        assert!(!accepts(&["r/sda/", "a/sda/"], &["/dev/sda"]));
        assert!(
            accepts(&["r|/dev/cdrom|"], &["/dev/sda"]),
            "unmatched passes"
        );
        assert!(accepts(&[], &["/dev/sda"]));
    }

    #[test]
    fn one_accepted_alias_is_enough() {
        let list = ["a|^/dev/disk/by-id/good|", "r|.*|"];
        assert!(accepts(&list, &["/dev/sda", "/dev/disk/by-id/good-1"]));
        assert!(!accepts(&list, &["/dev/sda", "/dev/disk/by-id/bad-1"]));
    }

    #[test]
    fn any_delimiter() {
        for good in ["a|x|", "r/x/", "a(x)", "a[x]", "r{x}", "a\"x\"", "a'x'"] {
            assert!(Filter::new([good]).is_ok(), "{good}");
        }
        assert!(matches!(
            Filter::new(["|x|"]),
            Err(FilterError::NoAction(_))
        ));
        assert!(matches!(Filter::new([""]), Err(FilterError::NoAction(_))));
        assert!(matches!(
            Filter::new(["a"]),
            Err(FilterError::NoDelimiter(_))
        ));
        assert!(matches!(
            Filter::new(["a|x"]),
            Err(FilterError::NoDelimiter(_))
        ));
        assert!(matches!(
            Filter::new(["a|"]),
            Err(FilterError::NoDelimiter(_))
        ));
        assert!(matches!(
            Filter::new(["a|(|"]),
            Err(FilterError::Regex { .. })
        ));
    }
}
