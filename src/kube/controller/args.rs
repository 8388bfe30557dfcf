//! `lvcsi controller`: its flags and environment, the peer's included.

use std::time::Duration;

use clap::Args;

use crate::config::DriverName;
use crate::csi::Endpoint;
use crate::http::ListenAddress;
use crate::kube::args::{ClusterArgs, PeerArgs};
use crate::telemetry::LogFormat;

/// `lvcsi controller`.
#[derive(Args, Clone, Debug)]
pub struct ControllerArgs {
    /// The Unix socket to serve, e.g.
    /// unix:///var/lib/csi/sockets/pluginproxy/csi.sock
    #[arg(
        long,
        env = "OPENEBS_CSI_ENDPOINT",
        default_value = "unix:///csi/csi.sock"
    )]
    pub endpoint: Endpoint,
    /// Name under which the cluster knows the driver
    #[arg(long, default_value = "local.csi.openebs.io")]
    pub name: DriverName,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would take it for the command's text")]
    pub cluster: ClusterArgs,
    /// This replica's name in the Lease and in Events; by default the host's
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,
    /// Label selector of the agents' pods in the controller's own namespace:
    /// a node whose agent is not ready gets no volumes. Where no pod has these
    /// labels, only what the kubelets tell counts
    #[arg(long, default_value = "app=openebs-lvm-node", value_name = "SELECTOR")]
    pub agent_selector: String,
    /// Seconds for which a Node must be gone before its volumes that are being
    /// deleted are taken for gone too
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub node_gone_after: u64,
    /// Address for metrics and health, e.g. :9501; none by default
    #[arg(long, env = "METRICS_LISTEN_ADDRESS", default_value = "")]
    pub listen_address: ListenAddress,
    /// Path of the metrics
    #[arg(long, default_value = "/metrics")]
    pub metrics_path: String,
    /// How log lines look; LVCSI_LOG sets what is logged
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// The peer's, without a meaning for a controller
    #[arg(long, hide = true, env = "OPENEBS_NODE_ID")]
    pub nodeid: Option<String>,
    /// The peer's, without a meaning for a controller
    #[arg(long, hide = true)]
    pub node_polling_interval: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would take it for the command's text")]
    pub peer: PeerArgs,
}

impl ControllerArgs {
    /// [`Self::node_gone_after`] as a time.
    #[must_use]
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.node_gone_after)
    }

    /// [`Self::identity`], or the host's name, which is the pod's in a pod.
    #[must_use]
    pub fn identity(&self) -> String {
        let given = self.identity.clone().filter(|name| !name.is_empty());
        given.unwrap_or_else(|| {
            nix::unistd::gethostname()
                .ok()
                .and_then(|name| name.into_string().ok())
                .unwrap_or_else(|| format!("process-{}", std::process::id()))
        })
    }
}
