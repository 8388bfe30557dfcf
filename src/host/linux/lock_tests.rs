#![allow(
    clippy::disallowed_types,
    reason = "other processes compete for the lock"
)]

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn locks(dir: &Path) -> LinuxLocks {
    LinuxLocks::new(dir.to_owned(), false)
}

/// Adds 1 to the number in the file without any protection of its own.
fn bump(counter: &Path) {
    let value: u64 = std::fs::read_to_string(counter).unwrap().parse().unwrap();
    std::fs::write(counter, (value + 1).to_string()).unwrap();
}

#[test]
fn pitfall_20_and_pitfall_24_exclusion_between_threads_and_processes_that_follow_lvm2() {
    // The other processes run lvm2's algorithm written down once more, in Python.
    const OTHER: &str = r#"
import fcntl, os, sys
d, n = sys.argv[1], int(sys.argv[2])
def take(p, mode):
    while True:
        fd = os.open(p, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o777)
        fcntl.flock(fd, mode)
        try:
            a, b = os.stat(p), os.fstat(fd)
            if (a.st_ino, a.st_dev) == (b.st_ino, b.st_dev):
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)
def undo(p, fd):
    fcntl.flock(fd, fcntl.LOCK_UN)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        a, b = os.stat(p), os.fstat(fd)
        if (a.st_ino, a.st_dev) == (b.st_ino, b.st_dev):
            os.unlink(p)
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(fd)
for i in range(n):
    aux = take(d + "/V_x:aux", fcntl.LOCK_EX)
    fd = take(d + "/V_x", fcntl.LOCK_EX)
    undo(d + "/V_x:aux", aux)
    with open(d + "/counter") as f: v = int(f.read())
    with open(d + "/counter", "w") as f: f.write(str(v + 1))
    undo(d + "/V_x", fd)
"#;
    let each = 2000;
    let dir = tempfile::tempdir().unwrap();
    let counter = dir.path().join("counter");
    std::fs::write(&counter, "0").unwrap();
    let mut children: Vec<_> = (0..3)
        .filter_map(|_| {
            std::process::Command::new("python3")
                .args(["-c", OTHER])
                .arg(dir.path())
                .arg(each.to_string())
                .stdin(Stdio::null())
                .spawn()
                .ok()
        })
        .collect();
    assert_eq!(children.len(), 3, "python3 is needed");
    let locks = locks(dir.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..each {
                    let guard = locks.lock("V_x", LockMode::Exclusive, LONG).unwrap();
                    bump(&counter);
                    drop(guard);
                }
            });
        }
    });
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(
        std::fs::read_to_string(&counter).unwrap(),
        (7 * each).to_string()
    );
    assert!(!dir.path().join("V_x").exists(), "the last holder unlinks");
    assert!(!dir.path().join("V_x:aux").exists());
}

#[test]
fn pitfall_21_readers_share_and_do_not_starve_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let locks = locks(dir.path());
    let stop = AtomicBool::new(false);
    let (inside, most) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let guard = locks.lock("V_x", LockMode::Shared, LONG).unwrap();
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    super::super::clock::pause(Duration::from_millis(2));
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
            });
        }
        let start = Instant::now();
        for _ in 0..20 {
            let guard = locks
                .lock("V_x", LockMode::Exclusive, Duration::from_secs(5))
                .unwrap();
            assert_eq!(inside.load(Ordering::SeqCst), 0, "a reader beside a writer");
            drop(guard);
            super::super::clock::pause(Duration::from_millis(5));
        }
        let took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        assert!(
            took < Duration::from_secs(5),
            "20 writes among readers took {took:?}"
        );
    });
    assert!(most.load(Ordering::SeqCst) > 1, "readers never overlapped");
}

#[test]
fn gives_up_at_the_deadline_names_the_holder_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (locks(dir.path()), locks(dir.path()));
    let guard = one.lock("V_x", LockMode::Shared, LONG).unwrap();
    for _ in 0..5 {
        let start = Instant::now();
        let deadline = Duration::from_millis(50);
        match two.lock("V_x", LockMode::Exclusive, deadline).map(|_| ()) {
            Err(HostError::LockTimeout {
                resource,
                holder,
                after,
            }) => {
                assert_eq!((resource.as_str(), after), ("V_x", deadline));
                let pid = std::process::id().to_string();
                assert!(holder.iter().any(|h| h.starts_with(&pid)), "{holder:?}");
            }
            other => panic!("{other:?}"),
        }
        assert!(start.elapsed() >= deadline);
        assert!(start.elapsed() < Duration::from_secs(2));
        // A writer that gave up does not stand in the way of readers.
        drop(
            one.lock("V_x", LockMode::Shared, Duration::from_secs(2))
                .unwrap(),
        );
    }
    let waiting: usize = unpoisoned(&two.waiters.abandoned)
        .values()
        .map(Vec::len)
        .sum();
    assert_eq!(
        waiting, 1,
        "later calls adopt the thread that is waiting already"
    );
    drop(guard);
    // The abandoned waiter gets the lock and lets it go at once.
    drop(two.lock("V_x", LockMode::Exclusive, LONG).unwrap());
    drop(one.lock("V_x", LockMode::Exclusive, LONG).unwrap());
    let start = Instant::now();
    while !unpoisoned(&two.waiters.abandoned).is_empty() && start.elapsed() < LONG {
        super::super::clock::pause(Duration::from_millis(1));
    }
    assert!(unpoisoned(&two.waiters.abandoned).is_empty());
}

#[test]
fn a_missing_directory_is_made_only_when_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("lvm");
    let refused = LinuxLocks::new(absent.clone(), false);
    assert!(matches!(
        refused.lock("P_global", LockMode::Shared, LONG).map(|_| ()),
        Err(HostError::NoLockDirectory { path }) if path == absent
    ));
    assert_eq!(refused.absent(), Some(absent.clone()));
    let allowed = LinuxLocks::new(absent.clone(), true);
    assert_eq!(allowed.absent(), None);
    drop(allowed.lock("P_global", LockMode::Shared, LONG).unwrap());
    assert_eq!(refused.absent(), None);
    assert_eq!(std::fs::metadata(&absent).unwrap().mode() & 0o777, 0o700);
    let orphan = LinuxLocks::new(dir.path().join("no/parent"), true);
    assert!(matches!(
        orphan.lock("V_x", LockMode::Shared, LONG).map(|_| ()),
        Err(HostError::NoLockDirectory { .. })
    ));
}
