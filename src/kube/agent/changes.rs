//! Noticing that VGs may have changed: by us, or by lvm2 on this host.

use std::sync::Arc;
use std::time::Duration;

use lvm2::name::VgName;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, Observer};
use crate::error::Kind;
use crate::host::DeviceEvents;
use crate::metrics::Metrics;

/// How long one wait for events lasts at most, so that a stop is noticed.
const LISTEN: Duration = Duration::from_secs(1);
/// Events that follow each other within this time count once: an lvm2 command
/// makes dozens.
const QUIET: Duration = Duration::from_millis(100);
/// Even if it is never quiet, it counts after so many of them.
const PATIENCE: u32 = 10;

/// Counts changes. It is the engine's observer, and passes to the metrics
/// what is theirs.
pub(super) struct Changes {
    metrics: Arc<Metrics>,
    count: watch::Sender<u64>,
}

impl Changes {
    /// None yet.
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            count: watch::Sender::new(0),
        }
    }

    /// Hears of every change from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    fn happened(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// Listens to the devices on a thread of its own until `stop`. Where
    /// events cannot be heard, a look every `interval` has to do.
    pub(super) fn listen(
        changes: &Arc<Self>,
        engine: &Engine,
        stop: CancellationToken,
        interval: Duration,
    ) {
        let deaf = move |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, ?interval, "changes by others are noticed on the interval");
        };
        let events = match engine.host().block.events() {
            Ok(events) => events,
            Err(error) => return deaf(&error),
        };
        let changes = Arc::clone(changes);
        let spawned = std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || {
                if let Err(error) = changes.hear(events, &stop) {
                    deaf(&error);
                }
            });
        if let Err(error) = spawned {
            deaf(&error);
        }
    }

    fn hear(
        &self,
        mut events: Box<dyn DeviceEvents>,
        stop: &CancellationToken,
    ) -> crate::host::HostResult<()> {
        while !stop.is_cancelled() {
            if !events.wait(LISTEN)? {
                continue;
            }
            for _ in 0..PATIENCE {
                if !events.wait(QUIET)? {
                    break;
                }
            }
            self.happened();
        }
        Ok(())
    }
}

impl Observer for Changes {
    fn queued(&self) {
        self.metrics.queued();
    }

    fn answered(&self, verb: &'static str, result: Result<(), Kind>, took: Duration) {
        self.metrics.answered(verb, result, took);
    }

    fn lock_waited(&self, vg: &VgName, took: Duration) {
        self.metrics.lock_waited(vg, took);
    }

    fn committed(&self, vg: &VgName, requests: usize, took: Duration) {
        self.metrics.committed(vg, requests, took);
    }

    fn changed(&self, _: &VgName) {
        self.happened();
    }
}
