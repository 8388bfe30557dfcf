//! Percentiles of few measurements.

use std::time::Duration;

/// The value below which `percent` of the samples lie (nearest rank).
///
/// # Panics
/// If there are no samples.
#[must_use]
pub fn percentile(samples: &[Duration], percent: u32) -> Duration {
    assert!(!samples.is_empty(), "no measurement");
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent as usize).div_ceil(100).max(1);
    sorted[rank - 1]
}

/// The middle one.
#[must_use]
pub fn median(samples: &[Duration]) -> Duration {
    percentile(samples, 50)
}

/// A duration for people: `1.23 ms`, `0.61 s`.
#[must_use]
pub fn human(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1000.0 {
        format!("{micros:.0} µs")
    } else if micros < 1_000_000.0 {
        format!("{:.2} ms", micros / 1e3)
    } else {
        format!("{:.2} s", micros / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let samples: Vec<_> = (1..=30).rev().map(Duration::from_millis).collect();
        assert_eq!(median(&samples), Duration::from_millis(15));
        assert_eq!(percentile(&samples, 99), Duration::from_millis(30));
        assert_eq!(percentile(&samples[..1], 99), Duration::from_millis(30));
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(human(Duration::from_micros(12)), "12 µs");
        assert_eq!(human(Duration::from_micros(2345)), "2.35 ms");
        assert_eq!(human(Duration::from_millis(1500)), "1.50 s");
    }
}
