//! The attribute strings of lvm2's reports.
//!
//! Every character is what lvm2 prints as far as metadata and device-mapper's
//! device list tell. What only a target's status tells (a snapshot that
//! overflowed, a raid out of sync) is shown as if all were well.

use lvm2::model::{Lv, Vg};

use crate::engine::PvReport;
use crate::engine::roles::{Role, Roles};
use crate::host::DmDevice;

fn policy(word: Option<&str>, default: char) -> char {
    match word {
        Some("contiguous") => 'c',
        Some("cling" | "cling_by_tags") => 'l',
        Some("normal") => 'n',
        Some("anywhere") => 'a',
        Some("inherit") => 'i',
        _ => default,
    }
}

/// Three characters: allocatable, exported, missing.
pub(super) fn pv(pv: &PvReport, vg: Option<&Vg>) -> String {
    let exported = vg.is_some_and(Vg::exported);
    let allocatable = match pv.vg {
        // Nothing is allocated from a PV that belongs to no VG; one may be in
        // use by a VG that cannot be read.
        None if pv.allocatable => '-',
        None => 'u',
        Some(_) if pv.allocatable => 'a',
        Some(_) => 'u',
    };
    [
        allocatable,
        if exported { 'x' } else { '-' },
        if pv.missing { 'm' } else { '-' },
    ]
    .into_iter()
    .collect()
}

/// Six characters: permission, resizeable, exported, partial, policy, shared.
pub(super) fn vg(vg: &Vg, partial: bool) -> String {
    [
        if vg.writable() { 'w' } else { 'r' },
        if vg.has_status("RESIZEABLE") {
            'z'
        } else {
            '-'
        },
        if vg.exported() { 'x' } else { '-' },
        if partial { 'p' } else { '-' },
        policy(vg.allocation_policy(), 'n'),
        match vg.lock_type() {
            Some(_) => 's',
            None if vg.has_status("CLUSTERED") => 'c',
            None => '-',
        },
    ]
    .into_iter()
    .collect()
}

/// Ten characters, see lvs(8).
pub(super) fn lv(
    vg: &Vg,
    lv: &Lv,
    roles: &Roles,
    device: Option<&DmDevice>,
    partial: bool,
) -> String {
    let name = lv.name.as_str();
    let policy = policy(lv.allocation_policy.as_deref(), 'i');
    let locked = lv.has_status("LOCKED");
    [
        kind(lv, roles),
        match device {
            _ if !lv.writable() => 'r',
            Some(device) if device.read_only => 'R',
            _ => 'w',
        },
        if locked {
            policy.to_ascii_uppercase()
        } else {
            policy
        },
        if lv.has_status("FIXED_MINOR") {
            'm'
        } else {
            '-'
        },
        match device {
            None => '-',
            Some(device) if device.suspended => 's',
            Some(device) if device.active_table => 'a',
            Some(device) if device.inactive_table => 'i',
            Some(_) => 'd',
        },
        if device.is_some_and(|device| device.open_count > 0) {
            'o'
        } else {
            '-'
        },
        target(vg, lv, roles),
        if zeroes(name, roles) { 'z' } else { '-' },
        match () {
            () if partial => 'p',
            () if lv.has_status("WRITEMOSTLY") => 'w',
            () => '-',
        },
        if lv.has_flag("ACTIVATION_SKIP") {
            'k'
        } else {
            '-'
        },
    ]
    .into_iter()
    .collect()
}

fn kind(lv: &Lv, roles: &Roles) -> char {
    let name = lv.name.as_str();
    if lv.has_status("PVMOVE") {
        return 'p';
    }
    let own = roles.kind(name);
    let unsynced = lv.has_status("NOTSYNCED");
    match (own, roles.role(name)) {
        ("thin-pool", _) => 't',
        ("thin", _) if roles.str(name, "merge").is_some() => 'S',
        ("thin", _) => 'V',
        ("integrity", _) => 'g',
        ("vdo-pool", _) => 'd',
        ("vdo", _) => 'v',
        (_, Some((Role::PoolMeta | Role::IntegrityMeta | Role::RaidMeta, _))) => 'e',
        (_, Some((Role::PoolData, _))) => 'T',
        (_, Some((Role::VdoData, _))) => 'D',
        (_, Some((Role::RaidImage, _))) if lv.has_status("REBUILD") => 'I',
        (_, Some((Role::RaidImage | Role::MirrorImage, _))) => 'i',
        (_, Some((Role::MirrorLog, _))) => 'l',
        (_, Some((Role::Cow, user))) => {
            if roles.str(user, "merging_store").is_some() {
                'S'
            } else {
                's'
            }
        }
        (_, Some((Role::Cache | Role::CacheData, _))) => 'C',
        ("cache" | "cache-pool" | "writecache", _) => 'C',
        (_, Some((Role::Origin, user))) if roles.str(user, "merging_store").is_some() => 'O',
        (_, Some((Role::Origin | Role::ExternalOrigin | Role::CacheOrigin, _))) => 'o',
        ("mirror", _) => {
            if unsynced {
                'M'
            } else {
                'm'
            }
        }
        (kind, _) if kind.starts_with("raid") => {
            if unsynced {
                'R'
            } else {
                'r'
            }
        }
        ("error" | "zero", _) => 'v',
        _ => '-',
    }
}

fn target(_vg: &Vg, lv: &Lv, roles: &Roles) -> char {
    let name = lv.name.as_str();
    if lv.has_status("PVMOVE") {
        return 'm';
    }
    match (roles.kind(name), roles.role(name)) {
        ("thin-pool" | "thin", _) => 't',
        (_, Some((Role::RaidImage | Role::RaidMeta, _))) => 'r',
        (_, Some((Role::MirrorImage | Role::MirrorLog, _))) => 'm',
        (_, Some((Role::Cache | Role::CacheOrigin, _))) => 'C',
        ("cache" | "cache-pool" | "writecache", _) => 'C',
        (_, Some((Role::Origin | Role::Cow, _))) => 's',
        ("mirror", _) => 'm',
        (kind, _) if kind.starts_with("raid") => 'r',
        ("vdo" | "vdo-pool", _) => 'v',
        ("error" | "zero", _) => 'v',
        _ if lv.segments.iter().any(|segment| !segment.type_is_known()) => 'u',
        _ => '-',
    }
}

/// Whether blocks of the pool are zeroed before a thin LV gets them.
fn zeroes(name: &str, roles: &Roles) -> bool {
    let pool = match roles.kind(name) {
        "thin-pool" => name,
        "thin" => roles.str(name, "thin_pool").unwrap_or_default(),
        _ => return false,
    };
    roles.int(pool, "zero_new_blocks") == Some(1)
}
