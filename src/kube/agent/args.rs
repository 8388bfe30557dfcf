//! `lvcsi agent`: its flags and environment, the peer's included.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::{DriverName, NodeId};
use crate::csi::{Endpoint, FormatDefault};
use crate::http::ListenAddress;
use crate::kube::args::{ClusterArgs, PeerArgs};
use crate::telemetry::LogFormat;

/// Who tells the kubelet about the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Register {
    /// We do, unless a registrar sidecar does: if the endpoint is below the
    /// kubelet's directory, and nobody answers at the registration socket
    #[default]
    Auto,
    /// We do
    Yes,
    /// A sidecar does
    No,
}

/// `lvcsi agent`.
#[derive(Args, Clone, Debug)]
pub struct AgentArgs {
    /// The Unix socket to serve, e.g.
    /// unix:///var/lib/kubelet/plugins/lvm-localpv/csi.sock
    #[arg(
        long,
        env = "OPENEBS_CSI_ENDPOINT",
        default_value = "unix:///csi/csi.sock"
    )]
    pub endpoint: Endpoint,
    /// Name of this node's Node object
    #[arg(long, env = "OPENEBS_NODE_ID")]
    pub nodeid: NodeId,
    /// Name under which the cluster knows the driver
    #[arg(long, default_value = "local.csi.openebs.io")]
    pub name: DriverName,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would take it for the command's text")]
    pub cluster: ClusterArgs,
    /// Address for metrics and health, e.g. :9500; none by default
    #[arg(long, env = "METRICS_LISTEN_ADDRESS", default_value = "")]
    pub listen_address: ListenAddress,
    /// Path of the metrics
    #[arg(long, default_value = "/metrics")]
    pub metrics_path: String,
    /// Seconds between looks at the VGs where no change was noticed
    #[arg(long, default_value = "60", value_name = "SECONDS")]
    pub node_polling_interval: NonZeroU64,
    /// The kubelet's directory, as the kubelet sees it and as we do
    #[arg(long, default_value = "/var/lib/kubelet", value_name = "DIR")]
    pub kubelet_dir: PathBuf,
    /// Who tells the kubelet about the driver
    #[arg(long, value_enum, default_value_t)]
    pub register: Register,
    /// Labels of the Node that volumes may be placed by, separated by commas
    #[arg(
        long,
        env = "ALLOWED_TOPOLOGIES",
        default_value = "kubernetes.io/hostname",
        value_name = "KEYS"
    )]
    pub allowed_topologies: String,
    /// Arguments for mkfs where the StorageClass gives none, e.g.
    /// "xfs=-i nrext64=0"; may be repeated, and `xfs=` takes it back
    #[arg(long, value_name = "FSTYPE=OPTIONS")]
    pub default_format_options: Vec<FormatDefault>,
    /// Work without the host's lvm2 lock directory, as the peer does: then
    /// nothing keeps lvm2 commands on the host from writing at the same time
    #[arg(long, env = "LVCSI_PRIVATE_LOCKS")]
    pub private_locks: bool,
    /// How log lines look; LVCSI_LOG sets what is logged
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would take it for the command's text")]
    pub peer: PeerArgs,
}

impl AgentArgs {
    /// The label keys of [`Self::allowed_topologies`].
    #[must_use]
    pub fn topology_keys(&self) -> Vec<String> {
        let keys = self.allowed_topologies.split(',').map(str::trim);
        keys.filter(|key| !key.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        agent: AgentArgs,
    }

    fn parse(line: &[&str]) -> Result<AgentArgs, clap::Error> {
        let words = ["lvcsi"].iter().chain(line);
        Line::try_parse_from(words).map(|line| line.agent)
    }

    #[test]
    fn every_flag_of_the_peer_s_agent_is_taken() {
        let agent = parse(&[
            "--nodeid=n1",
            "--endpoint=unix:///plugin/csi.sock",
            "--name=local.csi.openebs.io",
            "--plugin=agent",
            "--listen-address=:9500",
            "--metrics-path=/metrics",
            "--disable-exporter-metrics=true",
            "--setiolimits",
            "--container-runtime=containerd",
            "--riops-per-gb=lvmvg=50,other=20",
            "--wiops-per-gb=lvmvg=50",
            "--rbps-per-gb=lvmvg=1024",
            "--wbps-per-gb=lvmvg=1024",
            "--kube-api-qps=0",
            "--kube-api-burst=0",
            "--node-polling-interval=30",
            "--default-format-options=xfs=-i nrext64=0",
            "--default-format-options=ext4=",
            "--logtostderr",
            "-v=5",
        ])
        .unwrap();
        assert_eq!(agent.nodeid.0, "n1");
        assert_eq!(agent.endpoint.to_string(), "unix:///plugin/csi.sock");
        assert!(agent.listen_address.0.is_some());
        assert_eq!(agent.node_polling_interval.get(), 30);
        assert_eq!(agent.default_format_options.len(), 2);
        assert_eq!(agent.peer.setiolimits, Some(true));
        assert_eq!(agent.topology_keys(), ["kubernetes.io/hostname"]);
        assert_eq!(agent.cluster.namespace(), "openebs");
    }

    #[test]
    fn wrong_words_are_refused() {
        for wrong in [
            &["--nodeid="][..],
            &["--nodeid=n", "--endpoint=tcp://0.0.0.0:1"],
            &["--nodeid=n", "--listen-address=9500"],
            &["--nodeid=n", "--default-format-options=zfs=-x"],
            &["--nodeid=n", "--node-polling-interval=0"],
            &["--nodeid=n", "--register=maybe"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
