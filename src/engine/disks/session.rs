//! One change of disks, for real or as a dry run. Both go through the same
//! code: a dry run notes what a real one does.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use lvm2::edit;
use lvm2::id::PvId;
use lvm2::model::Vg;
use lvm2::name::VgName;

use super::super::Inner;
use super::super::batch::stamp;
use super::super::commit::{self, Committed};
use super::super::error::EngineError;
use super::super::loaded::Loaded;
use super::super::state::Plan;
use super::DiskError;
use super::write::{self, Write};
use crate::host::{BlockDevice, Candidate, DeviceInfo, Host, HostError, LockGuard, LockMode};

/// The lock that covers PVs of no VG, and which VGs there are.
pub(super) const GLOBAL: &str = "P_global";

/// Whether anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Real,
    Dry,
}

/// A held lock; nothing in a dry run.
pub(super) type Guard = Option<Box<dyn LockGuard>>;

/// What is held while PVs or VGs come and go. The hints stay locked longer
/// than anything else, so that nobody learns a state in between.
pub(super) struct Global {
    _lock: Guard,
    _hints: Guard,
}

/// One change.
pub(super) struct Session<'a> {
    pub(super) engine: &'a Inner,
    pub(super) mode: Mode,
    /// What is found on a device may be wiped.
    pub(super) agreed: bool,
    /// The command in words.
    words: String,
    steps: RefCell<Vec<String>>,
    diff: RefCell<String>,
}

/// An error of the host about a device or path.
pub(super) fn host_error(path: &Path, source: HostError) -> EngineError {
    EngineError::Host {
        object: path.display().to_string(),
        source: Arc::new(source),
    }
}

impl<'a> Session<'a> {
    pub(super) fn new(engine: &'a Inner, mode: Mode, agreed: bool, words: String) -> Self {
        Self {
            engine,
            mode,
            // A dry run tells what would be wiped.
            agreed: agreed || mode == Mode::Dry,
            words,
            steps: RefCell::default(),
            diff: RefCell::default(),
        }
    }

    pub(super) fn host(&self) -> &Host {
        &self.engine.visitor.watch.host
    }

    pub(super) fn is_real(&self) -> bool {
        self.mode == Mode::Real
    }

    /// What a real run would have done.
    pub(super) fn into_plan(self) -> Plan {
        Plan {
            diff: self.diff.into_inner(),
            steps: self.steps.into_inner(),
        }
    }

    fn note(&self, step: String) {
        self.steps.borrow_mut().push(step);
    }

    fn lock(&self, resource: &str) -> Result<Guard, EngineError> {
        self.note(format!("take the lock {resource} exclusively"));
        if !self.is_real() {
            return Ok(None);
        }
        let deadline = self.engine.config.lock_deadline;
        self.host()
            .locks
            .lock(resource, LockMode::Exclusive, deadline)
            .map(Some)
            .map_err(|source| EngineError::Host {
                object: self.words.clone(),
                source: Arc::new(source),
            })
    }

    /// Takes lvm2's lock on PVs of no VG and on the set of VGs, and looks at
    /// all devices. Always before the lock of a VG, never behind it. With
    /// `hints` lvm2 forgets first which devices are PVs of what.
    pub(super) fn global(&self, hints: bool) -> Result<Global, EngineError> {
        let lock = self.lock(GLOBAL)?;
        let mut guard = None;
        if hints {
            self.note("invalidate lvm2's hints".to_owned());
            if self.is_real() {
                let deadline = self.engine.config.lock_deadline;
                let made = self.host().lvm2.invalidate_hints(deadline);
                guard = Some(made.map_err(|source| host_error(Path::new("lvm2's hints"), source))?);
            }
        }
        self.engine.visitor.registry.rescan()?;
        Ok(Global {
            _lock: lock,
            _hints: guard,
        })
    }

    /// Takes the lock of a VG.
    pub(super) fn vg(&self, vg: &VgName) -> Result<Guard, EngineError> {
        self.lock(&format!("V_{vg}"))
    }

    /// Looks at the device behind a path.
    pub(super) fn examine(&self, path: &Path) -> Result<Candidate, EngineError> {
        self.host()
            .block
            .examine(path)
            .map_err(|source| match &source {
                HostError::Path { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                    DiskError::NoSuchDevice {
                        path: path.to_owned(),
                    }
                    .into()
                }
                _ => host_error(path, source),
            })
    }

    /// Opens a device as its only user; for reading in a dry run.
    pub(super) fn open(&self, info: &DeviceInfo) -> Result<Arc<dyn BlockDevice>, EngineError> {
        let block = &self.host().block;
        match self.mode {
            Mode::Real => block.open_exclusive(info),
            Mode::Dry => block.open(info, false),
        }
        .map_err(|source| host_error(&info.path, source))
    }

    /// Carries out writes in order.
    pub(super) fn write(
        &self,
        device: &Arc<dyn BlockDevice>,
        writes: &[Write],
    ) -> Result<(), EngineError> {
        for write in writes {
            self.note(write.describe(device.as_ref()));
        }
        if self.is_real() {
            write::run(device, writes).map_err(|source| host_error(&device.info().path, source))?;
        }
        Ok(())
    }

    /// Enters devices into lvm2's devices file, where one is in use.
    pub(super) fn enter_devices(
        &self,
        entries: &[(DeviceInfo, Option<PvId>)],
    ) -> Result<(), EngineError> {
        let lvm2 = &self.host().lvm2;
        let failed = |source| host_error(Path::new("lvm2's devices file"), source);
        let Some(file) = lvm2.devices_file().map_err(failed)? else {
            return Ok(());
        };
        for (info, pv) in entries {
            let (file, path) = (file.display(), info.path.display());
            self.note(match pv {
                Some(id) => format!("{file}: enter {path} with PV {id}"),
                None => format!("{file}: enter {path} without a PV"),
            });
        }
        if self.is_real() {
            let deadline = self.engine.config.lock_deadline;
            lvm2.enter_devices(entries, deadline).map_err(failed)?;
        }
        Ok(())
    }

    /// Removes lvm2's notes about what is online, which say the wrong VG now.
    /// They are of use for activation by events only: a failure is no reason
    /// to call a change failed that is on the disks.
    pub(super) fn forget_online(&self, pvs: &[PvId], vg: Option<&VgName>) {
        self.note("remove lvm2's notes that the PVs are online".to_owned());
        if self.is_real()
            && let Err(error) = self.host().lvm2.forget_online(pvs, vg)
        {
            tracing::warn!(%error, "lvm2 may not activate the VG by itself when its devices appear");
        }
    }

    /// Commits `vg` to the areas of `loaded`'s PVs; `old` is the text before.
    /// Returns the VG as it was committed.
    pub(super) fn commit(
        &self,
        loaded: &Loaded,
        vg: &Vg,
        old: &str,
    ) -> Result<Arc<Vg>, EngineError> {
        let stamp = stamp(self.host(), format!("Write from lvcsi {}.", self.words));
        let areas = loaded.metadata_use().used_areas;
        let size = vg.print().len();
        self.note(format!(
            "VG {}: write about {size} bytes of metadata to {areas} area(s), flush, write the header(s), flush",
            vg.name()
        ));
        if !self.is_real() {
            let sealed = edit::seal(vg, &stamp).map_err(|source| EngineError::Edit {
                vg: vg.name().clone(),
                source: Arc::new(source),
            })?;
            self.diff
                .borrow_mut()
                .push_str(&edit::diff_texts(old, &sealed.print()));
            return Ok(Arc::new(sealed));
        }
        match commit::commit(&self.engine.visitor.registry, loaded, vg, &stamp, &[])? {
            (Committed::Everywhere(fresh), _) => {
                self.engine.backups.offer(&fresh.vg);
                Ok(fresh.vg)
            }
            // The text that was written is in some areas; its number is all
            // that is not known here.
            (Committed::Partly(_), _) => {
                Ok(Arc::new(edit::seal(vg, &stamp).map_err(|source| {
                    EngineError::Edit {
                        vg: vg.name().clone(),
                        source: Arc::new(source),
                    }
                })?))
            }
        }
    }

    /// The difference that a VG makes by vanishing.
    pub(super) fn vanish(&self, vg: &Vg) {
        let mut diff = self.diff.borrow_mut();
        diff.push_str(&edit::diff_texts(&vg.print(), ""));
    }
}
