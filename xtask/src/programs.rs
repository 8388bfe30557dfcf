//! The programs that run in a guest: the driver, the tests on a real kernel, the
//! demonstration and the benchmark.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use lexopt::prelude::*;

use crate::apt::{self, Group};
use crate::artifacts::{self, Executable};
use crate::guest::{self, Options, Streams};
use crate::levels::Length;
use crate::paths;

/// Integration tests that need a real kernel with device-mapper, or more rights
/// than a container has.
const DEVICE_TESTS: &[&str] = &["dm", "fs", "guest"];
/// The test of them that is a level of its own.
const STORM: &str = "storm::";
/// Tests of devices that fail or hang, of stacks of them, and of lvm2's own changes
/// of VGs beside ours: they take minutes and targets that not every kernel has, and
/// run where udev does, which is what users have.
const DEEP: &[&str] = &[
    "failures::",
    "groups_beside::",
    "logwrites::",
    "stacks::",
    "wedge::",
];
/// Tests for which neither udev nor the kind of machine makes a difference that
/// is known: but for the nights one of the VMs runs them.
const ONCE: &[&str] = &[
    "backups::",
    "bad_disks::",
    "bad_requests::",
    "burst::",
    "check::",
    "cli::",
    "crash::",
    "data::",
    "format::",
    "groups::",
    "pitfalls_lvs::",
    "writers::",
];
/// Tests that need the kernel but not another machine: on one whose kernel and
/// udev are those of the guest they run by night.
const KERNEL: &[&str] = &["interop::", "pitfalls_host::"];
/// The longest of all. What they show of single steps, quicker tests show as
/// well; together with another load they run by night.
const NIGHT: &[&str] = &[
    "burst::sixty_four_volumes_at_once",
    "check::faults_that_dmsetup_makes",
    "check::repairing_all_the_time_disturbs_no_lvm2",
    "crash::killed_while_creating",
    "data::extending_under_load_loses_nothing",
    "format::another_file_system_is_not_formatted",
    "format::unknown_content_is_not_formatted",
    "groups::a_group_by_hand",
    "groups::devices_in_use_are_refused_and_not_touched",
    "groups::every_signature_is_listed_and_wiped",
    "interop::striped_both_ways",
];
/// The driver's own unit tests that need one.
const DEVICE_UNIT_TESTS: &str = "host::linux::dm";

const BINARIES: &[&str] = &["build", "--workspace", "--bins"];

/// What the tests in a VM need.
pub(crate) struct Programs {
    /// The driver.
    pub(crate) lvcsi: PathBuf,
    /// Tests for a real kernel.
    pub(crate) tests: Vec<DeviceTest>,
}

/// How many of the tests a VM runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// All but those of [`DEEP`].
    Full(Length),
    /// Those of [`DEEP`]: one VM does.
    Deep(Length),
    /// What can come out differently without udev.
    WithoutUdev(Length),
    /// What can come out differently on another machine.
    OtherMachine(Length),
}

impl Breadth {
    fn left_out(self) -> impl Iterator<Item = &'static str> {
        let lists: &[&[&str]] = match self {
            Self::Deep(Length::Nightly) => &[],
            Self::Deep(Length::Short) => &[NIGHT],
            Self::Full(Length::Nightly)
            | Self::WithoutUdev(Length::Nightly)
            | Self::OtherMachine(Length::Nightly) => &[DEEP],
            Self::Full(Length::Short) => &[DEEP, NIGHT],
            Self::WithoutUdev(Length::Short) => &[DEEP, ONCE, NIGHT],
            Self::OtherMachine(Length::Short) => &[DEEP, ONCE, KERNEL],
        };
        lists.iter().copied().flatten().copied().chain([STORM])
    }

    /// The only ones that are wanted; none means all.
    fn chosen(self) -> &'static [&'static str] {
        match self {
            Self::Deep(_) => DEEP,
            _ => &[],
        }
    }
}

/// A test program, and which of its tests are wanted.
pub(crate) struct DeviceTest {
    /// The program.
    pub(crate) path: PathBuf,
    /// Belongs to the loop-device level, which Vagrant runs; the rest looks at
    /// the kernel alone, and QEMU has that with and without udev.
    pub(crate) loop_level: bool,
    filter: Option<&'static str>,
}

impl DeviceTest {
    /// One test at a time, because they share the kernel's devices; the storm is
    /// a level of its own.
    pub(crate) fn args(&self, breadth: Breadth) -> impl Iterator<Item = &'static str> {
        ["--include-ignored", "--test-threads=1"]
            .into_iter()
            .chain(breadth.left_out().flat_map(|name| ["--skip", name]))
            .chain(self.filter)
            .chain(breadth.chosen().iter().copied())
    }

    /// The program that has the tests of whole operations.
    fn is_guest(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("guest-")
    }
}

impl Programs {
    /// Builds them all.
    pub(crate) fn build() -> Result<Self> {
        // The whole workspace each time: the features of shared dependencies then
        // agree between the levels, and nothing is compiled twice.
        let mut args = vec!["test", "--workspace", "--no-run", "--lib"];
        for test in DEVICE_TESTS {
            args.extend(["--test", test]);
        }
        let built = artifacts::build(&args)?;
        let bins = artifacts::build(BINARIES)?;
        Ok(Self {
            lvcsi: artifacts::find(&bins, "bin", "lvcsi")?,
            tests: tests(&built)?,
        })
    }

    /// Each of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Path> {
        let tests = self.tests.iter().map(|test| test.path.as_path());
        std::iter::once(self.lvcsi.as_path()).chain(tests)
    }

    /// Variables by which the tests find the driver and their own package.
    pub(crate) fn env(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("LVCSI_BIN".into(), self.lvcsi.clone().into()),
            ("CARGO_MANIFEST_DIR".into(), paths::root().into()),
        ]
    }

    /// The command that runs the storm.
    pub(crate) fn storm(&self) -> Result<Vec<OsString>> {
        let tests = self.tests.iter().find(|test| test.is_guest());
        let tests = tests.context("cargo built no test program for the guest")?;
        let mut argv = vec![tests.path.clone().into()];
        argv.extend(["--include-ignored", "--nocapture", STORM].map(OsString::from));
        Ok(argv)
    }

    /// A command that runs every test program and fails if one of them failed.
    pub(crate) fn device_tests(&self, breadth: Breadth) -> Vec<OsString> {
        let mut script = "status=0\n".to_owned();
        let mut argv: Vec<OsString> = vec!["sh".into(), "-c".into()];
        let wanted = || {
            let all = self.tests.iter();
            all.filter(|test| breadth.chosen().is_empty() || test.is_guest())
        };
        for (number, test) in (1..).zip(wanted()) {
            let args: Vec<_> = test.args(breadth).collect();
            script.push_str(&format!(
                "\"${{{number}}}\" {} || status=$?\n",
                args.join(" ")
            ));
        }
        script.push_str("exit $status");
        argv.extend([script.into(), "sh".into()]);
        argv.extend(wanted().map(|test| test.path.clone().into()));
        argv
    }
}

fn tests(built: &[Executable]) -> Result<Vec<DeviceTest>> {
    let unit = DeviceTest {
        path: artifacts::find(built, "lib", "lvcsi")?,
        loop_level: false,
        filter: Some(DEVICE_UNIT_TESTS),
    };
    let integration = DEVICE_TESTS.iter().map(|test| {
        Ok(DeviceTest {
            path: artifacts::find(built, "test", test)?,
            loop_level: *test != "fs",
            filter: None,
        })
    });
    std::iter::once(Ok(unit)).chain(integration).collect()
}

/// The driver, and the program that loads it until the power goes.
pub(crate) fn power() -> Result<(PathBuf, PathBuf)> {
    let built = artifacts::build(BINARIES)?;
    let lvcsi = artifacts::find(&built, "bin", "lvcsi")?;
    let load = artifacts::find(&built, "bin", "lvcsi-power")?;
    Ok((lvcsi, load))
}

/// Runs the demonstration in the guest; returns its status.
pub(crate) fn demo() -> Result<i32> {
    let built = artifacts::build(BINARIES)?;
    let demo = artifacts::find(&built, "bin", "lvcsi-demo")?;
    let lvcsi = artifacts::find(&built, "bin", "lvcsi")?;
    let options = Options {
        timeout: Duration::from_secs(600),
        env: colour(vec![("LVCSI_BIN".into(), lvcsi.into())]),
        ..Options::default()
    };
    guest::run(&options, &[demo.into()], Streams::inherit())
}

/// Runs the benchmark, built with a cargo profile, in the guest with these
/// arguments and copies its rows to the file, if one is named; returns its
/// status.
pub(crate) fn bench(profile: &str, args: &[OsString], json: Option<&Path>) -> Result<i32> {
    let built = artifacts::build(&[
        "bench",
        "-p",
        "lvcsi",
        "--bench",
        "provisioning",
        "--no-run",
        "--profile",
        profile,
    ])?;
    let bench = artifacts::find(&built, "bench", "provisioning")?;
    let results = paths::guest_cache().join(format!("bench-{}", std::process::id()));
    let options = Options {
        timeout: Duration::from_secs(45 * 60),
        // One for the VG, one for the floor.
        disks: 2,
        disk_size: 8 << 30,
        env: colour(vec![
            ("CARGO_MANIFEST_DIR".into(), paths::root().into()),
            ("LVCSI_DISKS".into(), "/dev/vda,/dev/vdb".into()),
        ]),
        results: Some(results.clone()),
        ..Options::default()
    };
    let mut argv = vec![bench.into_os_string()];
    argv.extend_from_slice(args);
    if json.is_some() {
        // Only the results folder outlives the guest.
        argv.extend(["--json".into(), "/results/bench.json".into()]);
    }
    let status = guest::run(&options, &argv, Streams::inherit())?;
    if let Some(json) = json {
        std::fs::copy(results.join("bench.json"), json)
            .with_context(|| format!("cannot write {}", json.display()))?;
    }
    std::fs::remove_dir_all(&results)
        .with_context(|| format!("cannot remove {}", results.display()))?;
    Ok(status)
}

/// The command in the guest writes to a port, never to a terminal.
fn colour(mut env: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        env.push(("LVCSI_COLOR".into(), "1".into()));
    }
    env
}

const DEMO_HELP: &str = "\
Builds the driver, boots the guest and walks a volume through its life over CSI,
with lvm2 as the witness; every step with its time.

Usage: cargo xtask demo
";

/// `cargo xtask demo`.
pub(crate) fn demo_command(mut parser: lexopt::Parser) -> Result<i32> {
    if let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => {
                print!("{DEMO_HELP}");
                return Ok(0);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    apt::ensure(&[Group::Build, Group::Guest])?;
    demo()
}

const BENCH_HELP: &str = "\
Measures provisioning in the guest, side by side in one run: lvm2's commands, our
engine, and the floor (the bare system calls that the work needs).

Usage: cargo xtask bench [OPTIONS]

Options:
  --rounds N   rounds of each operation                     [default: 30]
  --lvs LIST   logical volumes already in the volume group  [default: 0,500]
  --json FILE  write rows {op, who, lvs, rounds, p50_us, p99_us}
  --check      fail where a budget is missed
  -h, --help   show this
";

/// `cargo xtask bench`.
pub(crate) fn bench_command(mut parser: lexopt::Parser) -> Result<i32> {
    let mut args: Vec<OsString> = Vec::new();
    let mut json = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Long("rounds") => args.extend(["--rounds".into(), parser.value()?]),
            Long("lvs") => args.extend(["--lvs".into(), parser.value()?]),
            Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Long("check") => args.push("--check".into()),
            Short('h') | Long("help") => {
                print!("{BENCH_HELP}");
                return Ok(0);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    apt::ensure(&[Group::Build, Group::Guest])?;
    bench("release", &args, json.as_deref())
}
