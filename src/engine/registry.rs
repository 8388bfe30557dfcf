//! Which VGs there are, and the last known state of each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use lvm2::id::{PvId, VgId};
use lvm2::name::{LvName, VgName};
use lvm2::tables::DevNo;

use super::activity::Watch;
use super::area::PvDevice;
use super::copies::FoundPv;
use super::error::EngineError;
use super::hazard::Hazard;
use super::lanes::{Key, Lanes};
use super::loaded::Loaded;
use super::observe::{Nobody, Observer};
use super::scan::{Known, scan};
use super::silence::{self, is_silent};
use super::state::Problem;
use crate::engine::EngineConfig;
use crate::host::{DeviceInfo, Skipped};

/// How soon devices that did not answer are looked at again: no event tells
/// that they do.
const AGAIN: Duration = Duration::from_secs(2);

/// The VGs of this machine. Everything in it is a cache: it is right only
/// while the metadata area headers say so.
pub(super) struct Registry {
    watch: Watch,
    config: EngineConfig,
    lanes: Lanes,
    state: Mutex<State>,
    /// One scan at a time; those who wait for it use its result.
    scanning: Mutex<()>,
    observer: OnceLock<Arc<dyn Observer>>,
}

#[derive(Default)]
struct State {
    /// The devices' generation at the last scan; `None` before the first.
    generation: Option<u64>,
    /// When it was.
    looked: Option<Instant>,
    /// Counts scans.
    scans: u64,
    vgs: BTreeMap<VgName, Entry>,
    /// Sequence numbers of commits that may have reached some disk.
    attempted: BTreeMap<VgId, u32>,
    orphans: Vec<FoundPv>,
    skipped: Vec<Skipped>,
    problems: Vec<Problem>,
}

impl State {
    fn loaded(&self) -> Vec<Arc<Loaded>> {
        self.vgs.values().flat_map(Entry::all).cloned().collect()
    }
}

/// Who else has a PV.
pub(super) struct Holder {
    /// The VG that lists it.
    pub(super) vg: Option<VgName>,
    /// Another device that holds it.
    pub(super) device: Option<PathBuf>,
}

enum Entry {
    One(Arc<Loaded>),
    /// Several VGs of one name.
    Ambiguous(Vec<Arc<Loaded>>),
}

impl Entry {
    fn all(&self) -> &[Arc<Loaded>] {
        match self {
            Self::One(loaded) => std::slice::from_ref(loaded),
            Self::Ambiguous(all) => all,
        }
    }
}

/// What a scan found beside VGs.
pub(super) struct Remainder {
    pub(super) orphans: Vec<FoundPv>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) problems: Vec<Problem>,
}

impl Registry {
    pub(super) fn new(watch: Watch, config: EngineConfig) -> Self {
        Self {
            watch,
            config,
            lanes: Lanes::default(),
            state: Mutex::default(),
            scanning: Mutex::default(),
            observer: OnceLock::new(),
        }
    }

    /// Who is told; the first one stays.
    pub(super) fn observe(&self, observer: Arc<dyn Observer>) {
        if self.observer.set(observer).is_err() {
            tracing::warn!("the engine is observed already");
        }
    }

    /// Whom to tell.
    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        self.observer
            .get()
            .map_or_else(|| Arc::new(Nobody) as Arc<dyn Observer>, Arc::clone)
    }

    /// Names of all VGs.
    pub(super) fn names(&self) -> Result<Vec<VgName>, EngineError> {
        self.refresh_if_changed()?;
        Ok(self.state().vgs.keys().cloned().collect())
    }

    /// The present state of a VG. Called under the VG lock it is exact; called
    /// without, it is some state that the VG had during the call. Reads the
    /// VG's PVs on this thread, however long they take.
    pub(super) fn load(&self, name: &VgName) -> Result<Arc<Loaded>, EngineError> {
        self.refresh(name)?;
        if let Some(current) = self.current(name) {
            return Ok(current);
        }
        self.rescan()?;
        self.known(name)
    }

    /// What is known of a VG, if its PVs tell that it is still right or what
    /// is right now. Nothing if all devices have to be looked at.
    pub(super) fn current(&self, name: &VgName) -> Option<Arc<Loaded>> {
        let known = self.known(name).ok()?;
        if known.hazards.iter().any(may_heal) {
            return None;
        }
        if known.is_current() {
            return Some(known);
        }
        let fresh = Arc::new(known.reload()?);
        self.store(Arc::clone(&fresh));
        Some(fresh)
    }

    /// Looks at the devices again if some came or went. Of a VG that is known
    /// the headers tell whether that is still right, also where the devices
    /// cannot be listed now.
    pub(super) fn refresh(&self, name: &VgName) -> Result<(), EngineError> {
        match self.refresh_if_changed() {
            Err(EngineError::Stuck { .. }) if self.known(name).is_ok() => Ok(()),
            result => result,
        }
    }

    /// The threads that may be left behind.
    pub(super) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Whether there was a look at the devices.
    pub(super) fn has_looked(&self) -> bool {
        self.state().scans > 0
    }

    /// Devices that did not answer the last look.
    pub(super) fn silent(&self) -> Vec<PathBuf> {
        let state = self.state();
        let silent = state.skipped.iter().filter(|skipped| is_silent(skipped));
        silent.map(|skipped| skipped.path.clone()).collect()
    }

    /// Every VG as it was last seen, without asking any device.
    pub(super) fn last_known(&self) -> Vec<Arc<Loaded>> {
        self.state().loaded()
    }

    /// Every VG and everything else, from a new look at all devices.
    pub(super) fn everything(&self) -> Result<(Vec<Arc<Loaded>>, Remainder), EngineError> {
        self.rescan()?;
        let state = self.state();
        let vgs = state.loaded();
        let mut problems = state.problems.clone();
        for (name, entry) in &state.vgs {
            if let Entry::Ambiguous(all) = entry {
                problems.push(Problem {
                    object: name.to_string(),
                    detail: ambiguous(name, all).to_string(),
                });
            }
        }
        let remainder = Remainder {
            orphans: state.orphans.clone(),
            skipped: state.skipped.clone(),
            problems,
        };
        Ok((vgs, remainder))
    }

    /// The VG that has the device with this number as a PV, by the last look.
    pub(super) fn vg_on(&self, devno: DevNo) -> Option<VgName> {
        let on = |loaded: &Arc<Loaded>| {
            loaded
                .pvs
                .iter()
                .any(|pv| pv.device.info().devno == devno)
                .then(|| loaded.vg.name().clone())
        };
        self.state().loaded().iter().find_map(on)
    }

    /// A VG that lists this PV, and a device other than `devno` that holds it,
    /// by the last look; `None` if there is neither.
    pub(super) fn holder_of(&self, id: &PvId, devno: DevNo) -> Option<Holder> {
        let state = self.state();
        let loaded = state.loaded();
        let elsewhere = |pv: &FoundPv| {
            let info = pv.device.info();
            (pv.device.id == *id && info.devno != devno).then(|| info.path.clone())
        };
        let mut found = loaded.iter().flat_map(|loaded| &loaded.pvs);
        let holder = Holder {
            vg: loaded
                .iter()
                .find(|loaded| loaded.vg.pv_by_id(id).is_some())
                .map(|loaded| loaded.vg.name().clone()),
            device: found
                .find_map(elsewhere)
                .or_else(|| state.orphans.iter().find_map(elsewhere)),
        };
        (holder.vg.is_some() || holder.device.is_some()).then_some(holder)
    }

    /// Every VG that has an LV of this name and shares its own name with
    /// another VG: none of them can be told from the others.
    pub(super) fn ambiguous_with(&self, lv: &LvName) -> Option<EngineError> {
        let state = self.state();
        state.vgs.iter().find_map(|(name, entry)| match entry {
            Entry::Ambiguous(all) if all.iter().any(|l| l.vg.lv(lv.as_str()).is_some()) => {
                Some(ambiguous(name, all))
            }
            _ => None,
        })
    }

    /// Remembers what a commit or a reload made of a VG.
    pub(super) fn store(&self, loaded: Arc<Loaded>) {
        let name = loaded.vg.name().clone();
        self.state().vgs.insert(name.clone(), Entry::One(loaded));
        self.observer().changed(&name);
    }

    /// The sequence number of a commit whose outcome is unknown, or 0.
    pub(super) fn attempted(&self, id: VgId) -> u32 {
        self.state().attempted.get(&id).copied().unwrap_or(0)
    }

    /// Remembers that headers with this sequence number may reach the disks.
    pub(super) fn attempt(&self, id: VgId, seqno: u32) {
        self.state().attempted.insert(id, seqno);
    }

    /// The commit reached every area.
    pub(super) fn attempt_ended(&self, id: VgId) {
        self.state().attempted.remove(&id);
    }

    /// Drops what is known of a VG after a commit whose outcome is unknown.
    pub(super) fn forget(&self, name: &VgName) {
        self.state().vgs.remove(name);
        self.observer().changed(name);
    }

    /// Looks at all devices again.
    pub(super) fn rescan(&self) -> Result<(), EngineError> {
        let before = self.state().scans;
        let _one_at_a_time = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, last) = {
            let state = self.state();
            // A scan that began after this call was made is as good as ours.
            if state.scans > before + 1 {
                return Ok(());
            }
            (open_devices(&state), state.loaded())
        };
        let host = &self.watch.host;
        let generation = host.block.generation();
        let listed = self.list()?;
        let timeout = self.config.probe_timeout;
        let mut scan = scan(host, &self.lanes, timeout, &known, listed);
        silence::keep(&last, &mut scan);
        let vgs = scan
            .vgs
            .into_iter()
            .map(|(name, found)| {
                let mut found: Vec<_> = found.into_iter().map(Arc::new).collect();
                let entry = match found.pop() {
                    Some(only) if found.is_empty() => Entry::One(only),
                    last => {
                        found.extend(last);
                        Entry::Ambiguous(found)
                    }
                };
                (name, entry)
            })
            .collect();
        let mut state = self.state();
        *state = State {
            generation: Some(generation),
            looked: Some(Instant::now()),
            scans: state.scans + 1,
            vgs,
            attempted: std::mem::take(&mut state.attempted),
            orphans: scan.orphans,
            skipped: scan.skipped,
            problems: scan.problems,
        };
        Ok(())
    }

    /// Lists the devices. That takes a time-out for every batch of devices that
    /// do not answer.
    fn list(&self) -> Result<(Vec<DeviceInfo>, Vec<Skipped>), EngineError> {
        let limit = self.config.probe_timeout * 4 + self.config.io_timeout;
        let devices = Arc::clone(&self.watch.host.block);
        let listed = self.lanes.run(Key::List, limit, move || devices.discover());
        let object = || "devices".to_owned();
        listed
            .map_err(|late| self.watch.stuck(object(), late))?
            .map_err(|source| EngineError::Host {
                object: object(),
                source: Arc::new(source),
            })
    }

    fn refresh_if_changed(&self) -> Result<(), EngineError> {
        if self.is_up_to_date() {
            Ok(())
        } else {
            self.rescan()
        }
    }

    fn is_up_to_date(&self) -> bool {
        let state = self.state();
        let old = state.looked.is_none_or(|looked| looked.elapsed() >= AGAIN);
        let silent = state.skipped.iter().any(is_silent);
        state.generation == Some(self.watch.host.block.generation()) && !(silent && old)
    }

    /// A VG as it was last seen.
    pub(super) fn known(&self, name: &VgName) -> Result<Arc<Loaded>, EngineError> {
        match self.state().vgs.get(name) {
            Some(Entry::One(loaded)) => return Ok(Arc::clone(loaded)),
            Some(Entry::Ambiguous(all)) => return Err(ambiguous(name, all)),
            None => {}
        }
        let devices = self.silent();
        if devices.is_empty() {
            return Err(self.no_such_vg(name));
        }
        Err(EngineError::Unseen {
            object: format!("VG {name}"),
            devices,
        })
    }

    /// The VG may be one whose metadata cannot be read.
    fn no_such_vg(&self, name: &VgName) -> EngineError {
        let state = self.state();
        let unreadable = state.orphans.iter().filter(|pv| pv.unreadable().is_some());
        let paths: Vec<_> = unreadable.map(|pv| pv.device.info().path.clone()).collect();
        let vg = name.clone();
        if paths.is_empty() {
            EngineError::NoSuchVg { vg }
        } else {
            EngineError::UnreadableVg { vg, paths }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ambiguous(name: &VgName, all: &[Arc<Loaded>]) -> EngineError {
    EngineError::AmbiguousVg {
        vg: name.clone(),
        ids: all.iter().map(|loaded| loaded.vg.id()).collect(),
    }
}

/// Whether another look at the devices may find the cause gone. Copies of a
/// PV are looked for again too: the second device may have been removed
/// without an event that reached us.
fn may_heal(hazard: &Hazard) -> bool {
    !matches!(hazard, Hazard::NoArea)
}

fn open_devices(state: &State) -> Known {
    let mut known = Known::new();
    let mut add = |device: &Arc<PvDevice>| {
        known.insert(device.info().devno, Arc::clone(device));
    };
    for loaded in state.loaded() {
        loaded.pvs.iter().for_each(|pv| add(&pv.device));
    }
    state.orphans.iter().for_each(|pv| add(&pv.device));
    known
}
