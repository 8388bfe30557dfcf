//! What all services share, and how a call becomes a job.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::task::TaskTracker;
use tonic::{Response, Status};

use crate::engine::{Engine, LvState};
use crate::error::Kind;
use crate::host::HostResult;

use super::cluster::Cluster;
use super::format_defaults::FormatDefaults;
use super::inflight::{Guard, InFlight, Job};
use super::node;
use super::status::CsiError;

/// How often to look whether a job hangs: the kernel has no event for something
/// that does not happen.
const TICK: Duration = Duration::from_millis(250);

/// Who wants to know how calls ended: name, code and duration.
pub type CallObserver = dyn Fn(&'static str, tonic::Code, Duration) + Send + Sync;

/// The driver: its engine, its names, and the jobs under way.
pub struct Driver {
    /// The LVM engine.
    pub(super) engine: Engine,
    /// Name by which orchestrators know the driver.
    pub(super) name: String,
    /// This node's id.
    pub(super) node_id: String,
    /// The cluster that this is a node of; none in standalone mode.
    pub(super) cluster: Option<Arc<dyn Cluster>>,
    /// Arguments for mkfs where a volume has none.
    pub(super) format_defaults: FormatDefaults,
    observer: OnceLock<Box<CallObserver>>,
    in_flight: InFlight,
    jobs: TaskTracker,
    calls: AtomicU64,
}

/// How a job stands to others on the same volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exclusive {
    /// It only reads, or is about no volume.
    No,
    /// One such job at a time.
    Volume,
    /// One such job at a time, beside others: what looks at a path and can
    /// hang there must not pile up.
    Path,
}

impl Driver {
    /// A driver called `name` on the node `node_id`.
    #[must_use]
    pub fn new(engine: Engine, name: impl Into<String>, node_id: impl Into<String>) -> Arc<Self> {
        let defaults = FormatDefaults::default();
        Self::make(engine, name.into(), node_id.into(), None, defaults)
    }

    /// A driver called `name` on the node `node_id` of `cluster`.
    #[must_use]
    pub fn in_cluster(
        engine: Engine,
        name: impl Into<String>,
        node_id: impl Into<String>,
        cluster: Arc<dyn Cluster>,
        format_defaults: FormatDefaults,
    ) -> Arc<Self> {
        let (name, node_id) = (name.into(), node_id.into());
        Self::make(engine, name, node_id, Some(cluster), format_defaults)
    }

    fn make(
        engine: Engine,
        name: String,
        node_id: String,
        cluster: Option<Arc<dyn Cluster>>,
        format_defaults: FormatDefaults,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            name,
            node_id,
            cluster,
            format_defaults,
            observer: OnceLock::new(),
            in_flight: InFlight::default(),
            jobs: TaskTracker::new(),
            calls: AtomicU64::new(0),
        })
    }

    /// Tells `observer` how each call that works on disks ended.
    pub fn observe(&self, observer: Box<CallObserver>) {
        if self.observer.set(observer).is_err() {
            tracing::warn!("the driver is observed already");
        }
    }

    /// This node's topology beside its name; nothing while it is not known.
    #[must_use]
    pub fn topology(&self) -> Option<HashMap<String, String>> {
        match &self.cluster {
            None => Some(HashMap::new()),
            Some(cluster) => cluster.topology(),
        }
    }

    /// Keeps calls off a volume while the guard lives; nothing if one is under
    /// way.
    #[must_use]
    pub fn hold(&self, volume: &str) -> Option<Guard> {
        let job = Job::new("LVMVolume", volume);
        job.starts();
        self.in_flight.enter(&job, Some(volume)).ok()
    }

    /// Where the LV is mounted or its device is bound to.
    ///
    /// # Errors
    /// If the mount table cannot be read.
    pub fn published(&self, lv: &LvState) -> HostResult<Vec<PathBuf>> {
        node::published(self, lv)
    }

    fn called(&self, rpc: &'static str, code: tonic::Code, took: Duration) {
        if let Some(observer) = self.observer.get() {
            observer(rpc, code, took);
        }
    }

    /// Waits until every job has ended or hangs in a dead device, and returns
    /// those that hang, each as a sentence. New ones can still be asked for:
    /// stop serving first.
    pub async fn drained(&self) -> Vec<String> {
        self.jobs.close();
        while tokio::time::timeout(TICK, self.jobs.wait()).await.is_err() {
            let left = self.in_flight.all();
            let hanging: Vec<String> = left.iter().filter_map(|job| self.hangs(job)).collect();
            if hanging.len() == left.len() && !hanging.is_empty() {
                return hanging;
            }
        }
        Vec::new()
    }

    /// What a job waits for, if it hangs in a dead device.
    fn hangs(&self, job: &Job) -> Option<String> {
        let pending = self.engine.overdue(job.thread()?)?;
        let volume = &job.volume;
        let cause = self.engine.cause(&pending);
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        Some(format!(
            "{} of volume {volume:?}: {pending}{cause}",
            job.rpc
        ))
    }

    /// Runs `work` for the call `rpc` about `volume` on a thread of its own.
    /// The job goes on when the returned future is dropped, and when the job
    /// hangs in a dead device: then the caller is told in which, the volume
    /// stays the job's, and the job ends when the device answers.
    pub(super) async fn job<T, F>(
        self: &Arc<Self>,
        rpc: &'static str,
        volume: &str,
        exclusive: Exclusive,
        work: F,
    ) -> Result<Response<T>, Status>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T, CsiError> + Send + 'static,
    {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let span = tracing::info_span!("csi", rpc, volume, call);
        let key = match exclusive {
            Exclusive::No => None,
            Exclusive::Volume => Some(volume.to_owned()),
            Exclusive::Path => Some(format!("{rpc} {volume}")),
        };
        let job = Job::new(rpc, volume);
        let guard = match self.in_flight.enter(&job, key.as_deref()) {
            Ok(guard) => guard,
            Err(other) => {
                let waits = self.hangs(&other);
                let error = CsiError::InFlight {
                    volume: volume.to_owned(),
                    job: waits.unwrap_or_else(|| other.to_string()),
                };
                span.in_scope(|| tracing::info!(%error, "refused"));
                self.called(rpc, error.kind().code(), Duration::ZERO);
                return Err(error.into());
            }
        };
        let driver = Arc::clone(self);
        let (running, inside) = (Arc::clone(&job), span.clone());
        let mut ends = self.jobs.spawn_blocking(move || {
            let _volume_is_ours = guard;
            let _entered = inside.entered();
            running.starts();
            let begun = Instant::now();
            let result = work(&driver);
            let took = begun.elapsed();
            let code = result
                .as_ref()
                .map_or_else(|error| error.kind().code(), |_| tonic::Code::Ok);
            driver.called(rpc, code, took);
            match &result {
                Ok(_) => tracing::info!(?took, "done"),
                Err(error) if error.kind() == Kind::Internal => {
                    tracing::error!(?took, %error, "failed");
                }
                Err(error) => tracing::warn!(?took, kind = ?error.kind(), %error, "refused"),
            }
            result
        });
        let ended = loop {
            match tokio::time::timeout(TICK, &mut ends).await {
                Ok(ended) => break ended,
                Err(_) => {
                    let Some(waits) = self.hangs(&job) else {
                        continue;
                    };
                    let error = CsiError::Hangs { job: waits };
                    span.in_scope(|| tracing::warn!(%error, "not waited for"));
                    return Err(error.into());
                }
            }
        };
        match ended {
            Ok(result) => result.map(Response::new).map_err(Status::from),
            Err(stopped) => Err(Status::internal(format!(
                "{rpc} of volume {volume:?} ended early ({stopped}); this is a fault of the driver"
            ))),
        }
    }
}

/// `value`, or an error that says which field is missing.
pub(super) fn required<'a>(field: &'static str, value: &'a str) -> Result<&'a str, CsiError> {
    if value.is_empty() {
        Err(CsiError::Missing { field })
    } else {
        Ok(value)
    }
}
