//! The contents of the disks that a power cut can leave.
//!
//! What was written before a disk's last flush is there. Of what came after,
//! any sectors may be, but a sector that was written twice holds the old, the
//! first or the second content.

use std::collections::{BTreeMap, HashMap};

use lvcsi::host::sim::DiskImage;
use lvcsi_kit::Rng;

use crate::trace::{Step, Trace};

/// Disk and sector, and the number of its content, where it differs from what
/// was there before the operation.
type Overlay = BTreeMap<(usize, u64), usize>;

/// What may be read from a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The sequence number that is certain.
    pub(crate) least: u32,
    /// The highest that was begun.
    pub(crate) most: u32,
}

/// A content of the disks.
pub(crate) struct State {
    overlay: Overlay,
    pub(crate) window: Window,
    /// How it came about, for messages.
    pub(crate) story: String,
}

impl State {
    /// The disks with this content.
    pub(crate) fn images(&self, trace: &Trace) -> Vec<DiskImage> {
        let mut images = trace.base.clone();
        for ((disk, sector), content) in &self.overlay {
            let size = u64::from(images[*disk].info().block_size);
            images[*disk].write(sector * size, &trace.contents[*content]);
        }
        images
    }
}

/// How many choices are looked at where there are too many for all of them.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Most writes of which every subset is taken, and subsets above that.
    pub(crate) whole: usize,
    pub(crate) subsets: usize,
    /// Cuts of one write.
    pub(crate) cuts: usize,
    /// Free choices of sectors at one moment.
    pub(crate) sectors: usize,
}

/// A write that is not durable.
struct Pending<'a> {
    number: usize,
    disk: usize,
    sectors: &'a [(u64, usize)],
}

/// Every distinct state of the trace that is looked at.
pub(crate) fn all(trace: &Trace, effort: Effort, rng: &mut Rng) -> Vec<State> {
    let mut maker = Maker {
        trace,
        effort,
        rng,
        durable: Overlay::new(),
        pending: Vec::new(),
        window: Window {
            least: trace.before,
            most: trace.before,
        },
        found: HashMap::new(),
        states: Vec::new(),
    };
    maker.moment(0, true);
    for (number, step) in trace.steps.iter().enumerate() {
        maker.step(number, step);
        // The choices are most before something becomes durable.
        let next = trace.steps.get(number + 1);
        let wide = !matches!(next, Some(Step::Write { .. }));
        maker.moment(number + 1, wide);
    }
    maker.states
}

struct Maker<'a> {
    trace: &'a Trace,
    effort: Effort,
    rng: &'a mut Rng,
    durable: Overlay,
    pending: Vec<Pending<'a>>,
    window: Window,
    /// Number of each state that is known, by what it has.
    found: HashMap<Overlay, usize>,
    states: Vec<State>,
}

impl<'a> Maker<'a> {
    fn step(&mut self, number: usize, step: &'a Step) {
        match step {
            Step::Write {
                disk,
                sectors,
                names,
            } => {
                self.pending.push(Pending {
                    number,
                    disk: *disk,
                    sectors,
                });
                if let Some(seqno) = names {
                    self.window.most = self.window.most.max(*seqno);
                }
            }
            Step::Flush { disk } => {
                for write in self.pending.extract_if(.., |write| write.disk == *disk) {
                    put(&mut self.durable, write.disk, write.sectors);
                    if let Step::Write {
                        names: Some(seqno), ..
                    } = &self.trace.steps[write.number]
                    {
                        self.window.least = self.window.least.max(*seqno);
                    }
                }
            }
            Step::Answered => self.window.least = self.trace.after(),
        }
    }

    /// The power goes after so many steps.
    fn moment(&mut self, steps: usize, wide: bool) {
        let writes: Vec<usize> = (0..self.pending.len())
            .filter(|at| !self.pending[*at].sectors.is_empty())
            .collect();
        self.whole(steps, &|_| true, "all of it");
        self.whole(steps, &|_| false, "nothing of it");
        if !wide || writes.is_empty() {
            return;
        }
        if writes.len() <= self.effort.whole {
            for choice in 0..1_u32 << writes.len() {
                let keep = |at: usize| {
                    let bit = writes.iter().position(|write| *write == at);
                    bit.is_some_and(|bit| choice >> bit & 1 == 1)
                };
                self.whole(steps, &keep, "some writes");
            }
        } else {
            for _ in 0..self.effort.subsets {
                let coins: Vec<bool> = self.coins();
                self.whole(steps, &|at| coins[at], "some writes");
            }
        }
        for write in writes {
            self.torn(steps, write);
        }
        for _ in 0..self.effort.sectors {
            self.mixed(steps);
        }
    }

    fn coins(&mut self) -> Vec<bool> {
        let rng = &mut self.rng;
        // Few, half or most of them.
        let odds = *rng.pick(&[1, 4, 7]);
        self.pending.iter().map(|_| rng.below(8) < odds).collect()
    }

    /// Whole writes stay or go.
    fn whole(&mut self, steps: usize, keep: &dyn Fn(usize) -> bool, what: &str) {
        let mut overlay = self.durable.clone();
        let mut kept = Vec::new();
        for (at, write) in self.pending.iter().enumerate() {
            if keep(at) {
                put(&mut overlay, write.disk, write.sectors);
                kept.push(write.number);
            }
        }
        self.add(overlay, || {
            format!("power cut after step {steps}, {what} kept of what was not flushed: {kept:?}")
        });
    }

    /// One write is cut, in both directions; the others stay or go.
    fn torn(&mut self, steps: usize, cut: usize) {
        let len = self.pending[cut].sectors.len();
        let places: Vec<usize> = if len <= self.effort.cuts {
            (1..len).collect()
        } else {
            let bound = u64::try_from(len - 1).expect("a number of sectors");
            let mut place = || usize::try_from(self.rng.below(bound)).expect("an index") + 1;
            (0..self.effort.cuts).map(|_| place()).collect()
        };
        for place in places {
            for front in [true, false] {
                let others = self.coins();
                let mut overlay = self.durable.clone();
                for (at, write) in self.pending.iter().enumerate() {
                    if at == cut {
                        let (head, tail) = write.sectors.split_at(place);
                        put(&mut overlay, write.disk, if front { head } else { tail });
                    } else if others[at] {
                        put(&mut overlay, write.disk, write.sectors);
                    }
                }
                let number = self.pending[cut].number;
                let side = if front { "first" } else { "last" };
                self.add(overlay, || {
                    format!(
                        "power cut after step {steps}, write {number} torn at sector {place} \
                         of {len}, its {side} part kept"
                    )
                });
            }
        }
    }

    /// Every sector stays or goes by itself.
    fn mixed(&mut self, steps: usize) {
        let mut overlay = self.durable.clone();
        let odds = *self.rng.pick(&[1, 4, 7]);
        for write in &self.pending {
            for sector in write.sectors {
                if self.rng.below(8) < odds {
                    put(&mut overlay, write.disk, std::slice::from_ref(sector));
                }
            }
        }
        self.add(overlay, || {
            format!("power cut after step {steps}, any sectors kept, {odds} of 8")
        });
    }

    fn add(&mut self, mut overlay: Overlay, story: impl FnOnce() -> String) {
        let trace = self.trace;
        // Contents that are as before are no difference.
        overlay.retain(|(disk, sector), content| {
            let image = &trace.base[*disk];
            let content = &trace.contents[*content];
            image.read(sector * content.len() as u64, content.len()) != *content
        });
        let window = self.window;
        match self.found.get(&overlay) {
            // The same content at another time: both have to allow it.
            Some(known) => {
                let known = &mut self.states[*known].window;
                known.least = known.least.max(window.least);
                known.most = known.most.min(window.most);
            }
            None => {
                self.found.insert(overlay.clone(), self.states.len());
                self.states.push(State {
                    overlay,
                    window,
                    story: story(),
                });
            }
        }
    }
}

fn put(overlay: &mut Overlay, disk: usize, sectors: &[(u64, usize)]) {
    for (sector, content) in sectors {
        overlay.insert((disk, *sector), *content);
    }
}
