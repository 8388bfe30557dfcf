//! The LVM engine: scan, plan, commit, activate.
//!
//! Disk is the truth. A VG in memory is a cache that holds only while each
//! PV's metadata area header still names the same text; it is checked under
//! the VG lock before every change. Changes of one VG run on one thread, and
//! those that wait together share one metadata commit.

mod activation;
mod activity;
mod area;
mod backup;
mod batch;
mod check;
mod commit;
mod copies;
mod disks;
mod error;
mod execute;
mod hazard;
mod lanes;
mod loaded;
mod observe;
mod permit;
mod planned;
mod prepare;
mod recover;
mod registry;
mod report;
mod request;
pub mod roles;
mod scan;
mod silence;
mod state;
mod step;
pub mod tags;
mod ticket;
mod visit;
pub mod wipe;
mod worker;
mod zeroing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use activity::Obstacle;
pub use backup::history::{History, Version};
pub use backup::{BackupConfig, BackupStats};
pub use check::{Defect, Finding, Mended, Repair};
pub use disks::{DiskError, DiskOutcome, DiskRequest, PvState, VgState};
pub use error::{EngineError, host_kind};
pub use hazard::Hazard;
use lvm2::name::{LvName, VgName};
pub use observe::Observer;
pub use request::{CreateLv, EngineConfig, Request, Size, Wipe};
pub use state::{
    LvReport, LvState, MetadataUse, Plan, Problem, PvReport, Recovery, Report, VgOutline, VgReport,
    VgSummary,
};
pub use ticket::Ticket;

use crate::host::watch::watched;
use crate::host::{Host, HostError, Pending};
use activity::{Activity, Watch};
use backup::Backups;
use loaded::Loaded;
use registry::Registry;
use visit::{Question, Visitor};
use worker::Worker;

/// The engine of one machine. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    config: EngineConfig,
    /// Has the machine, and what is known of its VGs.
    visitor: Visitor,
    /// `None` once the engine is shutting down.
    workers: Mutex<Option<HashMap<VgName, Worker>>>,
    /// Behind the workers: it is dropped when they have ended.
    backups: Arc<Backups>,
}

/// "Blocks" below means: until the answer is there, or a device did not answer
/// within its time-out ([`EngineConfig::io_timeout`] for one that is in use,
/// [`EngineConfig::probe_timeout`] while looking for PVs). A change that hangs
/// goes on when its device does; nobody has to wait for it.
impl Engine {
    /// Makes an engine. Nothing is read before the first call that needs it.
    ///
    /// # Errors
    /// None at present; starting may come to need resources.
    pub fn start(host: Host, config: EngineConfig) -> Result<Self, EngineError> {
        let (host, calls) = watched(host);
        let watch = Watch {
            calls,
            host,
            limit: config.io_timeout,
        };
        let registry = Arc::new(Registry::new(watch.clone(), config.clone()));
        let workers = Mutex::new(Some(HashMap::new()));
        let visitor = Visitor { registry, watch };
        let backups = Arc::new(Backups::new(visitor.clone(), config.backup.clone()));
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                visitor,
                workers,
                backups,
            }),
        })
    }

    /// The machine. Calls through it are noted: see [`overdue`](Self::overdue).
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.inner.visitor.watch.host
    }

    /// The call in which a thread hangs, if it does.
    #[must_use]
    pub fn overdue(&self, thread: std::thread::ThreadId) -> Option<Pending> {
        self.inner.visitor.watch.overdue(thread)
    }

    /// What keeps a call from returning, where the kernel tells.
    #[must_use]
    pub fn cause(&self, pending: &Pending) -> Option<String> {
        self.inner.visitor.watch.cause(pending)
    }

    /// Every call that hangs now, the oldest first.
    #[must_use]
    pub fn hanging(&self) -> Vec<Pending> {
        let watch = &self.inner.visitor.watch;
        watch.calls.overdue(watch.limit)
    }

    /// Devices that did not answer the last look and may carry PVs.
    #[must_use]
    pub fn silent(&self) -> Vec<std::path::PathBuf> {
        self.inner.visitor.registry.silent()
    }

    /// Whether the devices were looked at.
    #[must_use]
    pub fn has_looked(&self) -> bool {
        self.inner.visitor.registry.has_looked()
    }

    /// The names of all VGs. Blocks.
    ///
    /// # Errors
    /// If block devices cannot be listed.
    pub fn vg_names(&self) -> Result<Vec<VgName>, EngineError> {
        self.inner.visitor.registry.names()
    }

    /// One VG with the state of its PVs and LVs. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NoSuchVg`], [`EngineError::AmbiguousVg`], or what
    /// device-mapper answered.
    pub fn vg(&self, name: &VgName) -> Result<VgReport, EngineError> {
        self.visit(name, |host, loaded| report::vg(host, loaded))
    }

    /// One VG's metadata and whether it may be changed, without the state of
    /// its LVs: that costs a device-mapper call for each. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NoSuchVg`] or [`EngineError::AmbiguousVg`].
    pub fn outline(&self, name: &VgName) -> Result<VgOutline, EngineError> {
        self.visit(name, |host, loaded| {
            Ok(VgOutline {
                vg: Arc::clone(&loaded.vg),
                refusal: loaded.refusal(&host.identity),
                hazards: loaded.hazards.clone(),
            })
        })
    }

    /// One VG's metadata, PVs and metadata areas, without the state of its LVs.
    /// Reads one header a metadata area; takes no lock. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NoSuchVg`] or [`EngineError::AmbiguousVg`].
    pub fn summary(&self, name: &VgName) -> Result<VgSummary, EngineError> {
        self.visit(name, |host, loaded| Ok(report::summary(host, loaded)))
    }

    /// Tells `observer` from now on. Only the first one is told.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.inner.visitor.registry.observe(observer);
    }

    /// Every PV, VG and LV, from a new look at all devices. Blocks.
    ///
    /// # Errors
    /// If block devices or dm devices cannot be listed.
    pub fn report(&self) -> Result<Report, EngineError> {
        report::everything(self.visitor())
    }

    /// The LVs of this name, in any VG. Of a VG whose devices do not answer the
    /// last known state counts. Blocks.
    ///
    /// # Errors
    /// If block devices cannot be listed or a device-mapper call fails;
    /// [`EngineError::Stuck`] if an earlier request about such an LV hangs.
    pub fn find(&self, name: &LvName) -> Result<Vec<LvState>, EngineError> {
        let mut found = Vec::new();
        let visits: Vec<_> = self
            .vg_names()?
            .into_iter()
            .map(|vg| {
                let activity = self.activity(&vg);
                let lv = name.clone();
                let question =
                    move |host: &Host, loaded: &Arc<Loaded>| report::find(host, loaded, &lv);
                let visit = self
                    .visitor()
                    .begin(&vg, activity.as_deref(), Arc::new(question));
                (vg, activity, visit)
            })
            .collect();
        for (vg, activity, visit) in visits {
            let busy = activity.filter(|activity| activity.concerns(name));
            if let Some(obstacle) = busy.and_then(|activity| activity.obstacle_of(name)) {
                return Err(EngineError::Stuck {
                    object: format!("{vg}/{name}"),
                    obstacle: Arc::new(obstacle),
                });
            }
            match self.visitor().end(visit) {
                Ok(lv) => found.extend(lv),
                // Gone since it was listed, or not one VG: see below.
                Err(
                    EngineError::NoSuchVg { .. }
                    | EngineError::UnreadableVg { .. }
                    | EngineError::Unseen { .. }
                    | EngineError::AmbiguousVg { .. },
                ) => {}
                Err(error) => return Err(error),
            }
        }
        // An LV of two VGs of one name is there, and yet nobody can say which
        // it is.
        if found.is_empty()
            && let Some(error) = self.inner.visitor.registry.ambiguous_with(name)
        {
            return Err(error);
        }
        Ok(found)
    }

    /// The LVs of this name as they were last seen, without asking any PV.
    ///
    /// # Errors
    /// If block devices were never looked at and cannot be listed, or a
    /// device-mapper call fails.
    pub fn find_known(&self, name: &LvName) -> Result<Vec<LvState>, EngineError> {
        if !self.has_looked() {
            self.inner.visitor.registry.rescan()?;
        }
        let known = self.inner.visitor.registry.last_known();
        let with_lv = known
            .iter()
            .filter(|loaded| loaded.vg.lv(name.as_str()).is_some());
        let found: Result<Vec<_>, _> = with_lv
            .map(|loaded| {
                let lv = name.clone();
                let question =
                    move |host: &Host, loaded: &Arc<Loaded>| report::find(host, loaded, &lv);
                self.visitor().ask(loaded, Arc::new(question))
            })
            .collect();
        Ok(found?.into_iter().flatten().collect())
    }

    /// Queues a change. It is carried out even if the ticket is dropped.
    #[must_use = "the ticket tells how the change ended"]
    pub fn submit(&self, vg: &VgName, request: Request) -> Ticket {
        let object = format!("{vg}/{}", request.lv());
        match self.enqueue(vg, request, &object) {
            Ok(ticket) => ticket,
            Err(error) => Ticket::refused(object, error),
        }
    }

    fn enqueue(&self, vg: &VgName, request: Request, object: &str) -> Result<Ticket, EngineError> {
        let closed = || EngineError::Closed {
            object: object.to_owned(),
        };
        match self.activity(vg).and_then(|activity| activity.obstacle()) {
            // Behind a request that hangs others would only pile up.
            Some(obstacle) => {
                return Err(EngineError::Stuck {
                    object: object.to_owned(),
                    obstacle: Arc::new(obstacle),
                });
            }
            // A thread for a VG that does not exist would wait for ever. The
            // look at the devices may take long: no lock is held for it.
            None if self.activity(vg).is_none() => self.visit(vg, |_, _| Ok(()))?,
            None => {}
        }
        let mut workers = self.workers();
        let workers = workers.as_mut().ok_or_else(closed)?;
        if !workers.contains_key(vg) {
            workers.insert(vg.clone(), self.start_worker(vg, object)?);
        }
        let worker = workers.get(vg).ok_or_else(closed)?;
        let lv = request.lv().clone();
        let answer = worker.send(request);
        let activity = Arc::clone(worker.activity());
        Ok(Ticket::new(object.to_owned(), answer, activity, lv))
    }

    fn start_worker(&self, vg: &VgName, object: &str) -> Result<Worker, EngineError> {
        let inner = &self.inner;
        let registry = Arc::clone(&inner.visitor.registry);
        Worker::start(
            vg.clone(),
            inner.config.clone(),
            registry,
            inner.visitor.watch.clone(),
            Arc::clone(&inner.backups),
        )
        .map_err(|source| EngineError::Host {
            object: object.to_owned(),
            source: Arc::new(HostError::Path {
                op: "start a thread for",
                path: object.into(),
                source,
            }),
        })
    }

    /// What `request` would do, without doing it. Blocks.
    ///
    /// # Errors
    /// As the request itself, as far as that can be known beforehand.
    pub fn plan(&self, vg: &VgName, request: &Request) -> Result<Plan, EngineError> {
        let request = request.clone();
        self.visit(vg, move |host, loaded| report::plan(host, loaded, &request))
    }

    /// What is wrong with a VG: its metadata and their copies, the devices of
    /// its LVs, what was left unfinished. Changes nothing. Blocks.
    ///
    /// # Errors
    /// If the VG cannot be read at all.
    pub fn check(&self, vg: &VgName) -> Result<Vec<Finding>, EngineError> {
        check::check(self, vg)
    }

    /// What is wrong on the machine and belongs to no VG. Blocks.
    ///
    /// # Errors
    /// If devices, mounts or locks cannot be listed.
    pub fn check_machine(&self) -> Result<Vec<Finding>, EngineError> {
        check::check_machine(self)
    }

    /// Mends what [`check`](Self::check) finds, as far as that is safe; with
    /// `dry_run`, only says what would be done. Blocks.
    ///
    /// # Errors
    /// If the VG cannot be read or its lock is not to be had.
    pub fn repair(&self, vg: &VgName, dry_run: bool) -> Result<Repair, EngineError> {
        check::repair(self, vg, dry_run)
    }

    /// The same for what [`check_machine`](Self::check_machine) finds. Blocks.
    ///
    /// # Errors
    /// If devices, mounts or locks cannot be listed.
    pub fn repair_machine(&self, dry_run: bool) -> Result<Repair, EngineError> {
        check::repair_machine(self, dry_run)
    }

    /// Removes LVs that a stopped driver left incomplete, and resumes those that
    /// it left suspended. Blocks.
    #[must_use]
    pub fn recover(&self) -> Recovery {
        recover::recover(self)
    }

    /// Every version of a VG's metadata that can still be read, from copies in
    /// files and from the rings on its PVs. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NoSuchVg`] if neither disks nor files know the VG.
    pub fn history(&self, vg: &VgName) -> Result<History, EngineError> {
        let config = self.inner.config.backup.clone();
        let (name, files) = (vg.clone(), config.clone());
        let found = self.visit(vg, move |host, loaded| {
            backup::history::history(host, files.as_ref(), &name, Some(loaded))
        });
        match found {
            Err(EngineError::NoSuchVg { .. }) => {
                backup::history::history(self.host(), config.as_ref(), vg, None)
            }
            found => found,
        }
    }

    /// What became of the copies of the metadata.
    #[must_use]
    pub fn backup_stats(&self) -> BackupStats {
        self.inner.backups.stats()
    }

    /// Takes no new requests and returns when all that are queued have ended
    /// and the copies of the last commits are written. A VG whose device hangs is not waited for: its worker is left behind,
    /// and ends when the device answers. Returns what such workers wait for.
    pub fn shutdown(&self) -> Vec<(VgName, Obstacle)> {
        // The lock is free while the workers are waited for.
        let workers = self.workers().take();
        let workers = workers.into_iter().flatten();
        let hanging = workers
            .filter_map(|(vg, mut worker)| Some((vg, worker.end()?)))
            .collect();
        self.inner.backups.close();
        hanging
    }

    fn visit<T: Send + 'static>(
        &self,
        vg: &VgName,
        question: impl Question<T>,
    ) -> Result<T, EngineError> {
        let visitor = self.visitor();
        let activity = self.activity(vg);
        visitor.end(visitor.begin(vg, activity.as_deref(), Arc::new(question)))
    }

    fn visitor(&self) -> &Visitor {
        &self.inner.visitor
    }

    /// What the VG's worker does, if it has one.
    fn activity(&self, vg: &VgName) -> Option<Arc<Activity>> {
        let workers = self.workers();
        Some(Arc::clone(workers.as_ref()?.get(vg)?.activity()))
    }

    fn workers(&self) -> MutexGuard<'_, Option<HashMap<VgName, Worker>>> {
        self.inner
            .workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn registry(&self) -> &Registry {
        &self.inner.visitor.registry
    }
}

#[cfg(test)]
mod tests;
