//! The copies of a VG's metadata as they lie on its PVs.

use std::collections::HashMap;
use std::sync::Arc;

use lvm2::model::Vg;
use lvm2::ondisk::label::PvHeader;
use lvm2::ondisk::mda::{MdaHeader, RawLocn};

use super::area::{Area, AreaError, PvDevice};

/// What one metadata area holds.
#[derive(Clone)]
pub(super) enum CopyState {
    /// No committed text: an orphan PV, or an area that was just added.
    Empty(MdaHeader),
    /// Marked as not in use; its text is stale and is neither read nor written.
    Ignored(MdaHeader),
    /// A committed, readable text.
    Text { header: MdaHeader, vg: Arc<Vg> },
    /// The header or the text cannot be used.
    Unreadable(String),
}

/// A metadata area and what it holds.
#[derive(Clone)]
pub(super) struct MetadataCopy {
    pub(super) area: Area,
    pub(super) state: CopyState,
}

impl MetadataCopy {
    pub(super) fn header(&self) -> Option<&MdaHeader> {
        match &self.state {
            CopyState::Empty(header)
            | CopyState::Ignored(header)
            | CopyState::Text { header, .. } => Some(header),
            CopyState::Unreadable(_) => None,
        }
    }

    pub(super) fn vg(&self) -> Option<&Arc<Vg>> {
        match &self.state {
            CopyState::Text { vg, .. } => Some(vg),
            _ => None,
        }
    }
}

/// A PV that was found, with its metadata copies.
#[derive(Clone)]
pub(super) struct FoundPv {
    pub(super) device: Arc<PvDevice>,
    pub(super) header: PvHeader,
    pub(super) copies: Vec<MetadataCopy>,
}

impl FoundPv {
    /// Why the first of its copies that cannot be read cannot.
    pub(super) fn unreadable(&self) -> Option<&str> {
        self.copies.iter().find_map(|copy| match &copy.state {
            CopyState::Unreadable(detail) => Some(detail.as_str()),
            _ => None,
        })
    }
}

/// Texts that were parsed already, by checksum and size: all copies of a VG
/// normally hold the same text, and parsing it once is enough.
#[derive(Default)]
pub(super) struct TextCache(HashMap<(u32, u64), Arc<Vg>>);

impl TextCache {
    pub(super) fn seed(&mut self, copies: &[MetadataCopy]) {
        for copy in copies {
            if let CopyState::Text { header, vg } = &copy.state
                && let Some(locn) = &header.committed
            {
                self.0.insert((locn.checksum, locn.size), Arc::clone(vg));
            }
        }
    }

    fn get_or_read(&mut self, area: &Area, locn: &RawLocn) -> Result<Arc<Vg>, String> {
        let key = (locn.checksum, locn.size);
        if let Some(vg) = self.0.get(&key) {
            return Ok(Arc::clone(vg));
        }
        let text = area.read_text(locn).map_err(|error| error.to_string())?;
        let vg = Arc::new(Vg::parse(&text).map_err(|error| error.to_string())?);
        self.0.insert(key, Arc::clone(&vg));
        Ok(vg)
    }
}

/// Reads what `area` holds. A reader without the VG lock can meet a commit in
/// progress; the same area is then read once more before it counts as
/// unreadable.
pub(super) fn read_copy(area: &Area, texts: &mut TextCache) -> MetadataCopy {
    let mut state = read_state(area, texts);
    if matches!(state, CopyState::Unreadable(_)) {
        state = read_state(area, texts);
    }
    MetadataCopy {
        area: area.clone(),
        state,
    }
}

fn read_state(area: &Area, texts: &mut TextCache) -> CopyState {
    let header = match area.read_header() {
        Ok(header) => header,
        Err(error) => return CopyState::Unreadable(describe(&error)),
    };
    if header.size != area.size {
        return CopyState::Unreadable(format!(
            "its header says {} bytes, the PV header {}",
            header.size, area.size
        ));
    }
    if header.ignored() {
        return CopyState::Ignored(header);
    }
    let Some(locn) = header.committed else {
        return CopyState::Empty(header);
    };
    match texts.get_or_read(area, &locn) {
        Ok(vg) => CopyState::Text { header, vg },
        Err(detail) => CopyState::Unreadable(detail),
    }
}

fn describe(error: &AreaError) -> String {
    error.to_string()
}
