//! The driver on the cluster: its installation by the shipped manifests, and the
//! programs that use it there.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

use super::Build;
use super::binaries;
use super::control::Control;
use super::node::Node;
use crate::levels::Length;
use crate::tally::{Counter, Tally};
use crate::{artifacts, paths, run};

/// What a change has to pass: a life with growth, the crowd, wrong classes, the
/// metrics, and what protects claims. The rest boots nodes again, kills for minutes,
/// or does the same for another kind of content.
const DAY: &[&str] = &[
    "crowd::",
    "idle::nothing_is_listed",
    "life::ext4_made_at_once",
    "metrics::",
    "protection::a_claim_that_is_deleted_too_early",
    "wrong::an_unknown_file_system",
];

/// Makes the VG of a node, as its administrator would.
const MAKE_VG: &str = "vgcreate -q lvmvg /dev/vda";

/// Makes the VGs and applies the shipped manifest; returns when all of it is
/// ready.
pub(super) fn install(control: &Control) -> Result<()> {
    for number in 1..=control.nodes()? {
        on_node(Node(number), MAKE_VG)?;
    }
    let manifest = paths::root().join("deploy/lvcsi-operator.yaml");
    run::quiet(control.kubectl().args(["apply", "-f"]).arg(manifest))?;
    for workload in [
        "daemonset/openebs-lvm-node",
        "deployment/openebs-lvm-controller",
    ] {
        run::quiet(control.kubectl().args([
            "-n",
            "kube-system",
            "rollout",
            "status",
            workload,
            "--timeout=240s",
        ]))?;
    }
    Ok(())
}

fn on_node(node: Node, script: &str) -> Result<()> {
    let (output, status) = node.exec(script)?;
    if status != 0 {
        bail!("{}: {script}: status {status}\n{output}", node.name());
    }
    Ok(())
}

/// Options that the programs share.
struct Arguments {
    running: bool,
    json: Option<PathBuf>,
    rest: Vec<OsString>,
}

impl Arguments {
    fn read(mut parser: lexopt::Parser) -> Result<Self> {
        let mut arguments = Self {
            running: false,
            json: None,
            rest: Vec::new(),
        };
        while let Some(arg) = parser.next()? {
            match arg {
                Long("running") => arguments.running = true,
                Long("json") => arguments.json = Some(parser.value()?.into()),
                Value(word) => arguments.rest.push(word),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(arguments)
    }

    /// The cluster that is up, or a new one with the driver.
    fn cluster(&self, nodes: u16, build: Build) -> Result<Control> {
        if self.running {
            let control = Control::new(&binaries::prepare()?);
            control.nodes()?;
            return Ok(control);
        }
        let control = super::start(nodes, build)?;
        install(&control)?;
        Ok(control)
    }

    fn end(&self) -> Result<()> {
        if !self.running {
            super::stop_all()?;
        }
        Ok(())
    }
}

/// A program that finds the cluster by its environment.
fn program(control: &Control, path: PathBuf) -> Result<Command> {
    let mut command = Command::new(path);
    command
        .env("LVCSI_KUBECONFIG", control.kubeconfig())
        .env("LVCSI_KUBECTL", control.tools.join("kubectl"))
        .env("LVCSI_NODES", control.nodes()?.to_string())
        .env("LVCSI_XTASK", paths::this_program()?)
        .stdin(Stdio::null());
    Ok(command)
}

/// `cargo xtask cluster demo`.
pub(super) fn demo(parser: lexopt::Parser) -> Result<i32> {
    let arguments = Arguments::read(parser)?;
    let built = artifacts::build(&["build", "--workspace", "--bins"])?;
    let demo = artifacts::find(&built, "bin", "lvcsi-cluster-demo")?;
    let control = arguments.cluster(1, Build::Tests)?;
    let status = program(&control, demo)?
        .status()
        .context("cannot start the demonstration")?;
    arguments.end()?;
    Ok(run::code(status))
}

/// `cargo xtask cluster test`.
pub(super) fn test(parser: lexopt::Parser) -> Result<i32> {
    let arguments = Arguments::read(parser)?;
    let tally = tests(&arguments, Length::Short)?;
    Ok(i32::from(tally.failed != 0))
}

/// The level of `cargo xtask test`.
pub(crate) fn level(length: Length) -> Result<Tally> {
    let filters = match length {
        Length::Short => DAY,
        Length::Nightly => &[],
    };
    let arguments = Arguments {
        running: false,
        json: None,
        rest: filters.iter().map(OsString::from).collect(),
    };
    tests(&arguments, length)
}

fn tests(arguments: &Arguments, length: Length) -> Result<Tally> {
    let built = artifacts::build(&["test", "--workspace", "--no-run", "--test", "cluster"])?;
    let tests = artifacts::find(&built, "test", "cluster")?;
    let control = arguments.cluster(2, Build::Tests)?;
    let counter = Counter::in_turn();
    let mut child = program(&control, tests)?
        .args(["--include-ignored", "--test-threads=1"])
        .args(&arguments.rest)
        .envs(length.env())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the tests")?;
    let mut output = child.stdout.take().context("no pipe to the tests")?;
    std::io::copy(&mut output, &mut counter.clone()).context("cannot read the tests' output")?;
    std::io::stdout().flush()?;
    let status = child.wait().context("cannot wait for the tests")?;
    arguments.end()?;
    Ok(counter.tally().with_status(run::code(status)))
}

/// `cargo xtask cluster bench`.
pub(super) fn bench(parser: lexopt::Parser) -> Result<i32> {
    let arguments = Arguments::read(parser)?;
    let built = artifacts::build(&["build", "--workspace", "--bins"])?;
    let bench = artifacts::find(&built, "bin", "lvcsi-cluster-bench")?;
    let control = arguments.cluster(1, Build::Release)?;
    let mut command = program(&control, bench)?;
    command.args(&arguments.rest);
    if let Some(json) = &arguments.json {
        command.arg("--json").arg(json);
    }
    let status = command.status().context("cannot start the benchmark")?;
    arguments.end()?;
    Ok(run::code(status))
}
