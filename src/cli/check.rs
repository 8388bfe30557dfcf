//! `check`: metadata against its rules, and the kernel against the metadata.

use lvm2::check::Refusal;
use lvm2::name::VgName;
use lvm2::tables::Target;
use serde::Serialize;

use super::args::CheckArgs;
use super::{CliError, Terminal, table, vg_name};
use crate::engine::{CheckReport, Engine};
use crate::error::Kind;

#[derive(Serialize)]
struct Findings {
    /// VGs that were checked.
    checked: Vec<String>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    /// The rule that is broken: an invariant's name, `table`, `state` or
    /// `refusal`.
    rule: String,
    object: String,
    detail: String,
}

/// `lvcsi check`.
pub(super) fn check(
    engine: &Engine,
    args: &CheckArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut found = Findings {
        checked: Vec::new(),
        findings: Vec::new(),
    };
    let names = match args.names.as_slice() {
        [] => {
            let names = engine.vg_names()?;
            // What is wrong outside of any VG, such as two PVs of one id.
            let outside = engine.report()?.problems.into_iter();
            // What is wrong within one is found below.
            let inside = |object: &str| {
                names
                    .iter()
                    .any(|name| object == name.as_str() && engine.outline(name).is_ok())
            };
            let outside = outside.filter(|problem| !inside(&problem.object));
            found.findings.extend(outside.map(|problem| Finding {
                rule: "state".to_owned(),
                object: problem.object,
                detail: problem.detail,
            }));
            names
        }
        names => names
            .iter()
            .map(|name| vg_name(name))
            .collect::<Result<Vec<VgName>, _>>()?,
    };
    for name in names {
        match engine
            .check(&name)
            .and_then(|report| Ok((report, engine.vg(&name)?)))
        {
            Ok((report, vg)) => {
                found.add(report);
                found.add_refusal(&name, vg.refusal);
            }
            // Not one VG, or an unreadable one: without a name the report has
            // said so already.
            Err(error) if error.kind() == Kind::FailedPrecondition && args.names.is_empty() => {
                tracing::debug!(vg = %name, %error, "not checked");
            }
            // So is a device that hangs, and neither is a reason to leave the
            // other VGs unchecked.
            Err(error)
                if matches!(
                    error.kind(),
                    Kind::DeadlineExceeded | Kind::FailedPrecondition
                ) =>
            {
                found.findings.push(Finding {
                    rule: "state".to_owned(),
                    object: name.to_string(),
                    detail: error.to_string(),
                });
            }
            Err(error) => return Err(error.into()),
        }
    }
    table::print(args.output.output, &found, term.out, |out| {
        for finding in &found.findings {
            writeln!(
                out,
                "{}: {} [{}]",
                finding.object, finding.detail, finding.rule
            )?;
        }
        match (found.findings.len(), found.checked.as_slice()) {
            (0, []) => writeln!(out, "no VG found"),
            (0, names) => writeln!(out, "nothing found in {}", names.join(", ")),
            _ => Ok(()),
        }
    })?;
    match found.findings.len() {
        0 => Ok(()),
        count => Err(CliError::Findings { count }),
    }
}

impl Findings {
    /// Why the VG must not be changed, and what helps.
    fn add_refusal(&mut self, vg: &VgName, refusal: Option<std::sync::Arc<Refusal>>) {
        self.findings.extend(refusal.map(|refusal| Finding {
            rule: "refusal".to_owned(),
            object: vg.to_string(),
            detail: refusal.to_string(),
        }));
    }

    fn add(&mut self, report: CheckReport) {
        let vg = report.vg.to_string();
        let violations = report.violations.into_iter().map(|violation| Finding {
            rule: violation.rule.to_owned(),
            object: violation.object,
            detail: violation.detail,
        });
        let tables = report.tables.into_iter().map(|mismatch| Finding {
            rule: "table".to_owned(),
            object: format!("{vg}/{}", mismatch.lv),
            detail: format!(
                "the kernel maps `{}`, the metadata asks for `{}`",
                lines(&mismatch.found),
                lines(&mismatch.expected)
            ),
        });
        let problems = report.problems.into_iter().map(|problem| Finding {
            rule: "state".to_owned(),
            object: problem.object,
            detail: problem.detail,
        });
        self.findings
            .extend(violations.chain(tables).chain(problems));
        self.checked.push(vg);
    }
}

fn lines(table: &[Target]) -> String {
    let lines: Vec<String> = table.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
