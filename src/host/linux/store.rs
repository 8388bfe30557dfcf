//! Copies of metadata as files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::path_error;
use crate::host::store::TEMPORARY;
use crate::host::{CopyStore, HostResult, StoredFile};

/// A formatted copy is larger than the text on the disk, by its tabs.
const LARGEST: u64 = 4 * lvm2::text::MAX_TEXT as u64;

/// The file system that we run on.
#[derive(Debug)]
pub(super) struct LinuxStore {
    /// `backup/backup_dir`, unless `backup/backup` is off.
    lvm2_dir: Option<PathBuf>,
    hostname: String,
    staged: AtomicU64,
}

impl LinuxStore {
    pub(super) fn new(lvm2_dir: Option<PathBuf>, hostname: String) -> Self {
        Self {
            lvm2_dir,
            hostname,
            staged: AtomicU64::new(0),
        }
    }

    fn temporary(&self, dir: &Path) -> PathBuf {
        let number = self.staged.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        dir.join(format!("{TEMPORARY}{}_{process}_{number}", self.hostname))
    }
}

impl CopyStore for LinuxStore {
    fn stage(&self, dir: &Path, create: bool, content: &[u8]) -> HostResult<PathBuf> {
        if create && !dir.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)
                .map_err(|error| path_error("create", dir, error))?;
        }
        let path = self.temporary(dir);
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| {
                file.write_all(content)?;
                file.sync_all()
            });
        written.map_err(|error| {
            // What is half written is of no use to anybody.
            let _ = fs::remove_file(&path);
            path_error("write", &path, error)
        })?;
        Ok(path)
    }

    fn publish(&self, staged: &Path, name: &str) -> HostResult<()> {
        let path = staged.with_file_name(name);
        fs::rename(staged, &path).map_err(|error| path_error("rename to", &path, error))
    }

    fn sync_dir(&self, dir: &Path) -> HostResult<()> {
        File::open(dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|error| path_error("flush", dir, error))
    }

    fn list(&self, dir: &Path) -> HostResult<Vec<StoredFile>> {
        let failed = |error| path_error("list", dir, error);
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let (Ok(metadata), Ok(name)) = (entry.metadata(), entry.file_name().into_string())
            else {
                // Gone meanwhile, or not named by us.
                continue;
            };
            if metadata.is_file() {
                files.push(StoredFile {
                    name,
                    size: metadata.len(),
                    modified: u64::try_from(metadata.mtime()).unwrap_or(0),
                });
            }
        }
        Ok(files)
    }

    fn read(&self, path: &Path) -> HostResult<Option<Vec<u8>>> {
        let failed = |error| path_error("read", path, error);
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut content = Vec::new();
        let read = file.take(LARGEST + 1).read_to_end(&mut content);
        let length = read.map_err(failed)? as u64;
        if length > LARGEST {
            return Err(failed(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it has more than {LARGEST} bytes, no metadata has"),
            )));
        }
        Ok(Some(content))
    }

    fn remove(&self, path: &Path) -> HostResult<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| path_error("remove", path, error)),
        }
    }

    fn lvm2_dir(&self) -> Option<PathBuf> {
        self.lvm2_dir.clone().filter(|dir| dir.is_dir())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_copy_appears_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let store = LinuxStore::new(Some(dir.path().join("lvm2")), "h".to_owned());
        assert_eq!(store.lvm2_dir(), None, "the directory is not there");
        let vg = dir.path().join("copies/vg");
        assert_eq!(store.list(&vg).unwrap(), []);
        assert!(
            store.stage(&vg, false, b"x").is_err(),
            "nobody asked for it"
        );
        let staged = store.stage(&vg, true, b"text").unwrap();
        assert!(store.read(&vg.join("one")).unwrap().is_none());
        store.publish(&staged, "one").unwrap();
        store.sync_dir(&vg).unwrap();
        assert_eq!(store.read(&vg.join("one")).unwrap().unwrap(), b"text");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&vg), mode(&vg.join("one"))), (0o700, 0o600));
        let listed = store.list(&vg).unwrap();
        assert_eq!((listed[0].name.as_str(), listed[0].size), ("one", 4));
        store.remove(&vg.join("one")).unwrap();
        store.remove(&vg.join("one")).unwrap();
        assert_eq!(store.list(&vg).unwrap(), []);
    }

    #[test]
    fn a_copy_that_cannot_be_written_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "mine").unwrap();
        let store = LinuxStore::new(None, "h".to_owned());
        let error = store.stage(&file, true, b"text").unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
        assert!(store.list(&file).is_err(), "no directory");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(store.lvm2_dir(), None);
    }
}
