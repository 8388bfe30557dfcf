//! `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use lvm2::tables::DevNo;

use crate::host::MountEntry;

/// The file; `self` is the process, whatever thread asks.
pub(super) const PATH: &str = "/proc/self/mountinfo";

/// Reads the whole table. Lines that are not understood are left out: a newer
/// kernel may add kinds of lines, and each line stands for itself. `device` is
/// asked for the number of a device by its path.
pub(super) fn parse(text: &[u8], device: impl Fn(&Path) -> Option<DevNo>) -> Vec<MountEntry> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| parse_line(line, &device))
        .collect()
}

/// `ID PARENT M:m ROOT TARGET OPTIONS [TAG…] - TYPE SOURCE SUPER_OPTIONS`
fn parse_line(line: &[u8], device: impl Fn(&Path) -> Option<DevNo>) -> Option<MountEntry> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut dev: DevNo = std::str::from_utf8(words.nth(2)?).ok()?.parse().ok()?;
    let root = path(words.next()?);
    let target = path(words.next()?);
    let options = options(words.next()?);
    let mut rest = words.skip_while(|word| *word != b"-").skip(1);
    let fs_type = String::from_utf8_lossy(rest.next()?).into_owned();
    let source = rest.next().map(path);
    let super_options = rest.next().map(self::options).unwrap_or_default();
    // Btrfs may lie on several devices and has a number of its own, which says
    // nothing: its source is one of them. Of other file systems that have such a
    // number, the source is any word that somebody gave to mount(8).
    if dev.major == 0
        && fs_type == "btrfs"
        && let Some(found) = source.as_deref().filter(|path| path.is_absolute())
    {
        dev = device(found).unwrap_or(dev);
    }
    Some(MountEntry {
        dev,
        root,
        target,
        fs_type,
        options,
        super_options,
    })
}

fn options(word: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(word)
        .split(',')
        .filter(|option| !option.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Blanks, tabs, newlines and backslashes come as three octal digits.
fn path(word: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, tail)) = rest.split_first() {
        match (byte, tail.first_chunk::<3>().and_then(octal)) {
            (b'\\', Some(escaped)) => {
                out.push(escaped);
                rest = &tail[3..];
            }
            _ => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    digits.iter().try_fold(0u8, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 8)?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &Path) -> Option<DevNo> {
        None
    }

    #[test]
    fn reads_escapes_tags_and_bound_devices() {
        let text = b"36 35 98:0 /mnt1 /mnt\\0402\\134x rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n\
            40 22 0:5 /dm-3 /var/lib/kubelet/vol ro,nosuid - devtmpfs devtmpfs rw,size=4k\n\
            41 22 253:1 / /a\\9 rw - xfs /dev/mapper/a-b rw\n\
            garbage\n\n";
        let mounts = parse(text, none);
        assert_eq!(mounts.len(), 3);
        assert_eq!(
            mounts[0].dev,
            DevNo {
                major: 98,
                minor: 0
            }
        );
        assert_eq!(mounts[0].root, PathBuf::from("/mnt1"));
        assert_eq!(mounts[0].target, PathBuf::from("/mnt 2\\x"));
        assert_eq!(mounts[0].options, ["rw", "noatime"]);
        assert_eq!(mounts[0].super_options, ["rw", "errors=continue"]);
        assert_eq!(mounts[1].root, PathBuf::from("/dm-3"));
        assert_eq!(mounts[1].fs_type, "devtmpfs");
        assert_eq!(mounts[2].target, PathBuf::from("/a\\9"), "no escape");
    }

    #[test]
    fn a_number_of_nobody_gives_way_to_that_of_the_source() {
        let text = b"219 37 0:86 / /a rw shared:32 - btrfs /dev/dm-1 rw,subvol=/\n\
            220 37 0:87 / /b rw - btrfs /dev/gone rw\n\
            221 37 0:88 / /c rw - tmpfs tmpfs rw\n\
            222 37 98:0 / /d rw - ext4 /dev/dm-1 rw\n\
            223 37 0:89 / /e rw - tmpfs /dev/dm-1 rw\n";
        let dm = DevNo {
            major: 253,
            minor: 1,
        };
        let known = |path: &Path| (path == Path::new("/dev/dm-1")).then_some(dm);
        let mounts = parse(text, known);
        assert_eq!(mounts[0].dev, dm);
        assert_eq!(mounts[0].super_options, ["rw", "subvol=/"]);
        assert_eq!(
            mounts[1].dev,
            DevNo {
                major: 0,
                minor: 87
            }
        );
        assert_eq!(
            mounts[2].dev,
            DevNo {
                major: 0,
                minor: 88
            }
        );
        assert_eq!(
            mounts[3].dev,
            DevNo {
                major: 98,
                minor: 0
            }
        );
        assert_eq!(
            mounts[4].dev,
            DevNo {
                major: 0,
                minor: 89
            }
        );
    }

    #[test]
    fn reads_this_machine() {
        let mounts = parse(&std::fs::read(PATH).unwrap(), none);
        assert!(mounts.iter().any(|mount| mount.target.as_os_str() == "/"));
        let lines = std::fs::read_to_string(PATH).unwrap().lines().count();
        assert_eq!(mounts.len(), lines);
    }
}
