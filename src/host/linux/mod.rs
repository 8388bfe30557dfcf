//! The machine that we run on.

mod block;
mod clock;
mod devicesfile;
mod discover;
mod dm;
mod ears;
mod events;
mod examine;
mod filter;
mod fs;
mod lock;
mod lock_holders;
mod lvm2files;
mod lvmconf;
mod md;
mod mkfs;
mod mount;
mod mountinfo;
mod nodes;
mod probe;
mod prober;
mod skip;
mod store;
mod sysfs;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use self::clock::LinuxClock;
use self::discover::LinuxBlockDevices;
use self::dm::LinuxDeviceMapper;
use self::fs::LinuxFilesystems;
use self::lock::LinuxLocks;
use self::lvm2files::LinuxLvm2Files;
use self::lvmconf::LvmConf;
use self::nodes::Nodes;
use self::store::LinuxStore;
use self::sysfs::Sysfs;
use super::{Host, HostResult};

pub use lvcsi_sys::memory::limit_arenas;

/// Where device nodes of our own go if `/dev` has none.
pub(crate) const PRIVATE_NODES: &str = "/run/lvcsi/dev";

/// Whether udev makes the nodes and links of new devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseUdev {
    /// If its control socket is there.
    #[default]
    Auto,
    /// Always, for containers that do not see the host's `/run/udev`.
    Yes,
    /// Never: nodes and links are made by ourselves.
    No,
}

/// How to find one's way around the machine.
#[derive(Clone, Debug)]
pub struct LinuxConfig {
    /// Directory of lvm.conf; its absence means lvm2's defaults.
    pub lvm_conf_dir: PathBuf,
    /// Directory of lvm2's locks, instead of what lvm.conf says.
    pub lock_dir: Option<PathBuf>,
    /// Never make the lock directory: in a container an absent one means that
    /// the host's is not mounted, and a new one would exclude nobody.
    pub lock_dir_required: bool,
    /// See [`UseUdev`].
    pub use_udev: UseUdev,
    /// How long a device may take to answer before it is left out.
    pub probe_timeout: Duration,
    /// The directory of device nodes.
    pub dev_dir: PathBuf,
    /// Where lvm2's commands leave notes for each other.
    pub run_dir: PathBuf,
}

impl Default for LinuxConfig {
    fn default() -> Self {
        Self {
            lvm_conf_dir: "/etc/lvm".into(),
            lock_dir: None,
            lock_dir_required: false,
            use_udev: UseUdev::Auto,
            probe_timeout: Duration::from_secs(5),
            dev_dir: "/dev".into(),
            run_dir: "/run/lvm".into(),
        }
    }
}

impl LinuxConfig {
    /// lvm2's lock directory.
    ///
    /// # Errors
    /// As [`LinuxHost::open`].
    pub fn locks(&self) -> HostResult<PathBuf> {
        match &self.lock_dir {
            Some(dir) => Ok(dir.clone()),
            None => Ok(LvmConf::read(&self.lvm_conf_dir)?.locking_dir()),
        }
    }
}

/// The real host.
#[derive(Clone, Copy, Debug)]
pub struct LinuxHost;

impl LinuxHost {
    /// Reads lvm2's configuration and puts the parts together. Touches no block
    /// device, and needs no device-mapper before the first call that does.
    ///
    /// # Errors
    /// [`HostError::Config`](super::HostError::Config) for a configuration that
    /// cannot be understood: to guess here could mean to use a device that lvm2
    /// was told to leave alone.
    pub fn open(config: &LinuxConfig) -> HostResult<Host> {
        let conf = LvmConf::read(&config.lvm_conf_dir)?;
        let udev = match config.use_udev {
            UseUdev::Auto => Path::new("/run/udev/control").exists(),
            UseUdev::Yes => true,
            UseUdev::No => false,
        };
        let lock_dir = config.locks()?;
        // lvm2 lives on this machine, not merely its files in an image.
        let may_create = !config.lock_dir_required && config.lvm_conf_dir.is_dir();
        let etc = config.lvm_conf_dir.parent().unwrap_or(Path::new("/etc"));
        let nodes = Nodes::new(config.dev_dir.clone(), PRIVATE_NODES.into());
        let sysfs = Sysfs::new("/sys".into());
        let lvm2 = LinuxLvm2Files {
            run_dir: config.run_dir.clone(),
            run_dir_required: config.lock_dir_required,
            lock_dir: lock_dir.clone(),
            devices_file: conf.devices_file(),
            sysfs: sysfs.clone(),
        };
        let devices =
            LinuxBlockDevices::new(&conf, sysfs, config.dev_dir.clone(), config.probe_timeout)?;
        Ok(Host {
            block: Arc::new(devices),
            dm: Arc::new(LinuxDeviceMapper::new(udev, nodes)),
            locks: Arc::new(LinuxLocks::new(lock_dir, may_create)),
            lvm2: Arc::new(lvm2),
            fs: Arc::new(LinuxFilesystems),
            clock: Arc::new(LinuxClock::new()),
            copies: Arc::new(LinuxStore::new(conf.backup_dir(), hostname())),
            identity: conf.identity(hostname(), kernel(), etc)?,
        })
    }
}

/// Runs `work` so that this process can end although a thread of the work hangs
/// in a dead device: in a child process, or in this one where there can be none.
pub fn apart(work: impl Fn() -> u8) -> u8 {
    /// What a sound child needs to end once its result is known.
    const PATIENCE: Duration = Duration::from_secs(1);
    lvcsi_sys::apart::run(&work, PATIENCE).unwrap_or_else(|_| work())
}

/// What `uname -srvm` prints.
fn kernel() -> String {
    let Ok(uname) = nix::sys::utsname::uname() else {
        return "Linux".to_owned();
    };
    [
        uname.sysname(),
        uname.release(),
        uname.version(),
        uname.machine(),
    ]
    .map(|word| word.to_string_lossy())
    .join(" ")
}

fn hostname() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_else(|_| "localhost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{HostError, LockMode};

    #[test]
    fn opens_with_defaults_and_uses_the_configured_lock_directory() {
        let dir = tempfile::tempdir().unwrap();
        let config = LinuxConfig {
            lvm_conf_dir: dir.path().join("no-lvm"),
            lock_dir: Some(dir.path().join("lock")),
            ..LinuxConfig::default()
        };
        let host = LinuxHost::open(&config).unwrap();
        assert!(!host.identity.hostname.is_empty());
        assert!(
            host.identity.kernel.starts_with("Linux "),
            "{}",
            host.identity.kernel
        );
        let second = Duration::from_secs(1);
        let refused = host.locks.lock("V_x", LockMode::Shared, second).map(|_| ());
        assert!(
            matches!(refused, Err(HostError::NoLockDirectory { .. })),
            "no lvm2 here"
        );
        std::fs::create_dir(dir.path().join("no-lvm")).unwrap();
        let host = LinuxHost::open(&config).unwrap();
        drop(host.locks.lock("V_x", LockMode::Shared, second).unwrap());
    }

    #[test]
    fn a_kernel_without_device_mapper_has_no_devices() {
        let host = LinuxHost::open(&LinuxConfig::default()).unwrap();
        match std::fs::exists("/sys/class/misc/device-mapper") {
            Ok(false) => {
                assert!(host.dm.list().unwrap().is_empty());
                assert_eq!(host.dm.by_uuid("LVM-none").unwrap(), None);
                assert!(host.dm.create("lvcsi-test", "LVM-none").is_err());
            }
            _ => assert!(host.dm.list().is_ok()),
        }
    }
}
