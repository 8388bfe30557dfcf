//! Reading devices that may never answer.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lvm2::tables::DevNo;

use super::block::{devno_of, number, open_direct};
use super::md;
use super::sysfs::Sysfs;
use crate::host::{DeviceInfo, SkipReason};

/// Devices read at the same time.
const AT_ONCE: usize = 32;
/// Threads that may hang in dead devices; beyond, new devices wait for better
/// times.
const MOST_HANGING: usize = 64;

/// What is looked for on devices.
#[derive(Debug)]
pub(super) struct Looks {
    /// The machine.
    pub sysfs: Sysfs,
    /// At their end, too.
    pub end: bool,
    /// Loop devices and their partitions, which show what an LV holds if they are
    /// attached to one. None where LVs are looked at.
    pub loops: HashSet<DevNo>,
}

/// Reads devices on threads of their own. A thread that does not come back is
/// abandoned, and its device is not tried again until it does.
#[derive(Debug, Default)]
pub(super) struct Prober {
    /// Devices that a thread is reading.
    busy: Arc<Mutex<HashSet<DevNo>>>,
}

/// Frees the device when its thread ends, however it ends.
struct Busy {
    set: Arc<Mutex<HashSet<DevNo>>>,
    devno: DevNo,
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.remove(&self.devno);
    }
}

impl Prober {
    /// Reads each device within `after`, and sorts out those that do not answer,
    /// belong to an md array, or stand for an LV.
    pub(super) fn probe(
        &self,
        devices: Vec<DeviceInfo>,
        looks: Looks,
        after: Duration,
    ) -> Vec<(DeviceInfo, Option<SkipReason>)> {
        let looks = Arc::new(looks);
        let read = move |device: &DeviceInfo| examine(device, &looks);
        self.probe_with(devices, after, read)
    }

    fn probe_with(
        &self,
        devices: Vec<DeviceInfo>,
        after: Duration,
        read: impl Fn(&DeviceInfo) -> Option<SkipReason> + Clone + Send + 'static,
    ) -> Vec<(DeviceInfo, Option<SkipReason>)> {
        let mut done = Vec::with_capacity(devices.len());
        let mut devices = devices.into_iter().peekable();
        while devices.peek().is_some() {
            let batch: Vec<_> = devices.by_ref().take(AT_ONCE).collect();
            let mut results = vec![Some(SkipReason::TimedOut(after)); batch.len()];
            let until = Instant::now() + after;
            let (sender, receiver) = mpsc::channel();
            for (index, device) in batch.iter().enumerate() {
                let Some(busy) = self.occupy(device.devno) else {
                    continue;
                };
                let (sender, device, read) = (sender.clone(), device.clone(), read.clone());
                let work = move || {
                    let result = read(&device);
                    drop(busy);
                    // After the time-out nobody listens.
                    let _ = sender.send((index, result));
                };
                let thread = std::thread::Builder::new()
                    .name("probe".to_owned())
                    .spawn(work);
                if let Err(error) = thread {
                    results[index] = Some(SkipReason::Unreadable(error.to_string()));
                }
            }
            // The channel closes when the last thread is done.
            drop(sender);
            while let Ok((index, result)) =
                receiver.recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                results[index] = result;
            }
            done.extend(batch.into_iter().zip(results));
        }
        done
    }

    fn occupy(&self, devno: DevNo) -> Option<Busy> {
        let mut set = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        (set.len() < MOST_HANGING && set.insert(devno)).then(|| Busy {
            set: Arc::clone(&self.busy),
            devno,
        })
    }
}

fn examine(device: &DeviceInfo, looks: &Looks) -> Option<SkipReason> {
    let unreadable =
        |error: &dyn std::fmt::Display| Some(SkipReason::Unreadable(error.to_string()));
    let file = match open_direct(&device.path, false) {
        Ok(file) => file,
        Err(error) => return unreadable(&error),
    };
    match devno_of(&file) {
        Ok(devno) if devno == device.devno => {}
        Ok(devno) => return unreadable(&format_args!("the node leads to device {devno}")),
        Err(error) => return unreadable(&error),
    }
    if looks.loops.contains(&device.devno) {
        match lvcsi_sys::loopdev::backing_device(file.as_fd()) {
            Ok(Some(below)) if looks.sysfs.is_lv(number(below)) => {
                return Some(SkipReason::LogicalVolume);
            }
            Ok(_) => {}
            Err(error) => return unreadable(&error),
        }
    }
    match md::is_member(&file, device.size, looks.end) {
        Ok(member) => member.then_some(SkipReason::MdComponent),
        Err(error) => unreadable(&error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn device(minor: u32) -> DeviceInfo {
        DeviceInfo {
            devno: DevNo { major: 8, minor },
            path: "/dev/null".into(),
            size: 1 << 30,
            block_size: 512,
        }
    }

    #[test]
    fn a_hanging_device_costs_one_time_out_and_one_thread() {
        let prober = Prober::default();
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        let tries = Arc::new(AtomicUsize::new(0));
        let read = {
            let (hang, tries) = (Arc::clone(&hang), Arc::clone(&tries));
            move |device: &DeviceInfo| {
                if device.devno.minor == 7 {
                    tries.fetch_add(1, Ordering::SeqCst);
                    let _ = hang.lock().unwrap().recv();
                }
                None
            }
        };
        let after = Duration::from_secs(2);
        for round in 0..3 {
            let start = Instant::now();
            let results = prober.probe_with((0..70).map(device).collect(), after, read.clone());
            assert!(start.elapsed() < after * 3, "one time-out at most");
            assert_eq!(results.len(), 70);
            for (device, reason) in results {
                let expected = (device.devno.minor == 7).then_some(SkipReason::TimedOut(after));
                assert_eq!(reason, expected, "round {round}");
            }
        }
        assert_eq!(
            tries.load(Ordering::SeqCst),
            1,
            "not tried again while it hangs"
        );
        drop(release);
        let start = Instant::now();
        while !prober.busy.lock().unwrap().is_empty() && start.elapsed() < Duration::from_secs(10) {
            super::super::clock::pause(Duration::from_millis(1));
        }
        let results = prober.probe_with(vec![device(7)], after, read);
        assert_eq!(results, [(device(7), None)]);
    }
}
