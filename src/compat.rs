//! The peer's way to start the driver: no subcommand, but `--plugin=ROLE`.

use std::ffi::{OsStr, OsString};

/// The arguments with the subcommand that `--plugin` stands for put first.
/// Arguments that begin with a subcommand stay as they are.
#[must_use]
pub fn with_subcommand(arguments: Vec<OsString>) -> Vec<OsString> {
    let is_flag = |argument: &OsStr| argument.as_encoded_bytes().starts_with(b"-");
    if !arguments.get(1).is_some_and(|first| is_flag(first)) {
        return arguments;
    }
    let role = role(&arguments);
    let mut with = arguments;
    if let Some(role) = role {
        with.insert(1, role);
    }
    with
}

fn role(arguments: &[OsString]) -> Option<OsString> {
    for (n, argument) in arguments.iter().enumerate() {
        let text = argument.to_str()?;
        let value = match text.strip_prefix("--plugin") {
            Some("") => arguments.get(n + 1)?.to_str()?,
            Some(rest) => match rest.strip_prefix('=') {
                Some(value) => value,
                None => continue,
            },
            None => continue,
        };
        return matches!(value, "agent" | "controller").then(|| value.into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from).collect();
        let with: Vec<_> = with_subcommand(arguments)
            .into_iter()
            .map(|argument| argument.into_string().unwrap())
            .collect();
        with.join(" ")
    }

    #[test]
    fn the_peer_s_line_gets_a_subcommand() {
        for (line, with) in [
            (
                "lvcsi --nodeid=n --plugin=agent --endpoint=unix:///p/csi.sock",
                "lvcsi agent --nodeid=n --plugin=agent --endpoint=unix:///p/csi.sock",
            ),
            (
                "lvcsi --plugin controller",
                "lvcsi controller --plugin controller",
            ),
            ("lvcsi agent --nodeid=n", "lvcsi agent --nodeid=n"),
            ("lvcsi lvs --plugin=agent", "lvcsi lvs --plugin=agent"),
            ("lvcsi --plugins=agent", "lvcsi --plugins=agent"),
            ("lvcsi --plugin=csi-plugin", "lvcsi --plugin=csi-plugin"),
            ("lvcsi", "lvcsi"),
        ] {
            assert_eq!(rewritten(line), with);
        }
    }
}
