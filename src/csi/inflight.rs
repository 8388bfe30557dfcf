//! One operation at a time on a volume.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The volumes that jobs are working on.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<HashSet<String>>>);

impl InFlight {
    /// Marks `volume` as being worked on until the guard is dropped; nothing
    /// if it is already. The guard belongs into the job, not into the gRPC
    /// handler, which is dropped at the caller's deadline.
    pub(super) fn enter(&self, volume: &str) -> Option<Guard> {
        let mut busy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        busy.insert(volume.to_owned()).then(|| Guard {
            busy: self.clone(),
            volume: volume.to_owned(),
        })
    }
}

/// Holds a volume; see [`InFlight::enter`].
#[derive(Debug)]
pub(super) struct Guard {
    busy: InFlight,
    volume: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.busy
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_held_until_its_guard_goes() {
        let busy = InFlight::default();
        let a = busy.enter("a").unwrap();
        assert!(busy.enter("a").is_none());
        assert!(busy.enter("b").is_some());
        drop(a);
        assert!(busy.enter("a").is_some());
    }
}
