//! `lv create|extend|remove|rename|activate|deactivate`.

use std::path::PathBuf;

use lvm2::alloc::Policy;
use lvm2::edit::Layout;
use lvm2::name::{LvName, VgName};
use lvm2::units::{Bytes, Extents, parse_size};
use serde::Serialize;

use super::args::{
    ChangeArgs, CreateArgs, ExtendArgs, LayoutArgs, LvCommand, PolicyArg, RemoveArgs, WipeArg,
};
use super::units::Units;
use super::{CliError, Terminal, lv_name, table, tag, vg_name};
use crate::engine::{CreateLv, Engine, EngineError, LvState, Plan, Request, Size, Wipe};

/// One change, ready to be planned or made.
struct Change {
    vg: VgName,
    request: Request,
    args: ChangeArgs,
}

/// `lvcsi lv …`.
pub(super) fn lv(
    engine: &Engine,
    command: LvCommand,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let change = match command {
        LvCommand::Create(args) => create(args)?,
        LvCommand::Extend(args) => extend(args)?,
        LvCommand::Remove(args) => remove(engine, &args, term)?,
        LvCommand::Rename(args) => {
            let (vg, name) = pair(&args.lv)?;
            let to = lv_name(&args.to)?;
            if to == name {
                return Err(CliError::SameName { lv: args.lv });
            }
            Change {
                vg,
                request: Request::Rename { name, to },
                args: args.change,
            }
        }
        LvCommand::Activate(args) => {
            let (vg, name) = pair(&args.lv)?;
            Change {
                vg,
                request: Request::Activate { name },
                args: args.change,
            }
        }
        LvCommand::Deactivate(args) => {
            let (vg, name) = pair(&args.lv)?;
            Change {
                vg,
                request: Request::Deactivate { name },
                args: args.change,
            }
        }
    };
    if change.args.dry_run {
        let plan = engine.plan(&change.vg, &change.request)?;
        return print_plan(&plan, change.args, term);
    }
    let verb = change.request.verb();
    let state = engine.submit(&change.vg, change.request).wait()?;
    print_state(verb, &state, change.args, term)
}

fn create(args: CreateArgs) -> Result<Change, CliError> {
    let vg = vg_name(&args.vg)?;
    let name = lv_name(&args.name)?;
    let object = format!("{vg}/{name}");
    let (size, _) = amount(
        &object,
        args.size.as_deref(),
        args.extents.as_deref(),
        false,
    )?;
    let request = Request::Create(CreateLv {
        name,
        size,
        tags: args.tags.into_iter().map(tag).collect::<Result<_, _>>()?,
        layout: layout(args.layout)?,
        wipe: match args.wipe {
            WipeArg::Signatures => Wipe::Signatures,
            WipeArg::Zero => Wipe::Zero,
        },
        activate: !args.inactive,
    });
    Ok(Change {
        vg,
        request,
        args: args.change,
    })
}

fn extend(args: ExtendArgs) -> Result<Change, CliError> {
    let (vg, name) = pair(&args.lv)?;
    let (size, add) = amount(
        &args.lv,
        args.size.as_deref(),
        args.extents.as_deref(),
        true,
    )?;
    let request = Request::Extend {
        name,
        size,
        add,
        layout: layout(args.layout)?,
    };
    Ok(Change {
        vg,
        request,
        args: args.change,
    })
}

fn remove(engine: &Engine, args: &RemoveArgs, term: &mut Terminal<'_>) -> Result<Change, CliError> {
    let (vg, name) = pair(&args.lv)?;
    if !args.yes && !args.change.dry_run {
        confirm(engine, &vg, &name, term)?;
    }
    let request = Request::Remove {
        name,
        must_exist: true,
        require_tag: None,
    };
    Ok(Change {
        vg,
        request,
        args: args.change,
    })
}

fn confirm(
    engine: &Engine,
    vg: &VgName,
    name: &LvName,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let report = engine.vg(vg)?;
    let lv = report.vg.lv(name.as_str());
    let lv = lv.ok_or_else(|| EngineError::NoSuchLv {
        vg: vg.clone(),
        lv: name.clone(),
    })?;
    let refused = || CliError::NotConfirmed {
        lv: format!("{vg}/{name}"),
    };
    if !term.interactive {
        return Err(refused());
    }
    let size = Units::Rounded.show(report.vg.extent_size().bytes_of(lv.extents()));
    write!(
        term.err,
        "Remove {vg}/{name} ({size}) and all that is on it? [y/n]: "
    )?;
    term.err.flush()?;
    let mut answer = String::new();
    term.input.read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(refused()),
    }
}

/// `VG/LV`, also as `/dev/VG/LV`.
fn pair(text: &str) -> Result<(VgName, LvName), CliError> {
    let halves = text.strip_prefix("/dev/").unwrap_or(text).split_once('/');
    let (vg, lv) = halves.ok_or_else(|| CliError::Pair {
        text: text.to_owned(),
    })?;
    Ok((vg_name(vg)?, lv_name(lv)?))
}

/// The size, and whether it is to be added.
fn amount(
    lv: &str,
    size: Option<&str>,
    extents: Option<&str>,
    may_add: bool,
) -> Result<(Size, bool), CliError> {
    let text = size.or(extents).unwrap_or_default();
    let (number, add) = match text.strip_prefix('+') {
        Some(number) if may_add => (number, true),
        _ => (text, false),
    };
    let found = match size {
        Some(_) => parse_size(number)
            .map(Size::Bytes)
            .map_err(|source| CliError::Size {
                text: text.to_owned(),
                source,
            })?,
        None => parse_extents(number).ok_or_else(|| CliError::Extents {
            text: text.to_owned(),
        })?,
    };
    match found {
        Size::Bytes(Bytes(0)) | Size::Extents(Extents(0)) => {
            Err(CliError::ZeroSize { lv: lv.to_owned() })
        }
        found => Ok((found, add)),
    }
}

fn parse_extents(text: &str) -> Option<Size> {
    let upper = text.to_ascii_uppercase();
    match upper.strip_suffix("%FREE") {
        Some(number) => {
            let percent = number
                .parse()
                .ok()
                .filter(|percent| (1..=100).contains(percent))?;
            Some(Size::PercentFree(percent))
        }
        None => text
            .parse()
            .ok()
            .map(|extents| Size::Extents(Extents(extents))),
    }
}

fn layout(args: LayoutArgs) -> Result<Layout, CliError> {
    const SMALLEST_STRIPE: u64 = 4096;
    let size = args.stripesize.map(|size| size.0);
    let wrong = |size: &u64| !size.is_power_of_two() || *size < SMALLEST_STRIPE;
    if let Some(size) = size.filter(wrong) {
        return Err(CliError::StripeSize { size });
    }
    Ok(Layout {
        policy: args.policy.map(|policy| match policy {
            PolicyArg::Normal => Policy::Normal,
            PolicyArg::Contiguous => Policy::Contiguous,
            PolicyArg::Cling => Policy::Cling,
        }),
        stripes: args.stripes,
        stripe_size: size.map(|size| Bytes(size).sectors_floor()),
        pvs: None,
    })
}

#[derive(Serialize)]
struct PlanView<'a> {
    diff: &'a str,
    steps: &'a [String],
}

pub(super) fn print_plan(
    plan: &Plan,
    args: ChangeArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let view = PlanView {
        diff: &plan.diff,
        steps: &plan.steps,
    };
    table::print(args.output.output, &view, term.out, |out| {
        if plan.diff.is_empty() {
            writeln!(out, "the metadata stays as it is")?;
        }
        write!(out, "{}", plan.diff)?;
        for (number, step) in (1..).zip(&plan.steps) {
            writeln!(out, "{number:>3}. {step}")?;
        }
        Ok(())
    })?;
    Ok(())
}

#[derive(Serialize)]
struct StateView<'a> {
    vg_name: &'a str,
    lv_name: &'a str,
    lv_uuid: String,
    /// Bytes.
    lv_size: u64,
    lv_tags: &'a [String],
    /// Device number, if active.
    device: Option<String>,
    /// A node that leads to it.
    node: Option<&'a PathBuf>,
    /// Whether the command changed anything.
    changed: bool,
}

fn print_state(
    verb: &str,
    state: &LvState,
    args: ChangeArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let view = StateView {
        vg_name: state.vg.as_str(),
        lv_name: state.name.as_str(),
        lv_uuid: state.id.to_string(),
        lv_size: state.size.0,
        lv_tags: &state.tags,
        device: state.dev.map(|dev| dev.to_string()),
        node: state.node.as_ref(),
        changed: state.changed,
    };
    table::print(args.output.output, &view, term.out, |out| {
        let done = match (state.changed, verb) {
            (false, _) => "unchanged, it is as asked for",
            (true, "create") => "created",
            (true, "extend") => "extended",
            (true, "remove") => "removed",
            (true, "rename") => "renamed",
            (true, "activate") => "activated",
            (true, _) => "deactivated",
        };
        let size = Units::Rounded.show(state.size);
        write!(out, "{}/{} {done} ({size})", state.vg, state.name)?;
        match (&state.node, state.dev) {
            (Some(node), Some(dev)) => writeln!(out, ", active as {dev} at {}", node.display()),
            (None, Some(dev)) => writeln!(out, ", active as {dev}"),
            _ => writeln!(out),
        }
    })?;
    Ok(())
}
