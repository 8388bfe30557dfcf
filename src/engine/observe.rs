//! Telling somebody what the engine does.

use std::sync::Arc;
use std::time::Duration;

use lvm2::name::VgName;

use super::registry::Registry;
use crate::error::Kind;
use crate::host::{Clock, Host};

/// Who wants to know what the engine does: metrics, and those who publish the
/// state of VGs. Called on the engine's own threads, some while a VG lock is
/// held: an implementation notes and returns.
pub trait Observer: Send + Sync {
    /// A request was queued.
    fn queued(&self) {}

    /// A queued request was answered after `took`, waiting included.
    fn answered(&self, verb: &'static str, result: Result<(), Kind>, took: Duration) {
        let _ = (verb, result, took);
    }

    /// The lock of a VG was waited for.
    fn lock_waited(&self, vg: &VgName, took: Duration) {
        let _ = (vg, took);
    }

    /// One metadata write carried the changes of `requests` requests.
    fn committed(&self, vg: &VgName, requests: usize, took: Duration) {
        let _ = (vg, requests, took);
    }

    /// What is known of a VG changed: by a commit of ours, or because another
    /// program's was noticed.
    fn changed(&self, vg: &VgName) {
        let _ = vg;
    }
}

/// Nobody.
pub(super) struct Nobody;

impl Observer for Nobody {}

/// Measures one request, from being queued to its answer.
pub(super) struct Meter {
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    begun: Duration,
    verb: &'static str,
    result: Result<(), Kind>,
}

impl Meter {
    /// A request to `verb` an LV was queued.
    pub(super) fn start(verb: &'static str, host: &Host, registry: &Registry) -> Self {
        let observer = registry.observer();
        observer.queued();
        Self {
            observer,
            clock: Arc::clone(&host.clock),
            begun: host.clock.monotonic(),
            verb,
            // What a request is that nobody answers.
            result: Err(Kind::Aborted),
        }
    }

    /// It is answered now.
    pub(super) fn stop(mut self, result: Result<(), Kind>) {
        self.result = result;
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let took = self.clock.monotonic().saturating_sub(self.begun);
        self.observer.answered(self.verb, self.result, took);
    }
}
