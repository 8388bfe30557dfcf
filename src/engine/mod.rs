//! The LVM engine: scan, plan, commit, activate.
//!
//! Disk is the truth. A VG in memory is a cache that holds only while each
//! PV's metadata area header still names the same text; it is checked under
//! the VG lock before every change. Changes of one VG run on one thread, and
//! those that wait together share one metadata commit.

mod activation;
mod area;
mod batch;
mod commit;
mod copies;
mod error;
mod execute;
mod hazard;
mod loaded;
mod planned;
mod prepare;
mod recover;
mod registry;
mod report;
mod request;
mod scan;
mod state;
mod step;
pub mod tags;
mod ticket;
mod verify;
pub mod wipe;
mod worker;
mod zeroing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lvm2::name::{LvName, VgName};
use tokio::sync::oneshot;

pub use error::{EngineError, host_kind};
pub use hazard::Hazard;
pub use request::{CreateLv, EngineConfig, Request, Size, Wipe};
pub use state::{
    CheckReport, LvReport, LvState, MetadataUse, Plan, Problem, PvReport, Recovery, Report,
    TableMismatch, VgOutline, VgReport,
};
pub use ticket::Ticket;

use crate::host::Host;
use registry::Registry;
use worker::Worker;

/// The engine of one machine. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    host: Host,
    config: EngineConfig,
    registry: Arc<Registry>,
    /// `None` once the engine is shutting down.
    workers: Mutex<Option<HashMap<VgName, Worker>>>,
}

impl Engine {
    /// Makes an engine. Nothing is read before the first call that needs it.
    ///
    /// # Errors
    /// None at present; starting may come to need resources.
    pub fn start(host: Host, config: EngineConfig) -> Result<Self, EngineError> {
        let registry = Arc::new(Registry::new(host.clone(), config.clone()));
        let workers = Mutex::new(Some(HashMap::new()));
        Ok(Self {
            inner: Arc::new(Inner {
                host,
                config,
                registry,
                workers,
            }),
        })
    }

    /// The machine.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.inner.host
    }

    /// The names of all VGs. Blocks.
    ///
    /// # Errors
    /// If block devices cannot be listed.
    pub fn vg_names(&self) -> Result<Vec<VgName>, EngineError> {
        self.inner.registry.names()
    }

    /// One VG with the state of its PVs and LVs. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NoSuchVg`], [`EngineError::AmbiguousVg`], or what
    /// device-mapper answered.
    pub fn vg(&self, name: &VgName) -> Result<VgReport, EngineError> {
        let loaded = self.inner.registry.load(name)?;
        report::vg(&self.inner.host, &loaded)
    }

    /// One VG's metadata and whether it may be changed, without the state of
    /// its LVs: that costs a device-mapper call for each. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NoSuchVg`] or [`EngineError::AmbiguousVg`].
    pub fn outline(&self, name: &VgName) -> Result<VgOutline, EngineError> {
        let loaded = self.inner.registry.load(name)?;
        Ok(VgOutline {
            vg: Arc::clone(&loaded.vg),
            refusal: loaded.refusal(&self.inner.host.identity),
            hazards: loaded.hazards.clone(),
        })
    }

    /// Every PV, VG and LV, from a new look at all devices. Blocks.
    ///
    /// # Errors
    /// If block devices or dm devices cannot be listed.
    pub fn report(&self) -> Result<Report, EngineError> {
        report::everything(&self.inner.host, &self.inner.registry)
    }

    /// The LVs of this name, in any VG. Blocks.
    ///
    /// # Errors
    /// If block devices cannot be listed or a device-mapper call fails.
    pub fn find(&self, name: &LvName) -> Result<Vec<LvState>, EngineError> {
        report::find(&self.inner.host, &self.inner.registry, name)
    }

    /// Queues a change. It is carried out even if the ticket is dropped.
    #[must_use = "the ticket tells how the change ended"]
    pub fn submit(&self, vg: &VgName, request: Request) -> Ticket {
        let object = format!("{vg}/{}", request.lv());
        let (reply, answer) = oneshot::channel();
        if let Err((reply, error)) = self.enqueue(vg, request, reply, &object) {
            // The receiver is `answer` below: it is there.
            let _ = reply.send(Err(error));
        }
        Ticket::new(object, answer)
    }

    fn enqueue(
        &self,
        vg: &VgName,
        request: Request,
        reply: worker::Reply,
        object: &str,
    ) -> Result<(), (worker::Reply, EngineError)> {
        let closed = || EngineError::Closed {
            object: object.to_owned(),
        };
        if !self
            .workers()
            .as_ref()
            .is_some_and(|workers| workers.contains_key(vg))
        {
            // A thread for a VG that does not exist would wait for ever. The
            // look at the devices may take long: no lock is held for it.
            if let Err(error) = self.inner.registry.load(vg) {
                return Err((reply, error));
            }
        }
        let mut workers = self.workers();
        let Some(workers) = workers.as_mut() else {
            return Err((reply, closed()));
        };
        if !workers.contains_key(vg) {
            match self.start_worker(vg, object) {
                Ok(worker) => workers.insert(vg.clone(), worker),
                Err(error) => return Err((reply, error)),
            };
        }
        match workers.get(vg) {
            Some(worker) => worker
                .send(request, reply)
                .map_err(|reply| (reply, closed())),
            None => Err((reply, closed())),
        }
    }

    fn start_worker(&self, vg: &VgName, object: &str) -> Result<Worker, EngineError> {
        let inner = &self.inner;
        let registry = Arc::clone(&inner.registry);
        Worker::start(
            vg.clone(),
            inner.host.clone(),
            inner.config.clone(),
            registry,
        )
        .map_err(|source| EngineError::Host {
            object: object.to_owned(),
            source: Arc::new(crate::host::HostError::Path {
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
        let loaded = self.inner.registry.load(vg)?;
        report::plan(&self.inner.host, &loaded, request)
    }

    /// Compares metadata copies, metadata invariants and live tables. Blocks.
    ///
    /// # Errors
    /// If the VG cannot be read at all.
    pub fn check(&self, vg: &VgName) -> Result<CheckReport, EngineError> {
        self.inner.registry.rescan()?;
        let loaded = self.inner.registry.load(vg)?;
        verify::check(&self.inner.host, &loaded)
    }

    /// Removes LVs that a stopped driver left incomplete. Blocks.
    #[must_use]
    pub fn recover(&self) -> Recovery {
        recover::recover(self)
    }

    /// Takes no new requests and returns when all that are queued have ended.
    pub fn shutdown(&self) {
        // Dropping a worker waits for it. The lock is free meanwhile.
        let workers = self.workers().take();
        drop(workers);
    }

    fn workers(&self) -> MutexGuard<'_, Option<HashMap<VgName, Worker>>> {
        self.inner
            .workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn registry(&self) -> &Registry {
        &self.inner.registry
    }
}

#[cfg(test)]
mod tests;
