//! Who asked the API server for what, from its audit log.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::PATIENCE;

const QUIET: Duration = Duration::from_secs(3);

/// A place in the log; what comes after it can be counted.
pub struct Audit {
    file: PathBuf,
    from: u64,
}

impl Audit {
    /// From now on.
    ///
    /// # Panics
    /// If there is no log.
    #[must_use]
    pub fn begin() -> Self {
        let config = std::env::var("LVCSI_KUBECONFIG").expect("LVCSI_KUBECONFIG");
        let file = PathBuf::from(config).with_file_name("audit.log");
        let from = fs::metadata(&file).expect("an audit log").len();
        Self { file, from }
    }

    /// Returns when nobody has asked for anything for [`QUIET`], but for what goes on
    /// for ever: leases, watches, nodes that say that they live.
    ///
    /// # Panics
    /// If the log cannot be read, or it does not become quiet in [`PATIENCE`].
    pub async fn quiet() {
        let ever = |entry: &Value| {
            let resource = entry["objectRef"]["resource"].as_str();
            let verb = entry["verb"].as_str().unwrap_or_default();
            matches!(resource, None | Some("leases" | "nodes"))
                || matches!(verb, "watch" | "get" | "list")
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let audit = Self::begin();
            // Nothing tells of nothing.
            tokio::time::sleep(QUIET).await;
            if audit.entries().iter().all(ever) {
                return;
            }
            assert!(Instant::now() < deadline, "the cluster does not rest");
        }
    }

    /// Every finished request since then.
    fn entries(&self) -> Vec<Value> {
        let mut log = fs::File::open(&self.file).expect("an audit log");
        log.seek(SeekFrom::Start(self.from)).expect("its end");
        let mut text = String::new();
        log.read_to_string(&mut text).expect("its lines");
        let entries = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        entries
            .filter(|entry: &Value| entry["stage"] == "ResponseComplete")
            .collect()
    }

    /// `VERB RESOURCE` of every finished request of the driver's own accounts
    /// since then.
    ///
    /// # Panics
    /// If the log cannot be read.
    #[must_use]
    pub fn of_driver(&self) -> Vec<String> {
        let entries = self.entries();
        let lines = entries.iter().filter_map(|entry| {
            let user = entry["user"]["username"].as_str()?;
            let agent = entry["userAgent"].as_str().unwrap_or_default();
            // Sidecars share the controller's account.
            let ours = user.starts_with("system:serviceaccount:kube-system:openebs-lvm-")
                && agent.starts_with("lvcsi");
            ours.then(|| {
                format!(
                    "{} {} {}",
                    user.rsplit(':').next().unwrap_or_default(),
                    entry["verb"].as_str().unwrap_or_default(),
                    entry["objectRef"]["resource"].as_str().unwrap_or_default()
                )
            })
        });
        lines.collect()
    }
}
