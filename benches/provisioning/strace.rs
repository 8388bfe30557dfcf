//! System calls per creation, counted by strace on a child of this very
//! program, and proof that it starts no other program.

use std::collections::BTreeMap;
use std::path::Path;

use lvcsi_kit::{LoopVg, run};

use crate::lvcsi::Native;

/// Opening these paths marks the part of the trace that is counted.
const BEGIN: &str = "/lvcsi-bench-begin";
const END: &str = "/lvcsi-bench-end";
/// Real machines read the clock through the vDSO, without a system call; an
/// emulated one has no clock for that.
const CLOCK: &str = "clock_gettime";
/// LVs that the child creates between the marks.
pub(crate) const CREATES: usize = 20;

/// What the trace shows.
pub(crate) struct Count {
    /// Calls between the marks, per creation, by name.
    pub(crate) per_create: BTreeMap<String, f64>,
    /// Programs started between the marks or at any other time.
    pub(crate) execve: usize,
}

impl Count {
    /// Without [`CLOCK`], which is shown only.
    pub(crate) fn total(&self) -> f64 {
        let counted = self.per_create.iter().filter(|(name, _)| *name != CLOCK);
        counted.map(|(_, calls)| calls).sum()
    }
}

/// The child: creates one LV to warm up, then [`CREATES`] between the marks.
pub(crate) fn worker(vg: &str) {
    let native = Native::open(vg);
    native.create("warm");
    let _ = std::fs::File::open(BEGIN);
    for n in 0..CREATES {
        native.create(&format!("traced{n}"));
    }
    let _ = std::fs::File::open(END);
    for n in 0..CREATES {
        native.remove(&format!("traced{n}"));
    }
    native.remove("warm");
}

/// Runs the child under strace.
pub(crate) fn count(vg: &LoopVg) -> Count {
    let trace = vg.dir().join("trace");
    let me = std::env::current_exe().expect("path of this program");
    let args = ["-f", "-qq", "-o"].map(std::ffi::OsStr::new);
    let mut argv = args.to_vec();
    argv.extend([
        trace.as_os_str(),
        me.as_os_str(),
        "--strace-worker".as_ref(),
        vg.name.as_ref(),
    ]);
    let _ = run("strace", &argv).expect_success();
    let text = std::fs::read_to_string(&trace).expect("the trace");
    let _ = std::fs::remove_file(Path::new(&trace));
    read(&text, CREATES)
}

fn read(text: &str, creates: usize) -> Count {
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    let mut execve: usize = 0;
    let mut counting = false;
    let mut ended = false;
    for line in text.lines() {
        // "PID name(args) = result"; a call that another thread interrupts has
        // a second line "PID <... name resumed>", which is no second call.
        let call = line
            .split_once(' ')
            .map_or("", |(_, call)| call.trim_start());
        let Some((name, _)) = call.split_once('(') else {
            continue;
        };
        if name.starts_with('<') {
            continue;
        }
        if name.starts_with("execve") {
            execve += 1;
        }
        if call.contains(END) {
            counting = false;
            ended = true;
        }
        if counting {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
        if call.contains(BEGIN) {
            counting = true;
        }
    }
    assert!(ended, "the trace has no marks");
    let per_create = calls
        .into_iter()
        .map(|(name, n)| (name, n as f64 / creates as f64))
        .collect();
    // strace itself starts the child.
    Count {
        per_create,
        execve: execve - 1,
    }
}
