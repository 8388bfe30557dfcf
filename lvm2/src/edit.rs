//! Changes of a VG, as pure functions from a VG to a VG.
//!
//! [`apply`] makes one change, [`seal`] turns the result into the next commit.
//! Only the text of what is meant changes; an LV that is not touched is shared
//! with the VG before.

mod absorb;
mod create;
mod diff;
mod error;
mod group;
mod guard;
mod resize;
mod seal;
mod small;
mod tree;

use crate::alloc::Policy;
use crate::id::{LvId, PvId};
use crate::model::Vg;
use crate::name::{LvName, Tag};
use crate::units::{Bytes, Extents, Sectors};

pub use diff::{diff, diff_texts};
pub use error::EditError;
pub use group::{NewPv, NewVg, create_vg};
pub use seal::{Stamp, date, seal};

/// lvm2's default stripe: 64 KiB.
pub const DEFAULT_STRIPE: Sectors = Sectors(128);

/// How an LV's new extents are to lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The policy; `None` = the LV's own, else the VG's, else normal. A new LV
    /// keeps a policy that is given here.
    pub policy: Option<Policy>,
    /// Legs; `None` = 1 for a new LV, as many as the last segment has for one
    /// that grows.
    pub stripes: Option<u32>,
    /// Stripe size; `None` = that of the last segment, or 64 KiB (no more than
    /// an extent).
    pub stripe_size: Option<Sectors>,
    /// The only PVs to take from; `None` = all.
    pub pvs: Option<Vec<PvId>>,
}

/// One change of a VG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A new linear or striped LV, visible and writable.
    Create {
        /// Name, not one that LVM2 reserves.
        name: LvName,
        /// Identity, from random bits.
        id: LvId,
        /// Size; rounded up to a multiple of the stripes.
        extents: Extents,
        /// Tags.
        tags: Vec<Tag>,
        /// Where.
        layout: Layout,
        /// Now, in seconds since 1970.
        time: u64,
        /// The host that makes it.
        host: String,
    },
    /// More extents for an LV. One that has the size already stays as it is.
    Extend {
        /// Which.
        name: LvName,
        /// The new size, not the difference; what is added is rounded up to a
        /// multiple of the stripes.
        to: Extents,
        /// Where.
        layout: Layout,
    },
    /// One LV's extents become the end of another, and it is no more.
    Absorb {
        /// Which grows.
        name: LvName,
        /// Which goes.
        from: LvName,
    },
    /// Always refused: what lies behind the new end would be lost.
    Reduce {
        /// Which.
        name: LvName,
        /// The new size.
        to: Extents,
    },
    /// No such LV any more.
    Remove {
        /// Which.
        name: LvName,
    },
    /// Another name.
    Rename {
        /// Which.
        name: LvName,
        /// The new name, not one that LVM2 reserves.
        to: LvName,
    },
    /// Other tags. Adding what is there and removing what is not is no error.
    Tags {
        /// Which.
        name: LvName,
        /// Tags to add.
        add: Vec<Tag>,
        /// Tags to remove, before others are added.
        remove: Vec<Tag>,
    },
    /// One more PV.
    AddPv(NewPv),
    /// A PV less; one that LVs use, or the last one, stays.
    RemovePv {
        /// Which.
        id: PvId,
    },
    /// Another size of a PV. It may shrink by extents that no LV uses.
    ResizePv {
        /// Which.
        id: PvId,
        /// Size of the device, or of the part of it that the VG shall use.
        size: Bytes,
    },
}

/// Whether `name` is an LV that may be changed: a user's own linear or striped
/// one that nothing else builds on or works on.
///
/// # Errors
/// Why not.
pub fn editable(vg: &Vg, name: &LvName) -> Result<(), EditError> {
    guard::editable(vg, name).map(drop)
}

/// Makes one change. The result is as sound as `vg` was (no rule of
/// [`crate::check`] is broken that was not before) and still has its seqno.
///
/// Whether this host may write the VG at all is for [`crate::check::refusal`].
///
/// # Errors
/// When the LV is not there, not ours to change, or there is no room.
pub fn apply(vg: &Vg, edit: &Edit) -> Result<Vg, EditError> {
    match edit {
        Edit::Create {
            name,
            id,
            extents,
            tags,
            layout,
            time,
            host,
        } => {
            let new = create::NewLv {
                name,
                id,
                tags,
                time: *time,
                host,
            };
            create::create(vg, &new, *extents, layout)
        }
        Edit::Extend { name, to, layout } => resize::extend(vg, name, *to, layout),
        Edit::Absorb { name, from } => absorb::absorb(vg, name, from),
        Edit::Reduce { name, to } => Err(resize::reduce(vg, name, *to)),
        Edit::Remove { name } => small::remove(vg, name),
        Edit::Rename { name, to } => small::rename(vg, name, to),
        Edit::Tags { name, add, remove } => small::tags(vg, name, add, remove),
        Edit::AddPv(pv) => group::add_pv(vg, pv),
        Edit::RemovePv { id } => group::remove_pv(vg, *id),
        Edit::ResizePv { id, size } => group::resize_pv(vg, *id, *size),
    }
}
