//! The operations whose every write is looked at.

use lvcsi::engine::{Engine, EngineConfig, EngineError, Request};
use lvcsi::host::LockMode;
use lvcsi::host::sim::{CallKind, CrashPolicy, Fault, SimHost};

use crate::requests::{add_tag, ask, create, create_block, extend, lv, remove, rename, vg};

/// Requests that share one commit in the largest story.
pub(crate) const BATCH: usize = 32;

/// What is done.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// Requests, all waiting at the same time.
    Ask(fn() -> Vec<Request>),
    /// What a start does.
    Recover,
}

/// An operation.
#[derive(Clone, Copy)]
pub(crate) struct Story {
    pub(crate) name: &'static str,
    /// What happened before.
    pub(crate) before: fn(&SimHost),
    pub(crate) act: Act,
    /// A host call that fails during it.
    pub(crate) fault: Option<(CallKind, Fault)>,
    /// Metadata areas that the VG must have at least.
    pub(crate) areas: usize,
}

impl Story {
    const fn new(name: &'static str, ask: fn() -> Vec<Request>) -> Self {
        Self {
            name,
            before: nothing,
            act: Act::Ask(ask),
            fault: None,
            areas: 1,
        }
    }
}

/// LVs that are there before every story, for file systems and raw.
pub(crate) fn residents() -> Vec<Request> {
    vec![create("kept", 2), create_block("raw", 2), create("gone", 3)]
}

/// Further LVs for the story of many requests.
pub(crate) fn crowd() -> Vec<Request> {
    (0..20).map(|n| create(&format!("v{n:02}"), 1)).collect()
}

/// Every story; `areas` metadata areas are in use.
pub(crate) fn all(areas: usize) -> Vec<Story> {
    let stories = [
        Story::new("create", || vec![create("new", 3)]),
        Story::new("create block", || vec![create_block("new", 3)]),
        Story::new("extend", || vec![extend("kept", 4)]),
        Story::new("extend block", || vec![extend("raw", 4)]),
        Story::new("remove", || vec![remove("gone")]),
        Story::new("rename", || vec![rename("kept", "renamed")]),
        Story::new("tag", || vec![add_tag("kept", "lvcsi.fs=ext4")]),
        Story::new("batch", many),
        Story {
            fault: Some((CallKind::DmLoad, Fault::Eio)),
            ..Story::new("create that the kernel refuses", || vec![create("new", 3)])
        },
        Story {
            fault: Some((CallKind::Zero, Fault::Eio)),
            ..Story::new("create block that cannot be zeroed", || {
                vec![create_block("new", 3)]
            })
        },
        Story {
            before: dies_while_zeroing,
            act: Act::Recover,
            ..Story::new("recovery", Vec::new)
        },
        Story {
            before: one_copy_is_older,
            areas: 2,
            ..Story::new("tag over an older copy", || vec![add_tag("raw", "t")])
        },
    ];
    let fits = |story: &Story| story.areas <= areas;
    stories.into_iter().filter(fits).collect()
}

/// Of every kind, about as many as of the next.
fn many() -> Vec<Request> {
    let mut requests = Vec::new();
    requests.extend((0..12).map(|n| create(&format!("new{n:02}"), 1)));
    requests.extend((0..6).map(|n| remove(&format!("v{n:02}"))));
    requests.extend((6..10).map(|n| extend(&format!("v{n:02}"), 2)));
    requests.extend((10..15).map(|n| rename(&format!("v{n:02}"), &format!("w{n:02}"))));
    requests.extend((15..20).map(|n| add_tag(&format!("v{n:02}"), "t")));
    assert_eq!(requests.len(), BATCH);
    requests
}

fn nothing(_: &SimHost) {}

fn dies_while_zeroing(sim: &SimHost) {
    let engine = start(sim);
    sim.on(CallKind::Zero, 0, Fault::Crash);
    ask(&engine, create_block("new", 3)).expect_err("its process died");
    sim.crash(CrashPolicy::Keep);
}

fn one_copy_is_older(sim: &SimHost) {
    let engine = start(sim);
    let report = engine.vg(&vg()).expect("the VG");
    // A text for each area, then a header for each: the last header fails.
    let nth = 2 * report.metadata.used_areas as u64 - 1;
    sim.on(CallKind::Write, nth, Fault::Eio);
    ask(&engine, add_tag("kept", "older")).expect("one header is enough");
    let problems = engine.check(&vg()).expect("the VG");
    assert_eq!(problems.len(), 1, "{problems:?}");
}

pub(crate) fn start(sim: &SimHost) -> Engine {
    Engine::start(sim.host(), EngineConfig::default()).expect("the engine")
}

/// Does it; true if every request was granted.
pub(crate) fn act(act: Act, sim: &SimHost, engine: &Engine) -> bool {
    match act {
        Act::Ask(requests) => {
            let answers = together(sim, engine, requests());
            answers.iter().all(Result::is_ok)
        }
        Act::Recover => {
            let recovery = engine.recover();
            assert_eq!(recovery.problems, [], "recovery");
            true
        }
    }
}

/// Requests that come while another one waits for the lock: they share the
/// next commit.
fn together(
    sim: &SimHost,
    engine: &Engine,
    mut requests: Vec<Request>,
) -> Vec<Result<(), EngineError>> {
    if requests.len() == 1 {
        return requests
            .drain(..)
            .map(|request| ask(engine, request).map(drop))
            .collect();
    }
    let other = sim.host();
    let resource = format!("V_{}", vg());
    let lock = other
        .locks
        .lock(&resource, LockMode::Exclusive, std::time::Duration::ZERO)
        .expect("a free lock");
    sim.clear_calls();
    let first = engine.submit(
        &vg(),
        Request::Tags {
            name: lv("kept"),
            add: Vec::new(),
            remove: Vec::new(),
        },
    );
    while !sim.calls().iter().any(|call| call.kind == CallKind::Lock) {
        std::thread::yield_now();
    }
    let tickets: Vec<_> = requests
        .drain(..)
        .map(|request| engine.submit(&vg(), request))
        .collect();
    drop(lock);
    first.wait().expect("nothing to do");
    tickets
        .into_iter()
        .map(|ticket| ticket.wait().map(drop))
        .collect()
}

/// Asks again after a crash, and says what is wrong with an answer.
pub(crate) fn again(act: Act, engine: &Engine) -> Result<(), String> {
    let requests = match act {
        Act::Ask(requests) => requests(),
        Act::Recover => {
            let recovery = engine.recover();
            let nothing = recovery.removed.is_empty() && recovery.problems.is_empty();
            return match nothing {
                true => Ok(()),
                false => Err(format!("a second recovery finds {recovery:?}")),
            };
        }
    };
    let tickets: Vec<_> = requests
        .into_iter()
        .map(|request| (request.clone(), engine.submit(&vg(), request)))
        .collect();
    for (request, ticket) in tickets {
        match (request, ticket.wait()) {
            (_, Ok(_)) => {}
            // A rename that happened finds no old name.
            (Request::Rename { to, .. }, Err(EngineError::NoSuchLv { .. }))
                if is_there(engine, to.as_str()) => {}
            (request, Err(error)) => {
                return Err(format!("{} again: {error}", request.verb()));
            }
        }
    }
    Ok(())
}

fn is_there(engine: &Engine, name: &str) -> bool {
    engine
        .vg(&vg())
        .is_ok_and(|report| report.vg.lv(name).is_some())
}
