//! Settings that the agent and the controller share, and the peer's flags.

use std::path::PathBuf;

use clap::Args;

/// Where the cluster is.
#[derive(Args, Clone, Debug, Default)]
pub struct ClusterArgs {
    /// Kubeconfig file; by default the pod's service account, or what kubectl
    /// would use
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the LVMVolume, LVMSnapshot and LVMNode objects; by default
    /// openebs
    #[arg(long, env = "OPENEBS_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,
    /// The namespace, as releases before 1.6 of the peer call it
    #[arg(long, env = "LVM_NAMESPACE", value_name = "NAME", hide = true)]
    pub lvm_namespace: Option<String>,
    /// Also use VGs that neither volgroup nor vgpattern names: an empty
    /// pattern then matches every VG of the node, the operating system's too
    #[arg(long, env = "LVCSI_ALLOW_ANY_VG")]
    pub allow_any_vg: bool,
}

impl ClusterArgs {
    /// The namespace of the objects.
    #[must_use]
    pub fn namespace(&self) -> String {
        [&self.namespace, &self.lvm_namespace]
            .into_iter()
            .flatten()
            .find(|name| !name.is_empty())
            .cloned()
            .unwrap_or_else(|| "openebs".to_owned())
    }
}

/// The peer's flags that have no meaning here, accepted so that its manifests
/// work: there is no client-side throttle to set, no process whose metrics
/// could be left out, and I/O limits are not made yet.
#[derive(Args, Clone, Debug, Default)]
pub struct PeerArgs {
    /// `agent` or `controller`, instead of the subcommand
    #[arg(long, hide = true)]
    pub plugin: Option<String>,
    /// Legacy I/O limits
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub setiolimits: Option<bool>,
    /// Container runtime of the legacy I/O limits
    #[arg(long, hide = true, env = "CONTAINER_RUNTIME")]
    pub container_runtime: Option<String>,
    /// Legacy I/O limits
    #[arg(long, hide = true, env = "RIOPS_PER_GB")]
    pub riops_per_gb: Vec<String>,
    /// Legacy I/O limits
    #[arg(long, hide = true, env = "WIOPS_PER_GB")]
    pub wiops_per_gb: Vec<String>,
    /// Legacy I/O limits
    #[arg(long, hide = true)]
    pub rbps_per_gb: Vec<String>,
    /// Legacy I/O limits
    #[arg(long, hide = true)]
    pub wbps_per_gb: Vec<String>,
    /// Client-side throttle
    #[arg(long, hide = true)]
    pub kube_api_qps: Option<String>,
    /// Client-side throttle
    #[arg(long, hide = true)]
    pub kube_api_burst: Option<String>,
    /// Metrics of the exporter itself
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_exporter_metrics: Option<bool>,
    /// Verbosity of the peer's logs
    #[arg(long = "v", short = 'v', hide = true)]
    pub verbosity: Option<String>,
    /// Where the peer's logs go
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub logtostderr: Option<bool>,
    /// Where the peer's logs go
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub alsologtostderr: Option<bool>,
}

impl PeerArgs {
    /// Says what is asked for and not done.
    pub fn warn(&self) {
        if self.setiolimits == Some(true) {
            tracing::warn!("--setiolimits is accepted, but this release sets no I/O limits");
        }
    }
}
