//! What the driver tells about its own work.

use std::time::Duration;

use lvm2::name::VgName;
use prometheus::core::Collector;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
    exponential_buckets,
};

use crate::engine::Observer;
use crate::error::Kind;

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
#[error("metrics: {0}")]
pub struct MetricsError(#[from] prometheus::Error);

/// The driver's own instruments.
pub struct Metrics {
    registry: Registry,
    operations: HistogramVec,
    queue: IntGauge,
    lock_waits: HistogramVec,
    commits: HistogramVec,
    commit_requests: HistogramVec,
    calls: HistogramVec,
    reconciles: HistogramVec,
    reconcile_errors: IntCounterVec,
    orphans: IntGauge,
    scrapes: IntCounterVec,
    scraping: IntGauge,
}

impl Metrics {
    /// Makes the instruments.
    ///
    /// # Errors
    /// None that is expected: names are fixed and differ.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        // From 50 µs, a commit on fast disks, to 100 s.
        let seconds = exponential_buckets(0.000_05, 2.0, 22)?;
        let sizes = exponential_buckets(1.0, 2.0, 9)?;
        let histogram = |name: &str, help: &str, labels: &[&str], buckets: &[f64]| {
            let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            let made = HistogramVec::new(options, labels)?;
            register(&registry, &made).map(|()| made)
        };
        let made = Self {
            operations: histogram(
                "lvcsi_operation_duration_seconds",
                "Time from asking for a change of a VG to its answer, waiting included",
                &["operation", "result"],
                &seconds,
            )?,
            lock_waits: histogram(
                "lvcsi_lock_wait_duration_seconds",
                "Time that the lock of a VG was waited for",
                &["vg"],
                &seconds,
            )?,
            commits: histogram(
                "lvcsi_commit_duration_seconds",
                "Time to write the metadata of a VG",
                &["vg"],
                &seconds,
            )?,
            commit_requests: histogram(
                "lvcsi_commit_requests",
                "Changes that one metadata write carried",
                &["vg"],
                &sizes,
            )?,
            calls: histogram(
                "lvcsi_rpc_duration_seconds",
                "Time of CSI calls that work on disks",
                &["rpc", "code"],
                &seconds,
            )?,
            reconciles: histogram(
                "lvcsi_reconcile_duration_seconds",
                "Time to bring one object and the disks together",
                &["kind", "result"],
                &seconds,
            )?,
            reconcile_errors: IntCounterVec::new(
                Opts::new(
                    "lvcsi_reconcile_errors_total",
                    "Attempts to bring an object and the disks together that failed",
                ),
                &["kind", "reason"],
            )?,
            queue: IntGauge::new(
                "lvcsi_queue_depth",
                "Changes of VGs that were asked for and not answered yet",
            )?,
            orphans: IntGauge::new(
                "lvcsi_orphaned_volumes",
                "Volumes of this driver on the node's disks that no LVMVolume stands for",
            )?,
            scrapes: IntCounterVec::new(
                Opts::new(
                    "promhttp_metric_handler_requests_total",
                    "Scrapes by the HTTP status of their answer",
                ),
                &["code"],
            )?,
            scraping: IntGauge::new(
                "promhttp_metric_handler_requests_in_flight",
                "Scrapes being answered",
            )?,
            registry,
        };
        register(&made.registry, &made.reconcile_errors)?;
        register(&made.registry, &made.queue)?;
        register(&made.registry, &made.orphans)?;
        register(&made.registry, &made.scrapes)?;
        register(&made.registry, &made.scraping)?;
        for code in ["200", "500", "503"] {
            made.scrapes.with_label_values(&[code]);
        }
        Ok(made)
    }

    /// A CSI call ended.
    pub fn called(&self, rpc: &str, code: tonic::Code, took: Duration) {
        let code = format!("{code:?}");
        observe(&self.calls, &[rpc, &code], took);
    }

    /// An object was reconciled; `error` is a word for why it failed.
    pub fn reconciled(&self, kind: &str, error: Option<&str>, took: Duration) {
        let result = if error.is_some() { "error" } else { "ok" };
        observe(&self.reconciles, &[kind, result], took);
        if let Some(reason) = error {
            self.reconcile_errors
                .with_label_values(&[kind, reason])
                .inc();
        }
    }

    /// How many volumes have no object.
    pub fn orphans(&self, count: usize) {
        self.orphans.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A scrape begins.
    pub fn scrape_begins(&self) {
        self.scraping.inc();
    }

    /// A scrape was answered with this HTTP status.
    pub fn scrape_ended(&self, status: u16) {
        self.scraping.dec();
        self.scrapes.with_label_values(&[&status.to_string()]).inc();
    }

    /// The text of all instruments.
    ///
    /// # Errors
    /// If an instrument cannot be printed.
    pub fn render(&self) -> Result<String, MetricsError> {
        print(&self.registry)
    }
}

fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    made: &C,
) -> Result<(), prometheus::Error> {
    registry.register(Box::new(made.clone()))
}

fn observe(histogram: &HistogramVec, labels: &[&str], took: Duration) {
    histogram
        .with_label_values(labels)
        .observe(took.as_secs_f64());
}

/// The text of a registry.
pub(super) fn print(registry: &Registry) -> Result<String, MetricsError> {
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

impl Observer for Metrics {
    fn queued(&self) {
        self.queue.inc();
    }

    fn answered(&self, verb: &'static str, result: Result<(), Kind>, took: Duration) {
        self.queue.dec();
        let result = result.map_or_else(Kind::word, |()| "ok");
        observe(&self.operations, &[verb, result], took);
    }

    fn lock_waited(&self, vg: &VgName, took: Duration) {
        observe(&self.lock_waits, &[vg.as_str()], took);
    }

    fn committed(&self, vg: &VgName, requests: usize, took: Duration) {
        observe(&self.commits, &[vg.as_str()], took);
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        self.commit_requests
            .with_label_values(&[vg.as_str()])
            .observe(f64::from(requests));
    }
}
