//! Identifiers of PVs, VGs and LVs: 32 characters, not RFC 4122.
//!
//! On the disk they are 32 bytes without dashes; in text they are grouped
//! 6-4-4-4-4-4-6.

use std::fmt;

const LEN: usize = 32;
/// Characters of a new identifier, in LVM2's order.
const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// A dash is written before each of these positions.
const DASH_BEFORE: [usize; 6] = [6, 10, 14, 18, 22, 26];

/// Why some text is no identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not 32 characters, dashes not counted.
    #[error("identifier {text:?} has {len} characters instead of 32")]
    Length {
        /// The text as given.
        text: String,
        /// Its characters without dashes.
        len: usize,
    },
    /// A character that identifiers do not have.
    #[error("identifier {text:?} contains {found:?}")]
    Character {
        /// The text as given.
        text: String,
        /// The first wrong character.
        found: char,
    },
}

fn allowed(byte: u8) -> bool {
    // Old releases also drew `!` and `#`; they are still read.
    byte.is_ascii_alphanumeric() || byte == b'!' || byte == b'#'
}

fn parse(text: &str) -> Result<[u8; LEN], IdError> {
    let mut out = [0u8; LEN];
    let mut len = 0usize;
    for found in text.chars().filter(|c| *c != '-') {
        let byte = u8::try_from(found).ok().filter(|b| allowed(*b));
        let Some(byte) = byte else {
            return Err(IdError::Character {
                text: text.to_owned(),
                found,
            });
        };
        if let Some(slot) = out.get_mut(len) {
            *slot = byte;
        }
        len += 1;
    }
    if len == LEN {
        Ok(out)
    } else {
        Err(IdError::Length {
            text: text.to_owned(),
            len,
        })
    }
}

fn from_random(mut bytes: [u8; LEN]) -> [u8; LEN] {
    for byte in &mut bytes {
        // The remainder is below 62, so the lookup never misses.
        *byte = ALPHABET
            .get(usize::from(*byte % 62))
            .copied()
            .unwrap_or(b'0');
    }
    bytes
}

fn as_str(bytes: &[u8; LEN]) -> &str {
    // Only ASCII is ever stored.
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn dashed(bytes: &[u8; LEN], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut out = String::with_capacity(38);
    for (position, byte) in bytes.iter().enumerate() {
        if DASH_BEFORE.contains(&position) {
            out.push('-');
        }
        out.push(char::from(*byte));
    }
    f.pad(&out)
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Displays with dashes; [`as_str`](Self::as_str) has none.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; LEN]);

        impl $name {
            /// Makes a new identifier of 32 random bytes, the way LVM2 does:
            /// each byte modulo 62 selects a character.
            #[must_use]
            pub fn from_random(bytes: [u8; 32]) -> Self {
                Self(from_random(bytes))
            }

            /// Reads an identifier with or without dashes.
            ///
            /// # Errors
            /// When it has not 32 characters or a character that identifiers
            /// cannot have.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                parse(text).map(Self)
            }

            /// The 32 characters, without dashes.
            #[must_use]
            pub fn as_str(&self) -> &str {
                as_str(&self.0)
            }

            /// The 32 characters as they are stored in labels.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                dashed(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }
    };
}

identifier!(
    /// Identifies a physical volume.
    PvId
);
identifier!(
    /// Identifies a volume group.
    VgId
);
identifier!(
    /// Identifies a logical volume inside its volume group.
    LvId
);

#[cfg(test)]
mod tests {
    use super::*;

    const DASHED: &str = "VX5vBQ-8Yjm-ku97-ADYd-rGMZ-kAar-SAX8kk";

    #[test]
    fn both_forms_read_alike() {
        let dashed = VgId::parse(DASHED).unwrap();
        let plain = VgId::parse(&DASHED.replace('-', "")).unwrap();
        assert_eq!(dashed, plain);
        assert_eq!(dashed.to_string(), DASHED);
        assert_eq!(dashed.as_str(), "VX5vBQ8Yjmku97ADYdrGMZkAarSAX8kk");
    }

    #[test]
    fn random_bytes_map_onto_the_alphabet() {
        let mut bytes = [0u8; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::try_from(i * 8).unwrap();
        }
        let id = LvId::from_random(bytes);
        assert_eq!(id.as_str(), "08gowEMU2aiqyGOW4cksAIQY6emuCKS0");
        assert_eq!(LvId::parse(&id.to_string()).unwrap(), id);
    }

    #[test]
    fn wrong_text_is_named() {
        assert_eq!(
            PvId::parse("abc"),
            Err(IdError::Length {
                text: "abc".into(),
                len: 3
            })
        );
        let bad = DASHED.replace('k', "ü");
        assert!(matches!(
            PvId::parse(&bad),
            Err(IdError::Character { found: 'ü', .. })
        ));
        assert!(PvId::parse(&format!("{DASHED}0")).is_err());
        assert!(PvId::parse("########!!!!!!!!0000000000000000").is_ok());
    }
}
