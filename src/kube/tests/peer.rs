//! The peer's own manifests, with nothing but the image exchanged.

use std::ffi::OsString;

use clap::Parser;

use super::manifests::{Line, Role};
use crate::compat::with_subcommand;

fn parse(arguments: &[&str]) -> Line {
    let line = std::iter::once("lvcsi").chain(arguments.iter().copied());
    let line = with_subcommand(line.map(OsString::from).collect());
    Line::try_parse_from(line).unwrap()
}

#[test]
fn the_controller_s_arguments_of_every_release_are_taken() {
    for arguments in [
        &[
            "--endpoint=unix:///var/lib/csi/sockets/pluginproxy/csi.sock",
            "--plugin=controller",
        ][..],
        &[
            "--endpoint=unix:///var/lib/csi/sockets/pluginproxy/csi.sock",
            "--plugin=controller",
            "--kube-api-qps=0",
            "--kube-api-burst=0",
        ],
        &[
            "--nodeid=n1",
            "--name=local.csi.openebs.io",
            "--plugin=controller",
            "--listen-address=:9500",
            "--metrics-path=/metrics",
            "--disable-exporter-metrics=true",
            "--node-polling-interval=60",
            "--setiolimits",
            "--container-runtime=containerd",
        ],
    ] {
        let Role::Controller(parsed) = parse(arguments).role else {
            panic!("{arguments:?} is no controller");
        };
        assert_eq!(parsed.name.0, "local.csi.openebs.io");
    }
}

#[test]
fn the_agent_s_arguments_of_every_release_are_taken() {
    for arguments in [
        &[
            "--nodeid=n1",
            "--endpoint=unix:///plugin/csi.sock",
            "--plugin=agent",
            "--listen-address=:9500",
        ][..],
        &[
            "--nodeid=n1",
            "--endpoint=unix:///plugin/csi.sock",
            "--plugin=agent",
            "--listen-address=",
            "--setiolimits",
            "--container-runtime=containerd",
            "--riops-per-gb=lvmvg=10",
            "--wiops-per-gb=lvmvg=10",
            "--kube-api-qps=0",
            "--kube-api-burst=0",
        ],
    ] {
        let Role::Agent(parsed) = parse(arguments).role else {
            panic!("{arguments:?} is no agent");
        };
        assert_eq!(parsed.nodeid.0, "n1");
    }
}
