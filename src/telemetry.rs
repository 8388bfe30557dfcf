//! Logs on standard error.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// Environment variable with the filter, e.g. `info,lvcsi::engine=debug`.
pub const FILTER_VARIABLE: &str = "LVCSI_LOG";

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logging does not start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter in the environment.
    #[error("{FILTER_VARIABLE}: {0}")]
    Filter(#[from] ParseError),
    /// Somebody set a subscriber before.
    #[error("logging is set up already")]
    Twice,
}

/// Starts logging with `default` as the level where the environment says
/// nothing.
///
/// # Errors
/// When the filter cannot be parsed, or logging was set up before.
pub fn init(format: LogFormat, default: &str) -> Result<(), TelemetryError> {
    let filter = match std::env::var(FILTER_VARIABLE) {
        Ok(filter) => EnvFilter::try_new(filter)?,
        Err(_) => EnvFilter::try_new(default)?,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
            subscriber.with_ansi(colour).try_init()
        }
        LogFormat::Json => subscriber.json().try_init(),
    }
    .map_err(|_| TelemetryError::Twice)
}
