//! `pvs`, `vgs` and `lvs`.

use std::collections::HashSet;
use std::path::Path;

use lvm2::model::{Lv, SegmentKind, Vg};
use lvm2::units::Bytes;

use super::args::{LvsArgs, PvsArgs, VgsArgs};
use super::table::{Column, Table};
use super::units::percent;
use super::{CliError, Terminal, attr};
use crate::engine::roles::{Role, Roles};
use crate::engine::{LvReport, PvReport, Report, VgReport};
use crate::host::{DmDevice, Skipped};

const PV: [Column; 9] = [
    Column::text("PV", "pv_name"),
    Column::text("VG", "vg_name"),
    Column::text("Fmt", "pv_fmt"),
    Column::text("Attr", "pv_attr"),
    Column::number("PSize", "pv_size"),
    Column::number("PFree", "pv_free"),
    Column::hidden("pv_uuid"),
    Column::hidden("pv_tags"),
    Column::text("Not searched", "not_searched"),
];

const VG: [Column; 14] = [
    Column::text("VG", "vg_name"),
    Column::number("#PV", "pv_count"),
    Column::number("#LV", "lv_count"),
    Column::number("#SN", "snap_count"),
    Column::text("Attr", "vg_attr"),
    Column::number("VSize", "vg_size"),
    Column::number("VFree", "vg_free"),
    Column::number("Meta%", "vg_mda_percent"),
    Column::hidden("vg_uuid"),
    Column::hidden("vg_tags"),
    Column::hidden("vg_mda_count"),
    Column::hidden("vg_mda_used_count"),
    Column::hidden("vg_mda_size"),
    Column::hidden("vg_mda_free"),
];

const LV: [Column; 14] = [
    Column::text("LV", "lv_name"),
    Column::text("VG", "vg_name"),
    Column::text("Attr", "lv_attr"),
    Column::number("LSize", "lv_size"),
    Column::text("Pool", "pool_lv"),
    Column::text("Origin", "origin"),
    Column::number("Data%", "data_percent"),
    Column::number("Meta%", "metadata_percent"),
    Column::text("Move", "move_pv"),
    Column::text("Log", "mirror_log"),
    Column::number("Cpy%Sync", "copy_percent"),
    Column::text("Convert", "convert_lv"),
    Column::hidden("lv_uuid"),
    Column::hidden("lv_tags"),
];

/// `lvcsi pvs`.
pub(super) fn pvs(
    report: &Report,
    args: &PvsArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let units = args.units.units;
    let row = |pv: &PvReport, vg: Option<&Vg>| {
        vec![
            pv_name(pv),
            pv.vg.as_ref().map(ToString::to_string).unwrap_or_default(),
            "lvm2".to_owned(),
            attr::pv(pv, vg),
            units.show(pv.size),
            units.show(pv.free),
            pv.id.to_string(),
            pv.tags.join(","),
            String::new(),
        ]
    };
    let skipped = |skipped: &Skipped| {
        let mut row = vec![String::new(); PV.len()];
        row[0] = skipped.path.display().to_string();
        row[PV.len() - 1] = skipped.reason.to_string();
        row
    };
    let of_vgs = report
        .vgs
        .iter()
        .flat_map(|vg| vg.pvs.iter().map(move |pv| (pv, Some(&*vg.vg))));
    let all = of_vgs.chain(report.orphans.iter().map(|pv| (pv, None)));
    let mut rows: Vec<_> = all.map(|(pv, vg)| row(pv, vg)).collect();
    if args.all {
        rows.extend(report.skipped.iter().map(skipped));
    }
    let names: Vec<&Path> = args.names.iter().map(AsRef::as_ref).collect();
    if !names.is_empty() {
        rows.retain(|row| names.contains(&Path::new(&row[0])));
    }
    rows.sort();
    let missing = names
        .iter()
        .find(|name| rows.iter().all(|row| Path::new(&row[0]) != **name));
    let shown = if args.all { PV.len() } else { PV.len() - 1 };
    for row in &mut rows {
        row.truncate(shown);
    }
    let table = Table {
        name: "pv",
        columns: &PV[..shown],
        rows,
    };
    table.print(args.output.output, term.out)?;
    not_found("PV", "pvs", missing.map(|name| name.display().to_string()))
}

/// `lvcsi vgs`.
pub(super) fn vgs(
    report: &Report,
    args: &VgsArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let units = args.units.units;
    let row = |report: &VgReport| {
        let vg = &report.vg;
        let roles = Roles::of(vg);
        let extents = vg.extent_size();
        let count = |list: usize| list.to_string();
        let snapshots = vg.lvs().iter().filter(|lv| roles.is_snapshot(lv)).count();
        let partial = report.pvs.iter().any(|pv| pv.missing);
        let metadata = &report.metadata;
        vec![
            vg.name().to_string(),
            count(vg.pvs().len()),
            count(vg.lvs().iter().filter(|lv| roles.is_listed(lv)).count()),
            count(snapshots),
            attr::vg(vg, partial),
            units.show(extents.bytes_of(vg.extents_total())),
            units.show(Bytes(report.pvs.iter().map(|pv| pv.free.0).sum())),
            percent(metadata.text, metadata.max_text),
            vg.id().to_string(),
            vg.tags().join(","),
            count(metadata.areas),
            count(metadata.used_areas),
            units.show(metadata.size),
            units.show(metadata.free()),
        ]
    };
    let wanted = |vg: &&VgReport| {
        args.names.is_empty() || args.names.iter().any(|n| vg.vg.name() == n.as_str())
    };
    let mut rows: Vec<_> = report.vgs.iter().filter(wanted).map(row).collect();
    rows.sort();
    let missing = args
        .names
        .iter()
        .find(|name| rows.iter().all(|row| row[0] != **name))
        .cloned();
    Table {
        name: "vg",
        columns: &VG,
        rows,
    }
    .print(args.output.output, term.out)?;
    not_found("VG", "vgs", missing)
}

/// `lvcsi lvs`.
pub(super) fn lvs(
    report: &Report,
    args: &LvsArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let names: Vec<(&str, Option<&str>)> = args.names.iter().map(|name| split(name)).collect();
    let mut found = HashSet::new();
    let mut rows = Vec::new();
    for vg in &report.vgs {
        let roles = Roles::of(&vg.vg);
        for (lv, device) in vg.vg.lvs().iter().zip(&vg.lvs) {
            let asked = |(number, (vg_name, lv_name)): (usize, &(&str, Option<&str>))| {
                let hit = vg.vg.name() == *vg_name && lv_name.is_none_or(|name| lv.name == *name);
                hit.then_some((number, lv_name.is_some()))
            };
            let hits: Vec<_> = names.iter().enumerate().filter_map(asked).collect();
            found.extend(hits.iter().map(|(number, _)| *number));
            let by_name = hits.iter().any(|(_, by_name)| *by_name);
            let chosen = names.is_empty() || !hits.is_empty();
            let listed = roles.is_listed(lv) || args.all || by_name;
            if chosen && listed && roles.kind(lv.name.as_str()) != "snapshot" {
                rows.push(lv_row(vg, lv, device, &roles, args));
            }
        }
        // A VG without LVs was found all the same.
        let empty = |(_, (name, lv)): &(usize, &(&str, Option<&str>))| {
            vg.vg.name() == *name && lv.is_none()
        };
        found.extend(
            names
                .iter()
                .enumerate()
                .filter(empty)
                .map(|(number, _)| number),
        );
    }
    rows.sort_by(|a, b| {
        let key = |row: &[String]| (row[1].clone(), row[0].trim_matches(['[', ']']).to_owned());
        key(a).cmp(&key(b))
    });
    let missing = (0..names.len()).find(|number| !found.contains(number));
    Table {
        name: "lv",
        columns: &LV,
        rows,
    }
    .print(args.output.output, term.out)?;
    match missing.and_then(|number| args.names.get(number)) {
        Some(name) if split(name).1.is_some() => not_found("LV", "lvs", Some(name.clone())),
        other => not_found("VG", "vgs", other.cloned()),
    }
}

/// `vg/lv`, also as `/dev/vg/lv`.
fn split(name: &str) -> (&str, Option<&str>) {
    match name.strip_prefix("/dev/").unwrap_or(name).split_once('/') {
        Some((vg, lv)) => (vg, Some(lv)),
        None => (name, None),
    }
}

fn not_found(kind: &'static str, list: &'static str, name: Option<String>) -> Result<(), CliError> {
    name.map_or(Ok(()), |name| Err(CliError::NotFound { kind, name, list }))
}

fn pv_name(pv: &PvReport) -> String {
    pv.device.as_ref().map_or_else(
        || "[unknown]".to_owned(),
        |info| info.path.display().to_string(),
    )
}

fn lv_row(
    report: &VgReport,
    lv: &Lv,
    device: &LvReport,
    roles: &Roles,
    args: &LvsArgs,
) -> Vec<String> {
    let vg = &report.vg;
    let name = lv.name.as_str();
    let bracketed = |name: &str| match vg.lv(name) {
        Some(lv) if !roles.is_listed(lv) => format!("[{name}]"),
        _ => name.to_owned(),
    };
    let key = |key| roles.str(name, key).map(bracketed).unwrap_or_default();
    let pool = ["thin_pool", "cache_pool", "writecache", "vdo_pool"]
        .map(key)
        .concat();
    let origin = match roles.role(name) {
        Some((Role::Cow, user)) => roles.str(user, "origin").map(bracketed).unwrap_or_default(),
        _ if roles.str(name, "origin").is_some() => key("origin"),
        _ => key("external_origin"),
    };
    let size = vg.extent_size().bytes_of(lv.extents());
    let live: Option<&DmDevice> = device.device.as_ref();
    vec![
        bracketed(name),
        vg.name().to_string(),
        attr::lv(vg, lv, roles, live, report.is_partial(lv)),
        args.units.units.show(size),
        pool,
        origin,
        // What only the status of a target tells.
        String::new(),
        String::new(),
        move_source(report, lv),
        key("mirror_log"),
        String::new(),
        String::new(),
        lv.id.to_string(),
        lv.tags.join(","),
    ]
}

/// The PV that a pvmove takes extents from.
fn move_source(report: &VgReport, lv: &Lv) -> String {
    if !lv.has_status("PVMOVE") {
        return String::new();
    }
    let foreign = lv
        .segments
        .iter()
        .find(|s| matches!(s.kind, SegmentKind::Other { .. }));
    let source = foreign.and_then(|segment| segment.uses().next());
    let source = source.and_then(|used| report.vg.pvs().iter().position(|pv| pv.key == used.key));
    source
        .and_then(|index| report.pvs.get(index))
        .map(pv_name)
        .unwrap_or_default()
}
