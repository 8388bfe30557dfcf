//! Random edits, carried out by our engine or by lvm2.

use std::collections::{BTreeMap, BTreeSet};

use lvcsi::engine::{CreateLv, Request, Wipe};
use lvcsi_kit::{LoopVg, Rng};
use lvm2::edit::Layout;
use lvm2::units::Sectors;

use crate::common::{Native, extend, extents, lv, tag};

/// What the VG must hold: size in extents and tags of each LV.
pub(crate) type Model = BTreeMap<String, (u64, BTreeSet<String>)>;

/// Most LVs at one time.
const MOST_LVS: usize = 12;

/// One edit.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    Create {
        name: String,
        extents: u64,
        stripes: u32,
        tags: Vec<String>,
    },
    Extend {
        name: String,
        by: u64,
    },
    Remove {
        name: String,
    },
    Rename {
        name: String,
        to: String,
    },
    AddTag {
        name: String,
        tag: String,
    },
    RemoveTag {
        name: String,
        tag: String,
    },
}

impl Edit {
    /// An edit that must succeed: there is room for it.
    pub(crate) fn random(rng: &mut Rng, model: &Model, limits: &Limits) -> Self {
        let used: u64 = model.values().map(|lv| lv.0).sum();
        let free = limits.extents.saturating_sub(used);
        let names: Vec<&String> = model.keys().collect();
        if names.is_empty() || (names.len() < MOST_LVS && rng.below(3) == 0 && free >= 4) {
            return create(rng, model, limits, free);
        }
        let name = (*rng.pick(&names)).clone();
        match rng.below(6) {
            // Striped LVs grow by whole stripes.
            0 | 1 if free >= 4 => Self::Extend {
                name,
                by: 2 * (1 + rng.below(free.min(8) / 2)),
            },
            2 => {
                let to = fresh(rng, model);
                Self::Rename { name, to }
            }
            3 => Self::AddTag {
                name,
                tag: random_tag(rng),
            },
            4 => match model[&name].1.first().cloned() {
                Some(tag) => Self::RemoveTag { name, tag },
                None => Self::AddTag {
                    name,
                    tag: random_tag(rng),
                },
            },
            _ => Self::Remove { name },
        }
    }

    /// The LVs that this edit may touch.
    pub(crate) fn touches(&self) -> Vec<&str> {
        match self {
            Self::Rename { name, to } => vec![name, to],
            Self::Create { name, .. }
            | Self::Extend { name, .. }
            | Self::Remove { name }
            | Self::AddTag { name, .. }
            | Self::RemoveTag { name, .. } => vec![name],
        }
    }

    /// What it means.
    pub(crate) fn apply(&self, model: &mut Model) {
        match self {
            Self::Create {
                name,
                extents,
                tags,
                ..
            } => {
                model.insert(name.clone(), (*extents, tags.iter().cloned().collect()));
            }
            Self::Extend { name, by } => model.get_mut(name).unwrap().0 += by,
            Self::Remove { name } => _ = model.remove(name),
            Self::Rename { name, to } => {
                let lv = model.remove(name).unwrap();
                model.insert(to.clone(), lv);
            }
            Self::AddTag { name, tag } => _ = model.get_mut(name).unwrap().1.insert(tag.clone()),
            Self::RemoveTag { name, tag } => _ = model.get_mut(name).unwrap().1.remove(tag),
        }
    }

    /// By our engine.
    pub(crate) fn by_us(&self, native: &Native) {
        let request = match self {
            Self::Create {
                name,
                extents: size,
                stripes,
                tags,
            } => Request::Create(CreateLv {
                name: lv(name),
                size: extents(*size),
                tags: tags.iter().map(|text| tag(text)).collect(),
                layout: Layout {
                    stripes: Some(*stripes),
                    stripe_size: Some(Sectors(128)),
                    ..Layout::default()
                },
                wipe: Wipe::Signatures,
                activate: false,
            }),
            Self::Extend { name, by } => extend(name, extents(*by), true),
            Self::Remove { name } => Request::Remove {
                name: lv(name),
                must_exist: true,
                require_tag: None,
            },
            Self::Rename { name, to } => Request::Rename {
                name: lv(name),
                to: lv(to),
            },
            Self::AddTag { name, tag: text } => Request::Tags {
                name: lv(name),
                add: vec![tag(text)],
                remove: vec![],
            },
            Self::RemoveTag { name, tag: text } => Request::Tags {
                name: lv(name),
                add: vec![],
                remove: vec![tag(text)],
            },
        };
        native.ok(request);
    }

    /// By stock lvm2.
    pub(crate) fn by_lvm2(&self, vg: &LoopVg) {
        let mut args: Vec<String> = Vec::new();
        let mut push = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
        match self {
            Self::Create {
                name,
                extents,
                stripes,
                tags,
            } => {
                push(&["lvcreate", "-y", "-an", "-Zn", "-Wn", "-n", name]);
                push(&["-l", &extents.to_string()]);
                if *stripes > 1 {
                    push(&["-i", &stripes.to_string(), "-I", "64k"]);
                }
                for tag in tags {
                    push(&["--addtag", tag]);
                }
                push(&[&vg.name]);
            }
            Self::Extend { name, by } => {
                push(&["lvextend", "-y", "-l", &format!("+{by}"), &vg.lv(name)]);
            }
            Self::Remove { name } => push(&["lvremove", "-y", &vg.lv(name)]),
            Self::Rename { name, to } => push(&["lvrename", &vg.name, name, to]),
            Self::AddTag { name, tag } => push(&["lvchange", "--addtag", tag, &vg.lv(name)]),
            Self::RemoveTag { name, tag } => push(&["lvchange", "--deltag", tag, &vg.lv(name)]),
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        vg.lvm.clean(&args);
    }
}

/// What fits into the VG.
pub(crate) struct Limits {
    /// Extents that may be used at one time.
    pub(crate) extents: u64,
    /// Most stripes.
    pub(crate) stripes: u32,
}

fn create(rng: &mut Rng, model: &Model, limits: &Limits, free: u64) -> Edit {
    let stripes = if limits.stripes > 1 && rng.below(3) == 0 {
        limits.stripes
    } else {
        1
    };
    let extents = 2 * (1 + rng.below(free.min(12) / 2));
    let tags = (0..rng.below(3))
        .map(|_| random_tag(rng))
        .collect::<BTreeSet<_>>();
    Edit::Create {
        name: fresh(rng, model),
        extents,
        stripes,
        tags: tags.into_iter().collect(),
    }
}

/// A name that is not taken, of letters that lvm2 allows.
fn fresh(rng: &mut Rng, model: &Model) -> String {
    loop {
        let heads = ["data", "pvc-", "a.b+c_", "X", "pv", "logical_volume"];
        let name = format!("{}{}", rng.pick(&heads), rng.below(1000));
        if !model.contains_key(&name) {
            return name;
        }
    }
}

fn random_tag(rng: &mut Rng) -> String {
    let heads = ["t", "team/a:b=", "k8s.io-", "x!#&"];
    format!("{}{}", rng.pick(&heads), rng.below(5))
}
