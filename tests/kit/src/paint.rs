//! Colours for terminals.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

/// Whether output is coloured: `LVCSI_COLOR=1`/`0`, else if standard output is
/// a terminal and `NO_COLOR` is not set.
#[must_use]
pub fn enabled() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| match std::env::var("LVCSI_COLOR").as_deref() {
        Ok("1") => true,
        Ok(_) => false,
        Err(_) => std::env::var_os("NO_COLOR").is_none() && std::io::stdout().is_terminal(),
    })
}

fn wrap(code: &str, text: &str) -> String {
    if enabled() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// Headings.
#[must_use]
pub fn bold(text: &str) -> String {
    wrap("1", text)
}

/// What a witness says.
#[must_use]
pub fn dim(text: &str) -> String {
    wrap("2", text)
}

/// Good news.
#[must_use]
pub fn green(text: &str) -> String {
    wrap("32", text)
}

/// Bad news.
#[must_use]
pub fn red(text: &str) -> String {
    wrap("31", text)
}

/// Numbers and names.
#[must_use]
pub fn cyan(text: &str) -> String {
    wrap("36", text)
}
