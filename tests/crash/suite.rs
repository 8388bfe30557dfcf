//! Runs every operation on one layout and counts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lvcsi::host::sim::{DiskImage, SimHost};
use lvcsi_kit::{Rng, proof};

use crate::check::{Case, read, shape};
use crate::judge;
use crate::layouts::{Layout, images};
use crate::requests::{add_tag, ask};
use crate::states::{self, Effort, State};
use crate::stories::{self, Story, residents, start};
use crate::tenants::Tenant;
use crate::trace::{ANSWERED, Trace};

/// Commits after which a text must have met the end of a small ring.
const MOST_COMMITS: usize = 40;
/// Failures that are told in full.
const TOLD: usize = 5;

#[derive(Default)]
struct Count {
    points: usize,
    judged: usize,
    lost: usize,
    refused: usize,
}

/// What is the same in the whole run.
struct Suite {
    test: &'static str,
    layout: Layout,
    rng: Rng,
    count: Count,
}

/// All stories on this layout.
pub(crate) fn run(test: &'static str, layout: Layout) {
    Suite::new(test, layout).run(|suite, story| {
        let (sim, tenants) = suite.ground(story, 0);
        let trace = record(story, &sim, suite.layout.disks);
        suite.look(story, &trace, &tenants, &sim);
    });
}

/// The same, each with a commit that goes over the end of the ring.
pub(crate) fn run_wrapping(test: &'static str, layout: Layout) {
    Suite::new(test, layout).run(|suite, story| {
        for commits in 0..MOST_COMMITS {
            let (sim, tenants) = suite.ground(story, commits);
            let trace = record(story, &sim, suite.layout.disks);
            if trace.wraps {
                suite.look(story, &trace, &tenants, &sim);
                return;
            }
        }
        panic!("{}: no text went over the end of its ring", story.name);
    });
}

fn effort() -> Effort {
    if proof::nightly() {
        return Effort {
            whole: 9,
            subsets: 600,
            cuts: 64,
            sectors: 300,
        };
    }
    Effort {
        whole: 5,
        subsets: 32,
        cuts: 10,
        sectors: 28,
    }
}

impl Suite {
    fn new(test: &'static str, layout: Layout) -> Self {
        Self {
            test,
            layout,
            rng: Rng::from_env(test),
            count: Count::default(),
        }
    }

    fn run(mut self, each: impl Fn(&mut Self, &Story)) {
        let only = std::env::var("LVCSI_CRASH_STORY").ok();
        let areas = self.layout.areas();
        let stories = stories::all(areas);
        for story in stories
            .iter()
            .filter(|story| only.as_deref().is_none_or(|only| only == story.name))
        {
            let before = self.count.points;
            each(&mut self, story);
            println!(
                "{}: {}: {} crash points",
                self.test,
                story.name,
                self.count.points - before
            );
        }
        let Count {
            points,
            judged,
            lost,
            refused,
        } = self.count;
        proof(&format!("judged by lvm2: {judged}, refused: {refused}"));
        proof(&format!("crash points: {points}, lost: {lost}"));
        assert!(points > 0 && judged > 0, "nothing was looked at");
        assert_eq!((lost, refused), (0, 0), "see above");
    }

    /// A machine on which the story can begin, after so many commits more.
    fn ground(&mut self, story: &Story, commits: usize) -> (SimHost, Vec<Tenant>) {
        let sim = self.layout.machine(1);
        let engine = start(&sim);
        let mut requests = residents();
        if story.name == "batch" {
            requests.extend(stories::crowd());
        }
        let move_in = |request| {
            let lv = ask(&engine, request).expect("a new LV");
            Tenant::new(&engine, &lv)
        };
        let tenants: Vec<Tenant> = requests.into_iter().map(move_in).collect();
        if self.layout.is_small() {
            // Longer texts meet the end of the ring earlier.
            for n in 0..6 {
                let text = format!("{n}{}", "x".repeat(900));
                ask(&engine, add_tag("kept", &text)).expect("a tag");
            }
        }
        for n in 0..commits {
            ask(&engine, add_tag("gone", &format!("t{n}"))).expect("a tag");
        }
        drop(engine);
        (story.before)(&sim);
        (sim, tenants)
    }

    /// Looks at every state of a trace.
    fn look(&mut self, story: &Story, trace: &Trace, tenants: &[Tenant], sim: &SimHost) {
        let engine = start(sim);
        stories::again(story.act, &engine).expect("the request again, without a crash");
        let done = read(&images(sim, self.layout.disks)).expect("a VG that nothing happened to");
        let done = shape(&done.vg);
        let case = Case {
            trace,
            act: story.act,
            tenants,
            done: &done,
        };
        let states = states::all(trace, effort(), &mut self.rng);
        for (number, state) in states.iter().enumerate() {
            let disks = state.images(trace);
            let verdict = caught(|| case.judge(&disks, state.window));
            self.count.points += 1;
            if let Err(error) = verdict {
                self.count.lost += 1;
                self.tell(self.count.lost, story, state, &error);
            } else if self.is_sample(number, states.len()) {
                self.ask_lvm2(story, state, &disks);
            }
        }
    }

    /// The last state of a story, which holds all of it, and one by chance.
    fn is_sample(&mut self, number: usize, of: usize) -> bool {
        let of = u64::try_from(of).expect("a number of states");
        number == 1 || self.rng.below(of) == 0
    }

    fn ask_lvm2(&mut self, story: &Story, state: &State, disks: &[DiskImage]) {
        self.count.judged += 1;
        let verdict = caught(|| judge::judge(disks, &read(disks)?));
        if let Err(error) = verdict {
            self.count.refused += 1;
            self.tell(self.count.refused, story, state, &error);
        }
    }

    fn tell(&self, failures: usize, story: &Story, state: &State, error: &str) {
        if failures <= TOLD {
            println!(
                "{}: {}: {} ({:?}): {error}",
                self.test, story.name, state.story, state.window
            );
        }
    }
}

/// Does the story and takes down what the disks were told.
fn record(story: &Story, sim: &SimHost, disks: usize) -> Trace {
    let base = images(sim, disks);
    let engine = start(sim);
    engine.vg(&crate::requests::vg()).expect("the VG");
    sim.record();
    if let Some((kind, fault)) = story.fault {
        sim.on(kind, 0, fault);
    }
    let granted = stories::act(story.act, sim, &engine);
    assert_eq!(granted, story.fault.is_none(), "{}", story.name);
    if granted {
        sim.mark(ANSWERED);
    }
    sim.clear_faults();
    Trace::new(base, &sim.recorded())
}

/// A panic is a verdict too.
fn caught(judge: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "a panic".to_owned()))
    })
}
