//! Why a change is refused.

use crate::alloc::AllocError;
use crate::id::{LvId, PvId};
use crate::model::ModelError;
use crate::name::NameError;
use crate::text;
use crate::units::{Bytes, Extents};

/// Why a change is refused. The VG is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// There is no such LV.
    #[error("there is no LV {vg}/{lv}")]
    NoSuchLv {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
    },
    /// The name is taken, by an LV or by the record of a removed one.
    #[error("there is an LV {vg}/{lv} already")]
    LvExists {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
    },
    /// The identity is taken.
    #[error("VG {vg} has an LV with the id {id} already")]
    IdExists {
        /// VG name.
        vg: String,
        /// The id.
        id: LvId,
    },
    /// The VG has as many LVs as its administrator allows.
    #[error("VG {vg} is limited to {max} LVs (vgchange --logicalvolume changes that)")]
    TooManyLvs {
        /// VG name.
        vg: String,
        /// The limit.
        max: u64,
    },
    /// The LV is not linear or striped.
    #[error(
        "LV {vg}/{lv} is of type {type_name}, which is not changed here; use lvm2's commands (lvchange, lvextend, lvrename, lvremove)"
    )]
    NotNative {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// Its type.
        type_name: String,
    },
    /// The LV has a status or flag that says that something else works on it,
    /// or that we do not know.
    #[error(
        "LV {vg}/{lv} is marked {flag}, which forbids changes; see what works on it with: \
         lvs -a -o+lv_role,move_pv,convert_lv {vg}"
    )]
    Locked {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// The status word or flag.
        flag: String,
    },
    /// The LV has snapshots.
    #[error(
        "LV {vg}/{lv} is the origin of snapshot {snapshot} or its store; list them with: \
         lvs -a -o name,origin {vg}, and use lvm2's commands"
    )]
    Origin {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// One of its snapshots.
        snapshot: String,
    },
    /// The LV is part of another one.
    #[error(
        "LV {vg}/{lv} is part of LV {user} of type {type_name}; change that, with lvm2's commands \
         (lvchange, lvextend, lvrename, lvremove)"
    )]
    InUse {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// The LV that builds on it.
        user: String,
        /// That LV's type.
        type_name: String,
    },
    /// The LV is one of lvm2's own, not a user's.
    #[error("LV {vg}/{lv} is an internal volume of lvm2; see: lvs -a {vg}")]
    Hidden {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
    },
    /// The LV would become shorter.
    #[error("LV {vg}/{lv} has {from} extents and would be cut to {to}, which loses data")]
    WouldReduce {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// Extents now.
        from: Extents,
        /// Extents asked for.
        to: Extents,
    },
    /// There is no place for it.
    #[error("LV {vg}/{lv}: {source}")]
    NoSpace {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// Why.
        source: AllocError,
    },
    /// The VG has no such PV.
    #[error("VG {vg} has no PV {pv}")]
    NoSuchPv {
        /// VG name.
        vg: String,
        /// The PV.
        pv: PvId,
    },
    /// The PV is in the VG.
    #[error("PV {pv} is in VG {vg} already")]
    PvExists {
        /// VG name.
        vg: String,
        /// The PV.
        pv: PvId,
    },
    /// LVs have extents on the PV.
    #[error(
        "PV {pv} of VG {vg} holds {used} extents of LVs ({}); move them away with: pvmove", .lvs.join(", ")
    )]
    PvInUse {
        /// VG name.
        vg: String,
        /// The PV.
        pv: PvId,
        /// Extents in use.
        used: Extents,
        /// The LVs.
        lvs: Vec<String>,
    },
    /// A VG has at least one PV.
    #[error("PV {pv} is the last one of VG {vg}; remove the VG instead")]
    LastPv {
        /// VG name.
        vg: String,
        /// The PV.
        pv: PvId,
    },
    /// A VG without PVs was to be made.
    #[error("VG {vg} would have no PV")]
    NoPvs {
        /// VG name.
        vg: String,
    },
    /// The PV is too small for even one extent.
    #[error(
        "PV {pv} of {size} bytes, with data from byte {data_start} on, has no room for an extent of {extent_size} bytes of VG {vg}"
    )]
    NoExtents {
        /// VG name.
        vg: String,
        /// The PV.
        pv: PvId,
        /// Its size.
        size: Bytes,
        /// Where its data begins.
        data_start: Bytes,
        /// Size of an extent.
        extent_size: Bytes,
    },
    /// The VG has as many PVs as its administrator allows.
    #[error("VG {vg} is limited to {max} PVs (vgchange --maxphysicalvolumes changes that)")]
    TooManyPvs {
        /// VG name.
        vg: String,
        /// The limit.
        max: u64,
    },
    /// More extents than lvm2 counts.
    #[error("VG {vg} would have {total} extents, more than LVM2 counts; use larger extents")]
    TooManyExtents {
        /// VG name.
        vg: String,
        /// Extents that it would have.
        total: Extents,
    },
    /// The administrator forbade to add or remove PVs.
    #[error("VG {vg} is not resizeable; allow it with: vgchange --resizeable y {vg}")]
    NotResizeable {
        /// VG name.
        vg: String,
    },
    /// LVs have extents behind the PV's new end.
    #[error(
        "PV {pv} of VG {vg} is in use up to extent {used} and would be cut to {to}; move what lies behind with: pvmove"
    )]
    PvShrink {
        /// VG name.
        vg: String,
        /// The PV.
        pv: PvId,
        /// Extents up to the last one that is in use.
        used: Extents,
        /// Extents that would be left.
        to: Extents,
    },
    /// The name cannot be given.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The numbering of commits is used up.
    #[error("VG {vg} has the highest seqno there is")]
    Seqno {
        /// VG name.
        vg: String,
    },
    /// A time is later than metadata can say.
    #[error("time {time} is beyond what metadata can hold")]
    Time {
        /// Seconds since 1970.
        time: u64,
    },
    /// The text begins with something else than the VG, as backup files do, or
    /// lacks a section that it must have.
    #[error("the text of VG {vg} is not laid out as on a disk")]
    Layout {
        /// VG name.
        vg: String,
    },
    /// The tree cannot hold the change.
    #[error("VG {vg}: {source}")]
    Text {
        /// VG name.
        vg: String,
        /// Why.
        source: text::EditError,
    },
    /// What was written does not read back.
    #[error(transparent)]
    Model(#[from] ModelError),
}
