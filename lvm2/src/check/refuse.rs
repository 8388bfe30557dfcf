//! When a VG must not be written.

use crate::id::PvId;
use crate::model::Vg;

use super::{Violation, check};

/// Who this machine is, for VGs that belong to one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The local system id, if one is configured.
    pub system_id: Option<String>,
    /// Further system ids whose VGs this host may use.
    pub extra: Vec<String>,
}

/// Why a VG must not be written by us. The message names the rule, the object
/// and what an administrator would do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The VG is exported.
    #[error("VG {vg} is exported; import it with: vgimport {vg}")]
    Exported {
        /// VG name.
        vg: String,
    },
    /// The VG is under the old cluster manager.
    #[error(
        "VG {vg} is clustered (clvm); if no other host uses it, make it local with: \
         vgchange --lock-type none --lock-opt force {vg}"
    )]
    Clustered {
        /// VG name.
        vg: String,
    },
    /// The VG is under a lock manager that we do not speak to.
    #[error(
        "VG {vg} has lock type {lock_type}, which needs lvmlockd; if no other host uses it, make it \
         local with: vgchange --lock-type none --lock-opt force {vg}"
    )]
    LockType {
        /// VG name.
        vg: String,
        /// `sanlock`, `dlm` or `idm`.
        lock_type: String,
    },
    /// The VG belongs to another host.
    #[error(
        "VG {vg} belongs to system id {owner}, and this host is {}; if that host is gone, take it \
         over with: vgchange --yes --config 'global {{system_id_source = \"lvmlocal\"}} local \
         {{system_id = \"{owner}\"}}' --systemid '{}' {vg}",
        .local.as_deref().unwrap_or("without a system id"),
        .local.as_deref().unwrap_or_default()
    )]
    ForeignSystemId {
        /// VG name.
        vg: String,
        /// The VG's system id.
        owner: String,
        /// This host's system id.
        local: Option<String>,
    },
    /// The VG has no write permission.
    #[error(
        "VG {vg} is read-only, which no command of lvm2 ends: vgcfgbackup -f FILE {vg}, add \
         \"WRITE\" to its status in FILE, vgcfgrestore -f FILE {vg}"
    )]
    ReadOnly {
        /// VG name.
        vg: String,
    },
    /// A PV is missing.
    #[error(
        "VG {vg} misses PV {pv}, last seen as {hint}; bring it back and run: \
         vgextend --restoremissing {vg} DEVICE, or give it up with: vgreduce --removemissing {vg}"
    )]
    MissingPv {
        /// VG name.
        vg: String,
        /// The PV.
        pv: PvId,
        /// Where it was last.
        hint: String,
    },
    /// A status word that neither lvm2 nor we know.
    #[error(
        "{object} has status {word:?}, which no lvm2 known to us writes; look at it with: vgck {vg}"
    )]
    UnknownStatus {
        /// VG name.
        vg: String,
        /// What has it.
        object: String,
        /// The word.
        word: String,
    },
    /// A segment type, or a flag on one, that neither lvm2 nor we know.
    #[error(
        "LV {vg}/{lv} has a segment of type {type_name:?}, which no lvm2 known to us writes; look \
         at it with: lvs --segments {vg}/{lv}"
    )]
    UnknownSegment {
        /// VG name.
        vg: String,
        /// LV name.
        lv: String,
        /// The type.
        type_name: String,
    },
    /// The metadata breaks a rule.
    #[error("{violation}; look at it with: vgck {vg}, restore with: vgcfgrestore {vg}")]
    Broken {
        /// VG name.
        vg: String,
        /// The first violation.
        violation: Violation,
    },
}

/// Why `vg` must not be written by `identity`'s host, if there is a reason.
/// The most telling reason comes first.
#[must_use]
pub fn refusal(vg: &Vg, identity: &Identity) -> Option<Refusal> {
    access(vg, identity)
        .or_else(|| missing_pv(vg))
        .or_else(|| unknown_status(vg))
        .or_else(|| unknown_segment(vg))
        .or_else(|| {
            let violation = check(vg).into_iter().next()?;
            Some(Refusal::Broken {
                vg: vg.name().to_string(),
                violation,
            })
        })
}

/// Reasons that lie in the VG's own keys.
fn access(vg: &Vg, identity: &Identity) -> Option<Refusal> {
    let name = || vg.name().to_string();
    if let Some(owner) = vg.system_id() {
        let ours = identity.system_id.as_deref() == Some(owner);
        if !ours && !identity.extra.iter().any(|extra| extra == owner) {
            let (owner, local) = (owner.to_owned(), identity.system_id.clone());
            return Some(Refusal::ForeignSystemId {
                vg: name(),
                owner,
                local,
            });
        }
    }
    if vg.has_status("CLUSTERED") {
        return Some(Refusal::Clustered { vg: name() });
    }
    if let Some(lock_type) = vg.lock_type() {
        return Some(Refusal::LockType {
            vg: name(),
            lock_type: lock_type.to_owned(),
        });
    }
    if vg.exported() {
        return Some(Refusal::Exported { vg: name() });
    }
    (!vg.writable()).then(|| Refusal::ReadOnly { vg: name() })
}

fn missing_pv(vg: &Vg) -> Option<Refusal> {
    let pv = vg.pvs().iter().find(|pv| pv.missing)?;
    Some(Refusal::MissingPv {
        vg: vg.name().to_string(),
        pv: pv.id,
        hint: pv.device_hint.clone(),
    })
}

fn unknown_status(vg: &Vg) -> Option<Refusal> {
    let (object, word) = super::structure::unknown_status(vg).next()?;
    Some(Refusal::UnknownStatus {
        vg: vg.name().to_string(),
        object,
        word: word.to_owned(),
    })
}

fn unknown_segment(vg: &Vg) -> Option<Refusal> {
    let segments = vg
        .lvs()
        .iter()
        .flat_map(|lv| lv.segments.iter().map(move |s| (lv, s)));
    let (lv, segment) = segments
        .into_iter()
        .find(|(_, segment)| !segment.type_is_known())?;
    Some(Refusal::UnknownSegment {
        vg: vg.name().to_string(),
        lv: lv.name.to_string(),
        type_name: segment.type_name().to_owned(),
    })
}
