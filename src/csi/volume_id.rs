//! Volume ids: the name of the LV, derived from the name that the caller gave.
//!
//! The id is the lower-cased name where that can be an LV's name, so that a
//! person finds `pvc-…` in `lvs`. Any other name becomes `v-` and a hash, the
//! same one each time.

use lvm2::name::{LvName, Tag, dm_name};
use sha2::{Digest, Sha256};

use crate::engine::tags;

/// Longest CSI name, in bytes.
const MAX_NAME: usize = 128;
/// Longest LV name taken over as it is, counted as device-mapper stores it
/// (hyphens doubled). It leaves as much again for the VG's name, so the id
/// does not depend on the VG that is chosen later.
const MAX_PLAIN: usize = 63;

/// Why a name cannot become a volume.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// No name.
    #[error("name is required")]
    Empty,
    /// More bytes than the specification allows.
    #[error("name {name:?} has {} bytes; at most {MAX_NAME} are allowed", name.len())]
    TooLong {
        /// The name.
        name: String,
    },
    /// A control character, which the specification bans.
    #[error("name {name:?} holds the control character {character:?}")]
    Control {
        /// The name.
        name: String,
        /// The character.
        character: char,
    },
}

/// The LV of a CSI name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeId {
    /// The LV's name, which is the volume's id.
    pub(crate) lv: LvName,
    /// The CSI name as a tag, where the LV's name stands for other spellings
    /// of it too.
    pub(crate) name_tag: Option<Tag>,
}

impl VolumeId {
    /// The id for the CSI name `name`.
    pub(crate) fn for_name(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        // Tabs and line ends are allowed by the specification.
        let banned = |c: &char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
        if let Some(character) = name.chars().find(banned) {
            let name = name.to_owned();
            return Err(NameError::Control { name, character });
        }
        if name.len() > MAX_NAME {
            return Err(NameError::TooLong {
                name: name.to_owned(),
            });
        }
        match plain(name) {
            Some(plain) => Ok(plain),
            None => Self::hashed(name),
        }
    }

    /// As [`Self::for_name`], for a volume that is an object of Kubernetes
    /// too: then the id is a name that both can have.
    pub(crate) fn for_object(name: &str) -> Result<Self, NameError> {
        let id = Self::for_name(name)?;
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let text = id.lv.as_str();
        let labels = text
            .split('.')
            .all(|l| l.starts_with(outer) && l.ends_with(outer));
        if labels && text.chars().all(inner) {
            return Ok(id);
        }
        Self::hashed(name)
    }

    fn hashed(name: &str) -> Result<Self, NameError> {
        let hash = Sha256::digest(name.as_bytes());
        let mut id = String::from("v-");
        for byte in hash.iter().take(16) {
            id.push_str(&format!("{byte:02x}"));
        }
        match LvName::new(id) {
            Ok(lv) => Ok(Self { lv, name_tag: None }),
            Err(_) => Err(NameError::Empty),
        }
    }

    /// Whether an LV with these tags was made for the same CSI name, and not
    /// for another spelling of it.
    pub(crate) fn is_of(&self, lv_tags: &[String]) -> bool {
        tags::value(lv_tags, tags::NAME)
            == self
                .name_tag
                .as_ref()
                .and_then(|tag| tag.as_str().strip_prefix(tags::NAME))
    }
}

/// The name itself, lower-cased, if an LV can have it.
fn plain(name: &str) -> Option<VolumeId> {
    let lower = name.to_ascii_lowercase();
    // An LV of a hashed name must never be taken for one with this very name.
    if lower.starts_with("v-") || dm_name("", &lower, None).len() > MAX_PLAIN + 1 {
        return None;
    }
    let lv = LvName::new(lower).ok()?;
    lv.check_new().ok()?;
    let name_tag = if lv.as_str() == name {
        None
    } else {
        Some(tags::with_value(tags::NAME, name)?)
    };
    Some(VolumeId { lv, name_tag })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> String {
        VolumeId::for_name(name).unwrap().lv.to_string()
    }

    #[test]
    fn ordinary_names_stay() {
        let name = "pvc-0f8fad5b-d9cb-469f-a165-70867728950e";
        assert_eq!(id(name), name);
        assert_eq!(VolumeId::for_name(name).unwrap().name_tag, None);
    }

    #[test]
    fn capitals_are_folded_and_remembered() {
        let folded = VolumeId::for_name("Data-A1").unwrap();
        assert_eq!(folded.lv.as_str(), "data-a1");
        assert!(folded.is_of(&["lvcsi".into(), "lvcsi.name=Data-A1".into()]));
        assert!(!folded.is_of(&["lvcsi.name=data-A1".into()]));
        assert!(!folded.is_of(&[]));
        assert!(
            VolumeId::for_name("data-a1")
                .unwrap()
                .is_of(&["lvcsi".into()])
        );
    }

    #[test]
    fn impossible_names_are_hashed_the_same_way_each_time() {
        for name in [
            "snapshot-1",
            "a b",
            "ü",
            "x_tmeta",
            "v-1",
            &"x".repeat(128),
            &"-".repeat(40),
        ] {
            let hashed = id(name);
            assert!(hashed.starts_with("v-") && hashed.len() == 34, "{hashed}");
            assert_eq!(hashed, id(name));
            assert!(LvName::new(hashed).unwrap().check_new().is_ok());
        }
        assert_ne!(id("a b"), id("A b"));
        assert_eq!(id("a b"), "v-c8687a08aa5d6ed2044328fa6a697ab8");
    }

    #[test]
    fn objects_have_names_that_kubernetes_allows() {
        let id = |name: &str| VolumeId::for_object(name).unwrap().lv.to_string();
        for plain in ["pvc-0f8fad5b-d9cb-469f-a165-70867728950e", "a.b-c", "Data"] {
            assert_eq!(id(plain), plain.to_ascii_lowercase());
        }
        for odd in ["a_b", "a+b", "a-", "a..b", ".a", "_a", "a b"] {
            assert!(id(odd).starts_with("v-"), "{odd}");
        }
    }

    #[test]
    fn names_outside_the_specification() {
        assert!(matches!(VolumeId::for_name(""), Err(NameError::Empty)));
        assert!(matches!(
            VolumeId::for_name(&"x".repeat(129)),
            Err(NameError::TooLong { .. })
        ));
        assert!(matches!(
            VolumeId::for_name("a\u{1}b"),
            Err(NameError::Control { .. })
        ));
        assert!(VolumeId::for_name("a\tb").is_ok());
    }
}
