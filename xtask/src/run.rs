//! Running programs, with errors that say which one failed.

use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// The command as a person would type it, for messages.
pub(crate) fn display(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        let arg = arg.to_string_lossy();
        text.push(' ');
        if arg.is_empty() || arg.contains(|c: char| c.is_whitespace() || c == '\'') {
            text.push_str(&format!("{arg:?}"));
        } else {
            text.push_str(&arg);
        }
    }
    text
}

/// Runs quietly; an error carries what the program said.
pub(crate) fn quiet(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {}", display(command)))?;
    if !output.status.success() {
        bail!(
            "{} failed: {}\n{}{}",
            display(command),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output)
}

/// Runs quietly and returns standard output as text.
pub(crate) fn text(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&quiet(command)?.stdout).into_owned())
}

/// The exit status as one number; a signal is 128 + its number, as in a shell.
pub(crate) fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
