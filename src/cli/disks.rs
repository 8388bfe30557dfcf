//! `pv create|resize|remove` and `vg create|extend|reduce|remove`.

use std::io::Write;

use lvm2::name::Tag;
use lvm2::ondisk::geometry::Wish;
use lvm2::units::{Bytes, ExtentSize, parse_size};
use serde::Serialize;

use super::args::ChangeArgs;
use super::disk_args::{PvCommand, PvLayoutArgs, VgCommand, VgCreateArgs};
use super::lv::print_plan;
use super::units::Units;
use super::vg::history;
use super::{CliError, Terminal, table, tag, vg_name};
use crate::engine::{DiskOutcome, DiskRequest, Engine, PvState, VgState};

/// One change, ready to be planned or made.
struct Change {
    request: DiskRequest,
    /// What is found may be wiped.
    yes: bool,
    args: ChangeArgs,
    /// What was done, in a word: to PVs, and to the VG.
    done: (&'static str, &'static str),
}

/// `lvcsi pv …`.
pub(super) fn pv(
    engine: &Engine,
    command: PvCommand,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let change = match command {
        PvCommand::Create(args) => Change {
            yes: args.layout.yes,
            request: DiskRequest::CreatePv {
                wish: wish(&args.layout)?,
                devices: args.devices,
            },
            args: args.change,
            done: ("created", ""),
        },
        PvCommand::Resize(args) => Change {
            yes: false,
            request: DiskRequest::ResizePv {
                device: args.device,
                size: args.size.as_deref().map(size).transpose()?,
            },
            args: args.change,
            done: ("resized", "now"),
        },
        PvCommand::Remove(args) => Change {
            yes: false,
            request: DiskRequest::RemovePv {
                devices: args.devices,
            },
            args: args.change,
            done: ("removed", ""),
        },
    };
    carry_out(engine, change, term)
}

/// `lvcsi vg …`.
pub(super) fn vg(
    engine: &Engine,
    command: VgCommand,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let change = match command {
        VgCommand::History(args) => return history(engine, &args, term),
        VgCommand::Create(args) => create(args)?,
        VgCommand::Extend(args) => Change {
            yes: args.layout.yes,
            request: DiskRequest::ExtendVg {
                vg: vg_name(&args.vg)?,
                wish: wish(&args.layout)?,
                devices: args.devices,
            },
            args: args.change,
            done: ("added", "extended"),
        },
        VgCommand::Reduce(args) => Change {
            yes: false,
            request: DiskRequest::ReduceVg {
                vg: vg_name(&args.vg)?,
                devices: args.devices,
            },
            args: args.change,
            done: ("taken out", "reduced"),
        },
        VgCommand::Remove(args) => Change {
            yes: false,
            request: DiskRequest::RemoveVg {
                vg: vg_name(&args.vg)?,
            },
            args: args.change,
            done: ("of no VG now", "removed"),
        },
    };
    carry_out(engine, change, term)
}

fn create(args: VgCreateArgs) -> Result<Change, CliError> {
    let extent = size(&args.extent_size)?;
    let wrong = |source| CliError::Size {
        text: args.extent_size.clone(),
        source,
    };
    // What is no whole number of sectors is no extent size either.
    let extent_size = ExtentSize::new(extent.sectors_ceil()).map_err(wrong)?;
    if extent_size.bytes() != extent {
        let sectors = extent.sectors_floor().0;
        return Err(wrong(lvm2::units::UnitError::ExtentSize { sectors }));
    }
    let tags = args.tags.into_iter().map(tag);
    Ok(Change {
        yes: args.layout.yes,
        request: DiskRequest::CreateVg {
            vg: vg_name(&args.vg)?,
            wish: wish(&args.layout)?,
            devices: args.devices,
            extent_size,
            tags: tags.collect::<Result<Vec<Tag>, _>>()?,
        },
        args: args.change,
        done: ("added", "created"),
    })
}

fn size(text: &str) -> Result<Bytes, CliError> {
    parse_size(text).map_err(|source| CliError::Size {
        text: text.to_owned(),
        source,
    })
}

fn wish(args: &PvLayoutArgs) -> Result<Wish, CliError> {
    Ok(Wish {
        metadata_size: args.metadata_size.as_deref().map(size).transpose()?,
        data_alignment: args.data_alignment.as_deref().map(size).transpose()?,
    })
}

fn carry_out(engine: &Engine, change: Change, term: &mut Terminal<'_>) -> Result<(), CliError> {
    if change.args.dry_run {
        let plan = engine.plan_disks(&change.request)?;
        return print_plan(&plan, change.args, term);
    }
    let outcome = engine.change_disks(&change.request, change.yes)?;
    print_outcome(&outcome, &change, term)
}

#[derive(Serialize)]
struct OutcomeView<'a> {
    pvs: Vec<PvView<'a>>,
    vg: Option<VgView<'a>>,
}

#[derive(Serialize)]
struct PvView<'a> {
    pv_name: String,
    pv_uuid: String,
    /// Bytes, as all sizes here.
    pv_size: u64,
    pe_start: u64,
    pv_mda_size: u64,
    wiped: Vec<WipedView<'a>>,
}

#[derive(Serialize)]
struct WipedView<'a> {
    r#type: &'a str,
    offset: Option<u64>,
    label: Option<&'a str>,
    uuid: Option<&'a str>,
}

#[derive(Serialize)]
struct VgView<'a> {
    vg_name: &'a str,
    vg_uuid: String,
    vg_seqno: u32,
    vg_extent_size: u64,
    vg_extent_count: u64,
    pv_count: usize,
}

fn pv_view(pv: &PvState) -> PvView<'_> {
    PvView {
        pv_name: pv.path.display().to_string(),
        pv_uuid: pv.id.to_string(),
        pv_size: pv.size.0,
        pe_start: pv.data_start.0,
        pv_mda_size: pv.metadata_size.0,
        wiped: pv
            .wiped
            .iter()
            .map(|found| WipedView {
                r#type: &found.kind,
                offset: found.magic.map(|(offset, _)| offset),
                label: found.label.as_deref(),
                uuid: found.uuid.as_deref(),
            })
            .collect(),
    }
}

fn vg_view(vg: &VgState) -> VgView<'_> {
    VgView {
        vg_name: vg.name.as_str(),
        vg_uuid: vg.id.to_string(),
        vg_seqno: vg.seqno,
        vg_extent_size: vg.extent_size.0,
        vg_extent_count: vg.extents.0,
        pv_count: vg.pvs,
    }
}

fn print_outcome(
    outcome: &DiskOutcome,
    change: &Change,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let view = OutcomeView {
        pvs: outcome.pvs.iter().map(pv_view).collect(),
        vg: outcome.vg.as_ref().map(vg_view),
    };
    table::print(change.args.output.output, &view, term.out, |out| {
        for pv in &outcome.pvs {
            print_pv(pv, change.done.0, out)?;
        }
        if let Some(vg) = &outcome.vg {
            let size = Bytes(vg.extent_size.0.saturating_mul(vg.extents.0));
            writeln!(
                out,
                "VG {} {} ({} PV(s), {}, extents of {})",
                vg.name,
                change.done.1,
                vg.pvs,
                Units::Rounded.show(size),
                Units::Rounded.show(vg.extent_size)
            )?;
        }
        Ok(())
    })?;
    Ok(())
}

fn print_pv(pv: &PvState, done: &str, out: &mut dyn Write) -> std::io::Result<()> {
    for found in &pv.wiped {
        writeln!(out, "{}: wiped {found}", pv.path.display())?;
    }
    writeln!(
        out,
        "PV {} {done} ({}, data from {} on)",
        pv.path.display(),
        Units::Rounded.show(pv.size),
        Units::Rounded.show(pv.data_start)
    )
}
