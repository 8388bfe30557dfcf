//! StorageClass parameters, by the contract's names.
//!
//! Keys are compared without case, values with it. Unknown keys are somebody
//! else's and are left alone; an unknown value of a known key is an error,
//! because guessing would make a volume that nobody asked for.

use std::collections::{BTreeMap, HashMap};

use lvm2::name::{NameError, VgName};
use regex::Regex;

use crate::host::FsKind;

use super::capability::{CapabilityError, filesystem};

/// What no name has: `volgroup` with one of these is meant as an expression.
const EXPRESSION: [char; 11] = ['*', '|', '?', '(', ')', '[', ']', '{', '}', '^', '$'];

/// Why parameters are refused.
#[derive(Debug, thiserror::Error)]
pub enum ParamError {
    /// A known key with a value it cannot have.
    #[error("parameter {key}={value:?} is not known; allowed: {}", allowed.join(", "))]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: &'static [&'static str],
    },
    /// The same key twice in different spellings.
    #[error("parameter {key} is given twice in different spellings; keep one")]
    Twice {
        /// The key, lower-cased.
        key: String,
    },
    /// Not made yet.
    #[error("parameter {key}={value:?} is not supported yet")]
    NotYet {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// `volgroup` cannot be a VG's name.
    #[error("parameter volgroup: {0}")]
    VgName(#[from] NameError),
    /// Not a regular expression.
    #[error("parameter {key}={pattern:?} is not a regular expression: {source}")]
    Pattern {
        /// `vgpattern`, or `volgroup` used as one.
        key: &'static str,
        /// The pattern.
        pattern: String,
        /// What the parser says.
        source: Box<regex::Error>,
    },
    /// No VG is named.
    #[error(
        "parameter volgroup or vgpattern is required: without one, every VG of the node, the \
         operating system's too, would be used"
    )]
    NoVg,
    /// `fsType` is not supported.
    #[error("parameter fsType: {0}")]
    Filesystem(#[from] CapabilityError),
}

/// Which VGs may hold the volume.
#[derive(Clone, Debug)]
pub(crate) enum VgMatch {
    /// Exactly this one.
    Named(VgName),
    /// Every one in whose name the expression is found.
    Pattern(Regex),
    /// By `volgroup`, which holds an expression: the contract puts it between
    /// anchors as it is.
    Anchored(Regex),
}

impl VgMatch {
    /// Whether `vg` may hold the volume.
    pub(crate) fn matches(&self, vg: &VgName) -> bool {
        match self {
            Self::Named(name) => name == vg,
            Self::Pattern(pattern) | Self::Anchored(pattern) => pattern.is_match(vg.as_str()),
        }
    }

    /// The expression by which an LVMVolume names these VGs. A name's dots
    /// stand for dots: only they and pluses mean something else in one.
    pub(crate) fn expression(&self) -> String {
        match self {
            Self::Named(name) => {
                let escaped = name.as_str().replace('.', r"\.").replace('+', r"\+");
                format!("^{escaped}$")
            }
            Self::Pattern(pattern) | Self::Anchored(pattern) => pattern.as_str().to_owned(),
        }
    }
}

impl std::fmt::Display for VgMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => write!(f, "volgroup {name}"),
            Self::Pattern(pattern) => write!(f, "vgpattern {pattern}"),
            Self::Anchored(pattern) => write!(f, "volgroup {pattern}"),
        }
    }
}

/// Which of several VGs is tried first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// The one with most free space.
    #[default]
    Space,
    /// The one with least space given away.
    Capacity,
    /// The one with fewest LVs.
    Volume,
}

/// Checked parameters.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    /// VGs that may be used, if said.
    pub(crate) vgs: Option<VgMatch>,
    /// Several mounts on the node at once.
    pub(crate) shared: bool,
    /// Order of VGs.
    pub(crate) scheduler: Scheduler,
    /// Arguments for mkfs as written.
    pub(crate) format_options: Option<String>,
    /// File system where the capability names none.
    pub(crate) fs: Option<FsKind>,
}

impl Params {
    /// Reads parameters.
    pub(crate) fn parse(given: &HashMap<String, String>) -> Result<Self, ParamError> {
        let mut known = BTreeMap::new();
        for (key, value) in given {
            let key = key.to_ascii_lowercase();
            if known
                .insert(key.clone(), value.as_str())
                .is_some_and(|other| other != value)
            {
                return Err(ParamError::Twice { key });
            }
        }
        let get = |key: &str| known.get(key).copied().filter(|value| !value.is_empty());
        if yes_no("thinProvision", get("thinprovision"))? {
            return Err(ParamError::NotYet {
                key: "thinProvision",
                value: "yes".to_owned(),
            });
        }
        let fs_type = get("fstype").or_else(|| get("csi.storage.k8s.io/fstype"));
        Ok(Self {
            vgs: vg_match(get("volgroup"), get("vgpattern"))?,
            shared: yes_no("shared", get("shared"))?,
            scheduler: scheduler(get("scheduler"))?,
            format_options: get("formatoptions").map(str::to_owned),
            fs: filesystem(fs_type.unwrap_or_default())?,
        })
    }

    /// The VGs that may be used; an error if the class does not say.
    pub(crate) fn required_vgs(&self) -> Result<&VgMatch, ParamError> {
        self.vgs.as_ref().ok_or(ParamError::NoVg)
    }
}

fn vg_match(volgroup: Option<&str>, pattern: Option<&str>) -> Result<Option<VgMatch>, ParamError> {
    if let Some(name) = volgroup {
        if !name.contains(EXPRESSION) {
            return Ok(Some(VgMatch::Named(VgName::new(name)?)));
        }
        let anchored = expression("volgroup", &format!("^{name}$"))?;
        return Ok(Some(VgMatch::Anchored(anchored)));
    }
    let pattern = pattern.map(|pattern| expression("vgpattern", pattern));
    Ok(pattern.transpose()?.map(VgMatch::Pattern))
}

fn expression(key: &'static str, pattern: &str) -> Result<Regex, ParamError> {
    Regex::new(pattern).map_err(|source| ParamError::Pattern {
        key,
        pattern: pattern.to_owned(),
        source: Box::new(source),
    })
}

fn yes_no(key: &'static str, value: Option<&str>) -> Result<bool, ParamError> {
    match value {
        None | Some("no") => Ok(false),
        Some("yes") => Ok(true),
        Some(other) => Err(ParamError::Value {
            key,
            value: other.to_owned(),
            allowed: &["yes", "no"],
        }),
    }
}

fn scheduler(value: Option<&str>) -> Result<Scheduler, ParamError> {
    match value {
        None | Some("SpaceWeighted") => Ok(Scheduler::Space),
        Some("CapacityWeighted") => Ok(Scheduler::Capacity),
        Some("VolumeWeighted") => Ok(Scheduler::Volume),
        Some(other) => Err(ParamError::Value {
            key: "scheduler",
            value: other.to_owned(),
            allowed: &["SpaceWeighted", "CapacityWeighted", "VolumeWeighted"],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Params, ParamError> {
        Params::parse(
            &pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    fn vg(name: &str) -> VgName {
        VgName::new(name).unwrap()
    }

    #[test]
    fn keys_have_no_case_and_foreign_keys_are_ignored() {
        let params = parse(&[
            ("VolGroup", "vg.a"),
            ("storage", "lvm"),
            ("SHARED", "yes"),
            ("formatoptions", "-i 8192"),
            ("csi.storage.k8s.io/pvc/name", "claim"),
        ])
        .unwrap();
        assert!(params.shared);
        assert_eq!(params.format_options.as_deref(), Some("-i 8192"));
        let vgs = params.required_vgs().unwrap();
        // The name is no expression: its dot stands for a dot.
        assert!(vgs.matches(&vg("vg.a")) && !vgs.matches(&vg("vgXa")));
    }

    #[test]
    fn patterns_are_not_anchored_and_volgroup_wins() {
        let params = parse(&[("vgpattern", "lvm.*[0-9]")]).unwrap();
        assert!(params.vgs.as_ref().unwrap().matches(&vg("my-lvmvg1-x")));
        assert!(!params.vgs.unwrap().matches(&vg("lvmvg")));
        let both = parse(&[("vgpattern", ".*"), ("volgroup", "a")]).unwrap();
        assert!(!both.vgs.unwrap().matches(&vg("b")));
    }

    #[test]
    fn volgroup_is_a_name_unless_it_can_be_none() {
        let vgs = |value: &str| parse(&[("volgroup", value)]).unwrap().vgs.unwrap();
        for (value, expression, yes, no) in [
            ("lvm-vg", "^lvm-vg$", "lvm-vg", "lvm-vg2"),
            ("vg.a", r"^vg\.a$", "vg.a", "vgXa"),
            ("vg+1", r"^vg\+1$", "vg+1", "vgg1"),
            ("vg[12]", "^vg[12]$", "vg1", "vg3"),
            // As the peer has it: the anchors bind closer than the choice.
            ("a|b", "^a|b$", "a1", "ba"),
            (".*", "^.*$", "any", ""),
        ] {
            let vgs = vgs(value);
            assert_eq!(vgs.expression(), expression);
            assert!(vgs.matches(&vg(yes)), "{value} {yes}");
            assert!(no.is_empty() || !vgs.matches(&vg(no)), "{value} {no}");
        }
        let bad = parse(&[("volgroup", "a(")]).unwrap_err().to_string();
        assert!(bad.contains("volgroup"), "{bad}");
    }

    #[test]
    fn unknown_values_name_key_value_and_choices() {
        let error = parse(&[("scheduler", "Random")]).unwrap_err().to_string();
        for part in ["scheduler", "Random", "SpaceWeighted", "VolumeWeighted"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(matches!(
            parse(&[("shared", "true")]),
            Err(ParamError::Value { key: "shared", .. })
        ));
        assert!(matches!(
            parse(&[("thinProvision", "yes")]),
            Err(ParamError::NotYet { .. })
        ));
        assert!(parse(&[("thinProvision", "no")]).is_ok());
        assert!(matches!(
            parse(&[("vgpattern", "(")]),
            Err(ParamError::Pattern { .. })
        ));
        assert!(matches!(
            parse(&[("volgroup", "a b")]),
            Err(ParamError::VgName(_))
        ));
        assert!(matches!(
            parse(&[("fsType", "ntfs")]),
            Err(ParamError::Filesystem(_))
        ));
        assert!(matches!(
            parse(&[("shared", "yes"), ("Shared", "no")]),
            Err(ParamError::Twice { .. })
        ));
        assert!(matches!(
            parse(&[]).unwrap().required_vgs(),
            Err(ParamError::NoVg)
        ));
    }
}
