//! Time that moves only when somebody waits, and seeded randomness.

use std::time::Duration;

use super::machine::Process;
use crate::host::Clock;

/// 2026-01-01 00:00:00 UTC.
pub(super) const EPOCH: u64 = 1_767_225_600;

impl Clock for Process {
    fn unix_seconds(&self) -> u64 {
        EPOCH + self.machine.state().now.as_secs()
    }

    fn monotonic(&self) -> Duration {
        self.machine.state().now
    }

    /// Simulated time jumps ahead at once; other threads get a moment of real
    /// time, so that what is waited for can happen.
    fn pause(&self, duration: Duration) {
        let mut state = self.machine.state();
        state.now = state.now.saturating_add(duration);
        drop(
            self.machine
                .wait_for(state, duration.min(Duration::from_millis(1))),
        );
    }

    fn random(&self, buf: &mut [u8]) {
        let mut state = self.machine.state();
        for chunk in buf.chunks_mut(8) {
            let word = state.random_word().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
