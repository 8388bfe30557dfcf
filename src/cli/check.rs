//! `check`: metadata against its rules, the kernel against the metadata, and
//! what was left unfinished; `check --repair` mends what is safe to mend.

use std::io::{self, Write};

use lvm2::name::VgName;
use serde::Serialize;

use super::args::CheckArgs;
use super::{CliError, Terminal, table, vg_name};
use crate::engine::{Defect, Engine, EngineError, Finding, Mended, Repair};
use crate::error::Kind;

#[derive(Default, Serialize)]
struct Checked {
    /// VGs that were checked.
    checked: Vec<String>,
    findings: Vec<FindingView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<RepairView>,
}

#[derive(Serialize)]
struct FindingView {
    /// What kind of finding it is: a name that does not change.
    code: &'static str,
    object: String,
    detail: String,
    /// What to do.
    advice: &'static str,
}

#[derive(Default, Serialize)]
struct RepairView {
    dry_run: bool,
    repaired: Vec<MendedView>,
    left: Vec<MendedView>,
}

#[derive(Serialize)]
struct MendedView {
    code: &'static str,
    object: String,
    detail: String,
    /// What was or would be done, or why nothing was.
    what: String,
}

impl From<Finding> for FindingView {
    fn from(finding: Finding) -> Self {
        Self {
            code: finding.defect.code(),
            detail: finding.defect.to_string(),
            advice: finding.defect.advice(),
            object: finding.object,
        }
    }
}

impl From<Mended> for MendedView {
    fn from(mended: Mended) -> Self {
        let finding = FindingView::from(mended.finding);
        Self {
            code: finding.code,
            object: finding.object,
            detail: finding.detail,
            what: mended.what,
        }
    }
}

impl RepairView {
    fn add(&mut self, repair: Repair) {
        self.repaired
            .extend(repair.done.into_iter().map(Into::into));
        self.left.extend(repair.left.into_iter().map(Into::into));
    }
}

/// `lvcsi check`.
pub(super) fn check(
    engine: &Engine,
    args: &CheckArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let names = args
        .names
        .iter()
        .map(|name| vg_name(name))
        .collect::<Result<Vec<VgName>, _>>()?;
    let all = names.is_empty();
    let names = if all { engine.vg_names()? } else { names };
    let mut seen = Checked {
        checked: names.iter().map(ToString::to_string).collect(),
        ..Checked::default()
    };
    let count = if args.repair {
        let mut repair = RepairView {
            dry_run: args.dry_run,
            ..RepairView::default()
        };
        for name in &names {
            match engine.repair(name, args.dry_run) {
                Ok(done) => repair.add(done),
                Err(error) => {
                    let what = "nothing was done".to_owned();
                    let finding = no_answer(name, error)?;
                    repair.left.push(Mended { finding, what }.into());
                }
            }
        }
        if all {
            repair.add(engine.repair_machine(args.dry_run)?);
        }
        let left = repair.left.len();
        let count = if args.dry_run {
            left + repair.repaired.len()
        } else {
            left
        };
        seen.repair = Some(repair);
        count
    } else {
        let mut add = |found: Vec<Finding>| seen.findings.extend(found.into_iter().map(Into::into));
        for name in &names {
            let found = engine.check(name);
            add(found.or_else(|error| no_answer(name, error).map(|finding| vec![finding]))?);
        }
        if all {
            add(engine.check_machine()?);
        }
        seen.findings.len()
    };
    table::print(args.output.output, &seen, term.out, |out| seen.draw(out))?;
    match count {
        0 => Ok(()),
        count => Err(CliError::Findings { count }),
    }
}

/// A device that hangs and a name that is not one VG are findings, and no
/// reason to leave the other VGs unchecked.
fn no_answer(vg: &VgName, error: EngineError) -> Result<Finding, EngineError> {
    let defect = match error.kind() {
        Kind::DeadlineExceeded => Defect::NoAnswer(error.to_string()),
        Kind::FailedPrecondition => Defect::Unusable(error.to_string()),
        _ => return Err(error),
    };
    Ok(Finding {
        object: vg.to_string(),
        lv: None,
        defect,
    })
}

impl Checked {
    fn draw(&self, out: &mut dyn Write) -> io::Result<()> {
        for finding in &self.findings {
            writeln!(
                out,
                "{}: {} [{}]\n    {}",
                finding.object, finding.detail, finding.code, finding.advice
            )?;
        }
        let quiet = match &self.repair {
            Some(repair) => {
                let done = if repair.dry_run { "would be" } else { "is" };
                draw(&repair.repaired, &format!("{done} mended"), out)?;
                draw(&repair.left, "is left", out)?;
                repair.repaired.is_empty() && repair.left.is_empty()
            }
            None => self.findings.is_empty(),
        };
        match (quiet, self.checked.as_slice()) {
            (true, []) => writeln!(out, "no VG found"),
            (true, names) => writeln!(out, "nothing found in {}", names.join(", ")),
            (false, _) => Ok(()),
        }
    }
}

fn draw(mended: &[MendedView], fate: &str, out: &mut dyn Write) -> io::Result<()> {
    for mended in mended {
        writeln!(
            out,
            "{}: {} [{}]\n    {fate}: {}",
            mended.object, mended.detail, mended.code, mended.what
        )?;
    }
    Ok(())
}
