//! Noticing that block devices came, went or changed, by the kernel's uevents.
//!
//! The events wait in a socket until somebody asks: no thread, and an answer
//! covers everything that the kernel had reported before the question.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use libudev::{EventType, MonitorBuilder, MonitorSocket};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};

use super::sysfs::Sysfs;

/// Where uevents cannot be heard everything may have changed after this time.
const BLIND: Duration = Duration::from_secs(30);
/// Receive buffer in bytes: room for the events of some thousand LVs. When it
/// overflows one rediscovery too many is all that happens.
const BUFFER: usize = 4 << 20;

/// A count of changes of block devices.
pub(super) struct Events {
    state: Mutex<State>,
    start: Instant,
}

struct State {
    socket: Option<MonitorSocket>,
    count: u64,
    lvs: Lvs,
}

/// Tells LVs from other devices: their coming and going changes nothing that
/// discovery would find, and happens with every operation.
struct Lvs {
    sysfs: Sysfs,
    ignore: bool,
    known: HashSet<String>,
}

impl Events {
    /// Listens from now on. `ignore_lvs` leaves LVs out of account.
    pub(super) fn new(sysfs: Sysfs, ignore_lvs: bool) -> Self {
        let socket = listen().inspect_err(|error| {
            tracing::warn!(%error, "no kernel events: looking for devices every {BLIND:?}");
        });
        let mut lvs = Lvs {
            sysfs,
            ignore: ignore_lvs,
            known: HashSet::new(),
        };
        for name in lvs.sysfs.names() {
            lvs.concerns(&name, EventType::Change);
        }
        let state = State {
            socket: socket.ok(),
            count: 0,
            lvs,
        };
        Self {
            state: Mutex::new(state),
            start: Instant::now(),
        }
    }

    /// Whether uevents are heard.
    #[cfg(test)]
    pub(super) fn listening(&self) -> bool {
        self.state.lock().unwrap().socket.is_some()
    }

    pub(super) fn generation(&self) -> u64 {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        if let Some(socket) = &state.socket {
            match drain(socket, &mut state.lvs) {
                Ok(true) => state.count += 1,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "kernel events ended: looking for devices every {BLIND:?}");
                    state.socket = None;
                    state.count += 1;
                }
            }
        }
        match state.socket {
            Some(_) => state.count,
            None => state.count + self.start.elapsed().as_secs() / BLIND.as_secs(),
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

pub(super) fn listen() -> io::Result<MonitorSocket> {
    let socket = MonitorBuilder::new_kernel()?
        .match_subsystem("block")?
        .listen()?;
    // Needs CAP_NET_ADMIN; the default size does, too.
    let _ = setsockopt(&Socket(&socket), sockopt::RcvBufForce, &BUFFER);
    Ok(socket)
}

/// The monitor implements the I/O traits of an older standard only.
pub(super) struct Socket<'a>(pub(super) &'a MonitorSocket);

impl std::os::fd::AsFd for Socket<'_> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes all events that wait and tells whether any of them matters.
fn drain(socket: &MonitorSocket, lvs: &mut Lvs) -> io::Result<bool> {
    let mut changed = false;
    let mut events = socket.iter();
    loop {
        let Some(event) = events.next() else {
            let error = io::Error::last_os_error();
            match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                Errno::EAGAIN => return Ok(changed),
                Errno::EINTR => continue,
                // Events were lost.
                Errno::ENOBUFS => {
                    changed = true;
                    continue;
                }
                _ => return Err(error),
            }
        };
        let what = event.event_type();
        changed |= event
            .sysname()
            .to_str()
            .is_none_or(|name| lvs.concerns(name, what));
    }
}

impl Lvs {
    /// Whether an event of the device `name` matters.
    fn concerns(&mut self, name: &str, what: EventType) -> bool {
        if !self.ignore || !name.starts_with("dm-") {
            return true;
        }
        match what {
            // The kernel reports a removal twice, so the name stays known.
            EventType::Remove => return !self.known.contains(name),
            EventType::Add => {
                self.known.remove(name);
            }
            _ => {}
        }
        match self.sysfs.dm_uuid(name) {
            Some(uuid) if uuid.starts_with("LVM-") => {
                self.known.insert(name.to_owned());
                false
            }
            // Gone again: the event of its removal is still to come.
            None => false,
            Some(_) => {
                self.known.remove(name);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::fake::FakeSysfs;
    use super::*;

    #[test]
    fn lvs_come_and_go_unnoticed_but_not_other_devices() {
        let sysfs = FakeSysfs::new();
        sysfs.add("dm-0", 8, &[("dm/name", "vg-a"), ("dm/uuid", "LVM-a")]);
        sysfs.add("dm-1", 8, &[("dm/name", "crypt"), ("dm/uuid", "CRYPT-x")]);
        let mut lvs = Lvs {
            sysfs: Sysfs::new(sysfs.root()),
            ignore: true,
            known: HashSet::new(),
        };
        use EventType::{Add, Change, Remove};
        assert!(lvs.concerns("sda", Add));
        assert!(!lvs.concerns("dm-0", Add));
        assert!(!lvs.concerns("dm-0", Change));
        assert!(!lvs.concerns("dm-0", Remove));
        assert!(!lvs.concerns("dm-0", Remove), "the kernel tells twice");
        assert!(lvs.concerns("dm-1", Change));
        assert!(lvs.concerns("dm-1", Remove));
        assert!(!lvs.concerns("dm-9", Add), "vanished before we looked");
        assert!(lvs.concerns("dm-9", Remove), "it may have been anything");
        std::fs::write(sysfs.root().join("class/block/dm-0/dm/uuid"), "CRYPT-y").unwrap();
        assert!(
            lvs.concerns("dm-0", Add),
            "the number is another device's now"
        );
        assert!(lvs.concerns("dm-0", Remove));
        lvs.ignore = false;
        assert!(lvs.concerns("dm-0", Change), "with scan_lvs LVs count");
    }
}
