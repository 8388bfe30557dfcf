//! Paths at which volumes are published.

use std::path::{Component, Path, PathBuf};

use super::super::status::CsiError;

/// The path as the mount table spells it: absolute, no doubled or trailing
/// slashes. One that climbs is refused, for what it names depends on links.
pub(super) fn target(path: &str) -> Result<PathBuf, CsiError> {
    let given = Path::new(path);
    let climbs = given.components().any(|part| part == Component::ParentDir);
    if !given.is_absolute() || climbs || given.parent().is_none() {
        return Err(CsiError::Path {
            path: path.to_owned(),
        });
    }
    Ok(components(path))
}

/// The path without doubled and trailing slashes.
pub(super) fn components(path: &str) -> PathBuf {
    Path::new(path).components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelled_as_in_the_mount_table() {
        assert_eq!(target("/a//b/./c/").unwrap(), Path::new("/a/b/c"));
        for bad in ["", "a/b", "/", "//", "/a/../b"] {
            assert!(matches!(target(bad), Err(CsiError::Path { .. })), "{bad:?}");
        }
    }
}
