//! CreateVolume.

use lvm2::edit::Layout;
use lvm2::name::Tag;
use lvm2::units::Extents;

use crate::engine::{CreateLv, LvState, Request, Size, Wipe, tags};
use crate::error::Kind;

use super::super::capability::{Access, Capability};
use super::super::driver::Driver;
use super::super::params::{Params, VgMatch};
use super::super::place;
use super::super::proto::{CreateVolumeRequest, CreateVolumeResponse, Volume};
use super::super::size::{DEFAULT, Range};
use super::super::status::{CsiError, Difference, OfVolume};
use super::super::volume::has_tag;
use super::super::volume_id::VolumeId;
use super::super::{context, topology};

/// A request that can be carried out.
struct Wanted<'a> {
    id: &'a VolumeId,
    access: Access,
    params: Params,
    range: Range,
}

/// Makes the volume, or returns the one that an earlier call made.
pub(super) fn create(
    driver: &Driver,
    id: &VolumeId,
    request: &CreateVolumeRequest,
) -> Result<CreateVolumeResponse, CsiError> {
    let wanted = Wanted::of(id, request)?;
    let volume = wanted.volume();
    let vgs = wanted.params.required_vgs()?;
    if !topology::allows(request.accessibility_requirements.as_ref(), &driver.node_id) {
        return Err(CsiError::WrongNode {
            volume,
            node: driver.node_id.clone(),
        });
    }
    if let Some(existing) = find_existing(driver, &wanted, vgs)? {
        return match wanted.difference(&existing, vgs) {
            Some(difference) => Err(CsiError::Differs { volume, difference }),
            None => Ok(answer(driver, &wanted, &existing)),
        };
    }
    let made = make(driver, &wanted, vgs)?;
    Ok(answer(driver, &wanted, &made))
}

impl<'a> Wanted<'a> {
    fn of(id: &'a VolumeId, request: &CreateVolumeRequest) -> Result<Self, CsiError> {
        let access = Capability::all(&request.volume_capabilities)?;
        if request.volume_content_source.is_some() {
            return Err(CsiError::NotAdvertised {
                field: "volume_content_source",
                capability: "CREATE_DELETE_SNAPSHOT or CLONE_VOLUME",
            });
        }
        if !request.mutable_parameters.is_empty() {
            return Err(CsiError::NotAdvertised {
                field: "mutable_parameters",
                capability: "MODIFY_VOLUME",
            });
        }
        let params = Params::parse(&request.parameters)?;
        let range = Range::of(request.capacity_range.as_ref())?;
        Ok(Self {
            id,
            access,
            params,
            range,
        })
    }

    fn volume(&self) -> String {
        self.id.lv.to_string()
    }

    /// Tags of the new LV.
    fn tags(&self) -> Vec<Tag> {
        let owned = Tag::new(tags::OWNED).ok();
        let access = tags::with_value(tags::ACCESS, self.access.word());
        let shared = Tag::new(tags::SHARED).ok().filter(|_| self.params.shared);
        [owned, access, shared, self.id.name_tag.clone()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// In what `existing` is not what is wanted.
    fn difference(&self, existing: &LvState, vgs: &VgMatch) -> Option<Difference> {
        if !self.id.is_of(&existing.tags) {
            return Some(Difference::Name);
        }
        if !self.range.contains(existing.size) {
            return Some(Difference::Size(existing.size));
        }
        if !vgs.matches(&existing.vg) {
            return Some(Difference::Vg(existing.vg.clone()));
        }
        let access = tags::value(&existing.tags, tags::ACCESS);
        if let Some(made) = access.filter(|made| *made != self.access.word()) {
            return Some(Difference::Access(made.to_owned()));
        }
        (has_tag(existing, tags::SHARED) != self.params.shared).then_some(Difference::Shared)
    }
}

/// The complete LV of an earlier call. What a killed driver left half made is
/// removed: its content was never wiped.
fn find_existing(
    driver: &Driver,
    wanted: &Wanted<'_>,
    vgs: &VgMatch,
) -> Result<Option<LvState>, CsiError> {
    let volume = wanted.volume();
    let found = match driver.find_any(&volume) {
        // A stranger's LV stands in the way only in the VGs that may be used.
        Err(CsiError::Foreign { vg, .. }) if vgs.matches(&vg) => {
            let difference = Difference::Foreign(format!("{vg}/{volume}"));
            return Err(CsiError::Differs { volume, difference });
        }
        Err(CsiError::Foreign { .. }) => None,
        found => found?,
    };
    match found {
        Some(half) if has_tag(&half, tags::INCOMPLETE) => {
            let remove = Request::Remove {
                name: half.name,
                must_exist: false,
                require_tag: Tag::new(tags::INCOMPLETE).ok(),
            };
            driver
                .engine
                .submit(&half.vg, remove)
                .wait()
                .of_volume(&volume)?;
            Ok(None)
        }
        found => Ok(found),
    }
}

/// Tries the VGs in the scheduler's order.
fn make(driver: &Driver, wanted: &Wanted<'_>, vgs: &VgMatch) -> Result<LvState, CsiError> {
    let volume = wanted.volume();
    let lv = &wanted.id.lv;
    let found = place::find(&driver.engine, Some(vgs), wanted.params.scheduler, Some(lv))
        .of_volume(&volume)?;
    if found.candidates.is_empty() && found.unusable.is_empty() {
        return Err(CsiError::NoVg {
            volume,
            wanted: vgs.to_string(),
            vgs: found.all,
        });
    }
    let mut reasons = found.unusable;
    let mut full = false;
    let mut outside = Vec::new();
    for candidate in &found.candidates {
        let extents = match wanted.range.extents(candidate.extent) {
            Ok(extents) => extents,
            Err(error) => {
                // Another VG may have smaller extents.
                outside.push(error);
                continue;
            }
        };
        if extents > candidate.free {
            full = true;
            reasons.push(candidate.to_string());
            continue;
        }
        match driver
            .engine
            .submit(&candidate.vg, new_lv(wanted, extents))
            .wait()
        {
            Ok(made) => return Ok(made),
            Err(error) if try_next(error.kind()) => {
                full |= error.kind() == Kind::ResourceExhausted;
                reasons.push(format!("{}: {error}", candidate.vg));
            }
            Err(error) => return Err(error).of_volume(&volume),
        }
    }
    if outside.len() == found.candidates.len()
        && let Some(error) = outside.pop()
    {
        return Err(error.into());
    }
    // There may be room where nobody answers now: ask again.
    if let Some(error) = found.silent {
        return Err(error).of_volume(&volume);
    }
    if !full && outside.is_empty() {
        // Space elsewhere is no cure, and none is missing: somebody has to look
        // at these VGs.
        return Err(CsiError::Unusable {
            volume,
            wanted: vgs.to_string(),
            reasons,
        });
    }
    let least = if wanted.range.required.0 == 0 {
        DEFAULT
    } else {
        wanted.range.required
    };
    Err(CsiError::NoSpace {
        volume,
        wanted: least,
        reasons,
    })
}

fn new_lv(wanted: &Wanted<'_>, extents: Extents) -> Request {
    Request::Create(CreateLv {
        name: wanted.id.lv.clone(),
        size: Size::Extents(extents),
        tags: wanted.tags(),
        layout: Layout::default(),
        // A file system shows only what was written through it; a raw device
        // shows everything.
        wipe: match wanted.access {
            Access::Block => Wipe::Zero,
            Access::Mount { .. } => Wipe::Signatures,
        },
        activate: true,
    })
}

/// Another call may have taken the space, or an administrator changed the VG,
/// since it was looked at.
fn try_next(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ResourceExhausted | Kind::FailedPrecondition | Kind::NotFound
    )
}

fn answer(driver: &Driver, wanted: &Wanted<'_>, made: &LvState) -> CreateVolumeResponse {
    let format_options = wanted.params.format_options.as_deref();
    CreateVolumeResponse {
        volume: Some(Volume {
            capacity_bytes: i64::try_from(made.size.0).unwrap_or(i64::MAX),
            volume_id: made.name.to_string(),
            volume_context: context::of(&made.vg, format_options, wanted.params.fs),
            content_source: None,
            accessible_topology: vec![topology::of_node(&driver.node_id)],
        }),
    }
}
