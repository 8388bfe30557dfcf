//! Which VG a volume is made in: best fit first.

use lvm2::name::{LvName, VgName};
use lvm2::units::{Bytes, Extents};
use regex::Regex;

use crate::engine::VgOutline;
use crate::error::Kind;
use crate::kube::crd::VolumeSpec;

/// The VGs that a volume allows.
#[derive(Debug)]
pub(super) struct Allowed {
    named: Option<VgName>,
    pattern: Option<Regex>,
}

/// Why a volume's VGs are not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum AllowedError {
    /// Not a name.
    #[error("spec.volGroup: {0}")]
    Name(#[from] lvm2::name::NameError),
    /// Not an expression.
    #[error("spec.vgPattern {pattern:?} is not a regular expression: {source}")]
    Pattern {
        /// The field.
        pattern: String,
        /// Why.
        source: Box<regex::Error>,
    },
    /// Every VG.
    #[error(
        "spec.volGroup and spec.vgPattern are empty, which would allow every volume group of the \
         node, the operating system's too: name one by the StorageClass parameter volgroup or \
         vgpattern, or start agents and controller with --allow-any-vg"
    )]
    Any,
}

impl Allowed {
    /// Reads the fields. `any` takes an empty pattern for all VGs.
    pub(super) fn of(spec: &VolumeSpec, any: bool) -> Result<Self, AllowedError> {
        let named = match spec.vol_group.as_str() {
            "" => None,
            name => Some(VgName::new(name)?),
        };
        let pattern = match spec.vg_pattern.as_str() {
            "" if !any => None,
            pattern => Some(Regex::new(pattern).map_err(|source| AllowedError::Pattern {
                pattern: pattern.to_owned(),
                source: Box::new(source),
            })?),
        };
        if named.is_none() && pattern.is_none() {
            return Err(AllowedError::Any);
        }
        Ok(Self { named, pattern })
    }

    /// Whether the volume may be in `vg`.
    pub(super) fn contains(&self, vg: &VgName) -> bool {
        self.is_named(vg)
            || self
                .pattern
                .as_ref()
                .is_some_and(|pattern| pattern.is_match(vg.as_str()))
    }

    /// Whether the object already names `vg`.
    pub(super) fn is_named(&self, vg: &VgName) -> bool {
        self.named.as_ref() == Some(vg)
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.named, &self.pattern) {
            (Some(name), _) => write!(f, "volume group {name}"),
            (None, Some(pattern)) => write!(f, "volume groups that match {pattern}"),
            (None, None) => f.write_str("no volume group"),
        }
    }
}

/// What was found for one volume.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// VGs to try, in this order, each with the volume's extents there.
    pub(super) candidates: Vec<(VgName, Extents)>,
    /// Why each of the others is none, as sentences.
    pub(super) reasons: Vec<String>,
    /// One at least was left out for lack of space.
    full: bool,
}

impl Places {
    /// Sorts the node's VGs that are allowed: first the one that the object
    /// names already, then by free space, least first.
    pub(super) fn of(
        allowed: &Allowed,
        outlines: &[VgOutline],
        lv: &LvName,
        capacity: Bytes,
    ) -> Self {
        let mut places = Self::default();
        let mut sorted: Vec<_> = outlines
            .iter()
            .filter(|outline| allowed.contains(outline.vg.name()))
            .collect();
        sorted.sort_by_cached_key(|outline| {
            let vg = &outline.vg;
            let free = vg.extent_size().bytes_of(vg.free_extents());
            (!allowed.is_named(vg.name()), free, vg.name().clone())
        });
        for outline in sorted {
            let vg = &outline.vg;
            let needed = vg.extent_size().ceil(capacity);
            if let Some(reason) = outline.obstacle(Some(lv)) {
                places.reasons.push(reason);
            } else if needed > vg.free_extents() {
                let free = vg.extent_size().bytes_of(vg.free_extents());
                places.out_of_space(format!("{} has {free} bytes free", vg.name()));
            } else {
                places.candidates.push((vg.name().clone(), needed));
            }
        }
        places
    }

    /// Notes that a VG turned out full.
    pub(super) fn out_of_space(&mut self, reason: String) {
        self.full = true;
        self.reasons.push(reason);
    }

    /// What a caller may conclude when no VG takes the volume.
    pub(super) fn kind(&self) -> Kind {
        if self.full {
            Kind::ResourceExhausted
        } else {
            Kind::FailedPrecondition
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(vol_group: &str, vg_pattern: &str) -> VolumeSpec {
        VolumeSpec {
            vol_group: vol_group.to_owned(),
            vg_pattern: vg_pattern.to_owned(),
            ..VolumeSpec::default()
        }
    }

    fn allows(vol_group: &str, pattern: &str, vg: &str) -> bool {
        Allowed::of(&spec(vol_group, pattern), false)
            .unwrap()
            .contains(&VgName::new(vg).unwrap())
    }

    #[test]
    fn patterns_are_not_anchored_and_a_named_group_is_always_allowed() {
        assert!(allows("", "^lvmvg$", "lvmvg") && !allows("", "^lvmvg$", "lvmvg2"));
        assert!(allows("", "vg", "my-vg-1"));
        // The peer does not escape what it puts between the anchors.
        assert!(allows("", "^vg.a$", "vgXa"));
        assert!(allows("other", "^lvmvg$", "other"));
    }

    #[test]
    fn nothing_said_is_refused_unless_told_otherwise() {
        assert!(matches!(
            Allowed::of(&spec("", ""), false),
            Err(AllowedError::Any)
        ));
        let any = Allowed::of(&spec("", ""), true).unwrap();
        assert!(any.contains(&VgName::new("root").unwrap()));
        assert!(matches!(
            Allowed::of(&spec("", "("), false),
            Err(AllowedError::Pattern { .. })
        ));
        assert!(matches!(
            Allowed::of(&spec("a b", ""), false),
            Err(AllowedError::Name(_))
        ));
    }
}
