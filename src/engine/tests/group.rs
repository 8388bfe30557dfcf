//! Requests that wait together share a commit.

use super::*;
use crate::host::LockMode;

#[test]
fn requests_that_wait_for_the_lock_share_one_commit() {
    let sim = machine();
    let engine = engine(sim.host());
    let seqno = engine.vg(&vg()).unwrap().vg.seqno();
    let other = sim.host();
    let lock = other
        .locks
        .lock("V_data", LockMode::Exclusive, std::time::Duration::ZERO)
        .unwrap();
    // The first one takes the worker to the lock; the rest wait behind it.
    let tickets: Vec<_> = (0..32)
        .map(|number| engine.submit(&vg(), Request::Create(create(&format!("v{number}"), 4))))
        .collect();
    drop(lock);
    let mut ids = Vec::new();
    for ticket in tickets {
        ids.push(ticket.wait().unwrap().id);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 32);
    let commits = engine.vg(&vg()).unwrap().vg.seqno() - seqno;
    assert!(commits <= 2, "{commits} commits");
    assert_eq!(sound_lvs(&sim).len(), 32);
}

#[test]
fn one_bad_request_does_not_spoil_the_others() {
    let sim = machine();
    let engine = engine(sim.host());
    let other = sim.host();
    let lock = other
        .locks
        .lock("V_data", LockMode::Exclusive, std::time::Duration::ZERO)
        .unwrap();
    let good = engine.submit(&vg(), Request::Create(create("good", 4)));
    let large = engine.submit(&vg(), Request::Create(create("large", 4096)));
    let missing = engine.submit(&vg(), extend("nowhere", 4));
    let last = engine.submit(&vg(), Request::Create(create("last", 4)));
    drop(lock);
    assert!(good.wait().is_ok() && last.wait().is_ok());
    assert_eq!(
        large.wait().unwrap_err().kind(),
        crate::error::Kind::ResourceExhausted
    );
    assert_eq!(
        missing.wait().unwrap_err().kind(),
        crate::error::Kind::NotFound
    );
    assert_eq!(sound_lvs(&sim), ["good", "last"]);
}

#[test]
fn requests_about_one_lv_keep_their_order() {
    let sim = machine();
    let engine = engine(sim.host());
    let other = sim.host();
    let lock = other
        .locks
        .lock("V_data", LockMode::Exclusive, std::time::Duration::ZERO)
        .unwrap();
    let tickets = [
        engine.submit(&vg(), Request::Create(create("x", 4))),
        engine.submit(&vg(), extend("x", 8)),
        engine.submit(&vg(), remove("x")),
        engine.submit(&vg(), Request::Create(create("x", 12))),
    ];
    drop(lock);
    let sizes: Vec<_> = tickets
        .into_iter()
        .map(|ticket| ticket.wait().unwrap().size.0 / MIB)
        .collect();
    assert_eq!(sizes, [4, 8, 8, 12]);
}

/// Extents that a removal frees belong to their old owner until the commit:
/// nothing that shares the commit may be put there, or wiped.
#[test]
fn extents_freed_in_a_commit_are_not_given_out_by_it() {
    let sim = machine_with(&["/dev/sda"]);
    let engine = engine(sim.host());
    run(&engine, Request::Create(create("old", 248))).unwrap();
    let other = sim.host();
    let lock = other
        .locks
        .lock("V_data", LockMode::Exclusive, std::time::Duration::ZERO)
        .unwrap();
    let gone = engine.submit(&vg(), remove("old"));
    let new = engine.submit(&vg(), Request::Create(create("new", 248)));
    sim.clear_calls();
    drop(lock);
    gone.wait().unwrap();
    new.wait().unwrap();
    let calls = sim.calls();
    let wiped = calls
        .iter()
        .position(|call| call.kind == crate::host::sim::CallKind::Zero);
    let committed = calls
        .iter()
        .position(|call| call.kind == crate::host::sim::CallKind::Flush);
    assert!(committed < wiped, "wiped before the removal was committed");
    assert_eq!(sound_lvs(&sim), ["new"]);
}

#[test]
fn two_processes_take_turns() {
    let sim = machine();
    let (one, two) = (engine(sim.host()), engine(sim.host()));
    let seqno = one.vg(&vg()).unwrap().vg.seqno();
    std::thread::scope(|scope| {
        for (engine, prefix) in [(&one, "a"), (&two, "b")] {
            scope.spawn(move || {
                for number in 0..25 {
                    run(
                        engine,
                        Request::Create(create(&format!("{prefix}{number}"), 4)),
                    )
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(sound_lvs(&sim).len(), 50);
    assert_eq!(engine(sim.host()).vg(&vg()).unwrap().vg.seqno(), seqno + 50);
}
