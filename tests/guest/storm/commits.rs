//! How many commits one operation makes, by measuring each while nobody else
//! is there: lvm2 and we may need more than one, and versions differ.

use std::collections::BTreeMap;
use std::time::Duration;

use lvcsi_kit::{Driver, LoopVg};

use super::hands::lvm2;
use crate::common::{Native, create, lv, tag};
use crate::support::MIB;
use lvcsi::engine::{Request, Size};
use lvm2::units::Bytes;

/// An operation that changes metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Op {
    /// `lvcreate`.
    TheirCreate,
    /// `lvextend`.
    TheirExtend,
    /// `lvrename`.
    TheirRename,
    /// `lvchange --addtag`.
    TheirTag,
    /// `lvremove`.
    TheirRemove,
    /// Down and up again, by anybody.
    Activation,
    /// The engine's and the command line's.
    OurCreate,
    OurExtend,
    OurRename,
    OurTag,
    OurRemove,
    /// The CSI driver's, of raw block volumes.
    CsiCreate,
    CsiExpand,
    CsiDelete,
}

/// Commits of one operation.
#[derive(Debug, Clone)]
pub(super) struct Commits {
    by_op: BTreeMap<Op, i64>,
    /// Time of lvm2's slowest command.
    pub(super) slowest: Duration,
}

impl Commits {
    /// Does each operation once and looks at the sequence number.
    pub(super) fn measure(vg: &LoopVg, driver: &Driver) -> Self {
        let mut commits = BTreeMap::new();
        let mut seqno = vg.decode().seqno;
        let mut note = |op: Op| {
            let now = vg.decode().seqno;
            let before = commits.insert(op, now - seqno);
            assert!(
                before.is_none_or(|before| before == now - seqno),
                "{op:?}: {before:?}, then {}",
                now - seqno
            );
            seqno = now;
        };
        let mut slowest = Duration::ZERO;
        let mut theirs = |args: &[&str]| {
            let ran = lvm2(args).expect("lvm2 alone");
            slowest = slowest.max(ran.took);
        };
        theirs(&["lvcreate", "-y", "-L4M", "-n", "a", &vg.name]);
        note(Op::TheirCreate);
        theirs(&["lvextend", "-L+4M", &vg.lv("a")]);
        note(Op::TheirExtend);
        theirs(&["lvrename", &vg.name, "a", "b"]);
        note(Op::TheirRename);
        theirs(&["lvchange", "--addtag", "t", &vg.lv("b")]);
        note(Op::TheirTag);
        theirs(&["lvchange", "-an", &vg.lv("b")]);
        theirs(&["lvchange", "-ay", &vg.lv("b")]);
        note(Op::Activation);
        theirs(&["lvremove", "-y", &vg.lv("b")]);
        note(Op::TheirRemove);

        let native = Native::open(vg);
        native.ok(create("a", Size::Bytes(Bytes(4 << 20))));
        note(Op::OurCreate);
        native.extend("a", 8);
        note(Op::OurExtend);
        native.rename("a", "b");
        note(Op::OurRename);
        native.ok(Request::Tags {
            name: lv("b"),
            add: vec![tag("t")],
            remove: vec![],
        });
        note(Op::OurTag);
        native.deactivate("b");
        native.activate("b");
        note(Op::Activation);
        native.remove("b");
        note(Op::OurRemove);

        let csi = driver.csi();
        csi.create(&vg.name, "a", 4 * MIB, "")
            .expect("CreateVolume");
        note(Op::CsiCreate);
        csi.expand("a", 8 * MIB).expect("ControllerExpandVolume");
        note(Op::CsiExpand);
        csi.delete("a").expect("DeleteVolume");
        note(Op::CsiDelete);
        Self {
            by_op: commits,
            slowest,
        }
    }

    /// Commits of this operation.
    pub(super) fn of(&self, op: Op) -> i64 {
        self.by_op[&op]
    }
}
