//! Copies of metadata as files in memory. They survive the machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use super::clock::EPOCH;
use super::fault::CallKind;
use super::machine::{Process, State};
use crate::host::store::TEMPORARY;
use crate::host::{CopyStore, HostError, HostResult, StoredFile};

const LVM2_DIR: &str = "/etc/lvm/backup";
const ENOENT: i32 = 2;

fn failed(op: &'static str, path: &Path, source: io::Error) -> HostError {
    HostError::Path {
        op,
        path: path.to_owned(),
        source,
    }
}

impl Process {
    /// Calls on files are logged by their directory or path.
    fn on_file(
        &self,
        kind: CallKind,
        op: &'static str,
        path: &Path,
    ) -> HostResult<MutexGuard<'_, State>> {
        let entered = self.enter(kind, path.to_string_lossy(), 0, 0);
        Ok(entered.map_err(|error| failed(op, path, error))?.state)
    }
}

impl CopyStore for Process {
    fn stage(&self, dir: &Path, _create: bool, content: &[u8]) -> HostResult<PathBuf> {
        let mut state = self.on_file(CallKind::CopyStage, "write", dir)?;
        let path = dir.join(format!("{TEMPORARY}{}", state.id()));
        let now = EPOCH + state.now.as_secs();
        state.files.insert(path.clone(), (content.to_vec(), now));
        Ok(path)
    }

    fn publish(&self, staged: &Path, name: &str) -> HostResult<()> {
        let path = staged.with_file_name(name);
        let mut state = self.on_file(CallKind::CopyPublish, "rename to", &path)?;
        let absent = || failed("rename to", &path, io::Error::from_raw_os_error(ENOENT));
        let file = state.files.remove(staged).ok_or_else(absent)?;
        state.files.insert(path, file);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> HostResult<()> {
        self.on_file(CallKind::CopySync, "flush", dir).map(drop)
    }

    fn list(&self, dir: &Path) -> HostResult<Vec<StoredFile>> {
        let state = self.on_file(CallKind::CopyList, "list", dir)?;
        let inside = |path: &PathBuf| path.parent() == Some(dir);
        let files = state.files.iter().filter(|(path, _)| inside(path));
        let files = files.map(|(path, (content, time))| StoredFile {
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            size: content.len() as u64,
            modified: *time,
        });
        Ok(files.collect())
    }

    fn read(&self, path: &Path) -> HostResult<Option<Vec<u8>>> {
        let state = self.on_file(CallKind::CopyRead, "read", path)?;
        Ok(state.files.get(path).map(|(content, _)| content.clone()))
    }

    fn remove(&self, path: &Path) -> HostResult<()> {
        let mut state = self.on_file(CallKind::CopyRemove, "remove", path)?;
        state.files.remove(path);
        Ok(())
    }

    fn lvm2_dir(&self) -> Option<PathBuf> {
        self.machine.state().lvm2_dir.then(|| LVM2_DIR.into())
    }
}
