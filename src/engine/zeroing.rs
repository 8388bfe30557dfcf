//! Zeroing whole LVs beside the worker, so that a long wipe holds up neither
//! the VG lock nor other requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use lvm2::id::LvId;
use lvm2::name::VgName;

use super::activity::Activity;
use super::error::EngineError;
use super::prepare::{Finish, Zero};
use super::request::Request;
use super::worker::{Message, Reply};
use crate::host::{Host, HostResult, LockGuard};

/// Bytes zeroed by one call: few enough for a slow disk to be done before a
/// call counts as hanging.
const CHUNK: u64 = 64 * 1024 * 1024;

/// What the zeroing of one LV needs.
pub(super) struct Claim {
    /// Says to other processes that somebody works on this incomplete LV.
    pub(super) guard: Box<dyn LockGuard>,
    /// The LV's device.
    pub(super) node: PathBuf,
}

/// How the names of claims begin.
pub(super) const CLAIM_PREFIX: &str = "lvcsi_";

/// The name of the lock that the maker of an incomplete LV holds.
pub(super) fn claim_name(id: &LvId) -> String {
    format!("{CLAIM_PREFIX}{}", id.as_str())
}

/// The LVs of one VG that are being zeroed.
pub(super) struct Zeroing {
    host: Host,
    vg: VgName,
    queue: Sender<Message>,
    activity: Arc<Activity>,
    running: Vec<Zero>,
}

impl Zeroing {
    pub(super) fn new(
        host: Host,
        vg: VgName,
        queue: Sender<Message>,
        activity: Arc<Activity>,
    ) -> Self {
        Self {
            host,
            vg,
            queue,
            activity,
            running: Vec::new(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn ended(&mut self, zero: &Zero) {
        self.running.retain(|running| running.id != zero.id);
    }

    /// Whether `request` is about an LV that is being made or grown.
    pub(super) fn concerns(&self, request: &Request) -> bool {
        self.running.iter().any(|zero| {
            let grown = match &zero.then {
                Finish::Append { to } => Some(to),
                Finish::Reveal { .. } => None,
            };
            let touches = request.lv() == &zero.lv || Some(request.lv()) == grown;
            touches && !matches!(request, Request::Activate { .. } | Request::Tags { .. })
        })
    }

    /// Zeroes the LV on a thread of its own and tells the worker.
    pub(super) fn start(&mut self, zero: Zero, claim: Claim, reply: Reply) {
        let host = self.host.clone();
        let queue = self.queue.clone();
        let object = format!("{}/{}", self.vg, zero.lv);
        self.running.push(zero.clone());
        let activity = Arc::clone(&self.activity);
        let work = move || {
            let noted = activity.zeroes(zero.names().into_iter().cloned().collect());
            let outcome = zero_device(&host, &claim.node).map_err(|source| EngineError::Host {
                object,
                source: Arc::new(source),
            });
            drop(noted);
            // A worker that has ended needs to know nothing more.
            let _ = queue.send(Message::Zeroed(zero, outcome, reply, claim.guard));
        };
        if let Err(error) = std::thread::Builder::new()
            .name("zero".to_owned())
            .spawn(work)
        {
            tracing::error!(%error, "cannot start a thread: an incomplete LV stays until the next start");
            self.running.pop();
        }
    }
}

fn zero_device(host: &Host, node: &std::path::Path) -> HostResult<()> {
    let seen = host.block.open_path(node)?;
    let device = host.block.open(seen.info(), true)?;
    let size = device.info().size;
    let mut offset = 0;
    while offset < size {
        let length = CHUNK.min(size - offset);
        device.zero(offset, length)?;
        offset += length;
    }
    device.flush()
}
