//! Metadata texts in the ring of an area: the one that counts, and what is
//! still there of earlier ones.

use std::io::{self, Write};

use lvm2::crc::crc;
use lvm2::model::Vg;
use lvm2::ondisk::leftover::{Leftover, leftovers};
use lvm2::ondisk::mda::{MdaHeader, RawLocn};
use lvm2::ondisk::ring;
use serde::Serialize;

use crate::host::BlockDevice;

/// A text that a header names.
#[derive(Serialize)]
pub(super) struct TextView {
    /// Distance from the start of the area.
    offset: u64,
    size: u64,
    wraps: bool,
    checksum: String,
    checksum_ok: bool,
    #[serde(flatten)]
    summary: Summary,
    /// Why the text cannot be used.
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// A text that no header names any more.
#[derive(Serialize)]
pub(super) struct OlderText {
    /// Distance from the start of the area.
    offset: u64,
    size: u64,
    /// Whether all of it is still there.
    complete: bool,
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// What a text says about itself.
#[derive(Default, Serialize)]
struct Summary {
    vg_name: Option<String>,
    vg_uuid: Option<String>,
    seqno: Option<u32>,
    description: Option<String>,
}

impl Summary {
    fn of(vg: &Vg) -> Self {
        Self {
            vg_name: Some(vg.name().to_string()),
            vg_uuid: Some(vg.id().to_string()),
            seqno: Some(vg.seqno()),
            description: vg.description().map(str::to_owned),
        }
    }

    /// Of a text whose end is gone: what its first lines say.
    fn of_fragment(text: &str) -> Self {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))
        };
        Self {
            vg_name: text.split_once(" {").map(|(name, _)| name.to_owned()),
            vg_uuid: value("id").map(|id| id.trim_matches('"').to_owned()),
            seqno: value("seqno").and_then(|seqno| seqno.parse().ok()),
            description: None,
        }
    }

    fn show(&self) -> String {
        let name = self.vg_name.as_deref().unwrap_or("?");
        let seqno = self
            .seqno
            .map_or_else(|| "?".to_owned(), |seqno| seqno.to_string());
        match &self.description {
            Some(description) => format!("VG {name}, seqno {seqno}: {description}"),
            None => format!("VG {name}, seqno {seqno}"),
        }
    }
}

/// Reads the text that a header names.
pub(super) fn read(
    device: &dyn BlockDevice,
    header: &MdaHeader,
    locn: &RawLocn,
    with_text: bool,
) -> TextView {
    let mut view = TextView {
        offset: locn.offset,
        size: locn.size,
        wraps: locn.offset.saturating_add(locn.size) > header.size,
        checksum: format!("{:#010x}", locn.checksum),
        checksum_ok: false,
        summary: Summary::default(),
        problem: None,
        text: None,
    };
    let bytes = match bytes_of(device, header, locn) {
        Ok(bytes) => bytes,
        Err(problem) => {
            view.problem = Some(problem);
            return view;
        }
    };
    let sum = crc(&bytes);
    view.checksum_ok = sum == locn.checksum;
    match Vg::parse(&bytes) {
        Ok(vg) => view.summary = Summary::of(&vg),
        Err(error) => view.problem = Some(error.to_string()),
    }
    if !view.checksum_ok {
        view.problem = Some(format!("its bytes have the checksum {sum:#010x}"));
    }
    view.text = with_text.then(|| until_nul(&bytes));
    view
}

fn bytes_of(
    device: &dyn BlockDevice,
    header: &MdaHeader,
    locn: &RawLocn,
) -> Result<Vec<u8>, String> {
    let pieces = ring::pieces(header.size, locn.offset, locn.size).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    for piece in pieces {
        let mut part = vec![0; piece.range.len()];
        let at = header.start.saturating_add(piece.offset_in_mda);
        device.read_at(at, &mut part).map_err(|e| e.to_string())?;
        bytes.append(&mut part);
    }
    Ok(bytes)
}

fn until_nul(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Texts in the ring of an area that the header does not name.
pub(super) fn older(area: &[u8], live: Option<&RawLocn>, with_text: bool) -> Vec<OlderText> {
    leftovers(area, live)
        .into_iter()
        .map(|leftover| older_text(&leftover, with_text))
        .collect()
}

fn older_text(leftover: &Leftover, with_text: bool) -> OlderText {
    let text = String::from_utf8_lossy(&leftover.text).into_owned();
    let whole = if leftover.overwritten {
        None
    } else {
        Vg::parse(&leftover.text).ok()
    };
    OlderText {
        offset: leftover.offset,
        size: leftover.text.len() as u64,
        complete: whole.is_some(),
        summary: whole
            .as_ref()
            .map_or_else(|| Summary::of_fragment(&text), Summary::of),
        text: with_text.then_some(text),
    }
}

fn print_text(text: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    text.map_or(Ok(()), |text| writeln!(out, "{}\n", text.trim_end()))
}

impl TextView {
    pub(super) fn draw(&self, what: &str, out: &mut dyn Write) -> io::Result<()> {
        let wraps = if self.wraps { ", wrapping" } else { "" };
        writeln!(
            out,
            "  {what:<14} {} bytes at offset {}{wraps}",
            self.size, self.offset
        )?;
        let ok = if self.checksum_ok { "right" } else { "WRONG" };
        writeln!(out, "    checksum     {} ({ok})", self.checksum)?;
        if self.summary.vg_name.is_some() {
            writeln!(out, "    says         {}", self.summary.show())?;
        }
        if let Some(problem) = &self.problem {
            writeln!(out, "    unusable     {problem}")?;
        }
        print_text(self.text.as_deref(), out)
    }
}

impl OlderText {
    pub(super) fn draw(&self, out: &mut dyn Write) -> io::Result<()> {
        let state = if self.complete {
            "complete"
        } else {
            "partly overwritten"
        };
        writeln!(
            out,
            "  older          {} bytes at offset {}, {state}",
            self.size, self.offset
        )?;
        writeln!(out, "    says         {}", self.summary.show())?;
        print_text(self.text.as_deref(), out)
    }
}
