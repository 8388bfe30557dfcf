//! Disks that become PVs, and VGs that are made of them.
//!
//! Every write happens with `P_global` held exclusively, by lvm2's order
//! before the lock of a VG, and through a handle that claims the device from
//! before anything of it was read. The order of writes leaves lvm2 and us, at
//! whatever write a machine dies, with a device that is no PV, a PV of no VG,
//! or a member of its VG:
//!
//! - a new PV: no old label, wipe, area header, and the label last;
//! - into a VG: the VG's text, its headers, and then the flag in the label
//!   that a VG uses the PV; a member without the flag is a member all the
//!   same, and lvm2 sets the flag at its next write;
//! - out of a VG: the areas of the PV lose their text, then the label its
//!   flag, then the VG's text loses the PV. Until that last step the PV is a
//!   member whose copy of the metadata is missing, which the next commit
//!   writes again. It holds no extents, so nothing hangs on it.
//!
//! The other orders have a moment at which a label says "in use" and no
//! metadata says by whom: lvm2 then gives the disk to nobody without force.

mod error;
mod flag;
mod joiner;
mod pv;
mod request;
mod session;
mod target;
mod vg;
mod write;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

pub use error::DiskError;
pub(super) use flag::mark_members;
pub use request::{DiskOutcome, DiskRequest, PvState, VgState};

use super::Engine;
use super::activity::Obstacle;
use super::error::EngineError;
use super::state::Plan;
use crate::host::HostError;
use session::{Mode, Session};

/// How often to look whether a change hangs: the kernel has no event for
/// something that does not happen.
const TICK: Duration = Duration::from_millis(50);

impl Engine {
    /// Makes a change of PVs and VGs; `agreed` allows to wipe what is found on
    /// devices that become PVs. Blocks.
    ///
    /// # Errors
    /// [`EngineError::Disk`] says what stands against it, with every byte as it
    /// was; the others what failed on the way.
    pub fn change_disks(
        &self,
        request: &DiskRequest,
        agreed: bool,
    ) -> Result<DiskOutcome, EngineError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let inner = Arc::clone(&self.inner);
        let asked = request.clone();
        let thread = std::thread::Builder::new()
            .name("disks".to_owned())
            .spawn(move || {
                let session = Session::new(&inner, Mode::Real, agreed, asked.words());
                let outcome = run(&session, &asked);
                // What is known of PVs and VGs is out of date, also after an
                // error. If this look fails the next one tells.
                let _ = inner.visitor.registry.rescan();
                // A caller that gave up needs no answer.
                let _ = sender.send(outcome);
            })
            .map_err(|source| EngineError::Host {
                object: request.object(),
                source: Arc::new(HostError::Path {
                    op: "start a thread for",
                    path: request.object().into(),
                    source,
                }),
            })?;
        let outcome = self.wait(request, thread.thread().id(), &receiver);
        if let (Ok(_), DiskRequest::RemoveVg { vg }) = (&outcome, request) {
            // Its thread has nothing left to do. It is waited for outside of
            // the lock on the others.
            let worker = self.workers().as_mut().and_then(|all| all.remove(vg));
            drop(worker);
        }
        outcome
    }

    /// Waits for the answer of a thread, but not for a device that hangs: the
    /// thread and its locks stay, for what it will yet write is unknown.
    fn wait(
        &self,
        request: &DiskRequest,
        thread: ThreadId,
        answer: &Receiver<Result<DiskOutcome, EngineError>>,
    ) -> Result<DiskOutcome, EngineError> {
        let since = Instant::now();
        loop {
            match answer.recv_timeout(TICK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(EngineError::Closed {
                        object: request.object(),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(pending) = self.overdue(thread) {
                let obstacle = Obstacle {
                    cause: self.cause(&pending),
                    pending,
                    locked: Some((session::GLOBAL.to_owned(), since)),
                };
                return Err(EngineError::Stuck {
                    object: request.object(),
                    obstacle: Arc::new(obstacle),
                });
            }
        }
    }

    /// What [`change_disks`](Self::change_disks) would do, without doing it:
    /// takes no lock and writes nothing. Blocks.
    ///
    /// # Errors
    /// As the change itself, as far as that can be known beforehand. That a
    /// device holds something is no error here: the steps say what is wiped.
    pub fn plan_disks(&self, request: &DiskRequest) -> Result<Plan, EngineError> {
        let session = Session::new(&self.inner, Mode::Dry, false, request.words());
        run(&session, request)?;
        Ok(session.into_plan())
    }
}

fn run(session: &Session<'_>, request: &DiskRequest) -> Result<DiskOutcome, EngineError> {
    match request {
        DiskRequest::CreatePv { devices, wish } => pv::create(session, devices, *wish),
        DiskRequest::ResizePv { device, size } => pv::resize(session, device, *size),
        DiskRequest::RemovePv { devices } => pv::remove(session, devices),
        DiskRequest::CreateVg {
            vg,
            devices,
            wish,
            extent_size,
            tags,
        } => vg::create(session, vg, devices, *wish, *extent_size, tags),
        DiskRequest::ExtendVg { vg, devices, wish } => vg::extend(session, vg, devices, *wish),
        DiskRequest::ReduceVg { vg, devices } => vg::reduce(session, vg, devices),
        DiskRequest::RemoveVg { vg } => vg::remove(session, vg),
    }
}
