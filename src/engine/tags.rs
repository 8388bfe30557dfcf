//! Tags that the driver puts on its LVs, so that disks alone tell what is on
//! them. Characters are limited to lvm2's set for tags.

use lvm2::name::Tag;

/// On every LV that the driver made.
pub const OWNED: &str = "lvcsi";
/// Committed but not wiped yet: not usable, removed at the next start.
pub const INCOMPLETE: &str = "lvcsi.incomplete";
/// Prefix of the file system type, once mkfs has ended.
pub const FILESYSTEM: &str = "lvcsi.fs=";
/// Prefix of the file system type while mkfs runs.
pub const FORMATTING: &str = "lvcsi.mkfs=";
/// Prefix of the access type asked for at creation: `mount` or `block`.
pub const ACCESS: &str = "lvcsi.access=";
/// On a volume of which nobody said at creation what for: until it is published
/// it counts as one whose every byte can be read.
pub const USE_UNKNOWN: &str = "lvcsi.use-unknown";
/// On a volume that may be mounted at several places of its node.
pub const SHARED: &str = "lvcsi.shared";
/// Prefix of the CSI name, where the LV's name is not exactly that.
pub const NAME: &str = "lvcsi.name=";

/// A tag made of one of this module's prefixes and a word such as `ext4`.
/// `None` if the word holds a character that tags cannot have.
#[must_use]
pub fn with_value(prefix: &str, word: &str) -> Option<Tag> {
    Tag::new(format!("{prefix}{word}")).ok()
}

/// The value of the first tag with `prefix`.
#[must_use]
pub fn value<'a>(tags: &'a [String], prefix: &str) -> Option<&'a str> {
    tags.iter().find_map(|tag| tag.strip_prefix(prefix))
}
