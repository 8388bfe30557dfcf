//! The `lvcsi` command: CSI driver and LVM tool in one.

use std::fmt::Display;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lvcsi::config::{HostArgs, StandaloneArgs};
use lvcsi::engine::host_kind;
use lvcsi::error::Kind;
use lvcsi::{cli, csi, telemetry};

/// CSI driver and native LVM2 engine for local volumes
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Arguments {
    #[command(flatten)]
    host: HostArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve all CSI services of this node on one socket, without Kubernetes
    #[command(after_help = cli::EXIT_STATUSES)]
    Standalone(StandaloneArgs),
    #[command(flatten)]
    Tool(cli::Command),
}

fn main() -> ExitCode {
    let Arguments { host, command } = Arguments::parse();
    match command {
        Command::Standalone(standalone) => serve(&host, &standalone),
        Command::Tool(command) => match host.open() {
            Ok(host) => cli::run(host, command),
            Err(error) => failed(host_kind(&error), &error),
        },
    }
}

fn serve(host: &HostArgs, arguments: &StandaloneArgs) -> ExitCode {
    if let Err(error) = telemetry::init(arguments.log_format, "info") {
        return failed(Kind::InvalidArgument, &error);
    }
    let host = match host.open() {
        Ok(host) => host,
        Err(error) => return failed(host_kind(&error), &error),
    };
    match csi::standalone(
        host,
        &arguments.endpoint,
        &arguments.name.0,
        &arguments.nodeid.0,
    ) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.kind(), &error),
    }
}

fn failed(kind: Kind, error: &dyn Display) -> ExitCode {
    eprintln!("lvcsi: {error}");
    ExitCode::from(kind.exit_status())
}
