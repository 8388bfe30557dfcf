//! Who holds a lock file, as far as the kernel tells.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The kernel gives the list out in pieces, and locks that come and go meanwhile
/// can hide a line between two of them.
const LOOKS: usize = 4;

/// `PID (command)` of each process that holds a flock on the file at `path`;
/// empty if there is none or it lives in a PID namespace that we cannot see.
pub(super) fn holders(path: &Path) -> Vec<String> {
    let Ok(metadata) = std::fs::metadata(path) else {
        return Vec::new();
    };
    let look = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        holders_in(&locks, metadata.ino())
    };
    let mut pids = (0..LOOKS)
        .map(|_| look())
        .find(|pids| !pids.is_empty())
        .unwrap_or_default();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter()
        .map(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            match name.trim() {
                "" => pid.to_string(),
                name => format!("{pid} ({name})"),
            }
        })
        .collect()
}

/// The flock holders of inode `inode` in the text of `/proc/locks`.
///
/// The device is not compared: the number there is the superblock's, which on
/// some file systems is not what stat(2) shows.
fn holders_in(locks: &str, inode: u64) -> Vec<u32> {
    locks
        .lines()
        .filter_map(|line| {
            // `1: FLOCK  ADVISORY  WRITE 1234 00:19:5678 0 EOF`; those who wait
            // have `->` before the kind.
            let mut words = line.split_whitespace().skip(1);
            if words.next()? != "FLOCK" {
                return None;
            }
            let pid: u32 = words.nth(2)?.parse().ok()?;
            let file: u64 = words.next()?.rsplit(':').next()?.parse().ok()?;
            (file == inode && pid != 0).then_some(pid)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_holders_but_not_those_who_wait() {
        let text = "1: FLOCK  ADVISORY  WRITE 2310 00:19:771 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 2311 00:19:771 0 EOF\n\
                    2: POSIX  ADVISORY  WRITE 17 00:19:771 0 EOF\n\
                    3: FLOCK  ADVISORY  READ  99 00:19:7710 0 EOF\n\
                    4: FLOCK  ADVISORY  READ  0 00:19:771 0 EOF\n";
        assert_eq!(holders_in(text, 771), [2310]);
        assert_eq!(holders_in(text, 7710), [99]);
        assert!(holders_in("garbage\n\n1: FLOCK\n", 771).is_empty());
    }
}
