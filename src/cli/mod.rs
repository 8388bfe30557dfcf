//! The command line of the person on the node.
//!
//! [`Command`] is what clap parses, [`run`] carries it out. Results go to
//! standard output, errors and questions to standard error, and the exit
//! status tells scripts which kind of error it was ([`EXIT_STATUSES`]).

mod args;
mod attr;
mod check;
mod disk_args;
mod disks;
mod error;
mod inspect;
mod lv;
mod report;
mod table;
mod texts;
mod units;
mod vg;

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use lvm2::name::{LvName, Tag, VgName};

pub use args::{
    ChangeArgs, CheckArgs, Command, CreateArgs, EXIT_STATUSES, ExtendArgs, HistoryArgs,
    InspectArgs, LayoutArgs, LvCommand, LvsArgs, NameArgs, OutputArgs, PolicyArg, PvsArgs,
    RemoveArgs, RenameArgs, StripeSizeArg, UnitsArgs, VgsArgs, WipeArg,
};
pub use disk_args::{
    PvCommand, PvCreateArgs, PvLayoutArgs, PvRemoveArgs, PvResizeArgs, VgCommand, VgCreateArgs,
    VgExtendArgs, VgReduceArgs, VgRemoveArgs,
};
pub use error::CliError;
pub use table::Format;
pub use units::{Units, UnknownUnits};

use crate::engine::{Engine, EngineConfig, Report};
use crate::host::{Host, HostError};

/// Where a command reads and writes.
pub struct Terminal<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// Errors, warnings and questions.
    pub err: &'a mut dyn Write,
    /// Answers.
    pub input: &'a mut dyn BufRead,
    /// Whether a person can answer.
    pub interactive: bool,
}

/// Carries out a command on the process's own terminal and returns its exit
/// status.
#[must_use]
pub fn run(host: Host, config: EngineConfig, command: Command) -> u8 {
    let stdin = io::stdin();
    let mut term = Terminal {
        out: &mut io::stdout().lock(),
        err: &mut io::stderr().lock(),
        interactive: stdin.is_terminal(),
        input: &mut stdin.lock(),
    };
    run_with(host, config, command, &mut term)
}

/// Carries out a command and returns its exit status.
pub fn run_with(host: Host, config: EngineConfig, command: Command, term: &mut Terminal<'_>) -> u8 {
    let done = dispatch(host, config, command, term).and_then(|()| Ok(term.out.flush()?));
    match done {
        Ok(()) => 0,
        // The reader of a pipe has seen enough.
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            // Where standard error is gone, only the status can tell.
            let _ = writeln!(term.err, "lvcsi: {error}");
            error.kind().exit_status()
        }
    }
}

fn dispatch(
    host: Host,
    config: EngineConfig,
    command: Command,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    if let Command::Inspect(args) = command {
        return inspect_in_time(host, config.io_timeout, args, term);
    }
    let engine = Engine::start(host, config)?;
    let done = on_engine(&engine, command, term);
    for (vg, obstacle) in engine.shutdown() {
        writeln!(
            term.err,
            "lvcsi: warning: left behind in VG {vg}: {obstacle}; what was begun may still be \
             written when the device answers, and the lock is kept until then"
        )?;
    }
    for (vg, reason) in engine.backup_stats().behind {
        let reason = reason.unwrap_or_else(|| "it takes too long".to_owned());
        writeln!(
            term.err,
            "lvcsi: warning: VG {vg}: no copy of the metadata was written: {reason}"
        )?;
    }
    done
}

/// Reads one device on a thread of its own, which is left behind if the device
/// does not answer.
fn inspect_in_time(
    host: Host,
    after: Duration,
    args: InspectArgs,
    term: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let path = args.device.clone();
    let (sender, receiver) = sync_channel(1);
    let work = move || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut term = Terminal {
            out: &mut out,
            err: &mut err,
            input: &mut io::empty(),
            interactive: false,
        };
        let done = inspect::inspect(&host, &args, &mut term);
        // After the time-out nobody listens.
        let _ = sender.send((done, out, err));
    };
    std::thread::Builder::new()
        .name("inspect".to_owned())
        .spawn(work)?;
    let Ok((done, out, err)) = receiver.recv_timeout(after) else {
        let op = "read";
        return Err(HostError::TimedOut { op, path, after }.into());
    };
    term.out.write_all(&out)?;
    term.err.write_all(&err)?;
    done
}

fn on_engine(engine: &Engine, command: Command, term: &mut Terminal<'_>) -> Result<(), CliError> {
    match command {
        Command::Pvs(args) => report::pvs(&look(engine, term)?, &args, term),
        Command::Vgs(args) => report::vgs(&look(engine, term)?, &args, term),
        Command::Lvs(args) => report::lvs(&look(engine, term)?, &args, term),
        Command::Check(args) => check::check(engine, &args, term),
        Command::Pv(command) => disks::pv(engine, command, term),
        Command::Vg(command) => disks::vg(engine, command, term),
        Command::Lv(command) => lv::lv(engine, command, term),
        Command::Inspect(args) => inspect::inspect(engine.host(), &args, term),
    }
}

/// Everything there is; what is wrong with it goes to standard error.
fn look(engine: &Engine, term: &mut Terminal<'_>) -> Result<Report, CliError> {
    let report = engine.report()?;
    for problem in &report.problems {
        writeln!(
            term.err,
            "lvcsi: warning: {}: {}",
            problem.object, problem.detail
        )?;
    }
    Ok(report)
}

fn vg_name(text: &str) -> Result<VgName, CliError> {
    VgName::new(text).map_err(|source| CliError::Name {
        what: "VG",
        text: text.to_owned(),
        source,
    })
}

fn tag(text: String) -> Result<Tag, CliError> {
    Tag::new(text.as_str()).map_err(|source| CliError::Name {
        what: "tag",
        text,
        source,
    })
}

fn lv_name(text: &str) -> Result<LvName, CliError> {
    LvName::new(text).map_err(|source| CliError::Name {
        what: "LV",
        text: text.to_owned(),
        source,
    })
}
