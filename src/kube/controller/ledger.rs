//! Space that is promised to volumes and that no LVMNode shows as used yet.
//!
//! An LVMNode follows the disks with a delay, so between the choice of a VG and
//! the moment when its free space is seen to shrink, the volume's size is
//! counted here. When a VG's free space shrinks, that pays for promises of this
//! size. A promise whose payment was not seen, because space was given back at
//! the same time for instance, ends by itself some time after the volume was
//! made. An error either way costs an attempt, no data: the agent has the last
//! word on what fits.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lvm2::units::Bytes;

/// LVM's usual extent, to which a volume is rounded up as long as nobody knows
/// better.
const EXTENT: u64 = 4 << 20;
/// How long a request to make an object may be without an answer.
const ANSWER: Duration = Duration::from_secs(60);
/// An LVMNode that comes so long after the volume was made shows it.
const SHOWN: Duration = Duration::from_secs(1);
/// The longest interval at which agents of any release look at their VGs.
const INTERVAL: Duration = Duration::from_secs(70);

/// Where the volume of a promise stands.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The API server was asked to make the object.
    Asked(Instant),
    /// The object is there.
    Pending,
    /// The LV is there.
    Made(Instant),
}

#[derive(Clone, Debug)]
struct Promise {
    node: String,
    vg: String,
    bytes: u64,
    stage: Stage,
    paid: bool,
    order: u64,
}

/// All promises by volume.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    promises: HashMap<String, Promise>,
    next: u64,
}

impl Ledger {
    /// Promises `size` of `vg`, before the object is asked for.
    pub(super) fn promise(&mut self, key: &str, place: (&str, &str), size: Bytes, now: Instant) {
        self.insert(key, place, size, Stage::Asked(now));
    }

    /// As [`Self::promise`], for an object that is there.
    pub(super) fn pending(&mut self, key: &str, place: (&str, &str), size: Bytes) {
        self.insert(key, place, size, Stage::Pending);
    }

    fn insert(&mut self, key: &str, (node, vg): (&str, &str), size: Bytes, stage: Stage) {
        self.next += 1;
        let promise = Promise {
            node: node.to_owned(),
            vg: vg.to_owned(),
            bytes: size.0,
            stage,
            paid: false,
            order: self.next,
        };
        self.promises.insert(key.to_owned(), promise);
    }

    /// The object is there, on `node`. False if nothing is promised to it
    /// there: somebody else made the object.
    pub(super) fn arrived(&mut self, key: &str, node: &str) -> bool {
        match self.promises.get_mut(key) {
            Some(promise) if promise.node == node => {
                if matches!(promise.stage, Stage::Asked(_)) {
                    promise.stage = Stage::Pending;
                }
                true
            }
            _ => {
                self.promises.remove(key);
                false
            }
        }
    }

    /// The LV is there, in `vg`.
    pub(super) fn made(&mut self, key: &str, vg: &str, now: Instant) {
        if let Some(promise) = self.promises.get_mut(key)
            && !matches!(promise.stage, Stage::Made(_))
        {
            if promise.vg != vg {
                // What paid was another volume's.
                promise.paid = false;
                vg.clone_into(&mut promise.vg);
            }
            promise.stage = Stage::Made(now);
        }
    }

    /// No object was made for this promise. One that stands for an object that
    /// is there stays.
    pub(super) fn withdraw(&mut self, key: &str) {
        self.promises
            .retain(|name, promise| name != key || !matches!(promise.stage, Stage::Asked(_)));
    }

    /// There is nothing more to pay.
    pub(super) fn forget(&mut self, key: &str) {
        self.promises.remove(key);
    }

    /// An LVMNode came: the free space of `vg` went from `before` to `after`.
    pub(super) fn shown(
        &mut self,
        (node, vg): (&str, &str),
        before: Option<Bytes>,
        after: Bytes,
        now: Instant,
    ) {
        self.promises.retain(|_, promise| match promise.stage {
            Stage::Made(when) if promise.node == node && promise.vg == vg => {
                now.saturating_duration_since(when) < SHOWN
            }
            _ => true,
        });
        let mut spent = before.map_or(0, |before| before.0.saturating_sub(after.0));
        let mut open: Vec<_> = self
            .promises
            .values_mut()
            .filter(|promise| !promise.paid && promise.node == node && promise.vg == vg)
            .collect();
        open.sort_by_key(|promise| {
            let rank = match promise.stage {
                Stage::Made(_) => 0,
                Stage::Pending => 1,
                Stage::Asked(_) => 2,
            };
            (rank, promise.order)
        });
        for promise in open {
            if promise.bytes <= spent {
                spent -= promise.bytes;
                promise.paid = true;
            }
        }
    }

    /// Node, VG and size of what is promised to a volume.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, (&str, &str), Bytes)> {
        self.promises.iter().map(|(key, promise)| {
            let place = (promise.node.as_str(), promise.vg.as_str());
            (key.as_str(), place, Bytes(promise.bytes))
        })
    }

    /// What is promised of `vg`, and to how many volumes.
    pub(super) fn open(&mut self, (node, vg): (&str, &str), now: Instant) -> (Bytes, u64) {
        self.promises.retain(|_, promise| {
            let age = |since| now.saturating_duration_since(since);
            match promise.stage {
                Stage::Asked(when) => age(when) < ANSWER,
                Stage::Pending => true,
                Stage::Made(when) => age(when) < INTERVAL,
            }
        });
        let open = self
            .promises
            .values()
            .filter(|promise| !promise.paid && promise.node == node && promise.vg == vg);
        open.fold((Bytes(0), 0), |(sum, count), promise| {
            let size = promise.bytes.checked_next_multiple_of(EXTENT);
            let sum = sum.0.saturating_add(size.unwrap_or(u64::MAX));
            (Bytes(sum), count + 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const AT: (&str, &str) = ("n1", "vg");

    fn gib(n: u64) -> Bytes {
        Bytes(n * GIB)
    }

    fn open(ledger: &mut Ledger, now: Instant) -> u64 {
        ledger.open(AT, now).0.0 / GIB
    }

    #[test]
    fn a_promise_lasts_until_the_free_space_shrinks() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        ledger.promise("a", AT, gib(2), now);
        ledger.promise("b", AT, gib(3), now);
        assert_eq!(ledger.open(AT, now), (gib(5), 2));
        assert_eq!(ledger.open(("n2", "vg"), now), (gib(0), 0));
        assert!(ledger.arrived("a", "n1"));
        ledger.shown(AT, Some(gib(10)), gib(9), now);
        assert_eq!(open(&mut ledger, now), 5, "less than either");
        ledger.shown(AT, Some(gib(9)), gib(7), now);
        assert_eq!(open(&mut ledger, now), 3);
        ledger.made("a", "vg", now);
        ledger.made("b", "vg", now);
        assert_eq!(open(&mut ledger, now), 3, "made, and not shown yet");
        ledger.shown(AT, Some(gib(7)), gib(4), now);
        assert_eq!(open(&mut ledger, now), 0);
    }

    #[test]
    fn many_are_paid_at_once_and_those_that_are_made_first() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        for name in ["a", "b", "c"] {
            ledger.pending(name, AT, gib(1));
        }
        ledger.made("c", "vg", now);
        ledger.shown(AT, Some(gib(9)), gib(7), now);
        assert_eq!(open(&mut ledger, now), 1);
        ledger.forget("b");
        assert_eq!(open(&mut ledger, now), 0, "c and a were paid");
    }

    #[test]
    fn what_is_never_seen_to_be_paid_ends_by_itself() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        ledger.promise("asked", AT, gib(1), now);
        ledger.pending("waits", AT, gib(1));
        ledger.pending("made", AT, gib(1));
        ledger.made("made", "vg", now);
        // An equal volume was deleted at the same time.
        ledger.shown(AT, Some(gib(5)), gib(5), now);
        assert_eq!(open(&mut ledger, now), 3);
        ledger.shown(AT, Some(gib(5)), gib(5), later(2));
        assert_eq!(open(&mut ledger, later(2)), 2);
        assert_eq!(open(&mut ledger, later(100)), 1, "the object is there");
        ledger.pending("silent", AT, gib(1));
        ledger.made("silent", "vg", later(100));
        assert_eq!(open(&mut ledger, later(101)), 2);
        assert_eq!(open(&mut ledger, later(200)), 1);
    }

    #[test]
    fn an_object_that_another_replica_made_elsewhere() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        ledger.promise("a", AT, gib(1), now);
        assert!(
            !ledger.arrived("a", "n2"),
            "it is not the one that was asked for"
        );
        assert_eq!(open(&mut ledger, now), 0);
        ledger.pending("a", ("n2", "vg"), gib(1));
        // The request for ours is refused after that.
        ledger.withdraw("a");
        assert_eq!(ledger.open(("n2", "vg"), now), (gib(1), 1));
        ledger.promise("b", AT, gib(1), now);
        ledger.withdraw("b");
        assert_eq!(open(&mut ledger, now), 0);
    }

    #[test]
    fn another_vg_than_was_thought() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        ledger.pending("a", AT, Bytes(1));
        assert_eq!(ledger.open(AT, now), (Bytes(EXTENT), 1));
        ledger.made("a", "other", now);
        assert_eq!(ledger.open(AT, now), (Bytes(0), 0));
        assert_eq!(ledger.open(("n1", "other"), now).1, 1);
    }
}
