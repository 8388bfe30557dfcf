//! A device on its way into a VG, or to being a PV of none.

use lvm2::edit::NewPv;
use lvm2::id::PvId;
use lvm2::ondisk::Area as DiskArea;
use lvm2::ondisk::geometry::{Geometry, Wish};
use lvm2::ondisk::label::{DEFAULT_SECTOR, PvHeader};
use lvm2::units::Bytes;
use std::sync::Arc;

use super::super::area::{Area, PvDevice};
use super::super::copies::{CopyState, FoundPv, MetadataCopy};
use super::super::error::EngineError;
use super::session::{Mode, Session};
use super::target::{Content, Target, label_of};
use super::write::{self, Write};
use super::{DiskError, PvState};
use crate::host::{DeviceInfo, Signature};

/// Rounds of wiping before a signature counts as one that stays. A GPT with
/// its copy takes three, ZFS with its rings of labels more than a hundred.
const ROUNDS: usize = 512;

/// A device that becomes a PV, or a PV of no VG that is taken as it is.
pub(super) struct Joiner {
    target: Target,
    /// The label that it has, or will have: no VG uses it yet.
    header: PvHeader,
    /// Where the label is.
    sector: u64,
    /// For a device that is no PV yet.
    geometry: Option<Geometry>,
    wipe: Vec<Signature>,
}

impl Joiner {
    /// A device that becomes a PV whatever it was; the person agreed to that
    /// if it is a PV of no VG.
    pub(super) fn new(
        session: &Session<'_>,
        target: Target,
        wish: Wish,
    ) -> Result<Self, EngineError> {
        let wipe = target.to_wipe(session, false)?;
        let geometry = target.geometry(wish)?;
        let mut random = [0; 32];
        session.host().clock.random(&mut random);
        Ok(Self {
            header: geometry.pv_header(PvId::from_random(random)),
            sector: DEFAULT_SECTOR,
            geometry: Some(geometry),
            wipe,
            target,
        })
    }

    /// A device that joins a VG: a PV of no VG keeps its label.
    pub(super) fn member(
        session: &Session<'_>,
        target: Target,
        wish: Wish,
    ) -> Result<Self, EngineError> {
        let Content::Free(free) = &target.content else {
            return Self::new(session, target, wish);
        };
        let header = free.label.header.clone();
        let sector = free.label.sector;
        let path = || target.info.path.clone();
        let plain = |areas: &[DiskArea]| matches!(areas, [one] if one.size.is_zero());
        if !plain(&header.data_areas) {
            return Err(DiskError::Layout {
                path: path(),
                detail: format!("{} data areas", header.data_areas.len()),
            }
            .into());
        }
        if header.device_size.0 > target.info.size {
            return Err(DiskError::LargerThanDevice {
                path: path(),
                size: header.device_size.0,
                device: target.info.size,
            }
            .into());
        }
        let wipe = target.to_wipe(session, true)?;
        Ok(Self {
            header,
            sector,
            geometry: None,
            wipe,
            target,
        })
    }

    pub(super) fn id(&self) -> PvId {
        self.header.id
    }

    pub(super) fn info(&self) -> &DeviceInfo {
        &self.target.info
    }

    /// Where extent 0 begins.
    fn data_start(&self) -> Bytes {
        let first = self.header.data_areas.first();
        first.map(|area| area.offset).unwrap_or_default()
    }

    /// Where data ends: at the device's end, or where a second metadata area
    /// lies there.
    fn end(&self) -> Bytes {
        let start = self.data_start();
        let behind = self
            .header
            .metadata_areas
            .iter()
            .map(|area| area.offset)
            .filter(|offset| *offset >= start)
            .min();
        behind.unwrap_or(self.header.device_size)
    }

    /// The PV as an edit of the VG takes it.
    pub(super) fn edit(&self) -> Result<NewPv, EngineError> {
        if self.end() != self.header.device_size {
            return Err(DiskError::Layout {
                path: self.target.info.path.clone(),
                detail: "a metadata area at its end".to_owned(),
            }
            .into());
        }
        Ok(NewPv {
            id: self.id(),
            device: self.target.info.path.display().to_string(),
            size: self.header.device_size,
            data_start: self.data_start(),
            boot: self.header.bootloader_areas.first().copied(),
        })
    }

    /// The PV as a commit takes it. Its handle is the one that claims the
    /// device.
    pub(super) fn found(&self, session: &Session<'_>) -> FoundPv {
        if let (Content::Free(free), None) = (&self.target.content, self.geometry) {
            return free.found.clone();
        }
        let device = Arc::new(PvDevice::claimed(
            self.id(),
            Arc::clone(&self.target.handle),
            session.mode == Mode::Real,
            Arc::clone(&session.host().block),
        ));
        let copies = self.geometry.iter().map(|geometry| MetadataCopy {
            area: Area {
                pv: Arc::clone(&device),
                start: geometry.metadata.offset.0,
                size: geometry.metadata.size.0,
            },
            state: CopyState::Empty(geometry.area_header()),
        });
        FoundPv {
            copies: copies.collect(),
            header: self.header.clone(),
            device,
        }
    }

    /// Makes the device a PV of no VG, if it is not one that stays as it is.
    ///
    /// A machine that dies on the way leaves a device that is no PV, on which
    /// some of what was to be wiped may be left: asking again finishes it.
    pub(super) fn prepare(&mut self, session: &Session<'_>) -> Result<(), EngineError> {
        let handle = Arc::clone(&self.target.handle);
        if let Some(geometry) = &self.geometry {
            session.write(&handle, &write::clear(geometry))?;
        }
        let keep_label = self.geometry.is_none();
        if !self.wipe.is_empty() {
            let mut writes = write::wipe(&self.wipe);
            writes.push(Write::Flush);
            session.write(&handle, &writes)?;
            self.wipe_rest(session, keep_label)?;
        }
        if let Some(geometry) = &self.geometry {
            let writes = write::create(geometry, &self.header)
                .map_err(|error| self.layout(error.to_string()))?;
            session.write(&handle, &writes)?;
        }
        Ok(())
    }

    /// Wipes the copies that come to light when a signature is gone.
    fn wipe_rest(&mut self, session: &Session<'_>, keep_label: bool) -> Result<(), EngineError> {
        if !session.is_real() {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let left = self.target.left_over(session, keep_label)?;
            let Some(first) = left.first() else {
                return Ok(());
            };
            if first.magic.is_none() {
                return Err(self.stubborn(first.clone()));
            }
            let mut writes = write::wipe(&left);
            writes.push(Write::Flush);
            session.write(&self.target.handle, &writes)?;
            self.wipe.extend(left);
        }
        match self
            .target
            .left_over(session, keep_label)?
            .into_iter()
            .next()
        {
            Some(first) => Err(self.stubborn(first)),
            None => Ok(()),
        }
    }

    /// Writes into the label that a VG uses the PV. Only once metadata says
    /// so: a label that says so alone makes a PV that lvm2 gives to nobody.
    pub(super) fn mark(&self, session: &Session<'_>) -> Result<(), EngineError> {
        let handle = &self.target.handle;
        if session.is_real() {
            label_of(handle, &self.id())?;
        }
        let header = self.header.with_in_use(true);
        let label = write::label(self.sector, &header, "label: in use by a VG")
            .map_err(|error| self.layout(error.to_string()))?;
        session.write(handle, &[label, Write::Flush])
    }

    /// The PV for an answer.
    pub(super) fn state(&self) -> PvState {
        PvState {
            path: self.target.info.path.clone(),
            id: self.id(),
            size: self.header.device_size,
            data_start: self.data_start(),
            metadata_size: self
                .header
                .metadata_areas
                .iter()
                .map(|area| area.size)
                .sum(),
            wiped: self.wipe.clone(),
        }
    }

    fn layout(&self, detail: String) -> EngineError {
        let path = self.target.info.path.clone();
        DiskError::Layout { path, detail }.into()
    }

    fn stubborn(&self, signature: Signature) -> EngineError {
        let path = self.target.info.path.clone();
        DiskError::Stubborn { path, signature }.into()
    }
}
