//! Who asked the API server for what, from its audit log.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde_json::Value;

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

    /// `VERB RESOURCE` of every finished request of the driver's own accounts
    /// since then.
    ///
    /// # Panics
    /// If the log cannot be read.
    #[must_use]
    pub fn of_driver(&self) -> Vec<String> {
        let mut log = fs::File::open(&self.file).expect("an audit log");
        log.seek(SeekFrom::Start(self.from)).expect("its end");
        let mut text = String::new();
        log.read_to_string(&mut text).expect("its lines");
        let lines = text.lines().filter_map(|line| {
            let entry: Value = serde_json::from_str(line).ok()?;
            let user = entry["user"]["username"].as_str()?;
            let agent = entry["userAgent"].as_str().unwrap_or_default();
            // Sidecars share the controller's account.
            let ours = user.starts_with("system:serviceaccount:kube-system:openebs-lvm-")
                && agent.starts_with("lvcsi");
            let done = entry["stage"] == "ResponseComplete";
            (ours && done).then(|| {
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
