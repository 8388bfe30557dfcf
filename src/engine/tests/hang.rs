//! A call that does not return, at every call of every kind of operation: the
//! other VG is served meanwhile, the hung one says who waits for what, and
//! everything mends itself when the call returns.

use std::time::{Duration, Instant};

use lvcsi_kit::proof;

use super::*;
use crate::error::Kind;
use crate::host::sim::Fault;

/// Far more than a busy machine takes for anything but a call that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a caller asks again while the device hangs: more often than all
/// tests that run at the same time have threads.
const RETRIES: usize = 200;

struct Story {
    name: &'static str,
    before: fn(&Engine),
    requests: fn() -> Vec<Request>,
    /// The LVs afterwards.
    after: &'static [&'static str],
}

fn nothing(_: &Engine) {}

fn one(engine: &Engine) {
    done(engine, &Request::Create(create("one", 8)));
}

fn raw(engine: &Engine) {
    done(engine, &Request::Create(create_block("one", 8)));
}

fn inactive(engine: &Engine) {
    one(engine);
    done(engine, &Request::Deactivate { name: lv("one") });
}

fn done(engine: &Engine, request: &Request) {
    until_done("setting up", || run(engine, request.clone()));
}

const STORIES: [Story; 10] = [
    Story {
        name: "create",
        before: nothing,
        requests: || vec![Request::Create(create("one", 8))],
        after: &["one"],
    },
    Story {
        name: "create block",
        before: nothing,
        requests: || vec![Request::Create(create_block("one", 8))],
        after: &["one"],
    },
    Story {
        name: "batch of creates",
        before: nothing,
        requests: || {
            ["a", "b", "c"]
                .map(|name| Request::Create(create(name, 4)))
                .into()
        },
        after: &["a", "b", "c"],
    },
    Story {
        name: "extend",
        before: one,
        requests: || vec![extend("one", 16)],
        after: &["one"],
    },
    Story {
        name: "extend block",
        before: raw,
        requests: || vec![extend("one", 16)],
        after: &["one"],
    },
    Story {
        name: "remove",
        before: one,
        requests: || vec![remove("one")],
        after: &[],
    },
    Story {
        name: "rename",
        before: one,
        requests: || {
            let (name, to) = (lv("one"), lv("two"));
            vec![Request::Rename { name, to }]
        },
        after: &["two"],
    },
    Story {
        name: "tag",
        before: one,
        requests: || {
            let (name, add) = (lv("one"), vec![tag("t")]);
            let remove = Vec::new();
            vec![Request::Tags { name, add, remove }]
        },
        after: &["one"],
    },
    Story {
        name: "activate",
        before: inactive,
        requests: || vec![Request::Activate { name: lv("one") }],
        after: &["one"],
    },
    Story {
        name: "deactivate",
        before: one,
        requests: || vec![Request::Deactivate { name: lv("one") }],
        after: &["one"],
    },
];

fn other() -> VgName {
    VgName::new("other").unwrap()
}

/// The VGs `data` and `other` on disks of their own, and an engine that soon
/// loses patience.
fn two_vgs() -> (SimHost, Engine) {
    let sim = machine();
    sim.add_disk("/dev/sdc", 256 * MIB, 512);
    let extent = ExtentSize::new(Sectors(8192)).unwrap();
    sim.add_vg("other", &["/dev/sdc"], extent).unwrap();
    let config = EngineConfig {
        lock_deadline: Duration::from_millis(50),
        probe_timeout: Duration::from_millis(200),
        io_timeout: Duration::from_millis(50),
        ..EngineConfig::default()
    };
    let engine = Engine::start(sim.host(), config).unwrap();
    for vg in [vg(), other()] {
        until_done("a first look", || engine.outline(&vg));
    }
    (sim, engine)
}

/// Repeats what may be answered by "ask again": on a busy machine any call can
/// seem to hang for a moment.
fn until_done<T>(what: &str, mut ask: impl FnMut() -> Result<T, EngineError>) -> T {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(done) => return done,
            Err(error) => {
                let again = matches!(error.kind(), Kind::DeadlineExceeded | Kind::Aborted);
                assert!(again && start.elapsed() < PATIENCE, "{what}: {error}");
            }
        }
        std::thread::yield_now();
    }
}

fn wait_until(what: &str, mut happens: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happens() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

fn ask_all(engine: &Engine, story: &Story) -> Vec<Result<LvState, EngineError>> {
    let tickets: Vec<_> = (story.requests)()
        .into_iter()
        .map(|request| engine.submit(&vg(), request))
        .collect();
    tickets
        .into_iter()
        .map(super::super::Ticket::wait)
        .collect()
}

/// Number of calls of a story in which nothing hangs.
fn length(story: &Story) -> u64 {
    let (sim, _) = two_vgs();
    // On a busy machine a call may seem to hang that does not.
    let engine = engine(sim.host());
    engine.report().unwrap();
    (story.before)(&engine);
    sim.clear_calls();
    for answer in ask_all(&engine, story) {
        answer.unwrap();
    }
    sim.calls().len() as u64
}

/// What other callers do meanwhile.
fn others_are_served(engine: &Engine) {
    let mut free = create("free", 4);
    free.tags.push(tag("x"));
    let created = until_done("create in the other VG", || {
        engine
            .submit(&other(), Request::Create(free.clone()))
            .wait()
    });
    assert_eq!(created.vg, other());
    let found = until_done("find", || engine.find(&lv("free")));
    assert_eq!(found.len(), 1);
    let known = until_done("find_known", || engine.find_known(&lv("free")));
    assert_eq!(known.len(), 1);
    until_done("outline", || engine.outline(&other()));
    let report = until_done("report", || engine.report());
    let names: Vec<&str> = report.vgs.iter().map(|vg| vg.vg.name().as_str()).collect();
    assert_eq!(names, ["data", "other"], "the hung VG is shown too");
    let again = until_done("extend", || {
        engine
            .submit(
                &other(),
                Request::Extend {
                    name: lv("free"),
                    size: Size::Bytes(Bytes(8 * MIB)),
                    add: false,
                    layout: Layout::default(),
                },
            )
            .wait()
    });
    assert_eq!(again.size, Bytes(8 * MIB));
    until_done("remove", || {
        let remove = Request::Remove {
            name: lv("free"),
            must_exist: false,
            require_tag: None,
        };
        engine.submit(&other(), remove).wait()
    });
}

/// Whether call `number` of the story hung.
fn hangs_at(story: &Story, number: u64) -> bool {
    let (sim, engine) = two_vgs();
    (story.before)(&engine);
    let what = format!("{}, call {number}", story.name);
    sim.clear_calls();
    sim.fail_at(number, Fault::Hang);
    let answers = ask_all(&engine, story);
    sim.clear_faults();
    let call = sim
        .calls()
        .into_iter()
        .nth(usize::try_from(number).unwrap());
    let hung = answers.iter().any(|answer| {
        answer
            .as_ref()
            .is_err_and(|error| error.kind() == Kind::DeadlineExceeded)
    });
    if hung {
        for answer in &answers {
            let Err(error) = answer else { continue };
            let text = error.to_string();
            assert!(text.contains("wait"), "{what} ({call:?}): {text}");
        }
        // Whoever asks again is told at once, and nothing piles up.
        let threads = threads();
        for _ in 0..RETRIES {
            let _ = ask_all(&engine, story);
            let _ = engine.find(&lv("one"));
        }
        let more = self::threads().saturating_sub(threads);
        assert!(
            more < RETRIES / 2,
            "{what}: {more} more threads after retries"
        );
    }
    others_are_served(&engine);
    sim.unhang();

    // The job ends by itself, without anybody asking.
    wait_until(&format!("{what}: still hanging"), || {
        engine.hanging().is_empty()
    });
    for request in (story.requests)() {
        let start = Instant::now();
        loop {
            match engine.submit(&vg(), request.clone()).wait() {
                Ok(_) => break,
                // The hung request was carried out.
                Err(EngineError::NoSuchLv { .. }) if story.name == "rename" => break,
                Err(error) => {
                    let again = matches!(error.kind(), Kind::DeadlineExceeded | Kind::Aborted);
                    assert!(again && start.elapsed() < PATIENCE, "{what}: {error}");
                }
            }
        }
    }
    wait_until(&format!("{what}: threads are away"), || {
        engine.registry().lanes().away() == 0
    });
    let left = engine.shutdown();
    assert!(left.is_empty(), "{what}: {left:?}");
    drop(engine);
    wait_until(&format!("{what}: locks are held"), || {
        sim.held_locks().is_empty()
    });
    assert_eq!(sound_lvs(&sim), story.after, "{what}");
    hung
}

/// Threads of this process that an engine started; the engines of tests that run
/// at the same time have some, too.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with("vg-") || matches!(name.trim(), "look" | "zero"))
        .count()
}

fn at_every_call(stories: &[Story]) {
    let (mut points, mut hung) = (0_u32, 0_u32);
    for story in stories {
        let before = hung;
        for number in 0..length(story) {
            points += 1;
            hung += u32::from(hangs_at(story, number));
        }
        assert!(hung > before, "{}: nothing hung", story.name);
    }
    proof(&format!("hung calls: {points}, noticed: {hung}"));
}

#[test]
fn creating_hangs_at_every_call() {
    at_every_call(&STORIES[..1]);
}

#[test]
fn creating_raw_volumes_hangs_at_every_call() {
    at_every_call(&STORIES[1..2]);
}

#[test]
fn a_batch_hangs_at_every_call() {
    at_every_call(&STORIES[2..3]);
}

#[test]
fn growing_hangs_at_every_call() {
    at_every_call(&STORIES[3..5]);
}

#[test]
fn removing_and_renaming_hang_at_every_call() {
    at_every_call(&STORIES[5..7]);
}

#[test]
fn tags_and_activation_hang_at_every_call() {
    at_every_call(&STORIES[7..]);
}
