//! What a VG was: copies in files, and texts that are still in the rings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lvm2::backup;
use lvm2::id::VgId;
use lvm2::model::Vg;
use lvm2::name::VgName;
use lvm2::ondisk::leftover::leftovers;

use super::{BackupConfig, files};
use crate::engine::copies::{CopyState, MetadataCopy};
use crate::engine::error::EngineError;
use crate::engine::hazard::Hazard;
use crate::engine::loaded::Loaded;
use crate::engine::state::Problem;
use crate::host::{Host, HostError};

/// Of a larger ring only the start is searched for older texts.
const SEARCHED_RING: u64 = 64 << 20;

/// Every version of a VG's metadata that can still be read.
#[derive(Clone, Debug)]
pub struct History {
    /// The VG.
    pub vg: VgName,
    /// Sequence number on the disks; `None` if no disk has the VG.
    pub seqno: Option<u32>,
    /// Oldest first.
    pub versions: Vec<Version>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// One version of a VG's metadata.
#[derive(Clone, Debug)]
pub struct Version {
    /// The metadata.
    pub vg: Arc<Vg>,
    /// It is the one that counts on the disks.
    pub current: bool,
    /// Files that hold it.
    pub files: Vec<PathBuf>,
    /// Devices whose ring holds it.
    pub devices: Vec<PathBuf>,
}

impl Version {
    /// The version as a backup file.
    #[must_use]
    pub fn text(&self) -> String {
        backup::file(&self.vg)
    }
}

/// Versions by their text as a file, so that one in several places is one.
#[derive(Default)]
struct Found {
    versions: HashMap<String, Version>,
    problems: Vec<Problem>,
}

/// Collects the versions of the VG `name`. `loaded`: the VG, if a disk has it.
pub(in crate::engine) fn history(
    host: &Host,
    config: Option<&BackupConfig>,
    name: &VgName,
    loaded: Option<&Loaded>,
) -> Result<History, EngineError> {
    let mut found = Found::default();
    if let Some(loaded) = loaded {
        found.add(&loaded.vg).current = true;
        // A device that does not answer now would not do so here either.
        if !loaded.hazards.iter().any(Hazard::is_silence) {
            for copy in loaded.copies() {
                found.add_ring(copy, loaded.vg.id());
            }
        }
    }
    if let Some(config) = config {
        let dir = files::dir(config, name);
        let listed = host.copies.list(&dir);
        for file in found.note(&dir, listed).unwrap_or_default() {
            if files::seqno_of(name, &file.name).is_some() {
                found.add_file(host, dir.join(&file.name));
            }
        }
    }
    if let Some(dir) = host.copies.lvm2_dir() {
        found.add_file(host, dir.join(name.as_str()));
    }
    if loaded.is_none() && found.versions.is_empty() {
        return Err(EngineError::NoSuchVg { vg: name.clone() });
    }
    let mut versions: Vec<Version> = found.versions.into_values().collect();
    for version in &mut versions {
        version.files.sort();
    }
    versions.sort_by_key(|version| (version.vg.seqno(), version.vg.creation_time()));
    Ok(History {
        vg: name.clone(),
        seqno: loaded.map(|loaded| loaded.vg.seqno()),
        versions,
        problems: found.problems,
    })
}

impl Found {
    fn add(&mut self, vg: &Arc<Vg>) -> &mut Version {
        self.versions
            .entry(backup::file(vg))
            .or_insert_with(|| Version {
                vg: Arc::clone(vg),
                current: false,
                files: Vec::new(),
                devices: Vec::new(),
            })
    }

    fn add_file(&mut self, host: &Host, path: PathBuf) {
        let content = host.copies.read(&path);
        let Some(Some(content)) = self.note(&path, content) else {
            return;
        };
        match Vg::parse(&content) {
            Ok(vg) => self.add(&Arc::new(vg)).files.push(path),
            Err(error) => self.problems.push(Problem {
                object: path.display().to_string(),
                detail: format!("is no copy of metadata: {error}"),
            }),
        }
    }

    fn add_ring(&mut self, copy: &MetadataCopy, id: VgId) {
        let device = copy.area.pv.info().path.clone();
        let live = copy.header().and_then(|header| header.committed);
        if let CopyState::Text { vg, .. } = &copy.state
            && vg.id() == id
        {
            self.add(vg).devices.push(device.clone());
        }
        let length = usize::try_from(copy.area.size.min(SEARCHED_RING)).unwrap_or(0);
        let mut area = vec![0; length];
        let read = copy.area.pv.reader.read_at(copy.area.start, &mut area);
        if self.note(&device, read).is_none() {
            return;
        }
        for leftover in leftovers(&area, live.as_ref()) {
            // Of a text whose end is gone nothing can be restored.
            if let (false, Ok(vg)) = (leftover.overwritten, Vg::parse(&leftover.text))
                && vg.id() == id
            {
                let devices = &mut self.add(&Arc::new(vg)).devices;
                if !devices.contains(&device) {
                    devices.push(device.clone());
                }
            }
        }
    }

    /// Remembers an error.
    fn note<T>(&mut self, object: &Path, result: Result<T, HostError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems.push(Problem {
                    object: object.display().to_string(),
                    detail: error.to_string(),
                });
                None
            }
        }
    }
}
