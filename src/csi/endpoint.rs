//! Where the driver listens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest path that fits in the kernel's socket address.
const MAX_PATH: usize = 107;

/// Why an endpoint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not a Unix socket.
    #[error("endpoint {endpoint:?} is no Unix socket; write unix:///path/to/csi.sock")]
    NotUnix {
        /// What was given.
        endpoint: String,
    },
    /// Longer than the kernel takes.
    #[error("the path in endpoint {endpoint:?} is longer than {MAX_PATH} bytes")]
    TooLong {
        /// What was given.
        endpoint: String,
    },
}

/// A Unix socket by its absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

impl Endpoint {
    /// The socket's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Takes `unix:///path`, `unix:/path` and the contract's `unix://path`,
    /// which means `/path`.
    fn from_str(endpoint: &str) -> Result<Self, EndpointError> {
        let path = endpoint
            .strip_prefix("unix:")
            .map(|rest| rest.trim_start_matches('/'));
        match path {
            Some(path) if !path.is_empty() && path.len() < MAX_PATH => {
                Ok(Self(Path::new("/").join(path)))
            }
            Some(path) if !path.is_empty() => Err(EndpointError::TooLong {
                endpoint: endpoint.to_owned(),
            }),
            _ => Err(EndpointError::NotUnix {
                endpoint: endpoint.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_unix_endpoints() {
        for spelling in [
            "unix:///csi/csi.sock",
            "unix://csi/csi.sock",
            "unix:/csi/csi.sock",
        ] {
            let endpoint: Endpoint = spelling.parse().unwrap();
            assert_eq!(endpoint.path(), Path::new("/csi/csi.sock"));
            assert_eq!(endpoint.to_string(), "unix:///csi/csi.sock");
        }
        for bad in ["", "tcp://0.0.0.0:1", "/csi/csi.sock", "unix://", "unix:"] {
            assert!(
                matches!(Endpoint::from_str(bad), Err(EndpointError::NotUnix { .. })),
                "{bad}"
            );
        }
        let long = format!("unix:///{}", "x".repeat(120));
        assert!(matches!(
            Endpoint::from_str(&long),
            Err(EndpointError::TooLong { .. })
        ));
    }
}
