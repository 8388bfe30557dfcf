//! Time, waiting and randomness.

use std::time::Duration;

/// Source of everything that is not deterministic.
pub trait Clock: Send + Sync {
    /// Seconds since the Unix epoch.
    fn unix_seconds(&self) -> u64;

    /// Monotonic time since an arbitrary start.
    fn monotonic(&self) -> Duration;

    /// Waits between two tries of something that has no event to wait for.
    fn pause(&self, duration: Duration);

    /// Fills `buf` with unpredictable bytes.
    fn random(&self, buf: &mut [u8]);
}
