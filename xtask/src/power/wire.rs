//! The lines that the machine sends.

use anyhow::{Context, Result, bail};

/// For what a volume was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A raw device, all of it zero.
    Block,
    /// A file system, of which there is none yet.
    Mount,
}

/// Something that the machine is about to do with one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Create { size: u64, kind: Kind },
    Extend { to: u64 },
    Remove,
    Write { size: u64, generation: u64 },
}

/// What a sector holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Zero,
    /// The volume's own pattern of that generation.
    Own(u64),
    /// Anything else.
    Foreign,
}

/// Sectors of one content that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) sectors: u64,
    pub(super) holds: Holds,
}

/// A volume that the machine has after its recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) size: u64,
    pub(super) kind: Option<Kind>,
    pub(super) incomplete: bool,
    pub(super) runs: Vec<Run>,
}

/// One line of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// It runs.
    Booted,
    /// What the cut left: whether metadata areas differ, and how many LVs were
    /// half made.
    Cut { differ: bool, incomplete: u64 },
    /// A volume.
    Volume(String, Found),
    /// That was all; may it go on?
    Checked,
    /// It is about to do something.
    Begin(String, Request),
    /// It was done; the size that was answered.
    Done(String, u64),
    /// It was refused.
    Refused(String),
    /// It cannot go on.
    Failed(String),
}

impl Line {
    /// Reads a line.
    pub(super) fn read(line: &str) -> Result<Self> {
        Self::parse(line).with_context(|| format!("the machine says {line:?}"))
    }

    fn parse(line: &str) -> Result<Self> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split(' ');
        let mut word = || words.next().context("a word is missing");
        Ok(match verb {
            "booted" => Self::Booted,
            "cut" => Self::Cut {
                differ: word()? == "1",
                incomplete: word()?.parse()?,
            },
            "volume" => {
                let (name, size, tags) = (word()?.to_owned(), word()?.parse()?, word()?);
                let tag = |wanted: &str| tags.split(',').any(|tag| tag == wanted);
                let kind = match (tag("lvcsi.access=block"), tag("lvcsi.access=mount")) {
                    (true, false) => Some(Kind::Block),
                    (false, true) => Some(Kind::Mount),
                    _ => None,
                };
                let found = Found {
                    size,
                    kind,
                    incomplete: tag("lvcsi.incomplete"),
                    runs: words.map(run).collect::<Result<_>>()?,
                };
                Self::Volume(name, found)
            }
            "checked" => Self::Checked,
            "begin" => {
                let (what, name, size) = (word()?, word()?.to_owned(), word()?.parse()?);
                let request = match what {
                    "create" => Request::Create {
                        size,
                        kind: if word()? == "block" {
                            Kind::Block
                        } else {
                            Kind::Mount
                        },
                    },
                    "extend" => Request::Extend { to: size },
                    "remove" => Request::Remove,
                    "write" => Request::Write {
                        size,
                        generation: 0,
                    },
                    other => bail!("no request {other:?}"),
                };
                Self::Begin(name, request)
            }
            "done" => Self::Done(word()?.to_owned(), word()?.parse()?),
            "refused" => Self::Refused(word()?.to_owned()),
            "failed" => Self::Failed(rest.to_owned()),
            other => bail!("no verb {other:?}"),
        })
    }
}

fn run(word: &str) -> Result<Run> {
    let (what, sectors) = word.split_once('*').context("no run of sectors")?;
    let holds = match what.split_at_checked(1) {
        Some(("z", "")) => Holds::Zero,
        Some(("x", "")) => Holds::Foreign,
        Some(("g", generation)) => Holds::Own(generation.parse()?),
        _ => bail!("no content {what:?}"),
    };
    Ok(Run {
        sectors: sectors.parse()?,
        holds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_refused() {
        let line = Line::read("volume a 1024 lvcsi,lvcsi.access=block g12*1 z*1").unwrap();
        let Line::Volume(name, found) = line else {
            panic!("{line:?}");
        };
        assert_eq!((name.as_str(), found.size), ("a", 1024));
        assert_eq!((found.kind, found.incomplete), (Some(Kind::Block), false));
        assert_eq!(found.runs[0].holds, Holds::Own(12));
        assert_eq!(
            Line::read("begin create a 4096 mount").unwrap(),
            Line::Begin(
                "a".to_owned(),
                Request::Create {
                    size: 4096,
                    kind: Kind::Mount
                }
            )
        );
        for bad in [
            "",
            "begin",
            "begin eat a 1",
            "volume a",
            "volume a 1 t q*1",
            "done a x",
        ] {
            assert!(Line::read(bad).is_err(), "{bad}");
        }
    }
}
