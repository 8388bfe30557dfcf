//! The System V semaphore behind a udev cookie.
//!
//! A resume, removal or rename that carries a cookie makes the kernel send an
//! event with it; the last udev rule of lvm2 (`95-dm-notify.rules`) counts the
//! cookie's semaphore down, and whoever waits for zero knows that the links in
//! `/dev` are there. The semaphore's key is the cookie, so both sides must be in
//! the same IPC namespace: in a container without the host's, nobody ever counts
//! down, which is why the wait here always has an end.

use std::io;
use std::time::{Duration, Instant};

use libc::{c_int, c_short, key_t, sembuf, timespec};
use nix::errno::Errno;

use crate::bindings;

/// The upper half of every device-mapper cookie.
const MAGIC: u32 = 0x0d4d_0000;
/// How many random keys are tried before giving up.
const ATTEMPTS: u32 = 256;

/// A udev cookie: one semaphore, which starts at 1 for its owner.
///
/// Removed from the system on drop. If the process is killed it stays behind
/// (as lvm2's do); `dmsetup udevcomplete_all` removes leftovers.
#[derive(Debug)]
pub struct UdevCookie {
    semaphore: c_int,
    id: u16,
}

/// What became of waiting for udev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Waited {
    /// udev has handled every event of the cookie.
    Complete,
    /// The time was over before.
    TimedOut,
}

impl UdevCookie {
    /// Makes a cookie with a random number that no other has.
    ///
    /// # Errors
    /// `ENOSPC` if the system has no semaphore left, `ENOSYS` without System V
    /// semaphores, `EEXIST` if every number tried was taken.
    pub fn create() -> io::Result<Self> {
        let mut last = Errno::EEXIST;
        for _ in 0..ATTEMPTS {
            let id = random()?;
            // Zero in the event number means that there is no cookie.
            if id == 0 {
                continue;
            }
            match Self::with_id(id) {
                Ok(cookie) => return Ok(cookie),
                Err(Errno::EEXIST) => last = Errno::EEXIST,
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.into())
    }

    fn with_id(id: u16) -> nix::Result<Self> {
        let key = key_t::from_ne_bytes((MAGIC | u32::from(id)).to_ne_bytes());
        // SAFETY: semget takes numbers only.
        let semaphore = unsafe { libc::semget(key, 1, libc::IPC_CREAT | libc::IPC_EXCL | 0o600) };
        let cookie = Self {
            semaphore: Errno::result(semaphore)?,
            id,
        };
        // A new semaphore is 0; adding is one call less odd than SETVAL, whose
        // union argument every C library passes in its own way.
        cookie.add(1, 0, None)?;
        Ok(cookie)
    }

    /// The number for the low half of an event number; never 0.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Counts one more event to wait for. To be called before the ioctl that
    /// carries the cookie.
    ///
    /// # Errors
    /// `EIDRM` or `EINVAL` if somebody removed the semaphore.
    pub fn inc(&self) -> io::Result<()> {
        Ok(self.add(1, 0, None)?)
    }

    /// Takes one event back: its ioctl failed, or the kernel sent no event.
    ///
    /// # Errors
    /// `EAGAIN` if the count is 0 already, `EIDRM` or `EINVAL` if somebody
    /// removed the semaphore.
    pub fn dec(&self) -> io::Result<()> {
        Ok(self.add(-1, libc::IPC_NOWAIT, None)?)
    }

    /// Gives up the owner's own count, waits at most `timeout` until every
    /// event is handled, and removes the semaphore.
    ///
    /// # Errors
    /// `EIDRM` or `EINVAL` if somebody removed the semaphore meanwhile.
    pub fn wait(self, timeout: Duration) -> io::Result<Waited> {
        let deadline = Instant::now().checked_add(timeout);
        self.dec()?;
        loop {
            // A time-out so far away that it cannot be told is the longest one.
            let left =
                deadline.map_or(timeout, |end| end.saturating_duration_since(Instant::now()));
            match self.add(0, 0, Some(left)) {
                Ok(()) => return Ok(Waited::Complete),
                Err(Errno::EAGAIN) => return Ok(Waited::TimedOut),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One semaphore operation; a `delta` of 0 waits for the value 0.
    fn add(&self, delta: c_short, flags: c_int, timeout: Option<Duration>) -> nix::Result<()> {
        let flags = c_short::try_from(flags).map_err(|_| Errno::EINVAL)?;
        let mut operation = sembuf {
            sem_num: 0,
            sem_op: delta,
            sem_flg: flags,
        };
        let timeout = timeout.map(|timeout| timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
        });
        let timeout = timeout
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: one operation is passed and announced; the time-out is null or
        // points to the local above, which outlives the call.
        let result =
            unsafe { bindings::semtimedop(self.semaphore, &raw mut operation, 1, timeout) };
        Errno::result(result).map(drop)
    }
}

impl Drop for UdevCookie {
    fn drop(&mut self) {
        // Nothing can be done if somebody else has removed it, and that is the
        // only way in which this fails.
        // SAFETY: IPC_RMID takes no fourth argument.
        unsafe { libc::semctl(self.semaphore, 0, libc::IPC_RMID) };
    }
}

fn random() -> nix::Result<u16> {
    let mut bytes = [0u8; 2];
    // SAFETY: the kernel writes at most the given number of bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // So few bytes come whole or not at all.
    Errno::result(got)?;
    Ok(u16::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn completes_when_nothing_is_pending() {
        let cookie = UdevCookie::create().unwrap();
        assert_ne!(cookie.id(), 0);
        cookie.inc().unwrap();
        cookie.dec().unwrap();
        assert_eq!(
            cookie.wait(Duration::from_secs(5)).unwrap(),
            Waited::Complete
        );
    }

    #[test]
    fn times_out_while_an_event_is_pending() {
        let cookie = UdevCookie::create().unwrap();
        cookie.inc().unwrap();
        let start = Instant::now();
        assert_eq!(
            cookie.wait(Duration::from_millis(50)).unwrap(),
            Waited::TimedOut
        );
        assert!(start.elapsed() >= Duration::from_millis(50));
    }

    #[test]
    fn another_thread_completes_it_by_key() {
        let cookie = UdevCookie::create().unwrap();
        cookie.inc().unwrap();
        let key = key_t::try_from(MAGIC | u32::from(cookie.id())).unwrap();
        let udev = thread::spawn(move || {
            // SAFETY: semget takes numbers only.
            let semaphore = unsafe { libc::semget(key, 1, 0) };
            assert!(semaphore >= 0);
            let theirs = std::mem::ManuallyDrop::new(UdevCookie { semaphore, id: 0 });
            theirs.dec().unwrap();
        });
        assert_eq!(
            cookie.wait(Duration::from_secs(30)).unwrap(),
            Waited::Complete
        );
        udev.join().unwrap();
        // SAFETY: as above.
        let gone = unsafe { libc::semget(key, 1, 0) };
        assert_eq!(gone, -1, "removed after the wait");
    }

    #[test]
    fn numbers_are_exclusive_and_counting_below_zero_fails() {
        let cookie = UdevCookie::create().unwrap();
        assert_eq!(UdevCookie::with_id(cookie.id()).unwrap_err(), Errno::EEXIST);
        cookie.dec().unwrap();
        assert_eq!(cookie.dec().unwrap_err().raw_os_error(), Some(libc::EAGAIN));
    }
}
