//! What somebody else commits, or left behind, between two of our looks. Tests
//! carry their numbers in the table of `docs/testing.md`.

use lvm2::ondisk::mda::{MdaHeader, RawLocn};

use super::*;

/// Where the simulated disks have their metadata area.
const AREA: u64 = 4096;

fn header(sim: &SimHost, disk: &str) -> MdaHeader {
    MdaHeader::decode(&sim.disk(disk).read(AREA, 512), AREA).unwrap()
}

/// Somebody commits between our reading and our locking, again and again: what
/// he wrote is the base of what we write.
#[test]
fn pitfall_01_a_commit_of_somebody_else_is_never_overwritten() {
    let sim = machine();
    let (ours, theirs) = (engine(sim.host()), engine(sim.host()));
    let seqno = ours.vg(&vg()).unwrap().vg.seqno();
    for round in 0..20 {
        // Both have read the same state by now.
        assert_eq!(ours.vg(&vg()).unwrap().vg.seqno(), seqno + 2 * round);
        assert_eq!(theirs.vg(&vg()).unwrap().vg.seqno(), seqno + 2 * round);
        let new = |who: &str| Request::Create(create(&format!("{who}{round}"), 4));
        run(&theirs, new("theirs")).unwrap();
        run(&ours, new("ours")).unwrap();
    }
    assert_eq!(sound_lvs(&sim).len(), 40);
}

/// A writer of lvm2 that died between precommit and commit leaves its text in
/// the second slot. It never counted, and the next commit clears the slot.
#[test]
fn pitfall_07_a_precommitted_text_never_counts() {
    let sim = machine();
    let first = engine(sim.host());
    let new = |name: &str| {
        let mut create = create(name, 4);
        create.activate = false;
        Request::Create(create)
    };
    run(&first, new("old")).unwrap();
    let old = header(&sim, DISKS[0]).committed.unwrap();
    run(&first, new("new")).unwrap();
    drop(first);
    for disk in DISKS {
        let mut forged = header(&sim, disk);
        let newer = forged.committed.replace(old);
        forged.precommitted = newer;
        sim.disk(disk).write(AREA, &forged.encode());
    }
    assert_eq!(sound_lvs(&sim), ["old"], "only the first slot counts");
    let again = engine(sim.host());
    run(&again, new("other")).unwrap();
    for disk in DISKS {
        let header = header(&sim, disk);
        assert_eq!(header.precommitted, None, "{disk}");
        let RawLocn { offset, .. } = header.committed.unwrap();
        assert_ne!(
            offset, old.offset,
            "{disk}: the committed text was overwritten"
        );
    }
    assert_eq!(sound_lvs(&sim), ["old", "other"]);
}
