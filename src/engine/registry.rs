//! Which VGs there are, and the last known state of each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lvm2::id::VgId;
use lvm2::name::VgName;

use super::area::PvDevice;
use super::copies::FoundPv;
use super::error::EngineError;
use super::hazard::Hazard;
use super::loaded::Loaded;
use super::scan::{Known, scan};
use super::state::Problem;
use crate::engine::EngineConfig;
use crate::host::{Host, Skipped};

/// The VGs of this machine. Everything in it is a cache: it is right only
/// while the metadata area headers say so.
pub(super) struct Registry {
    host: Host,
    config: EngineConfig,
    state: Mutex<State>,
    /// One scan at a time; those who wait for it use its result.
    scanning: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// The devices' generation at the last scan; `None` before the first.
    generation: Option<u64>,
    /// Counts scans.
    scans: u64,
    vgs: BTreeMap<VgName, Entry>,
    /// Sequence numbers of commits that may have reached some disk.
    attempted: BTreeMap<VgId, u32>,
    orphans: Vec<FoundPv>,
    skipped: Vec<Skipped>,
    problems: Vec<Problem>,
}

enum Entry {
    One(Arc<Loaded>),
    /// Several VGs of one name.
    Ambiguous(Vec<Arc<Loaded>>),
}

/// What a scan found beside VGs.
pub(super) struct Remainder {
    pub(super) orphans: Vec<FoundPv>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) problems: Vec<Problem>,
}

impl Registry {
    pub(super) fn new(host: Host, config: EngineConfig) -> Self {
        Self {
            host,
            config,
            state: Mutex::default(),
            scanning: Mutex::default(),
        }
    }

    /// Names of all VGs.
    pub(super) fn names(&self) -> Result<Vec<VgName>, EngineError> {
        self.refresh_if_changed()?;
        Ok(self.state().vgs.keys().cloned().collect())
    }

    /// The present state of a VG. Called under the VG lock it is exact; called
    /// without, it is some state that the VG had during the call.
    pub(super) fn load(&self, name: &VgName) -> Result<Arc<Loaded>, EngineError> {
        self.refresh_if_changed()?;
        if let Ok(known) = self.known(name)
            && !known.hazards.iter().any(may_heal)
        {
            if known.is_current() {
                return Ok(known);
            }
            if let Some(fresh) = known.reload() {
                let fresh = Arc::new(fresh);
                self.store(Arc::clone(&fresh));
                return Ok(fresh);
            }
        }
        self.rescan()?;
        self.known(name)
    }

    /// Every VG and everything else, from a new look at all devices.
    pub(super) fn everything(&self) -> Result<(Vec<Arc<Loaded>>, Remainder), EngineError> {
        self.rescan()?;
        let state = self.state();
        let vgs = state
            .vgs
            .values()
            .flat_map(|entry| match entry {
                Entry::One(loaded) => vec![Arc::clone(loaded)],
                Entry::Ambiguous(all) => all.clone(),
            })
            .collect();
        let remainder = Remainder {
            orphans: state.orphans.clone(),
            skipped: state.skipped.clone(),
            problems: state.problems.clone(),
        };
        Ok((vgs, remainder))
    }

    /// Remembers what a commit or a reload made of a VG.
    pub(super) fn store(&self, loaded: Arc<Loaded>) {
        let name = loaded.vg.name().clone();
        self.state().vgs.insert(name, Entry::One(loaded));
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
    }

    /// Looks at all devices again.
    pub(super) fn rescan(&self) -> Result<(), EngineError> {
        let before = self.state().scans;
        let _one_at_a_time = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        let known = {
            let state = self.state();
            // A scan that began after this call was made is as good as ours.
            if state.scans > before + 1 {
                return Ok(());
            }
            open_devices(&state)
        };
        let generation = self.host.block.generation();
        let scan = scan(&self.host, self.config.probe_timeout, &known).map_err(|source| {
            EngineError::Host {
                object: "devices".to_owned(),
                source: Arc::new(source),
            }
        })?;
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
            scans: state.scans + 1,
            vgs,
            attempted: std::mem::take(&mut state.attempted),
            orphans: scan.orphans,
            skipped: scan.skipped,
            problems: scan.problems,
        };
        Ok(())
    }

    fn refresh_if_changed(&self) -> Result<(), EngineError> {
        let known = self.state().generation;
        if known == Some(self.host.block.generation()) {
            Ok(())
        } else {
            self.rescan()
        }
    }

    fn known(&self, name: &VgName) -> Result<Arc<Loaded>, EngineError> {
        match self.state().vgs.get(name) {
            Some(Entry::One(loaded)) => Ok(Arc::clone(loaded)),
            Some(Entry::Ambiguous(_)) => Err(EngineError::AmbiguousVg { vg: name.clone() }),
            None => Err(EngineError::NoSuchVg { vg: name.clone() }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    for entry in state.vgs.values() {
        match entry {
            Entry::One(loaded) => loaded.pvs.iter().for_each(|pv| add(&pv.device)),
            Entry::Ambiguous(all) => {
                all.iter()
                    .flat_map(|loaded| &loaded.pvs)
                    .for_each(|pv| add(&pv.device));
            }
        }
    }
    state.orphans.iter().for_each(|pv| add(&pv.device));
    known
}
