//! Whether a volume may be formatted. The rule that protects data: what was
//! ever formatted, or cannot be proven blank, is never formatted again.

use std::str::FromStr;

use crate::engine::tags;
use crate::host::FsKind;

/// What was found on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Proven blank.
    Blank,
    /// A signature of this type.
    Signature(String),
    /// Signatures that contradict each other.
    Ambivalent,
    /// Data that nobody knows.
    Unknown,
}

/// What to do before mounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Make this file system on a blank volume.
    Make(FsKind),
    /// Erase the rest of an mkfs that was cut short, then make this one: mkfs
    /// itself refuses to overwrite what looks like a file system.
    Remake(FsKind),
    /// Mount what is there as this.
    Mount(FsKind),
}

/// Why a volume is not mounted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FormatError {
    /// Another type is there.
    #[error(
        "it holds {found}, but {wanted} was asked for; it is left as it is. Publish it as {found}, or \
         copy the data to a new volume"
    )]
    OtherType {
        /// What is there.
        found: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// It held a file system and now seems empty.
    #[error(
        "it was formatted as {made} before, but no file system is found on it now. It is NOT \
         formatted again. Check the device for damage; to give the data up, delete the volume"
    )]
    Lost {
        /// The type of the past.
        made: String,
    },
    /// Not blank.
    #[error(
        "it holds data without a known signature and is not formatted over it. To give the data \
         up, delete the volume or zero its first and last 512 KiB"
    )]
    Unknown,
    /// Contradicting signatures.
    #[error(
        "it carries signatures of several kinds and is neither mounted nor formatted; look at it \
         with wipefs"
    )]
    Ambivalent,
    /// Blank, and to be mounted read-only.
    #[error(
        "it is blank and to be mounted read-only; publish it for writing once, so that it is formatted"
    )]
    BlankReadOnly,
}

/// Decides by the LV's tags and content. `wanted` is the type that the caller
/// asks for, if any.
pub(super) fn decide(
    wanted: Option<FsKind>,
    lv_tags: &[String],
    content: &Content,
    read_only: bool,
) -> Result<Action, FormatError> {
    let made = tags::value(lv_tags, tags::FILESYSTEM);
    if let (None, Some(begun)) = (made, tags::value(lv_tags, tags::FORMATTING)) {
        return redo(wanted, begun, content, read_only);
    }
    match (content, made) {
        (Content::Signature(found), _) => mount(wanted, found),
        (Content::Ambivalent, _) => Err(FormatError::Ambivalent),
        (Content::Blank | Content::Unknown, Some(made)) => Err(FormatError::Lost {
            made: made.to_owned(),
        }),
        (Content::Unknown, None) => Err(FormatError::Unknown),
        (Content::Blank, None) => make(wanted, read_only),
    }
}

/// An mkfs was cut short: nothing was ever mounted, so what is there is at
/// most the rest of that mkfs. A foreign signature is somebody's work, though.
fn redo(
    wanted: Option<FsKind>,
    begun: &str,
    content: &Content,
    read_only: bool,
) -> Result<Action, FormatError> {
    match content {
        Content::Signature(found) if found != begun => Err(FormatError::OtherType {
            found: found.clone(),
            wanted: wanted.map_or("no particular type", FsKind::as_str),
        }),
        _ if read_only => Err(FormatError::BlankReadOnly),
        _ => {
            let begun = FsKind::from_str(begun).unwrap_or(FsKind::Ext4);
            Ok(Action::Remake(wanted.unwrap_or(begun)))
        }
    }
}

fn make(wanted: Option<FsKind>, read_only: bool) -> Result<Action, FormatError> {
    if read_only {
        return Err(FormatError::BlankReadOnly);
    }
    Ok(Action::Make(wanted.unwrap_or(FsKind::Ext4)))
}

fn mount(wanted: Option<FsKind>, found: &str) -> Result<Action, FormatError> {
    let other = || FormatError::OtherType {
        found: found.to_owned(),
        wanted: wanted.map_or("a file system", FsKind::as_str),
    };
    let kind = FsKind::from_str(found).map_err(|_| other())?;
    match wanted {
        // The ext4 driver serves its predecessors; options may have made an
        // ext4 that looks like one of them.
        Some(FsKind::Ext4) if matches!(kind, FsKind::Ext2 | FsKind::Ext3) => {
            Ok(Action::Mount(FsKind::Ext4))
        }
        Some(wanted) if wanted != kind => Err(other()),
        _ => Ok(Action::Mount(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    fn signature(kind: &str) -> Content {
        Content::Signature(kind.to_owned())
    }

    #[test]
    fn a_blank_volume_is_formatted_once() {
        let fresh = tags(&["lvcsi"]);
        assert_eq!(
            decide(None, &fresh, &Content::Blank, false),
            Ok(Action::Make(FsKind::Ext4))
        );
        assert_eq!(
            decide(Some(FsKind::Xfs), &fresh, &Content::Blank, false),
            Ok(Action::Make(FsKind::Xfs))
        );
        assert_eq!(
            decide(None, &fresh, &Content::Blank, true),
            Err(FormatError::BlankReadOnly)
        );
        let done = tags(&["lvcsi", "lvcsi.fs=xfs"]);
        assert_eq!(
            decide(None, &done, &signature("xfs"), false),
            Ok(Action::Mount(FsKind::Xfs))
        );
    }

    #[test]
    fn what_was_formatted_or_holds_anything_is_never_formatted() {
        let done = tags(&["lvcsi", "lvcsi.fs=ext4"]);
        let fresh = tags(&["lvcsi"]);
        let both = tags(&["lvcsi", "lvcsi.mkfs=ext4", "lvcsi.fs=ext4"]);
        let contents = [
            Content::Blank,
            Content::Unknown,
            Content::Ambivalent,
            signature("xfs"),
            signature("crypto_LUKS"),
            signature("ext4"),
        ];
        for content in &contents {
            for read_only in [false, true] {
                for tags in [&done, &both] {
                    let action = decide(Some(FsKind::Ext4), tags, content, read_only);
                    assert!(
                        !matches!(action, Ok(Action::Make(_) | Action::Remake(_))),
                        "{content:?}"
                    );
                }
                if *content != Content::Blank {
                    let action = decide(Some(FsKind::Ext4), &fresh, content, read_only);
                    assert!(
                        !matches!(action, Ok(Action::Make(_) | Action::Remake(_))),
                        "{content:?}"
                    );
                }
            }
        }
        assert!(matches!(
            decide(Some(FsKind::Ext4), &done, &Content::Blank, false),
            Err(FormatError::Lost { .. })
        ));
    }

    #[test]
    fn an_interrupted_mkfs_is_redone_unless_somebody_else_was_there() {
        let begun = tags(&["lvcsi", "lvcsi.mkfs=xfs"]);
        for content in [
            Content::Blank,
            Content::Unknown,
            Content::Ambivalent,
            signature("xfs"),
        ] {
            assert_eq!(
                decide(None, &begun, &content, false),
                Ok(Action::Remake(FsKind::Xfs))
            );
        }
        assert!(matches!(
            decide(None, &begun, &signature("crypto_LUKS"), false),
            Err(FormatError::OtherType { .. })
        ));
    }

    #[test]
    fn types_must_agree_except_for_ext4s_predecessors() {
        let fresh = tags(&["lvcsi"]);
        let found = |wanted, kind| decide(wanted, &fresh, &signature(kind), false);
        assert_eq!(
            found(Some(FsKind::Ext4), "ext2"),
            Ok(Action::Mount(FsKind::Ext4))
        );
        assert!(found(Some(FsKind::Ext2), "ext4").is_err());
        assert!(found(Some(FsKind::Xfs), "ext4").is_err());
        assert!(found(None, "LVM2_member").is_err() && found(None, "zfs_member").is_err());
    }
}
