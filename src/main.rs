//! The `lvcsi` command: CSI driver and LVM tool in one.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lvcsi::config::{BackupArgs, HostArgs, StandaloneArgs};
use lvcsi::engine::{EngineConfig, host_kind};
use lvcsi::error::Kind;
use lvcsi::host::linux::{apart, limit_arenas};
use lvcsi::kube::agent::AgentArgs;
use lvcsi::kube::controller::ControllerArgs;
use lvcsi::{cli, compat, csi, kube, telemetry};

/// CSI driver and native LVM2 engine for local volumes
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Arguments {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    backup: BackupArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve all CSI services of this node on one socket, without Kubernetes
    #[command(after_help = cli::EXIT_STATUSES)]
    Standalone(StandaloneArgs),
    /// Serve this node's part of a cluster: CSI Node service, LVMVolumes, LVMNode
    #[command(after_help = cli::EXIT_STATUSES)]
    Agent(Box<AgentArgs>),
    /// Serve a cluster's CSI Controller service: places, deletes and expands volumes
    #[command(after_help = cli::EXIT_STATUSES)]
    Controller(Box<ControllerArgs>),
    /// Print the custom resource definitions, or write them to a directory
    #[command(hide = true)]
    Crds {
        /// Directory for one file a definition
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    #[command(flatten)]
    Tool(cli::Command),
}

/// Of the allocator: one for work, one for whoever comes beside it.
const ARENAS: u8 = 2;

fn main() -> ExitCode {
    let Arguments {
        host,
        backup,
        command,
    } = Arguments::parse_from(compat::with_subcommand(std::env::args_os().collect()));
    let config = backup.engine(host.timeouts.engine());
    if !limit_arenas(ARENAS) {
        eprintln!("lvcsi: the allocator keeps its own limit; more memory may be used");
    }
    match command {
        Command::Standalone(standalone) => serve(&host, config, &standalone),
        Command::Agent(arguments) => agent(&host, config, &arguments),
        Command::Controller(arguments) => controller(&arguments),
        Command::Crds { dir } => match kube::crd::write(dir.as_deref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(Kind::Internal, &error),
        },
        Command::Tool(command) => {
            ExitCode::from(apart(|| tool(&host, config.clone(), command.clone())))
        }
    }
}

/// Runs a command and returns its exit status.
fn tool(host: &HostArgs, config: EngineConfig, command: cli::Command) -> u8 {
    match host.open() {
        Ok(machine) => cli::run(machine, config, command),
        Err(error) => {
            eprintln!("lvcsi: {error}");
            host_kind(&error).exit_status()
        }
    }
}

fn serve(host: &HostArgs, config: EngineConfig, arguments: &StandaloneArgs) -> ExitCode {
    if let Err(error) = telemetry::init(arguments.log_format, "info") {
        return failed(Kind::InvalidArgument, &error);
    }
    let machine = match host.open() {
        Ok(machine) => machine,
        Err(error) => return failed(host_kind(&error), &error),
    };
    match csi::standalone(
        machine,
        config,
        &arguments.endpoint,
        &arguments.name.0,
        &arguments.nodeid.0,
    ) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.kind(), &error),
    }
}

fn agent(host: &HostArgs, config: EngineConfig, arguments: &AgentArgs) -> ExitCode {
    // The client logs errors that it also returns, and those are logged by us.
    if let Err(error) = telemetry::init(arguments.log_format, "info,kube_client=off") {
        return failed(Kind::InvalidArgument, &error);
    }
    let machine = match host.open_in_container(arguments.private_locks) {
        Ok(machine) => machine,
        Err(error) => return failed(host_kind(&error), &error),
    };
    match kube::agent::run(machine, config, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.kind(), &error),
    }
}

fn controller(arguments: &ControllerArgs) -> ExitCode {
    if let Err(error) = telemetry::init(arguments.log_format, "info,kube=warn") {
        return failed(Kind::InvalidArgument, &error);
    }
    match kube::controller::run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.kind(), &error),
    }
}

fn failed(kind: Kind, error: &dyn Display) -> ExitCode {
    eprintln!("lvcsi: {error}");
    ExitCode::from(kind.exit_status())
}
