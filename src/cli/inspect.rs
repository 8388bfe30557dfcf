//! `inspect`: what LVM2 has written to a device, in full.

use std::io::{self, Write};
use std::path::PathBuf;

use lvm2::ondisk::label::{self, PvHeader, SEARCHED_BYTES};
use lvm2::ondisk::mda::MdaHeader;
use lvm2::ondisk::{Area, SECTOR, mda, ring};
use lvm2::units::Bytes;
use serde::Serialize;

use super::args::InspectArgs;
use super::texts::{self, OlderText, TextView};
use super::units::percent;
use super::{CliError, Terminal, table};
use crate::host::{BlockDevice, Host, HostResult};

/// Of a larger ring only the start is searched for older texts.
const SEARCHED_RING: u64 = 64 << 20;

#[derive(Serialize)]
struct Inspection {
    device: PathBuf,
    size: u64,
    block_size: u32,
    label_sector: u64,
    /// Sectors that hold further labels, which LVM2 ignores.
    further_labels: Vec<u64>,
    pv: PvView,
    metadata_areas: Vec<MdaView>,
}

#[derive(Serialize)]
struct PvView {
    id: String,
    device_size: u64,
    in_use: bool,
    extension_version: u32,
    data_areas: Vec<AreaView>,
    bootloader_areas: Vec<AreaView>,
}

/// Bytes of the device; for a data area a size of 0 means up to the end.
#[derive(Serialize)]
struct AreaView {
    offset: u64,
    size: u64,
}

impl From<&Area> for AreaView {
    fn from(area: &Area) -> Self {
        Self {
            offset: area.offset.0,
            size: area.size.0,
        }
    }
}

#[derive(Serialize)]
struct MdaView {
    offset: u64,
    size: u64,
    /// Why the area cannot be used.
    problem: Option<String>,
    ignored: bool,
    /// The largest text that LVM2 writes to this area.
    largest_text: u64,
    /// How much of that the committed text has.
    text_percent: Option<String>,
    committed: Option<TextView>,
    precommitted: Option<TextView>,
    /// Texts of earlier commits that can still be read, in ring order.
    older: Vec<OlderText>,
}

/// `lvcsi inspect`.
pub(super) fn inspect(
    host: &Host,
    args: &InspectArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let device = host.block.open_path(&args.device)?;
    let found = look(device.as_ref(), args)?;
    table::print(args.output.output, &found, term.out, |out| found.draw(out))?;
    Ok(())
}

fn look(device: &dyn BlockDevice, args: &InspectArgs) -> Result<Inspection, CliError> {
    let info = device.info();
    let no_pv = |reason: String| CliError::NoPv {
        path: args.device.clone(),
        reason,
    };
    if info.size < SEARCHED_BYTES as u64 {
        return Err(no_pv(format!(
            "it has {} bytes, which is too small for a label",
            info.size
        )));
    }
    let mut head = [0; SEARCHED_BYTES];
    device.read_at(0, &mut head)?;
    let found = match label::find(&head) {
        Ok(Some(found)) => found,
        Ok(None) => return Err(no_pv(why_no_label(&head))),
        Err(error) => return Err(no_pv(error.to_string())),
    };
    let header: &PvHeader = &found.header;
    let areas = header.metadata_areas.iter();
    Ok(Inspection {
        device: args.device.clone(),
        size: info.size,
        block_size: info.block_size,
        label_sector: found.sector,
        further_labels: found.further.clone(),
        pv: PvView {
            id: header.id.to_string(),
            device_size: header.device_size.0,
            in_use: header.in_use(),
            extension_version: header.ext_version,
            data_areas: header.data_areas.iter().map(AreaView::from).collect(),
            bootloader_areas: header.bootloader_areas.iter().map(AreaView::from).collect(),
        },
        metadata_areas: areas
            .map(|area| look_at_area(device, area, args.text))
            .collect(),
    })
}

fn why_no_label(head: &[u8]) -> String {
    let broken = label::candidates(head).unwrap_or_default().into_iter();
    let broken: Vec<String> = broken
        .filter_map(|candidate| candidate.outcome.err())
        .map(|e| e.to_string())
        .collect();
    match broken.as_slice() {
        [] => "there is no LVM2 label in its first four sectors".to_owned(),
        _ => format!("it has no valid label: {}", broken.join("; ")),
    }
}

fn look_at_area(device: &dyn BlockDevice, area: &Area, with_text: bool) -> MdaView {
    let mut view = MdaView {
        offset: area.offset.0,
        size: area.size.0,
        problem: None,
        ignored: false,
        largest_text: ring::max_text(area.size.0),
        text_percent: None,
        committed: None,
        precommitted: None,
        older: Vec::new(),
    };
    match read_area(device, area) {
        Err(problem) => view.problem = Some(problem),
        Ok((header, bytes)) => {
            let text = |locn: &Option<mda::RawLocn>| {
                locn.as_ref()
                    .map(|locn| texts::read(device, &header, locn, with_text))
            };
            view.ignored = header.ignored();
            view.text_percent = header
                .committed
                .as_ref()
                .map(|locn| percent(Bytes(locn.size), Bytes(view.largest_text)));
            view.committed = text(&header.committed);
            view.precommitted = text(&header.precommitted);
            view.older = texts::older(&bytes, header.committed.as_ref(), with_text);
        }
    }
    view
}

/// The header of an area and the bytes of the area, as far as they are
/// searched.
fn read_area(device: &dyn BlockDevice, area: &Area) -> Result<(MdaHeader, Vec<u8>), String> {
    let end = area.offset.0.checked_add(area.size.0);
    if end.is_none_or(|end| end > device.info().size) || area.size.0 < mda::HEADER {
        return Err("it does not lie on the device".to_owned());
    }
    let read = |len: u64| -> HostResult<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(SECTOR)];
        device.read_at(area.offset.0, &mut bytes)?;
        Ok(bytes)
    };
    let head = read(mda::HEADER).map_err(|error| error.to_string())?;
    let header = MdaHeader::decode(&head, area.offset.0).map_err(|error| error.to_string())?;
    let len = header.size.min(area.size.0).min(SEARCHED_RING);
    Ok((header, read(len).map_err(|error| error.to_string())?))
}

impl Inspection {
    fn draw(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "device           {}, {} bytes in blocks of {}",
            self.device.display(),
            self.size,
            self.block_size
        )?;
        write!(out, "label            in sector {}", self.label_sector)?;
        for sector in &self.further_labels {
            write!(out, ", another (ignored) in sector {sector}")?;
        }
        let pv = &self.pv;
        writeln!(out, "\nPV               {}", pv.id)?;
        writeln!(out, "PV size          {} bytes", pv.device_size)?;
        let in_use = if pv.in_use { "yes" } else { "no" };
        writeln!(
            out,
            "used by a VG     {in_use} (extension version {})",
            pv.extension_version
        )?;
        for area in &pv.data_areas {
            writeln!(out, "data area        {}", area.show())?;
        }
        for area in &pv.bootloader_areas {
            writeln!(out, "bootloader area  {}", area.show())?;
        }
        if self.metadata_areas.is_empty() {
            writeln!(out, "metadata area    none")?;
        }
        self.metadata_areas
            .iter()
            .try_for_each(|area| area.draw(out))
    }
}

impl AreaView {
    fn show(&self) -> String {
        match self.size {
            0 => format!("from byte {} to the end", self.offset),
            size => format!("{size} bytes from byte {}", self.offset),
        }
    }
}

impl MdaView {
    fn draw(&self, out: &mut dyn Write) -> io::Result<()> {
        let area = AreaView {
            offset: self.offset,
            size: self.size,
        };
        writeln!(out, "metadata area    {}", area.show())?;
        if let Some(problem) = &self.problem {
            return writeln!(out, "  unusable       {problem}");
        }
        if self.ignored {
            writeln!(out, "  ignored        its text is stale")?;
        }
        write!(out, "  largest text   {} bytes", self.largest_text)?;
        match &self.text_percent {
            Some(percent) => writeln!(out, ", {percent}% in use")?,
            None => writeln!(out)?,
        }
        match &self.committed {
            None => writeln!(out, "  committed      none: the PV belongs to no VG")?,
            Some(text) => text.draw("committed", out)?,
        }
        if let Some(text) = &self.precommitted {
            text.draw("precommitted", out)?;
        }
        self.older.iter().try_for_each(|text| text.draw(out))
    }
}
