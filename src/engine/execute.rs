//! Running the steps of a turn on the host.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lvm2::id::LvId;
use lvm2::model::{Lv, Vg};
use lvm2::name::LvName;
use lvm2::tables::{DevNo, Device};
use lvm2::units::Bytes;

use super::activation;
use super::area::PvDevice;
use super::batch::Claims;
use super::error::EngineError;
use super::loaded::Loaded;
use super::prepare::{Subject, Zero};
use super::state::LvState;
use super::step::Step;
use super::wipe::{self, WipeError};
use super::zeroing::{Claim, claim_name};
use crate::host::{DmDevice, Exposure, Host, HostError, LockMode};

/// A device with a table in its inactive slot.
struct Waiting {
    device: DmDevice,
    want: Device,
    exposure: Exposure,
}

/// The device work of one turn, with what later steps need of earlier ones.
pub(super) struct Execution<'a> {
    host: &'a Host,
    /// Devices with a table loaded for the coming commit.
    loaded: HashMap<LvName, Waiting>,
    /// Devices that steps brought up or found active.
    active: HashMap<LvName, DevNo>,
    claims: Claims,
    /// PVs with zeros that are not durable yet.
    wiped: Vec<Arc<PvDevice>>,
    changed: bool,
}

impl<'a> Execution<'a> {
    pub(super) fn new(host: &'a Host) -> Self {
        Self {
            host,
            loaded: HashMap::new(),
            active: HashMap::new(),
            claims: Claims::new(),
            wiped: Vec::new(),
            changed: false,
        }
    }

    /// Whether a step since the last call of this method changed a device.
    pub(super) fn changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Runs one step; `vg` is the layout that it is about.
    pub(super) fn run(&mut self, step: &Step, loaded: &Loaded, vg: &Vg) -> Result<(), EngineError> {
        match step {
            Step::Wipe { lv, ranges } => {
                let lv = find(vg, lv)?;
                wipe::zero(loaded, vg, lv, ranges, &mut self.wiped)
                    .map_err(|error| wipe_error(vg, lv, error))
            }
            Step::Deactivate { lv } => {
                // An LV that an earlier task of this turn made has no device yet.
                let Some(lv) = vg.lv(lv.as_str()) else {
                    return Ok(());
                };
                self.changed |= activation::deactivate(self.host, vg, lv)?;
                Ok(())
            }
            Step::Load { lv } => self.load(loaded, vg, find(vg, lv)?),
            Step::Activate { lv } => self.activate(loaded, vg, find(vg, lv)?),
            Step::Refresh { lv } => self.refresh(loaded, vg, find(vg, lv)?),
            Step::ZeroAll { lv } => self.activate_hidden(loaded, vg, find(vg, lv)?),
            Step::Expose { lv } => self.expose(loaded, vg, find(vg, lv)?),
        }
    }

    /// PVs that the commit has to flush before its headers.
    pub(super) fn wiped(&self) -> &[Arc<PvDevice>] {
        &self.wiped
    }

    /// Takes back what was prepared for a commit that did not happen.
    pub(super) fn undo(&mut self) {
        for (device, exposure) in self
            .loaded
            .drain()
            .map(|(_, waiting)| (waiting.device, waiting.exposure))
        {
            activation::unload(self.host, device.dev, exposure);
        }
    }

    /// Says to other processes that the incomplete LV has a living maker;
    /// fails if it is one of them.
    pub(super) fn claim(&mut self, id: LvId, object: &str) -> Result<(), EngineError> {
        let guard = self
            .host
            .locks
            .lock(&claim_name(&id), LockMode::Exclusive, Duration::ZERO)
            .map_err(|source| EngineError::Host {
                object: object.to_owned(),
                source: Arc::new(source),
            })?;
        self.claims.insert(id, guard);
        Ok(())
    }

    /// What the zeroing thread needs.
    pub(super) fn take_claim(
        &mut self,
        loaded: &Loaded,
        zero: &Zero,
    ) -> Result<Claim, EngineError> {
        let lv = find(&loaded.vg, &zero.lv)?;
        let (Some(guard), Some(dev)) = (
            self.claims.remove(&zero.id),
            self.active.get(&zero.lv).copied(),
        ) else {
            return Err(EngineError::NoSuchLv {
                vg: loaded.vg.name().clone(),
                lv: zero.lv.clone(),
            });
        };
        Ok(Claim {
            guard,
            node: self.node(&loaded.vg, lv, dev)?,
        })
    }

    /// Describes the LV of an answer.
    pub(super) fn describe(
        &self,
        subject: &Subject,
        loaded: &Loaded,
        changed: bool,
    ) -> Result<LvState, EngineError> {
        let vg = &loaded.vg;
        match subject {
            Subject::Present(name) => {
                let lv = find(vg, name)?;
                let dev = match self.active.get(name) {
                    Some(dev) => Some(*dev),
                    None => activation::present(self.host, vg, lv)?.map(|device| device.dev),
                };
                let node = dev.map(|dev| self.node(vg, lv, dev)).transpose()?;
                Ok(LvState {
                    dev,
                    node,
                    ..describe(vg, lv, changed)
                })
            }
            Subject::Removed(lv) => Ok(describe(vg, lv, changed)),
            Subject::Absent(name) => Ok(LvState {
                vg: vg.name().clone(),
                name: name.clone(),
                id: LvId::from_random([0; 32]),
                size: Bytes(0),
                tags: Vec::new(),
                dev: None,
                node: None,
                changed: false,
            }),
        }
    }

    fn node(&self, vg: &Vg, lv: &Lv, dev: DevNo) -> Result<std::path::PathBuf, EngineError> {
        self.host
            .dm
            .node(dev)
            .map_err(|error| dm_error(vg, lv, error))
    }

    fn load(&mut self, loaded: &Loaded, vg: &Vg, lv: &Lv) -> Result<(), EngineError> {
        let Some(device) = activation::present(self.host, vg, lv)? else {
            return Ok(());
        };
        let want = activation::wanted(loaded, vg, lv)?;
        activation::fits(loaded, vg, lv)?;
        activation::load(self.host, vg, lv, device.dev, &want)?;
        let waiting = Waiting {
            device,
            want,
            exposure: activation::exposure(lv),
        };
        self.loaded.insert(lv.name.clone(), waiting);
        Ok(())
    }

    fn activate(&mut self, loaded: &Loaded, vg: &Vg, lv: &Lv) -> Result<(), EngineError> {
        let (dev, changed) = activation::activate(self.host, loaded, vg, lv)?;
        self.changed |= changed;
        self.active.insert(lv.name.clone(), dev);
        Ok(())
    }

    fn refresh(&mut self, loaded: &Loaded, vg: &Vg, lv: &Lv) -> Result<(), EngineError> {
        if let Some(Waiting { device, want, .. }) = self.loaded.remove(&lv.name) {
            activation::resume(self.host, vg, lv, device.dev, &want)?;
            self.changed = true;
            self.active.insert(lv.name.clone(), device.dev);
            return Ok(());
        }
        if activation::present(self.host, vg, lv)?.is_some() {
            self.activate(loaded, vg, lv)?;
        }
        Ok(())
    }

    fn activate_hidden(&mut self, loaded: &Loaded, vg: &Vg, lv: &Lv) -> Result<(), EngineError> {
        let (dev, changed) = activation::activate_as(self.host, loaded, vg, lv, Exposure::Hidden)?;
        self.changed |= changed;
        self.active.insert(lv.name.clone(), dev);
        Ok(())
    }

    fn expose(&mut self, loaded: &Loaded, vg: &Vg, lv: &Lv) -> Result<(), EngineError> {
        // Not to be shown twice: once is for sure below.
        self.activate_hidden(loaded, vg, lv)?;
        let Some(dev) = self.active.get(&lv.name).copied() else {
            return Ok(());
        };
        let want = activation::wanted(loaded, vg, lv)?;
        let announced = activation::announce(self.host, vg, lv, dev, &want);
        if announced.is_err() {
            self.active.remove(&lv.name);
        }
        announced
    }
}

/// An LV as the metadata has it, without its device.
pub(super) fn describe(vg: &Vg, lv: &Lv, changed: bool) -> LvState {
    LvState {
        vg: vg.name().clone(),
        name: lv.name.clone(),
        id: lv.id,
        size: vg.extent_size().bytes_of(lv.extents()),
        tags: lv.tags.iter().map(ToString::to_string).collect(),
        dev: None,
        node: None,
        changed,
    }
}

fn find<'v>(vg: &'v Vg, name: &LvName) -> Result<&'v Arc<Lv>, EngineError> {
    vg.lv(name.as_str()).ok_or_else(|| EngineError::NoSuchLv {
        vg: vg.name().clone(),
        lv: name.clone(),
    })
}

fn dm_error(vg: &Vg, lv: &Lv, source: HostError) -> EngineError {
    EngineError::Host {
        object: format!("{}/{}", vg.name(), lv.name),
        source: Arc::new(source),
    }
}

fn wipe_error(vg: &Vg, lv: &Lv, error: WipeError) -> EngineError {
    match error {
        WipeError::Host(source) => dm_error(vg, lv, source),
        WipeError::Table(_) | WipeError::Absent(_) => EngineError::Metadata {
            vg: vg.name().clone(),
            detail: error.to_string(),
        },
    }
}
