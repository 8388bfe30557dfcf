//! mount(2) and umount(2), with the option words of mount(8).

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use lvm2::tables::DevNo;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{major, minor};

use super::block::path_error;
use super::mountinfo;
use crate::host::{FsKind, HostResult, MountEntry};

/// What mount(8)'s words mean to mount(2).
#[derive(Debug, PartialEq, Eq)]
struct Parsed {
    flags: MsFlags,
    /// What is left for the file system, comma separated.
    data: String,
}

fn parse(options: &[String]) -> Parsed {
    let mut flags = MsFlags::empty();
    let mut data: Vec<&str> = Vec::new();
    for word in options.iter().flat_map(|option| option.split(',')) {
        let word = word.trim();
        match flag(word) {
            Some((flag, true)) => flags |= flag,
            Some((flag, false)) => flags -= flag,
            None if only_for_user_space(word) => {}
            None => data.push(word),
        }
    }
    Parsed {
        flags,
        data: data.join(","),
    }
}

/// The flag of a word, and whether the word sets or clears it.
fn flag(word: &str) -> Option<(MsFlags, bool)> {
    Some(match word {
        "ro" => (MsFlags::MS_RDONLY, true),
        "rw" => (MsFlags::MS_RDONLY, false),
        "nosuid" => (MsFlags::MS_NOSUID, true),
        "suid" => (MsFlags::MS_NOSUID, false),
        "nodev" => (MsFlags::MS_NODEV, true),
        "dev" => (MsFlags::MS_NODEV, false),
        "noexec" => (MsFlags::MS_NOEXEC, true),
        "exec" => (MsFlags::MS_NOEXEC, false),
        "sync" => (MsFlags::MS_SYNCHRONOUS, true),
        "async" => (MsFlags::MS_SYNCHRONOUS, false),
        "dirsync" => (MsFlags::MS_DIRSYNC, true),
        "noatime" => (MsFlags::MS_NOATIME, true),
        "atime" => (MsFlags::MS_NOATIME, false),
        "nodiratime" => (MsFlags::MS_NODIRATIME, true),
        "diratime" => (MsFlags::MS_NODIRATIME, false),
        "relatime" => (MsFlags::MS_RELATIME, true),
        "norelatime" => (MsFlags::MS_RELATIME, false),
        "strictatime" => (MsFlags::MS_STRICTATIME, true),
        "nostrictatime" => (MsFlags::MS_STRICTATIME, false),
        "lazytime" => (MsFlags::MS_LAZYTIME, true),
        "nolazytime" => (MsFlags::MS_LAZYTIME, false),
        "silent" => (MsFlags::MS_SILENT, true),
        "loud" => (MsFlags::MS_SILENT, false),
        "iversion" => (MsFlags::MS_I_VERSION, true),
        "noiversion" => (MsFlags::MS_I_VERSION, false),
        "bind" => (MsFlags::MS_BIND, true),
        "rbind" => (MsFlags::MS_BIND.union(MsFlags::MS_REC), true),
        "remount" => (MsFlags::MS_REMOUNT, true),
        _ => return None,
    })
}

/// Words that tell mount(8), fstab readers or systemd something.
fn only_for_user_space(word: &str) -> bool {
    word.starts_with("x-")
        || word.starts_with("X-")
        || matches!(
            word,
            "" | "defaults"
                | "auto"
                | "noauto"
                | "_netdev"
                | "nofail"
                | "user"
                | "nouser"
                | "users"
                | "owner"
                | "group"
        )
}

/// Mounts a device; nothing is added to the options that were asked for.
pub(super) fn device(
    device: &Path,
    target: &Path,
    kind: FsKind,
    options: &[String],
) -> HostResult<()> {
    let parsed = parse(options);
    let data = (!parsed.data.is_empty()).then_some(parsed.data.as_str());
    call(
        Some(device),
        target,
        Some(kind.as_str()),
        parsed.flags,
        data,
    )
    .map_err(|error| path_error("mount", target, error))
}

/// Bind-mounts one file. The kernel takes `ro` only in a second call; if that
/// fails the first is undone.
pub(super) fn bind(source: &Path, target: &Path, read_only: bool) -> HostResult<()> {
    let failed = |error| path_error("bind mount", target, error);
    call(Some(source), target, None, MsFlags::MS_BIND, None).map_err(failed)?;
    if read_only {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        call(None, target, None, flags, None).map_err(|error| {
            // The first error is the one to report.
            let _ = umount2(target, MntFlags::MNT_DETACH);
            failed(error)
        })?;
    }
    Ok(())
}

/// Unmounts; what is not mounted or not there is unmounted already.
pub(super) fn unmount(target: &Path) -> HostResult<()> {
    match umount2(target, MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        // Not a mount point, or one that the kernel locked in place.
        Err(Errno::EINVAL) if !mounts()?.iter().any(|mount| mount.target == target) => Ok(()),
        Err(error) => Err(path_error("unmount", target, error.into())),
    }
}

/// The mount table.
pub(super) fn mounts() -> HostResult<Vec<MountEntry>> {
    let text = std::fs::read(mountinfo::PATH)
        .map_err(|error| path_error("read", Path::new(mountinfo::PATH), error))?;
    Ok(mountinfo::parse(&text, device_number))
}

/// Of the block device that the path leads to, if it does.
fn device_number(path: &Path) -> Option<DevNo> {
    let metadata = std::fs::metadata(path).ok()?;
    let number = metadata.rdev();
    let part = |part: u64| u32::try_from(part).ok();
    metadata.file_type().is_block_device().then_some(DevNo {
        major: part(major(number))?,
        minor: part(minor(number))?,
    })
}

fn call(
    source: Option<&Path>,
    target: &Path,
    kind: Option<&str>,
    flags: MsFlags,
    data: Option<&str>,
) -> io::Result<()> {
    Ok(mount(source, target, kind, flags, data)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_flags_or_data() {
        let words: Vec<String> = [
            "rw,noatime",
            "discard",
            "x-systemd.automount",
            "data=ordered,nodev",
            "defaults",
            "_netdev",
        ]
        .map(str::to_owned)
        .into();
        assert_eq!(
            parse(&words),
            Parsed {
                flags: MsFlags::MS_NOATIME | MsFlags::MS_NODEV,
                data: "discard,data=ordered".to_owned(),
            }
        );
        let later_wins: Vec<String> = ["ro,nosuid", "rw"].map(str::to_owned).into();
        assert_eq!(parse(&later_wins).flags, MsFlags::MS_NOSUID);
        assert_eq!(parse(&[]).data, "");
    }
}
