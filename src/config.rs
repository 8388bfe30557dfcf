//! Settings of the driver: flags, and the environment where a flag is not given.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::csi::Endpoint;
use crate::engine::{BackupConfig, EngineConfig};
use crate::host::linux::{LinuxConfig, LinuxHost, UseUdev};
use crate::host::{Host, HostError, HostResult};
use crate::telemetry::LogFormat;

/// Longest node id of the CSI specification, in bytes.
const MAX_NODE_ID: usize = 256;
/// Where an agent that may do without the host's lock directory keeps locks.
const PRIVATE_LOCKS: &str = "/run/lvcsi/lock";
/// Longest driver name of the CSI specification, in bytes.
const MAX_NAME: usize = 63;

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The node id is empty or too long.
    #[error("a node id has 1 to {MAX_NODE_ID} bytes, not {length}")]
    NodeId {
        /// Its length.
        length: usize,
    },
    /// The driver name is not one of the specification's form.
    #[error(
        "driver name {name:?} is not of 1 to {MAX_NAME} letters, digits, `-` and `.`, beginning and ending with a letter or digit"
    )]
    Name {
        /// The name.
        name: String,
    },
}

/// A node's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeId(pub String);

impl FromStr for NodeId {
    type Err = ConfigError;

    fn from_str(id: &str) -> Result<Self, ConfigError> {
        if (1..=MAX_NODE_ID).contains(&id.len()) {
            Ok(Self(id.to_owned()))
        } else {
            Err(ConfigError::NodeId { length: id.len() })
        }
    }
}

/// A driver's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverName(pub String);

impl FromStr for DriverName {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        let word = |c: char| c.is_ascii_alphanumeric();
        let form = (1..=MAX_NAME).contains(&name.len())
            && name.chars().all(|c| word(c) || c == '-' || c == '.')
            && name.starts_with(word)
            && name.ends_with(word);
        if form {
            Ok(Self(name.to_owned()))
        } else {
            Err(ConfigError::Name {
                name: name.to_owned(),
            })
        }
    }
}

/// Whether the host runs udev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Udev {
    /// Look for its control socket.
    #[default]
    Auto,
    /// It makes the links in /dev.
    Yes,
    /// The driver makes them.
    No,
}

/// Where this machine keeps what lvm2 and the driver share.
#[derive(Args, Clone, Debug)]
pub struct HostArgs {
    /// Directory of lvm.conf and lvmlocal.conf
    #[arg(long, global = true, value_name = "DIR", default_value = "/etc/lvm")]
    pub lvm_conf_dir: PathBuf,
    /// The host's lvm2 lock directory; by default what lvm.conf says
    #[arg(long, global = true, value_name = "DIR")]
    pub lock_dir: Option<PathBuf>,
    /// Whether udev makes the links in /dev
    #[arg(long, global = true, value_enum, default_value_t)]
    pub udev: Udev,
    /// Time-outs.
    #[command(flatten)]
    pub timeouts: TimeoutArgs,
}

/// How long is waited for whom. What a time-out cuts short is the waiting
/// only: a change that has begun goes on when the device answers, and keeps its
/// VG's lock until then; callers are told what it waits for, and ask again.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Time-outs")]
pub struct TimeoutArgs {
    /// Wait so long for a lock that lvm2 or another program holds
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = LOCK, value_parser = seconds())]
    pub lock_timeout: u64,
    /// Call a device or a file system hung when one call on it takes longer;
    /// the call goes on, those who wait for it are told, and other VGs are
    /// served
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = IO, value_parser = seconds())]
    pub io_timeout: u64,
    /// Leave out devices that do not answer so long while looking for PVs; they
    /// are used when they answer again
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = PROBE, value_parser = seconds())]
    pub probe_timeout: u64,
}

/// Default of `--lock-timeout`.
const LOCK: u64 = 20;
/// Default of `--io-timeout`.
const IO: u64 = 10;
/// Default of `--probe-timeout`.
const PROBE: u64 = 5;

fn seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=86_400)
}

impl TimeoutArgs {
    /// The engine's settings.
    #[must_use]
    pub fn engine(&self) -> EngineConfig {
        EngineConfig {
            lock_deadline: Duration::from_secs(self.lock_timeout),
            io_timeout: Duration::from_secs(self.io_timeout),
            probe_timeout: Duration::from_secs(self.probe_timeout),
            ..EngineConfig::default()
        }
    }
}

impl HostArgs {
    /// The machine.
    ///
    /// # Errors
    /// When its lvm.conf cannot be understood.
    pub fn open(&self) -> HostResult<Host> {
        // Who names the directory has mounted it: if it is not there, the
        // mount failed, and one of our own would exclude nobody.
        LinuxHost::open(&self.linux(self.lock_dir.is_some()))
    }

    /// The machine as a container sees it: the lock directory must be the
    /// host's, mounted, unless `private_locks` are allowed. Without it no lock is
    /// given, and volumes are used but not changed.
    ///
    /// # Errors
    /// When lvm.conf cannot be understood.
    pub fn open_in_container(&self, private_locks: bool) -> HostResult<Host> {
        let mut arguments = self.clone();
        if private_locks && arguments.lock_dir.is_none() {
            let dir = PathBuf::from(PRIVATE_LOCKS);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
            made.map_err(|source| HostError::Path {
                op: "make",
                path: dir.clone(),
                source,
            })?;
            arguments.lock_dir = Some(dir);
        }
        LinuxHost::open(&arguments.linux(true))
    }

    fn linux(&self, lock_dir_required: bool) -> LinuxConfig {
        LinuxConfig {
            lvm_conf_dir: self.lvm_conf_dir.clone(),
            lock_dir: self.lock_dir.clone(),
            lock_dir_required,
            use_udev: match self.udev {
                Udev::Auto => UseUdev::Auto,
                Udev::Yes => UseUdev::Yes,
                Udev::No => UseUdev::No,
            },
            probe_timeout: Duration::from_secs(self.timeouts.probe_timeout),
            ..LinuxConfig::default()
        }
    }
}

/// Where copies of the metadata go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Copies of metadata")]
pub struct BackupArgs {
    /// Directory for copies of the metadata, which vgcfgrestore reads
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        default_value = "/var/lib/lvcsi/backup"
    )]
    pub backup_dir: PathBuf,
    /// Most copies that are kept of a VG
    #[arg(long, global = true, value_name = "N", default_value_t = 64)]
    pub backup_count: usize,
    /// Remove copies that are older, but for the newest ten
    #[arg(long, global = true, value_name = "DAYS", default_value_t = 90)]
    pub backup_days: u32,
    /// End an operation only when the copy of its commit is written
    #[arg(long, global = true)]
    pub backup_wait: bool,
    /// Do not keep lvm2's backup file up to date, whatever lvm.conf says
    #[arg(long, global = true)]
    pub no_lvm2_backup: bool,
    /// Keep no copies at all
    #[arg(long, global = true)]
    pub no_backup: bool,
}

impl BackupArgs {
    /// The engine's settings, beside those in `other`.
    #[must_use]
    pub fn engine(&self, other: EngineConfig) -> EngineConfig {
        let day = Duration::from_secs(24 * 60 * 60);
        let backup = BackupConfig {
            dir: self.backup_dir.clone(),
            count: self.backup_count,
            age: day.saturating_mul(self.backup_days),
            wait: self.backup_wait,
            lvm2: !self.no_lvm2_backup,
        };
        EngineConfig {
            backup: (!self.no_backup).then_some(backup),
            ..other
        }
    }
}

/// `lvcsi standalone`.
#[derive(Args, Clone, Debug)]
pub struct StandaloneArgs {
    /// The Unix socket to serve, e.g. unix:///csi/csi.sock
    #[arg(
        long,
        env = "OPENEBS_CSI_ENDPOINT",
        default_value = "unix:///csi/csi.sock"
    )]
    pub endpoint: Endpoint,
    /// This node's name, which volumes carry as their place
    #[arg(long, env = "OPENEBS_NODE_ID")]
    pub nodeid: NodeId,
    /// Name under which orchestrators know the driver
    #[arg(long, default_value = "local.csi.openebs.io")]
    pub name: DriverName,
    /// How log lines look; LVCSI_LOG sets what is logged
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::LockMode;

    #[test]
    fn default_timeouts_are_the_engine_s() {
        let defaults = TimeoutArgs {
            lock_timeout: LOCK,
            io_timeout: IO,
            probe_timeout: PROBE,
        };
        assert_eq!(defaults.engine(), EngineConfig::default());
        assert_eq!(
            LinuxConfig::default().probe_timeout,
            defaults.engine().probe_timeout
        );
    }

    #[test]
    fn a_container_without_the_host_s_locks_gets_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut arguments = HostArgs {
            lvm_conf_dir: dir.path().join("etc"),
            lock_dir: Some(dir.path().join("lock")),
            udev: Udev::No,
            timeouts: TimeoutArgs {
                lock_timeout: LOCK,
                io_timeout: IO,
                probe_timeout: PROBE,
            },
        };
        let lock = |arguments: &HostArgs, private| {
            let host = arguments.open_in_container(private).unwrap();
            let locked = host.locks.lock("V_x", LockMode::Shared, Duration::ZERO);
            (locked.map(drop), host.locks.absent())
        };
        let (refused, absent) = lock(&arguments, false);
        assert_eq!(absent, Some(dir.path().join("lock")));
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("/lock does not exist") && text.contains("LVCSI_PRIVATE_LOCKS"),
            "{text}"
        );
        // Who names a directory gets it or nothing, whatever else is allowed.
        assert!(lock(&arguments, true).0.is_err());
        std::fs::create_dir(dir.path().join("lock")).unwrap();
        let (given, absent) = lock(&arguments, false);
        assert!(given.is_ok() && absent.is_none());
        // lvm.conf says where it is, too.
        arguments.lock_dir = None;
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        let absent = dir.path().join("absent");
        let conf = format!("global {{ locking_dir = \"{}\" }}\n", absent.display());
        std::fs::write(dir.path().join("etc/lvm.conf"), conf).unwrap();
        assert_eq!(lock(&arguments, false).1, Some(absent));
    }

    #[test]
    fn names_of_the_specifications_form() {
        assert!(DriverName::from_str("local.csi.openebs.io").is_ok());
        for bad in ["", "-a", "a.", "a_b", &"x".repeat(64)] {
            assert!(
                matches!(DriverName::from_str(bad), Err(ConfigError::Name { .. })),
                "{bad}"
            );
        }
        assert!(NodeId::from_str(&"n".repeat(256)).is_ok());
        assert_eq!(NodeId::from_str(""), Err(ConfigError::NodeId { length: 0 }));
    }
}
