//! How long a caller waits, and whether it still does.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;

/// The caller waits no longer.
#[derive(Debug)]
pub(super) struct Late;

/// Where a caller names no time.
const DEFAULT: Duration = Duration::from_secs(60);
/// So much before the caller's time is up it gets an answer that says what is
/// waited for; a tenth of the time if that is less.
const ANSWER: Duration = Duration::from_millis(500);

/// How long a caller waits.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    deadline: Instant,
    hung_up: CancellationToken,
}

impl Patience {
    /// Of the caller who sent `metadata`, until `hung_up`.
    pub(super) fn of(metadata: &MetadataMap, hung_up: CancellationToken) -> Self {
        let text = metadata.get("grpc-timeout").and_then(|v| v.to_str().ok());
        Self::new(text.and_then(parse).unwrap_or(DEFAULT), hung_up)
    }

    /// Of `time`.
    pub(super) fn new(time: Duration, hung_up: CancellationToken) -> Self {
        let time = time - (time / 10).min(ANSWER);
        // A longer time than the clock has is none.
        let now = Instant::now();
        let deadline = now.checked_add(time).unwrap_or(now + DEFAULT);
        Self { deadline, hung_up }
    }

    /// Waits for `what` as long as the caller does.
    pub(super) async fn wait<T>(&self, what: impl Future<Output = T>) -> Result<T, Late> {
        tokio::select! {
            biased;
            value = what => Ok(value),
            () = self.hung_up.cancelled() => Err(Late),
            () = tokio::time::sleep_until(self.deadline) => Err(Late),
        }
    }
}

/// gRPC's notation: at most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(number.checked_mul(3600)?),
        'M' => Duration::from_secs(number.checked_mul(60)?),
        'S' => Duration::from_secs(number),
        'm' => Duration::from_millis(number),
        'u' => Duration::from_micros(number),
        'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_grpc_s_notation() {
        for (text, time) in [
            ("10S", Some(Duration::from_secs(10))),
            ("1500m", Some(Duration::from_millis(1500))),
            ("2M", Some(Duration::from_secs(120))),
            ("99999999H", Some(Duration::from_secs(359_999_996_400))),
            ("5u", Some(Duration::from_micros(5))),
            ("7n", Some(Duration::from_nanos(7))),
            ("10", None),
            ("S", None),
            ("-1S", None),
            ("", None),
        ] {
            assert_eq!(parse(text), time, "{text}");
        }
    }

    #[tokio::test]
    async fn the_answer_comes_before_the_caller_s_time_is_up() {
        let begun = Instant::now();
        let patience = Patience::new(Duration::from_secs(20), CancellationToken::new());
        assert!(patience.deadline <= begun + Duration::from_secs(20));
        assert!(patience.deadline >= begun + Duration::from_secs(19));
        assert_eq!(patience.wait(async { 1 }).await.ok(), Some(1));
        let short = Patience::new(Duration::from_millis(10), CancellationToken::new());
        assert!(short.wait(std::future::pending::<()>()).await.is_err());
        let hung_up = CancellationToken::new();
        let patience = Patience::new(Duration::from_secs(10), hung_up.clone());
        hung_up.cancel();
        assert!(patience.wait(std::future::pending::<()>()).await.is_err());
    }
}
