//! Parts of the cluster that tests stop, start and break, by the commands of
//! `cargo xtask cluster`.

use std::process::Command;

use crate::SYSTEM;

/// A part of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The API server.
    Api,
    /// A node by its number: its plug is pulled.
    Node(u16),
}

impl Part {
    fn word(self) -> String {
        match self {
            Self::Api => "api".to_owned(),
            Self::Node(number) => format!("node{number}"),
        }
    }

    /// Stops it.
    pub fn stop(self) {
        xtask(&["stop", &self.word()]);
    }

    /// Starts it again; returns when it is ready.
    pub fn start(self) {
        xtask(&["start", &self.word()]);
    }
}

const WORKLOADS: [&str; 2] = [
    "daemonset/openebs-lvm-node",
    "deployment/openebs-lvm-controller",
];

/// Exchanges every pod of the driver for a new one.
pub fn renew() {
    for workload in WORKLOADS {
        admin(&["-n", SYSTEM, "rollout", "restart", workload]);
    }
    settled();
}

/// Waits until every pod of the driver is there and ready.
pub fn settled() {
    for workload in WORKLOADS {
        admin(&[
            "-n",
            SYSTEM,
            "rollout",
            "status",
            workload,
            "--timeout=240s",
        ]);
    }
}

fn program(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable}: cargo xtask cluster sets it"))
}

/// Runs `cargo xtask cluster …`; returns what it printed.
///
/// # Panics
/// If it fails.
pub fn xtask(args: &[&str]) -> String {
    run(&program("LVCSI_XTASK"), &[&["cluster"], args].concat())
}

/// Runs kubectl as the administrator; returns what it printed.
///
/// # Panics
/// If it fails.
pub fn admin(args: &[&str]) -> String {
    let kubectl = program("LVCSI_KUBECTL");
    let config = program("LVCSI_KUBECONFIG");
    run(&kubectl, &[&["--kubeconfig", &config], args].concat())
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {args:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
