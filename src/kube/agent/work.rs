//! What an LVMVolume asks of this node's disks, done by the engine. Blocking,
//! and without Kubernetes: the caller tells the API server how it ended.
//!
//! The rule of everything here: an LV is changed or removed only if it is the
//! object's. It is if we made it for that name (tag), or if the object, which
//! names the VG, was Ready before (the peer made it and wrote no tags).

use lvm2::edit::Layout;
use lvm2::name::{LvName, Tag, VgName};
use lvm2::units::{Bytes, Extents};

use super::place::{Allowed, Places};
use crate::csi::Driver;
use crate::engine::{CreateLv, Engine, EngineError, LvState, Request, Size, Wipe, tags};
use crate::error::Kind;
use crate::kube::crd::LvmVolume;
use crate::kube::names::ACCESS_ANNOTATION;

/// A volume that could not be made, for good.
#[derive(Debug)]
pub(super) struct Refused {
    /// What a caller may conclude.
    pub(super) kind: Kind,
    /// Why, and what to do.
    pub(super) message: String,
}

/// Why work on a volume did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkError {
    /// It may go well the next time.
    #[error("{0}")]
    Engine(#[from] EngineError),
    /// It cannot go on before somebody does something.
    #[error("{note}")]
    Blocked {
        /// Reason of the Event.
        reason: &'static str,
        /// Its note.
        note: String,
    },
    /// Another call works on the volume.
    #[error("another call works on the volume")]
    Busy,
}

/// An LV that an object has now.
#[derive(Debug)]
pub(super) struct Provisioned {
    /// The LV.
    pub(super) lv: LvState,
    /// It was made just now, and nobody has used it.
    pub(super) made: bool,
    /// It was there, and the peer's.
    pub(super) adopted: bool,
}

/// What was found and done about a volume that is Ready.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Tags were added: the LV is ours from now on.
    pub(super) adopted: bool,
    /// Size before and after, if it grew.
    pub(super) grown: Option<(Bytes, Bytes)>,
    /// The LV is larger than the object says.
    pub(super) larger: Option<Bytes>,
}

/// This node's disks as the reconciler uses them.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    /// The driver.
    pub(super) driver: &'a Driver,
    /// The engine.
    pub(super) engine: &'a Engine,
    /// An empty pattern allows all VGs.
    pub(super) any_vg: bool,
}

fn refused(kind: Kind, message: impl ToString) -> Result<Provisioned, Refused> {
    Err(Refused {
        kind,
        message: message.to_string(),
    })
}

/// The LV's name: the object's.
pub(super) fn lv_name(object: &LvmVolume) -> Result<LvName, lvm2::name::NameError> {
    let name = LvName::new(object.metadata.name.as_deref().unwrap_or_default())?;
    name.check_new()?;
    Ok(name)
}

pub(super) fn has(lv: &LvState, tag: &str) -> bool {
    lv.tags.iter().any(|t| t == tag)
}

impl Work<'_> {
    /// Makes the LV of a Pending object, or finds that it was made.
    pub(super) fn provision(
        self,
        object: &LvmVolume,
    ) -> Result<Result<Provisioned, Refused>, WorkError> {
        let spec = &object.spec;
        let wrong = |error: &dyn std::error::Error| Ok(refused(Kind::InvalidArgument, error));
        let name = match lv_name(object) {
            Ok(name) => name,
            Err(error) => return wrong(&error),
        };
        let capacity = match spec.capacity() {
            Ok(capacity) => capacity,
            Err(error) => return wrong(&error),
        };
        let allowed = match Allowed::of(spec, self.any_vg) {
            Ok(allowed) => allowed,
            Err(error) => return wrong(&error),
        };
        if spec.is_thin()
            || spec
                .source
                .as_deref()
                .is_some_and(|source| !source.is_empty())
        {
            return Ok(refused(
                Kind::InvalidArgument,
                "thin volumes and restored snapshots are not made by this release",
            ));
        }
        match self.existing(&name, &allowed)? {
            Existing::None => self.make(object, &name, &allowed, capacity),
            Existing::One(lv) => self.take(object, lv, &allowed, capacity),
            Existing::Several(vgs) => Ok(refused(
                Kind::AlreadyExists,
                format!("LV {name} exists in several volume groups: {vgs}; rename or remove one"),
            )),
        }
    }

    /// The LVs of this name in the VGs that the volume allows. What a killed
    /// driver left half made is removed: its content was never wiped.
    fn existing(self, name: &LvName, allowed: &Allowed) -> Result<Existing, WorkError> {
        let mut found = self.engine.find(name)?;
        found.retain(|lv| allowed.contains(&lv.vg) || has(lv, tags::OWNED));
        let (half, mut whole): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|lv| has(lv, tags::INCOMPLETE));
        for lv in half {
            self.discard(&lv.vg, &lv.name, tags::INCOMPLETE)?;
        }
        Ok(match (whole.pop(), whole.len()) {
            (None, _) => Existing::None,
            (Some(lv), 0) => Existing::One(lv),
            (Some(lv), _) => {
                whole.push(lv);
                let vgs: Vec<_> = whole.iter().map(|lv| lv.vg.as_str()).collect();
                Existing::Several(vgs.join(", "))
            }
        })
    }

    /// Takes an LV that is there for the object's, if it can be nobody else's.
    fn take(
        self,
        object: &LvmVolume,
        lv: LvState,
        allowed: &Allowed,
        capacity: Bytes,
    ) -> Result<Result<Provisioned, Refused>, WorkError> {
        let object_name = format!("{}/{}", lv.vg, lv.name);
        let ours = has(&lv, tags::OWNED);
        if !ours && !allowed.is_named(&lv.vg) {
            return Ok(refused(
                Kind::AlreadyExists,
                format!(
                    "LV {object_name} of this name exists and was not made for this object; it is \
                     left alone. Rename it, or set spec.volGroup to hand it over"
                ),
            ));
        }
        if !allowed.contains(&lv.vg) {
            return Ok(refused(
                Kind::AlreadyExists,
                format!(
                    "LV {object_name} exists in a volume group that spec.vgPattern does not allow"
                ),
            ));
        }
        let wanted = self.in_extents(&lv.vg, capacity)?;
        if lv.size != wanted {
            return Ok(refused(
                Kind::AlreadyExists,
                format!(
                    "LV {object_name} exists with {} bytes, but {wanted} are asked for; it is left \
                     alone. Rename or remove it, or correct spec.capacity",
                    lv.size
                ),
            ));
        }
        let lv = self.adopt(object, lv)?;
        Ok(Ok(Provisioned {
            lv,
            made: false,
            adopted: !ours,
        }))
    }

    /// Tries the VGs, best fit first.
    fn make(
        self,
        object: &LvmVolume,
        name: &LvName,
        allowed: &Allowed,
        capacity: Bytes,
    ) -> Result<Result<Provisioned, Refused>, WorkError> {
        let mut outlines = Vec::new();
        let mut broken = Vec::new();
        let mut silent = None;
        let all = self.engine.vg_names()?;
        if let Some(error) = self.engine.host().locks.refusal() {
            return Ok(refused(Kind::FailedPrecondition, error));
        }
        for vg in all.iter().filter(|vg| allowed.contains(vg)) {
            match self.engine.outline(vg) {
                Ok(outline) => {
                    silent = silent.or_else(|| outline.silence());
                    outlines.push(outline);
                }
                // One broken VG must not stop volumes in the others.
                Err(error) => {
                    broken.push(error.to_string());
                    silent = silent.or_else(|| Some(error).filter(is_passing));
                }
            }
        }
        let mut places = Places::of(allowed, &outlines, name, capacity);
        places.reasons.extend(broken);
        for (vg, extents) in places.candidates.clone() {
            let create = new_lv(object, name, extents);
            match self.engine.submit(&vg, Request::Create(create)).wait() {
                Ok(lv) => {
                    let made = lv.changed;
                    return Ok(Ok(Provisioned {
                        lv,
                        made,
                        adopted: false,
                    }));
                }
                Err(error) if is_passing(&error) => return Err(error.into()),
                Err(error) if error.kind() == Kind::ResourceExhausted => {
                    places.out_of_space(format!("{vg}: {error}"));
                }
                Err(error) => {
                    // Nobody knows how far it came: never a second LV beside it.
                    if let Existing::One(_) = self.existing(name, allowed)? {
                        return Err(error.into());
                    }
                    places.reasons.push(format!("{vg}: {error}"));
                }
            }
        }
        // There may be room where nobody answers now.
        if let Some(error) = silent {
            return Err(error.into());
        }
        let names: Vec<_> = all.iter().map(VgName::as_str).collect();
        let message = if places.reasons.is_empty() {
            format!(
                "this node has no {allowed}; it has: {}",
                if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                }
            )
        } else {
            format!(
                "{capacity} bytes fit in no {allowed}: {}",
                places.reasons.join("; ")
            )
        };
        Ok(refused(places.kind(), message))
    }

    /// Sees to it that a Ready volume is as large as the object says and
    /// carries our tags.
    pub(super) fn keep(self, object: &LvmVolume) -> Result<Kept, WorkError> {
        let Some(lv) = self.owned(object)? else {
            return Err(WorkError::Blocked {
                reason: "VolumeMissing",
                note: format!(
                    "LV {}/{} is not on this node's disks. Nothing is made in its place; bring the \
                     disk back, restore the metadata (vgcfgrestore), or delete the volume",
                    object.spec.vol_group,
                    object.metadata.name.as_deref().unwrap_or_default()
                ),
            });
        };
        if has(&lv, tags::INCOMPLETE) {
            return Err(EngineError::Incomplete {
                vg: lv.vg,
                lv: lv.name,
            }
            .into());
        }
        let adopted = !has(&lv, tags::OWNED);
        let lv = match self.adopt(object, lv) {
            Err(WorkError::Engine(error)) if !is_passing(&error) => {
                return Err(WorkError::Blocked {
                    reason: "AdoptionFailed",
                    note: format!("the LV stays as it is and is not taken over: {error}"),
                });
            }
            adopted => adopted?,
        };
        let mut kept = Kept {
            adopted,
            ..Kept::default()
        };
        let Ok(capacity) = object.spec.capacity() else {
            return Ok(kept);
        };
        let wanted = self.in_extents(&lv.vg, capacity)?;
        if lv.size > wanted {
            kept.larger = Some(lv.size);
        } else if lv.size < wanted {
            let extend = Request::Extend {
                name: lv.name.clone(),
                size: Size::Bytes(capacity),
                add: false,
                layout: Layout::default(),
            };
            let grown = self.engine.submit(&lv.vg, extend).wait()?;
            kept.grown = Some((lv.size, grown.size));
        }
        Ok(kept)
    }

    /// Makes the device of an LV that may be gone meanwhile.
    pub(super) fn activate(self, lv: &LvState) -> Result<(), EngineError> {
        let found = self.engine.find(&lv.name)?;
        let is_there = found
            .iter()
            .any(|found| found.id == lv.id && found.dev.is_none());
        if !is_there {
            return Ok(());
        }
        let activate = Request::Activate {
            name: lv.name.clone(),
        };
        match self.engine.submit(&lv.vg, activate).wait() {
            Ok(_) | Err(EngineError::NoSuchLv { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn discard(self, vg: &VgName, lv: &LvName, tag: &str) -> Result<(), WorkError> {
        let remove = Request::Remove {
            name: lv.clone(),
            must_exist: false,
            require_tag: Tag::new(tag).ok(),
        };
        self.engine.submit(vg, remove).wait()?;
        Ok(())
    }

    /// The LV that a Ready object names. An error if its VG cannot be seen:
    /// then nobody knows whether the LV is gone.
    pub(super) fn owned(self, object: &LvmVolume) -> Result<Option<LvState>, WorkError> {
        let unseen = |detail: String| WorkError::Blocked {
            reason: "VolumeGroupMissing",
            note: format!(
                "{detail}. If its disks are lost for good, give the volume up: kubectl patch lvmvol \
                 {} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'",
                object.metadata.name.as_deref().unwrap_or_default()
            ),
        };
        let vg = VgName::new(&object.spec.vol_group).map_err(|error| unseen(error.to_string()))?;
        let Ok(name) = LvName::new(object.metadata.name.as_deref().unwrap_or_default()) else {
            return Ok(None);
        };
        match self.engine.outline(&vg) {
            Ok(outline) if outline.vg.lv(name.as_str()).is_none() => return Ok(None),
            Ok(_) => {}
            Err(
                error @ (EngineError::NoSuchVg { .. }
                | EngineError::Unseen { .. }
                | EngineError::AmbiguousVg { .. }),
            ) => {
                return Err(unseen(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
        let found = self.engine.find(&name)?;
        Ok(found.into_iter().find(|lv| lv.vg == vg))
    }

    /// Puts our tags on an LV that lacks them. Its content is not touched.
    fn adopt(self, object: &LvmVolume, lv: LvState) -> Result<LvState, WorkError> {
        let owned = has(&lv, tags::OWNED);
        let missing: Vec<Tag> = [
            (tags::OWNED, true),
            // Unless it was published before.
            (
                tags::USE_UNKNOWN,
                !owned && tags::value(&lv.tags, tags::ACCESS).is_none(),
            ),
            (tags::SHARED, object.spec.is_shared()),
        ]
        .into_iter()
        .filter(|(tag, wanted)| *wanted && !has(&lv, tag))
        .filter_map(|(tag, _)| Tag::new(tag).ok())
        .collect();
        if missing.is_empty() {
            return Ok(lv);
        }
        let request = Request::Tags {
            name: lv.name.clone(),
            add: missing,
            remove: Vec::new(),
        };
        Ok(self.engine.submit(&lv.vg, request).wait()?)
    }

    fn in_extents(self, vg: &VgName, size: Bytes) -> Result<Bytes, EngineError> {
        let extent = self.engine.outline(vg)?.vg.extent_size();
        Ok(extent.bytes_of(extent.ceil(size)))
    }
}

enum Existing {
    None,
    One(LvState),
    /// Names of the VGs.
    Several(String),
}

/// Whether the same request may go well later.
fn is_passing(error: &EngineError) -> bool {
    matches!(error.kind(), Kind::Aborted | Kind::DeadlineExceeded)
}

fn new_lv(object: &LvmVolume, name: &LvName, extents: Extents) -> CreateLv {
    let annotations = object.metadata.annotations.as_ref();
    let access = annotations
        .and_then(|all| all.get(ACCESS_ANNOTATION))
        .map(String::as_str)
        .filter(|access| matches!(*access, "mount" | "block"));
    let is_filesystem = access == Some("mount");
    let shared = object.spec.is_shared();
    let tags = [
        Tag::new(tags::OWNED).ok(),
        access.map_or_else(
            || Tag::new(tags::USE_UNKNOWN).ok(),
            |access| tags::with_value(tags::ACCESS, access),
        ),
        Tag::new(tags::SHARED).ok().filter(|_| shared),
    ];
    CreateLv {
        name: name.clone(),
        size: Size::Extents(extents),
        tags: tags.into_iter().flatten().collect(),
        layout: Layout::default(),
        // A file system shows only what was written through it; a raw device
        // shows everything, so that is what an unknown use gets.
        wipe: if is_filesystem {
            Wipe::Signatures
        } else {
            Wipe::Zero
        },
        // A file system's device can wait; one that was zeroed is there.
        activate: !is_filesystem,
    }
}
