//! What all services share, and how a call becomes a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio_util::task::TaskTracker;
use tonic::{Response, Status};

use crate::engine::Engine;
use crate::error::Kind;

use super::inflight::InFlight;
use super::status::CsiError;

/// The driver: its engine, its names, and the jobs under way.
pub struct Driver {
    /// The LVM engine.
    pub(super) engine: Engine,
    /// Name by which orchestrators know the driver.
    pub(super) name: String,
    /// This node's id.
    pub(super) node_id: String,
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
        Arc::new(Self {
            engine,
            name: name.into(),
            node_id: node_id.into(),
            in_flight: InFlight::default(),
            jobs: TaskTracker::new(),
            calls: AtomicU64::new(0),
        })
    }

    /// Waits until every job has ended. New ones can still be asked for: stop
    /// serving first.
    pub async fn drained(&self) {
        self.jobs.close();
        self.jobs.wait().await;
    }

    /// Runs `work` for the call `rpc` about `volume` on a thread of its own.
    /// The job goes on when the returned future is dropped.
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
        let guard = match key.map(|key| self.in_flight.enter(&key)) {
            None => None,
            Some(Some(guard)) => Some(guard),
            Some(None) => {
                let error = CsiError::InFlight {
                    volume: volume.to_owned(),
                };
                span.in_scope(|| tracing::info!(%error, "refused"));
                return Err(error.into());
            }
        };
        let driver = Arc::clone(self);
        let job = self.jobs.spawn_blocking(move || {
            let _volume_is_ours = guard;
            let _entered = span.entered();
            let begun = Instant::now();
            let result = work(&driver);
            let took = begun.elapsed();
            match &result {
                Ok(_) => tracing::info!(?took, "done"),
                Err(error) if error.kind() == Kind::Internal => {
                    tracing::error!(?took, %error, "failed");
                }
                Err(error) => tracing::warn!(?took, kind = ?error.kind(), %error, "refused"),
            }
            result
        });
        match job.await {
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
