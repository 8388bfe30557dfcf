//! Planning one request: a pure function from a VG and a request to the VG
//! that shall be and the steps on devices.

use std::sync::Arc;

use lvm2::edit::{self, Edit, EditError, Layout};
use lvm2::model::{Lv, Vg};
use lvm2::name::{LvName, Tag};
use lvm2::units::{Bytes, Extents};

use super::error::EngineError;
use super::request::{CreateLv, Request, Size, Wipe};
use super::step::Step;
use super::tags;
use super::wipe;

pub(super) use super::planned::{Context, Finish, Planned, Subject, Zero};

/// Plans `request` on `vg`.
pub(super) fn plan(
    vg: &Arc<Vg>,
    request: &Request,
    context: &Context,
) -> Result<Planned, EngineError> {
    match request {
        Request::Create(create) => plan_create(vg, create, context),
        Request::Extend {
            name,
            size,
            add,
            layout,
        } => plan_extend(vg, name, *size, *add, layout, context),
        Request::Remove {
            name,
            must_exist,
            require_tag,
        } => plan_remove(vg, name, *must_exist, require_tag.as_ref()),
        Request::Rename { name, to } => plan_rename(vg, name, to),
        Request::Tags { name, add, remove } => plan_tags(vg, name, add, remove),
        Request::Activate { name } => {
            usable(vg, existing(vg, name)?)?;
            Ok(unchanged(
                vg,
                name,
                vec![Step::Activate { lv: name.clone() }],
            ))
        }
        Request::Deactivate { name } => {
            let lv = existing(vg, name)?;
            native(vg, lv)?;
            Ok(unchanged(
                vg,
                name,
                vec![Step::Deactivate { lv: name.clone() }],
            ))
        }
    }
}

/// Plans the second half of an operation whose extents are zero by now.
pub(super) fn plan_finish(vg: &Arc<Vg>, zero: &Zero) -> Result<Planned, EngineError> {
    let lv = existing(vg, &zero.lv)?;
    if lv.id != zero.id {
        return Err(EngineError::NoSuchLv {
            vg: vg.name().clone(),
            lv: zero.lv.clone(),
        });
    }
    match &zero.then {
        Finish::Reveal { activate } => {
            let edit = Edit::Tags {
                name: zero.lv.clone(),
                add: Vec::new(),
                remove: incomplete().into_iter().collect(),
            };
            let step = if *activate {
                Step::Expose {
                    lv: zero.lv.clone(),
                }
            } else {
                Step::Deactivate {
                    lv: zero.lv.clone(),
                }
            };
            Ok(Planned {
                vg: apply(vg, &edit)?,
                before: Vec::new(),
                after: vec![step],
                subject: Subject::Present(zero.lv.clone()),
                zero: None,
                instead_of: None,
            })
        }
        Finish::Append { to } => {
            let edit = Edit::Absorb {
                name: to.clone(),
                from: zero.lv.clone(),
            };
            Ok(Planned {
                vg: apply(vg, &edit)?,
                before: vec![
                    Step::Deactivate {
                        lv: zero.lv.clone(),
                    },
                    Step::Load { lv: to.clone() },
                ],
                after: vec![Step::Refresh { lv: to.clone() }],
                subject: Subject::Present(to.clone()),
                zero: None,
                instead_of: None,
            })
        }
    }
}

fn plan_create(vg: &Arc<Vg>, create: &CreateLv, context: &Context) -> Result<Planned, EngineError> {
    create
        .name
        .check_new()
        .map_err(|source| edit_error(vg, EditError::from(source)))?;
    let stripes = create.layout.stripes.unwrap_or(1);
    let extents = extents(vg, &create.name, create.size, stripes)?;
    if let Some(lv) = vg.lv(create.name.as_str()) {
        return plan_existing(vg, lv, create, extents);
    }
    let mut tags = create.tags.clone();
    if create.wipe == Wipe::Zero {
        tags.extend(incomplete());
    }
    let edit = Edit::Create {
        name: create.name.clone(),
        id: context.id,
        extents,
        tags,
        layout: create.layout.clone(),
        time: context.time,
        host: context.host.clone(),
    };
    let vg = apply(vg, &edit)?;
    let name = create.name.clone();
    let (before, after, zero) = match create.wipe {
        Wipe::Signatures => {
            let size = vg.extent_size().bytes_of(extents).0;
            let wipe = Step::Wipe {
                lv: name.clone(),
                ranges: wipe::signature_ranges(size),
            };
            let after = if create.activate {
                vec![Step::Activate { lv: name.clone() }]
            } else {
                Vec::new()
            };
            (vec![wipe], after, None)
        }
        Wipe::Zero => {
            let then = Finish::Reveal {
                activate: create.activate,
            };
            let zero = Zero {
                lv: name.clone(),
                id: context.id,
                then,
            };
            (
                Vec::new(),
                vec![Step::ZeroAll { lv: name.clone() }],
                Some(zero),
            )
        }
    };
    Ok(Planned {
        vg,
        before,
        after,
        subject: Subject::Present(name),
        zero,
        instead_of: None,
    })
}

/// An LV of that name is there: it is the answer if it is what was asked for.
fn plan_existing(
    vg: &Arc<Vg>,
    lv: &Lv,
    create: &CreateLv,
    extents: Extents,
) -> Result<Planned, EngineError> {
    let differs = |detail: String| EngineError::Exists {
        vg: vg.name().clone(),
        lv: lv.name.clone(),
        detail,
    };
    native(vg, lv)?;
    let size_matters = !matches!(create.size, Size::PercentFree(_));
    if size_matters && lv.extents() != extents {
        return Err(differs(format!(
            "it has {}, {} were asked for",
            vg.extent_size().bytes_of(lv.extents()),
            vg.extent_size().bytes_of(extents)
        )));
    }
    if let Some(missing) = create.tags.iter().find(|tag| !lv.has_tag(tag.as_str())) {
        return Err(differs(format!("it has no tag {missing}")));
    }
    let name = create.name.clone();
    if lv.has_tag(tags::INCOMPLETE) {
        // Its maker was stopped: zero it again, from the start.
        let then = Finish::Reveal {
            activate: create.activate,
        };
        let zero = Zero {
            lv: name.clone(),
            id: lv.id,
            then,
        };
        return Ok(Planned {
            zero: Some(zero),
            ..unchanged(vg, &name, vec![Step::ZeroAll { lv: name.clone() }])
        });
    }
    let after = if create.activate {
        vec![Step::Activate { lv: name.clone() }]
    } else {
        Vec::new()
    };
    Ok(unchanged(vg, &name, after))
}

fn plan_extend(
    vg: &Arc<Vg>,
    name: &LvName,
    size: Size,
    add: bool,
    layout: &Layout,
    context: &Context,
) -> Result<Planned, EngineError> {
    let lv = existing(vg, name)?;
    usable(vg, lv)?;
    // What is added is rounded up to whole stripes by the edit.
    let asked = extents(vg, name, size, 1)?;
    let to = if add {
        Extents(lv.extents().0.saturating_add(asked.0))
    } else {
        asked
    };
    if to <= lv.extents() {
        return Ok(unchanged(
            vg,
            name,
            vec![Step::Refresh { lv: name.clone() }],
        ));
    }
    if !is_raw(lv) {
        let edit = Edit::Extend {
            name: name.clone(),
            to,
            layout: layout.clone(),
        };
        return Ok(Planned {
            vg: apply(vg, &edit)?,
            before: vec![Step::Load { lv: name.clone() }],
            after: vec![Step::Refresh { lv: name.clone() }],
            subject: Subject::Present(name.clone()),
            zero: None,
            instead_of: None,
        });
    }
    // A raw volume shows every byte of its new extents: they are zeroed as an
    // LV of their own first.
    let reserve = LvName::new(format!("lvcsi_grow_{}", lv.id.as_str()))
        .map_err(|source| edit_error(vg, EditError::from(source)))?;
    let more = Extents(to.0 - lv.extents().0);
    let zero = |id| Zero {
        lv: reserve.clone(),
        id,
        then: Finish::Append { to: name.clone() },
    };
    let after = vec![Step::ZeroAll {
        lv: reserve.clone(),
    }];
    let mut before = Vec::new();
    let mut instead_of = None;
    let mut room = Arc::clone(vg);
    // An attempt that was not finished left it behind.
    if let Some(left) = vg.lv(reserve.as_str())
        && left.has_tag(tags::INCOMPLETE)
    {
        if left.extents() == more {
            return Ok(Planned {
                zero: Some(zero(left.id)),
                ..unchanged(vg, name, after)
            });
        }
        room = apply(
            vg,
            &Edit::Remove {
                name: reserve.clone(),
            },
        )?;
        instead_of = Some(left.id);
        before.push(Step::Deactivate {
            lv: reserve.clone(),
        });
    }
    let edit = Edit::Create {
        name: reserve.clone(),
        id: context.id,
        extents: more,
        tags: incomplete().into_iter().collect(),
        layout: layout.clone(),
        time: context.time,
        host: context.host.clone(),
    };
    Ok(Planned {
        vg: apply(&room, &edit)?,
        before,
        after,
        subject: Subject::Present(name.clone()),
        zero: Some(zero(context.id)),
        instead_of,
    })
}

/// Whether every byte can be read, and not only what a file system shows.
fn is_raw(lv: &Lv) -> bool {
    tags::value(&lv.tags, tags::ACCESS) == Some("block") || lv.has_tag(tags::USE_UNKNOWN)
}

fn plan_remove(
    vg: &Arc<Vg>,
    name: &LvName,
    must_exist: bool,
    require_tag: Option<&Tag>,
) -> Result<Planned, EngineError> {
    let Some(lv) = vg.lv(name.as_str()) else {
        if must_exist {
            return Err(EngineError::NoSuchLv {
                vg: vg.name().clone(),
                lv: name.clone(),
            });
        }
        return Ok(Planned {
            subject: Subject::Absent(name.clone()),
            ..unchanged(vg, name, Vec::new())
        });
    };
    if let Some(tag) = require_tag
        && !lv.has_tag(tag.as_str())
    {
        return Err(EngineError::NotOurs {
            vg: vg.name().clone(),
            lv: name.clone(),
            tag: tag.to_string(),
        });
    }
    Ok(Planned {
        vg: apply(vg, &Edit::Remove { name: name.clone() })?,
        before: vec![Step::Deactivate { lv: name.clone() }],
        after: Vec::new(),
        subject: Subject::Removed(Arc::clone(lv)),
        zero: None,
        instead_of: None,
    })
}

fn plan_rename(vg: &Arc<Vg>, name: &LvName, to: &LvName) -> Result<Planned, EngineError> {
    to.check_new()
        .map_err(|source| edit_error(vg, EditError::from(source)))?;
    usable(vg, existing(vg, name)?)?;
    Ok(Planned {
        vg: apply(
            vg,
            &Edit::Rename {
                name: name.clone(),
                to: to.clone(),
            },
        )?,
        before: Vec::new(),
        after: vec![Step::Refresh { lv: to.clone() }],
        subject: Subject::Present(to.clone()),
        zero: None,
        instead_of: None,
    })
}

fn plan_tags(
    vg: &Arc<Vg>,
    name: &LvName,
    add: &[Tag],
    remove: &[Tag],
) -> Result<Planned, EngineError> {
    let lv = existing(vg, name)?;
    let add: Vec<Tag> = add
        .iter()
        .filter(|tag| !lv.has_tag(tag.as_str()))
        .cloned()
        .collect();
    let remove: Vec<Tag> = remove
        .iter()
        .filter(|tag| lv.has_tag(tag.as_str()))
        .cloned()
        .collect();
    if add.is_empty() && remove.is_empty() {
        return Ok(unchanged(vg, name, Vec::new()));
    }
    let edit = Edit::Tags {
        name: name.clone(),
        add,
        remove,
    };
    Ok(Planned {
        vg: apply(vg, &edit)?,
        ..unchanged(vg, name, Vec::new())
    })
}

fn unchanged(vg: &Arc<Vg>, name: &LvName, after: Vec<Step>) -> Planned {
    Planned {
        vg: Arc::clone(vg),
        before: Vec::new(),
        after,
        subject: Subject::Present(name.clone()),
        zero: None,
        instead_of: None,
    }
}

fn apply(vg: &Arc<Vg>, edit: &Edit) -> Result<Arc<Vg>, EngineError> {
    edit::apply(vg, edit)
        .map(Arc::new)
        .map_err(|error| edit_error(vg, error))
}

fn edit_error(vg: &Vg, source: EditError) -> EngineError {
    EngineError::Edit {
        vg: vg.name().clone(),
        source: Arc::new(source),
    }
}

fn existing<'a>(vg: &'a Vg, name: &LvName) -> Result<&'a Arc<Lv>, EngineError> {
    vg.lv(name.as_str()).ok_or_else(|| EngineError::NoSuchLv {
        vg: vg.name().clone(),
        lv: name.clone(),
    })
}

/// LVs of types that the engine does not drive are left to lvm2, and so are
/// those that others build on: the device of a snapshot's origin is not the
/// plain mapping that its own segments describe.
fn native(vg: &Vg, lv: &Lv) -> Result<(), EngineError> {
    edit::editable(vg, &lv.name).map_err(|error| edit_error(vg, error))
}

fn usable(vg: &Vg, lv: &Lv) -> Result<(), EngineError> {
    native(vg, lv)?;
    if lv.has_tag(tags::INCOMPLETE) {
        return Err(EngineError::Incomplete {
            vg: vg.name().clone(),
            lv: lv.name.clone(),
        });
    }
    Ok(())
}

fn incomplete() -> Option<Tag> {
    Tag::new(tags::INCOMPLETE).ok()
}

/// Whole extents, and whole stripes, for a size.
fn extents(vg: &Vg, lv: &LvName, size: Size, stripes: u32) -> Result<Extents, EngineError> {
    let stripes = u64::from(stripes.max(1));
    let (count, bytes) = match size {
        Size::Bytes(bytes) => (vg.extent_size().ceil(bytes), bytes),
        Size::Extents(count) => (count, vg.extent_size().bytes_of(count)),
        Size::PercentFree(percent) => {
            let free = vg.free_extents().0;
            let share = free / 100 * u64::from(percent) + free % 100 * u64::from(percent) / 100;
            let whole = share / stripes * stripes;
            (Extents(whole), vg.extent_size().bytes_of(Extents(whole)))
        }
    };
    match count.0.checked_next_multiple_of(stripes) {
        Some(whole) if whole > 0 && whole <= u64::from(u32::MAX) => Ok(Extents(whole)),
        _ => Err(EngineError::BadSize {
            lv: lv.clone(),
            size: Bytes(bytes.0),
        }),
    }
}
