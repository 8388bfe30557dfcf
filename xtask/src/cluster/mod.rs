//! A real Kubernetes: control plane on this machine's loopback, nodes in QEMU
//! guests with a real device-mapper, images without a registry.

mod binaries;
mod control;
mod driver;
mod images;
mod node;
mod process;
mod restore;
mod store;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

use self::control::Control;
pub(crate) use self::driver::level;
use self::node::Node;
use crate::apt::{self, Group};
use crate::{artifacts, run};

/// The name of the driver's image in deploy/.
const DRIVER_IMAGE: &str = "docker.io/lvcsi/lvcsi:0.1.0";
/// Packages that a cluster needs.
pub(crate) const GROUPS: &[Group] = &[Group::Build, Group::Guest, Group::Go, Group::Cluster];

const HELP: &str = "\
A real Kubernetes cluster: its control plane on this machine, its nodes in QEMU
guests with a real device-mapper.

Usage: cargo xtask cluster COMMAND

  up [--nodes N] [--release]
                        start it with the driver and leave it running  [default: 1 node]
  down                  stop it and remove what it left
  demo                  a volume's life as its user sees it, on a cluster of one node
  test [FILTER...]      the tests, on a cluster of two nodes
  bench [--json FILE]   latencies beside those of a driver that does nothing, of a release
  exec NODE -- CMD      run a shell command on a node (node1, node2)
  kubectl ARG...        kubectl with the administrator's kubeconfig
  stop api|NODE         stop the API server; pull a node's plug
  start api|NODE        start it again
  save                  keep a copy of etcd's data
  restore               go back to that copy

With --running, demo, test and bench use the cluster that is up, and leave it.

The programs are built from their Go modules once (some minutes, then cached).
Logs, kubeconfig and disks are in target/cluster.
";

/// Runs the subcommand; returns the exit status.
pub(crate) fn command(mut parser: lexopt::Parser) -> Result<i32> {
    match parser.next()? {
        Some(Value(command)) => match command.to_str() {
            Some("up") => up(parser),
            Some("down") => down(),
            Some("demo") => driver::demo(parser),
            Some("test") => driver::test(parser),
            Some("bench") => driver::bench(parser),
            Some("start") => part(parser, true),
            Some("save") => with_control(Control::save),
            Some("restore") => with_control(Control::restore),
            Some("stop") => part(parser, false),
            Some("exec") => exec(parser),
            Some("kubectl") => kubectl(parser),
            Some("guest") => guest(parser),
            _ => bail!("unknown command {command:?}; see cargo xtask cluster --help"),
        },
        Some(Short('h') | Long("help")) | None => {
            print!("{HELP}");
            Ok(0)
        }
        Some(other) => Err(other.unexpected().into()),
    }
}

fn up(mut parser: lexopt::Parser) -> Result<i32> {
    let mut nodes = 1;
    let mut build = Build::Tests;
    while let Some(arg) = parser.next()? {
        match arg {
            Long("nodes") => nodes = parser.value()?.parse()?,
            Long("release") => build = Build::Release,
            other => return Err(other.unexpected().into()),
        }
    }
    if !(1..=4).contains(&nodes) {
        bail!("--nodes {nodes}: must be from 1 to 4");
    }
    let control = start(nodes, build)?;
    driver::install(&control)?;
    println!(
        "the cluster is up; for kubectl:\n  export KUBECONFIG={} PATH={}:$PATH",
        control.kubeconfig().display(),
        control.tools.display()
    );
    Ok(0)
}

/// How the driver in the images is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Build {
    /// Quickly, with every check.
    Tests,
    /// As users get it.
    Release,
}

impl Build {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Tests => &["build", "--workspace", "--bins"],
            Self::Release => &["build", "--workspace", "--bins", "--release"],
        }
    }
}

/// Starts the control plane and the nodes from nothing.
fn start(nodes: u16, build: Build) -> Result<Control> {
    apt::ensure(GROUPS)?;
    let tools = binaries::prepare()?;
    let built = artifacts::build(build.arguments())?;
    images::make(
        &artifacts::find(&built, "bin", "lvcsi")?,
        &artifacts::find(&built, "bin", "lvcsi-null-driver")?,
        &tools,
    )?;
    crate::guest::prepare()?;
    stop_all()?;
    let control = Control::new(&tools);
    control.start()?;
    let nodes: Vec<Node> = (1..=nodes).map(Node).collect();
    for node in &nodes {
        node.start(&control)?;
    }
    for node in &nodes {
        node.wait_ready(&control)?;
    }
    fs::write(control.dir.join("nodes"), nodes.len().to_string())
        .with_context(|| format!("cannot write to {}", control.dir.display()))?;
    Ok(control)
}

fn stop_all() -> Result<()> {
    for node in (1..=4).map(Node) {
        node.kill()?;
        node.forget()?;
    }
    // The tools are not needed to stop it.
    Control::new(Path::new("")).stop()
}

fn down() -> Result<i32> {
    stop_all()?;
    Ok(0)
}

fn part(mut parser: lexopt::Parser, start: bool) -> Result<i32> {
    let name = parser.value()?.string()?;
    let control = Control::new(&binaries::prepare()?);
    match (name.as_str(), start) {
        ("api", true) => control.start_api()?,
        ("api", false) => control.stop_api()?,
        (name, start) => {
            let node = node_named(name)?;
            if start {
                node.start(&control)?;
                node.wait_ready(&control)?;
            } else {
                node.kill()?;
            }
        }
    }
    Ok(0)
}

fn with_control(action: fn(&Control) -> Result<()>) -> Result<i32> {
    action(&Control::new(&binaries::prepare()?))?;
    Ok(0)
}

fn node_named(name: &str) -> Result<Node> {
    let number = name.strip_prefix("node").and_then(|n| n.parse().ok());
    Ok(Node(number.with_context(|| {
        format!("no node {name:?}; see kubectl get nodes")
    })?))
}

fn exec(mut parser: lexopt::Parser) -> Result<i32> {
    let node = node_named(&parser.value()?.string()?)?;
    let words: Vec<String> = parser
        .raw_args()?
        .filter(|word| word != "--")
        .map(|word| word.string())
        .collect::<std::result::Result<_, _>>()?;
    let (output, status) = node.exec(&words.join(" "))?;
    std::io::stdout().write_all(output.as_bytes())?;
    Ok(status)
}

fn kubectl(mut parser: lexopt::Parser) -> Result<i32> {
    let args: Vec<OsString> = parser.raw_args()?.collect();
    let mut command = Control::new(&binaries::prepare()?).kubectl();
    let status = command
        .args(args)
        .status()
        .with_context(|| format!("cannot start {}", run::display(&command)))?;
    Ok(run::code(status))
}

/// What a node's process runs; not for people.
fn guest(mut parser: lexopt::Parser) -> Result<i32> {
    let node = Node(parser.value()?.parse()?);
    let tools = parser.value()?;
    node.serve(&Control::new(Path::new(&tools)))
}
