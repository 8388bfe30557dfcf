//! Hints, devices file and online notes of lvm2's commands on this machine.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lvm2::id::PvId;
use lvm2::name::VgName;

use super::block::path_error;
use super::clock::pause;
use super::devicesfile::{DeviceId, Listed, with_devices};
use super::discover::disk_of;
use super::lock_holders::holders;
use super::sysfs::Sysfs;
use crate::host::{DeviceInfo, HostError, HostResult, LockGuard, Lvm2Files};

/// How long to wait before a lock is tried again; flock(2) has no time-out.
const RETRY: Duration = Duration::from_millis(20);

/// Where lvm2 keeps these files.
#[derive(Clone, Debug)]
pub(super) struct LinuxLvm2Files {
    /// `/run/lvm`
    pub(super) run_dir: PathBuf,
    /// Whether its absence means that the host's is not mounted.
    pub(super) run_dir_required: bool,
    /// Directory of the lock of the devices file.
    pub(super) lock_dir: PathBuf,
    /// The devices file, unless lvm.conf switches it off.
    pub(super) devices_file: Option<PathBuf>,
    pub(super) sysfs: Sysfs,
}

/// A locked file that stays where it is: lvm2 does not unlink these.
struct Held(#[expect(dead_code, reason = "closing it releases the lock")] File);

impl LockGuard for Held {}

fn lock(file: File, path: &Path, deadline: Duration) -> HostResult<Held> {
    let until = Instant::now() + deadline;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Held(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => pause(RETRY),
            Err(TryLockError::WouldBlock) => {
                return Err(HostError::LockTimeout {
                    resource: path.display().to_string(),
                    holder: holders(path),
                    after: deadline,
                });
            }
            Err(TryLockError::Error(error)) => return Err(path_error("lock", path, error)),
        }
    }
}

/// Makes the file, or makes it empty.
fn touch(path: &Path) -> HostResult<()> {
    File::create(path)
        .map(drop)
        .map_err(|error| path_error("create", path, error))
}

fn absent_is_fine(result: io::Result<()>, path: &Path) -> HostResult<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(path_error("remove", path, error))
        }
        _ => Ok(()),
    }
}

impl LinuxLvm2Files {
    /// The text of the devices file, if it is in use.
    fn devices_text(&self) -> HostResult<Option<(&Path, String)>> {
        let Some(path) = &self.devices_file else {
            return Ok(None);
        };
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some((path, text))),
            // lvm2 uses none that does not exist.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(path_error("read", path, error)),
        }
    }

    /// The lock of the devices file: made with this mode, never unlinked, and
    /// without the second file that other locks have.
    fn lock_devices(&self, file: &Path, deadline: Duration) -> HostResult<Held> {
        let name = file.file_name().unwrap_or_default();
        let path = self.lock_dir.join(format!("D_{}", name.display()));
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| path_error("lock", &path, error))?;
        lock(opened, &path, deadline)
    }
}

/// Puts `text` in the place of `path` at once, as lvm2 does it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push("_new");
    let new = path.with_file_name(name);
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o7777;
    let mut file = File::create(&new)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

impl Lvm2Files for LinuxLvm2Files {
    fn invalidate_hints(&self, deadline: Duration) -> HostResult<Box<dyn LockGuard>> {
        if !self.run_dir.is_dir() {
            if self.run_dir_required {
                return Err(HostError::NoLvm2Directory {
                    path: self.run_dir.clone(),
                });
            }
            // No command of lvm2 ever ran here.
            std::fs::create_dir_all(&self.run_dir)
                .map_err(|error| path_error("create", &self.run_dir, error))?;
        }
        let [nohints, hints, newhints] =
            ["nohints", "hints", "newhints"].map(|name| self.run_dir.join(name));
        // Whoever finds this file neither uses hints nor writes any; without
        // it a writer could finish between our truncation and our lock.
        touch(&nohints)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&hints)
            .map_err(|error| path_error("open", &hints, error))?;
        let held = lock(
            file.try_clone()
                .map_err(|error| path_error("open", &hints, error))?,
            &hints,
            deadline,
        );
        absent_is_fine(std::fs::remove_file(&nohints), &nohints)?;
        let held = held?;
        file.set_len(0)
            .map_err(|error| path_error("truncate", &hints, error))?;
        // The next command that may make hints does so because of this.
        touch(&newhints)?;
        Ok(Box::new(held))
    }

    fn devices_file(&self) -> HostResult<Option<PathBuf>> {
        Ok(self.devices_text()?.map(|(path, _)| path.to_owned()))
    }

    fn enter_devices(
        &self,
        entries: &[(DeviceInfo, Option<PvId>)],
        deadline: Duration,
    ) -> HostResult<()> {
        let Some((path, _)) = self.devices_text()? else {
            return Ok(());
        };
        let _lock = self.lock_devices(path, deadline)?;
        let Some((path, text)) = self.devices_text()? else {
            return Ok(());
        };
        let all = self.sysfs.devices()?;
        let listed = entries.iter().filter_map(|(info, pv)| {
            let device = all.values().find(|device| device.devno == info.devno)?;
            Some(Listed {
                id: DeviceId::of(device, disk_of(device, &all), &info.path),
                node: info.path.clone(),
                pv: *pv,
            })
        });
        let listed: Vec<Listed> = listed.collect();
        replace(path, &with_devices(&text, &listed))
            .map_err(|error| path_error("write", path, error))
    }

    fn forget_online(&self, pvs: &[PvId], vg: Option<&VgName>) -> HostResult<()> {
        let mut notes: Vec<PathBuf> = pvs
            .iter()
            .map(|pv| self.run_dir.join("pvs_online").join(pv.as_str()))
            .collect();
        for dir in ["vgs_online", "pvs_lookup"] {
            notes.extend(vg.map(|vg| self.run_dir.join(dir).join(vg.as_str())));
        }
        for note in notes {
            absent_is_fine(std::fs::remove_file(&note), &note)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    fn files(dir: &Path) -> LinuxLvm2Files {
        LinuxLvm2Files {
            run_dir: dir.join("run"),
            run_dir_required: false,
            lock_dir: dir.to_owned(),
            devices_file: Some(dir.join("system.devices")),
            sysfs: Sysfs::new("/sys".into()),
        }
    }

    #[test]
    fn hints_are_emptied_and_stay_locked_until_the_change_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let hints = dir.path().join("run/hints");
        drop(files.invalidate_hints(SOON).unwrap());
        std::fs::write(&hints, "scan:/dev/sda pvid:x").unwrap();
        std::fs::remove_file(dir.path().join("run/newhints")).unwrap();
        let guard = files.invalidate_hints(SOON).unwrap();
        assert_eq!(std::fs::read(&hints).unwrap(), b"");
        assert!(dir.path().join("run/newhints").exists());
        assert!(!dir.path().join("run/nohints").exists());
        // A reader of lvm2 tries a shared lock and goes without hints.
        let reader = File::open(&hints).unwrap();
        assert!(reader.try_lock_shared().is_err());
        let error = files.invalidate_hints(SOON).map(drop).unwrap_err();
        assert!(matches!(error, HostError::LockTimeout { .. }), "{error}");
        assert!(!dir.path().join("run/nohints").exists());
        drop(guard);
        reader.try_lock_shared().unwrap();
    }

    #[test]
    fn a_container_without_the_hosts_directory_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = files(dir.path());
        files.run_dir_required = true;
        let error = files.invalidate_hints(SOON).map(drop).unwrap_err();
        assert!(error.to_string().contains("mount the host's"), "{error}");
        assert!(!dir.path().join("run").exists());
    }

    #[test]
    fn a_devices_file_is_replaced_at_once_under_its_own_lock() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let path = dir.path().join("system.devices");
        assert_eq!(files.devices_file().unwrap(), None);
        files.enter_devices(&[], SOON).unwrap();
        assert!(!path.exists(), "none is in use, none is made");
        std::fs::write(&path, "# mine\nVERSION=1.1.7\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        files.enter_devices(&[], SOON).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "# mine\nVERSION=1.1.8\n"
        );
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let lock = dir.path().join("D_system.devices");
        assert!(lock.exists(), "lvm2 keeps it too");
        let other = File::open(&lock).unwrap();
        other.lock().unwrap();
        let error = files.enter_devices(&[], SOON).unwrap_err();
        assert!(matches!(error, HostError::LockTimeout { .. }), "{error}");
    }

    #[test]
    fn notes_about_pvs_and_vgs_go() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let pv = PvId::from_random([3; 32]);
        let vg = VgName::new("data").unwrap();
        files.forget_online(&[pv], Some(&vg)).unwrap();
        for note in [
            format!("pvs_online/{}", pv.as_str()),
            "vgs_online/data".to_owned(),
        ] {
            let note = dir.path().join("run").join(note);
            std::fs::create_dir_all(note.parent().unwrap()).unwrap();
            std::fs::write(&note, "").unwrap();
            files.forget_online(&[pv], Some(&vg)).unwrap();
            assert!(!note.exists());
        }
    }
}
