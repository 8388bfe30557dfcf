//! What failed tests said, from the output of their programs.

use std::collections::BTreeMap;

/// Lines kept of one message: an assertion has three.
const LINES: usize = 3;

/// Messages by the name of the thread, which is the test's.
#[derive(Debug, Default)]
pub(crate) struct Panics {
    open: Option<(String, usize)>,
    told: BTreeMap<String, String>,
}

impl Panics {
    /// Takes the next line of the output.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some((name, place)) = begin(line) {
            self.told.insert(name.to_owned(), place.to_owned());
            self.open = Some((name.to_owned(), 0));
            return;
        }
        let Some((name, lines)) = &mut self.open else {
            return;
        };
        let ends = ["stack backtrace:", "note: "];
        if *lines == LINES || line.is_empty() || ends.iter().any(|end| line.starts_with(end)) {
            self.open = None;
            return;
        }
        *lines += 1;
        if let Some(text) = self.told.get_mut(name) {
            text.push(' ');
            text.push_str(line.trim());
        }
    }

    /// The test with what it said, if it said anything.
    pub(crate) fn explain(&self, test: &str) -> String {
        match self.told.get(test) {
            Some(text) => format!("{test}: {text}"),
            None => test.to_owned(),
        }
    }
}

/// The thread and the place, of the line that begins a message.
fn begin(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once("thread '")?;
    let (name, rest) = rest.split_once('\'')?;
    let (_, place) = rest.split_once(" panicked at ")?;
    Some((name, place))
}

#[cfg(test)]
mod tests {
    use super::Panics;

    #[test]
    fn a_message_ends_where_the_backtrace_begins() {
        let output = "---- a::b stdout ----\n\nthread 'a::b' (3116) panicked at src/x.rs:136:5:\n\
                      assertion `left == right` failed\n  left: Aborted\n right: NotFound\n\
                      stack backtrace:\n   0: begin\n\
                      thread 'c' panicked at src/y.rs:1:2:\nno such file\n\nmore\n";
        let mut panics = Panics::default();
        output.lines().for_each(|line| panics.read_line(line));
        assert_eq!(
            panics.explain("a::b"),
            "a::b: src/x.rs:136:5: assertion `left == right` failed left: Aborted right: NotFound"
        );
        assert_eq!(panics.explain("c"), "c: src/y.rs:1:2: no such file");
        assert_eq!(panics.explain("d"), "d");
    }
}
