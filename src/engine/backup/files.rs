//! The files of the copies: `DIR/VG/VG_SEQNO-CHECKSUM.vg`, named so that
//! `vgcfgrestore --list` reads them where `backup/archive_dir` says `DIR/VG`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lvm2::crc::crc;
use lvm2::model::Vg;
use lvm2::name::VgName;

use super::BackupConfig;
use crate::engine::error::EngineError;
use crate::engine::loaded::Loaded;
use crate::engine::state::silence;
use crate::engine::visit::Visitor;
use crate::host::store::TEMPORARY;
use crate::host::{Host, HostError, HostResult, LockMode, StoredFile};

/// So many copies are kept however old they are; lvm2 keeps as many.
const KEPT: usize = 10;
/// What a dead process was writing so many seconds ago is not finished any more.
const ABANDONED: u64 = 3600;
/// How long lvm2's own file waits for the VG lock.
const LOCK_DEADLINE: Duration = Duration::from_secs(5);

/// The directory of a VG's copies.
pub(super) fn dir(config: &BackupConfig, vg: &VgName) -> PathBuf {
    config.dir.join(vg.as_str())
}

/// One text has one name, whoever writes it and how often.
fn name(vg: &VgName, seqno: u32, text: &str) -> String {
    format!("{vg}_{seqno:05}-{}.vg", crc(text.as_bytes()))
}

/// The sequence number in a copy's name; `None` if it is no copy of `vg`.
pub(super) fn seqno_of(vg: &VgName, file: &str) -> Option<u32> {
    let rest = file.strip_prefix(vg.as_str())?.strip_prefix('_')?;
    let (seqno, checksum) = rest.strip_suffix(".vg")?.split_once('-')?;
    let digits = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    (digits(seqno) && digits(checksum)).then(|| seqno.parse().ok())?
}

fn failed(path: &Path, source: HostError) -> EngineError {
    EngineError::Host {
        object: format!("copy of metadata in {}", path.display()),
        source: Arc::new(source),
    }
}

/// Writes the copy and removes those that are too many or too old.
pub(super) fn write(
    host: &Host,
    config: &BackupConfig,
    vg: &Vg,
    text: &str,
) -> Result<(), EngineError> {
    let dir = dir(config, vg.name());
    let store = &host.copies;
    let put = || -> HostResult<()> {
        let staged = store.stage(&dir, true, text.as_bytes())?;
        let published = store.publish(&staged, &name(vg.name(), vg.seqno(), text));
        if published.is_err() {
            // The first error is the one that tells.
            let _ = store.remove(&staged);
        }
        published?;
        store.sync_dir(&dir)?;
        prune(host, config, vg.name(), &dir)
    };
    put().map_err(|error| failed(&dir, error))
}

fn prune(host: &Host, config: &BackupConfig, vg: &VgName, dir: &Path) -> HostResult<()> {
    let now = host.clock.unix_seconds();
    let old = |file: &StoredFile, age: u64| file.modified.saturating_add(age) < now;
    let (mut copies, others): (Vec<_>, Vec<_>) = host
        .copies
        .list(dir)?
        .into_iter()
        .partition(|file| seqno_of(vg, &file.name).is_some());
    // Newest first.
    copies.sort_by_key(|file| std::cmp::Reverse((file.modified, seqno_of(vg, &file.name))));
    let doomed = copies.iter().enumerate().filter(|(place, file)| {
        *place >= config.count.max(1) || (*place >= KEPT && old(file, config.age.as_secs()))
    });
    let abandoned = others
        .iter()
        .filter(|file| file.name.starts_with(TEMPORARY) && old(file, ABANDONED));
    for file in doomed.map(|(_, file)| file).chain(abandoned) {
        host.copies.remove(&dir.join(&file.name))?;
    }
    Ok(())
}

/// Brings lvm2's own backup file up to date. Only the rename is done under the
/// VG lock, so that an older text never replaces what lvm2 wrote meanwhile.
pub(super) fn write_lvm2(visitor: &Visitor, vg: &Vg, text: &str) -> Result<(), EngineError> {
    let host = &visitor.watch.host;
    let Some(dir) = host.copies.lvm2_dir() else {
        return Ok(());
    };
    let staged = host
        .copies
        .stage(&dir, false, text.as_bytes())
        .map_err(|error| failed(&dir, error))?;
    let published = publish_lvm2(visitor, vg, &staged);
    if !matches!(published, Ok(true)) {
        host.copies
            .remove(&staged)
            .map_err(|error| failed(&dir, error))?;
    }
    if published? {
        host.copies
            .sync_dir(&dir)
            .map_err(|error| failed(&dir, error))?;
    }
    Ok(())
}

/// Whether the file was published: not if the disks hold another commit by
/// now. Who made that one writes the file.
fn publish_lvm2(visitor: &Visitor, vg: &Vg, staged: &Path) -> Result<bool, EngineError> {
    let host = &visitor.watch.host;
    let name = vg.name();
    let _guard = host
        .locks
        .lock(&format!("V_{name}"), LockMode::Shared, LOCK_DEADLINE)
        .map_err(|error| failed(staged, error))?;
    let current = match on_disk(visitor, name) {
        Ok(loaded) => loaded.vg.id() == vg.id() && loaded.vg.seqno() == vg.seqno(),
        Err(EngineError::NoSuchVg { .. } | EngineError::AmbiguousVg { .. }) => false,
        Err(error) => return Err(error),
    };
    if current {
        host.copies
            .publish(staged, name.as_str())
            .map_err(|error| failed(staged, error))?;
    }
    Ok(current)
}

/// What the VG's disks hold. A disk that hangs is left behind: nobody may wait
/// for the lock because of a copy.
fn on_disk(visitor: &Visitor, name: &VgName) -> Result<Arc<Loaded>, EngineError> {
    let question = |_: &Host, loaded: &Arc<Loaded>| Ok(Arc::clone(loaded));
    let loaded = visitor.end(visitor.begin(name, None, Arc::new(question)))?;
    match silence(name, &loaded.hazards) {
        None => Ok(loaded),
        Some(error) => Err(error),
    }
}

/// The highest sequence number among the copies of a VG.
pub(in crate::engine) fn newest_seqno(
    host: &Host,
    config: &BackupConfig,
    vg: &VgName,
) -> HostResult<Option<u32>> {
    let files = host.copies.list(&dir(config, vg))?;
    Ok(files
        .iter()
        .filter_map(|file| seqno_of(vg, &file.name))
        .max())
}

/// The sequence number in lvm2's backup file and that file's path. `None`
/// where lvm2 keeps no backups; 0 if there is no readable file.
pub(in crate::engine) fn lvm2_seqno(host: &Host, vg: &Vg) -> HostResult<Option<(u32, PathBuf)>> {
    let Some(dir) = host.copies.lvm2_dir() else {
        return Ok(None);
    };
    let path = dir.join(vg.name().as_str());
    let content = host.copies.read(&path)?.unwrap_or_default();
    let seqno = match Vg::parse(&content) {
        Ok(copy) if copy.id() == vg.id() => copy.seqno(),
        _ => 0,
    };
    Ok(Some((seqno, path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_sequence_number() {
        let vg = VgName::new("a_1-b").unwrap();
        let file = name(&vg, 7, "text");
        assert!(
            file.starts_with("a_1-b_00007-") && file.ends_with(".vg"),
            "{file}"
        );
        assert_eq!(seqno_of(&vg, &file), Some(7));
        assert_eq!(seqno_of(&vg, "a_1-b_123456-1.vg"), Some(123_456));
        for other in [
            "a_1-b",
            "a_00007-1.vg",
            "a_1-b_x-1.vg",
            "a_1-b_1-.vg",
            "a_1-b_1-1.vgx",
        ] {
            assert_eq!(seqno_of(&vg, other), None, "{other}");
        }
    }
}
