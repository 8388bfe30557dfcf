//! Commands on a node, which is a guest without a login.

use std::io::{Read, Write};
use std::net::TcpStream;

/// The first node's port for commands; the next nodes follow.
const EXEC_PORT: u16 = 17070;

/// A node by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node(pub u16);

/// The nodes that the cluster was started with.
#[must_use]
pub fn nodes() -> Vec<Node> {
    let count = std::env::var("LVCSI_NODES").expect("LVCSI_NODES: cargo xtask cluster sets it");
    (1..=count.parse().expect("a number of nodes"))
        .map(Node)
        .collect()
}

impl Node {
    /// Its name in Kubernetes.
    #[must_use]
    pub fn name(self) -> String {
        format!("node{}", self.0)
    }

    /// The node of this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let number = name.strip_prefix("node").and_then(|n| n.parse().ok());
        Self(number.unwrap_or_else(|| panic!("{name:?} is no node")))
    }

    /// Runs a shell script: the output of both streams, and the exit status.
    ///
    /// # Panics
    /// If the node does not answer.
    #[must_use]
    pub fn try_run(self, script: &str) -> (String, i32) {
        let port = EXEC_PORT + self.0;
        let ask = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            write!(stream, "{}\n{script}", script.len())?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        let answer = ask().unwrap_or_else(|error| panic!("{}: {script}: {error}", self.name()));
        let end = answer
            .iter()
            .rposition(|&byte| byte == 0)
            .unwrap_or_else(|| panic!("{}: {script}: no status", self.name()));
        let status = String::from_utf8_lossy(&answer[end + 1..]).parse();
        (
            String::from_utf8_lossy(&answer[..end]).into_owned(),
            status.expect("a status"),
        )
    }

    /// Runs a shell script that must succeed; returns what it printed.
    ///
    /// # Panics
    /// If its exit status is not 0.
    pub fn run(self, script: &str) -> String {
        let (output, status) = self.try_run(script);
        assert_eq!(status, 0, "{}: {script}\n{output}", self.name());
        output
    }

    /// Names of the LVs in a VG, by lvm2.
    #[must_use]
    pub fn lvs(self, vg: &str) -> Vec<String> {
        let output = self.run(&format!("lvs --noheadings -o lv_name {vg}"));
        output
            .lines()
            .map(|line| line.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// Size of an LV in bytes, by lvm2.
    #[must_use]
    pub fn lv_size(self, vg: &str, lv: &str) -> u64 {
        let output = self.run(&format!(
            "lvs --noheadings --nosuffix --units b -o lv_size {vg}/{lv}"
        ));
        output.trim().parse().expect("a size")
    }

    /// Free bytes of a VG, by lvm2.
    #[must_use]
    pub fn vg_free(self, vg: &str) -> u64 {
        let output = self.run(&format!(
            "vgs --noheadings --nosuffix --units b -o vg_free {vg}"
        ));
        output.trim().parse().expect("a size")
    }
}
