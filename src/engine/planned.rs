//! What planning a request takes and gives.

use std::sync::Arc;

use lvm2::id::LvId;
use lvm2::model::{Lv, Vg};
use lvm2::name::LvName;

use super::step::Step;
use crate::host::Host;

/// What a request comes to.
pub(super) struct Planned {
    /// The VG after it; the same `Arc` if the metadata stays as it is.
    pub(super) vg: Arc<Vg>,
    /// Steps that must succeed before the commit.
    pub(super) before: Vec<Step>,
    /// Steps after the commit.
    pub(super) after: Vec<Step>,
    /// What the answer describes.
    pub(super) subject: Subject,
    /// Extents that are still to be zeroed, outside of the VG lock.
    pub(super) zero: Option<Zero>,
    /// An incomplete LV that goes for this; its maker must be dead.
    pub(super) instead_of: Option<LvId>,
}

/// Which LV an answer describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// An LV of the VG as it is after the request.
    Present(LvName),
    /// An LV that is gone; it is described as it was.
    Removed(Arc<Lv>),
    /// An LV that was not there in the first place.
    Absent(LvName),
}

/// A wipe that takes long: the LV is committed with [`INCOMPLETE`](super::tags::INCOMPLETE),
/// zeroed through its own device, which keeps everybody else from removing
/// it, and finished by a second commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zero {
    pub(super) lv: LvName,
    pub(super) id: LvId,
    pub(super) then: Finish,
}

impl Zero {
    /// The LVs that wait for it.
    pub(super) fn names(&self) -> Vec<&LvName> {
        match &self.then {
            Finish::Append { to } => vec![&self.lv, to],
            Finish::Reveal { .. } => vec![&self.lv],
        }
    }
}

/// What happens once everything is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// The LV becomes usable.
    Reveal { activate: bool },
    /// Its extents go to the end of this LV.
    Append { to: LvName },
}

/// What planning needs beside the VG: all that is not deterministic.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) id: LvId,
    pub(super) time: u64,
    pub(super) host: String,
}

impl Context {
    /// A new id, and this machine's time and name.
    pub(super) fn of(host: &Host) -> Self {
        let mut random = [0; 32];
        host.clock.random(&mut random);
        Self {
            id: LvId::from_random(random),
            time: host.clock.unix_seconds(),
            host: host.identity.hostname.clone(),
        }
    }
}
