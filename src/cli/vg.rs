//! `vg history`: what a VG was.

use std::path::{Path, PathBuf};

use lvm2::edit;
use lvm2::model::Vg;
use serde::Serialize;

use super::args::HistoryArgs;
use super::table::{self, Column, Table};
use super::{CliError, Terminal, vg_name};
use crate::engine::{Engine, History, Version};

#[derive(Serialize)]
struct HistoryView {
    vg_name: String,
    /// Sequence number on the disks.
    seqno: Option<u32>,
    versions: Vec<VersionView>,
}

#[derive(Serialize)]
struct VersionView {
    seqno: u32,
    /// It is the one that counts.
    current: bool,
    vg_uuid: String,
    /// Seconds since 1970.
    time: Option<i64>,
    description: Option<String>,
    lv_count: usize,
    /// Bytes of the metadata text.
    size: usize,
    files: Vec<PathBuf>,
    /// Devices in whose metadata areas the text still is.
    on_devices: Vec<PathBuf>,
}

impl VersionView {
    fn of(version: &Version) -> Self {
        let vg = &version.vg;
        Self {
            seqno: vg.seqno(),
            current: version.current,
            vg_uuid: vg.id().to_string(),
            time: vg.creation_time(),
            description: vg.description().map(str::to_owned),
            lv_count: vg.lvs().iter().filter(|lv| lv.visible()).count(),
            size: vg.print().len(),
            files: version.files.clone(),
            on_devices: version.devices.clone(),
        }
    }

    /// Where the text is: files by their paths, else the disks.
    fn place(&self) -> String {
        let paths =
            |paths: &[PathBuf]| -> Vec<String> { paths.iter().map(|path| show(path)).collect() };
        let mut places = paths(&self.files);
        if self.current {
            places.insert(0, "(current)".to_owned());
        } else if self.files.is_empty() {
            let devices = paths(&self.on_devices).join(", ");
            places.push(format!("(old text on {devices})"));
        }
        places.join(" ")
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// `lvcsi vg history`.
pub(super) fn history(
    engine: &Engine,
    args: &HistoryArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let history = engine.history(&vg_name(&args.vg)?)?;
    for problem in &history.problems {
        writeln!(
            term.err,
            "lvcsi: warning: {}: {}",
            problem.object, problem.detail
        )?;
    }
    if let Some(seqno) = args.show {
        let text = version(&history, seqno)?.text();
        return Ok(term.out.write_all(text.as_bytes())?);
    }
    if let Some([from, to]) = args.diff.as_deref() {
        let diff = edit::diff(
            &as_file(version(&history, *from)?),
            &as_file(version(&history, *to)?),
        );
        return Ok(term.out.write_all(diff.as_bytes())?);
    }
    let view = HistoryView {
        vg_name: history.vg.to_string(),
        seqno: history.seqno,
        versions: history.versions.iter().map(VersionView::of).collect(),
    };
    table::print(args.output.output, &view, term.out, |out| {
        list(&view).print(table::Format::Table, out)
    })?;
    Ok(())
}

/// The version of this number. If there are several, as after a restoration,
/// the one that counts, else the youngest.
fn version(history: &History, seqno: u32) -> Result<&Version, CliError> {
    history
        .versions
        .iter()
        .filter(|version| version.vg.seqno() == seqno)
        .max_by_key(|version| (version.current, version.vg.creation_time()))
        .ok_or_else(|| CliError::NoVersion {
            vg: history.vg.clone(),
            seqno,
        })
}

/// All versions in one layout, so that a difference is one of content.
fn as_file(version: &Version) -> Vg {
    Vg::parse(version.text().as_bytes()).unwrap_or_else(|_| (*version.vg).clone())
}

const COLUMNS: [Column; 6] = [
    Column::number("Seqno", "seqno"),
    Column::text("Time (UTC)", "time"),
    Column::number("#LV", "lv_count"),
    Column::number("Bytes", "size"),
    Column::text("Description", "description"),
    Column::text("Where", "where"),
];

fn list(view: &HistoryView) -> Table<'static> {
    let row = |version: &VersionView| {
        let time = version.time.and_then(|time| u64::try_from(time).ok());
        vec![
            version.seqno.to_string(),
            time.map(edit::date).unwrap_or_default(),
            version.lv_count.to_string(),
            version.size.to_string(),
            version.description.clone().unwrap_or_default(),
            version.place(),
        ]
    };
    Table {
        name: "version",
        columns: &COLUMNS,
        rows: view.versions.iter().map(row).collect(),
    }
}
