//! The machine's own time and randomness.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::host::Clock;

/// Time and randomness of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinuxClock {
    start: Instant,
}

impl LinuxClock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for LinuxClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for LinuxClock {
    fn unix_seconds(&self) -> u64 {
        // A clock before 1970 is not set yet; lvm2 would write 0 as well.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn pause(&self, duration: Duration) {
        pause(duration);
    }

    fn random(&self, buf: &mut [u8]) {
        // Both sources fail only on kernels that deny them altogether (seccomp).
        // Going on with predictable ids could give two LVs one id, so wait until
        // one of them answers.
        while getrandom::fill(buf).is_err() {
            if File::open("/dev/urandom").is_ok_and(|mut file| file.read_exact(buf).is_ok()) {
                return;
            }
            pause(Duration::from_millis(100));
        }
    }
}

/// Waits where the kernel has no event to wait for.
#[allow(clippy::disallowed_methods, reason = "the one place that may sleep")]
pub(super) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_and_randomness_differs() {
        let clock = LinuxClock::new();
        let before = clock.monotonic();
        clock.pause(Duration::from_millis(2));
        assert!(clock.monotonic() >= before + Duration::from_millis(2));
        assert!(clock.unix_seconds() > 1_700_000_000);
        let (mut a, mut b) = ([0; 32], [0; 32]);
        clock.random(&mut a);
        clock.random(&mut b);
        assert_ne!(a, b);
    }
}
