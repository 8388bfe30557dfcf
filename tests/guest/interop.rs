//! Everything that lvm2 does to our LVs works, and the reverse.

use lvcsi::engine::{CreateLv, Request, Size, Wipe};
use lvcsi::error::Kind;
use lvcsi_kit::{LoopVg, VgSpec};
use lvm2::edit::Layout;
use lvm2::units::{Bytes, Sectors};

use crate::common::{Native, create, extend, lv, tag};
use crate::support::{Tidy, all_well};

/// Size in MiB and activity of an LV as lvm2 reports them.
fn seen(vg: &LoopVg, name: &str) -> Option<(u64, bool)> {
    let rows = vg.lvm.lvs(&vg.name);
    let row = rows.iter().find(|row| row.name == name)?;
    Some((row.size >> 20, row.attr.as_bytes()[4] == b'a'))
}

#[test]
fn pitfall_33_lvm2_knows_and_handles_what_we_make() {
    let _tidy = Tidy::new();
    let vg = LoopVg::with(&VgSpec::disks(2, 256));
    let native = Native::open(&vg);

    let made = native.create("one", 32);
    assert_eq!(made.size, Bytes(32 << 20));
    assert!(made.changed && made.dev.is_some());
    all_well(&vg, &native);
    assert_eq!(seen(&vg, "one"), Some((32, true)));

    vg.lvm.clean(&["lvextend", "-L", "+16M", &vg.lv("one")]);
    all_well(&vg, &native);
    assert_eq!(
        native.engine.find(&lv("one")).unwrap()[0].size,
        Bytes(48 << 20)
    );

    vg.lvm.clean(&["lvrename", &vg.name, "one", "two"]);
    all_well(&vg, &native);
    vg.lvm.clean(&["lvchange", "-an", &vg.lv("two")]);
    all_well(&vg, &native);
    assert!(native.engine.find(&lv("two")).unwrap()[0].dev.is_none());
    vg.lvm.clean(&["lvchange", "-ay", &vg.lv("two")]);
    all_well(&vg, &native);
    assert!(native.engine.find(&lv("two")).unwrap()[0].dev.is_some());
    vg.lvm.clean(&["lvremove", "-y", &vg.lv("two")]);
    all_well(&vg, &native);
    assert!(native.engine.find(&lv("two")).unwrap().is_empty());
}

#[test]
fn we_handle_what_lvm2_makes() {
    let _tidy = Tidy::new();
    let vg = LoopVg::with(&VgSpec::disks(2, 256));
    let native = Native::open(&vg);

    vg.lvm
        .clean(&["lvcreate", "-y", "-L", "32M", "-n", "one", &vg.name]);
    all_well(&vg, &native);
    native.extend("one", 300);
    all_well(&vg, &native);
    assert_eq!(seen(&vg, "one"), Some((300, true)));
    native.rename("one", "two");
    all_well(&vg, &native);
    assert_eq!(seen(&vg, "two"), Some((300, true)));
    native.deactivate("two");
    all_well(&vg, &native);
    assert_eq!(seen(&vg, "two"), Some((300, false)));
    native.activate("two");
    all_well(&vg, &native);
    assert_eq!(seen(&vg, "two"), Some((300, true)));
    native.ok(Request::Tags {
        name: lv("two"),
        add: vec![tag("a=b")],
        remove: vec![],
    });
    all_well(&vg, &native);
    native.remove("two");
    all_well(&vg, &native);
    assert_eq!(seen(&vg, "two"), None);
}

#[test]
fn striped_both_ways() {
    let _tidy = Tidy::new();
    let vg = LoopVg::with(&VgSpec::disks(2, 256));
    let native = Native::open(&vg);
    native.ok(Request::Create(CreateLv {
        name: lv("ours"),
        size: Size::Bytes(Bytes(64 << 20)),
        tags: vec![],
        layout: Layout {
            stripes: Some(2),
            stripe_size: Some(Sectors(128)),
            ..Layout::default()
        },
        wipe: Wipe::Zero,
        activate: true,
    }));
    all_well(&vg, &native);
    let rows = vg.lvm.lvs(&vg.name);
    assert_eq!(rows[0].segments[0].kind, "striped");
    assert_eq!(rows[0].segments[0].ranges.len(), 2);
    vg.lvm.clean(&["lvextend", "-L", "+32M", &vg.lv("ours")]);
    all_well(&vg, &native);

    vg.lvm.clean(&[
        "lvcreate", "-y", "-i2", "-I64k", "-L", "64M", "-n", "theirs", &vg.name,
    ]);
    all_well(&vg, &native);
    native.extend("theirs", 96);
    all_well(&vg, &native);
    vg.lvm.clean(&["lvchange", "-an", &vg.lv("theirs")]);
    native.activate("theirs");
    all_well(&vg, &native);
    native.remove("theirs");
    vg.lvm.clean(&["lvremove", "-y", &vg.lv("ours")]);
    all_well(&vg, &native);
}

#[test]
fn names_with_dashes_and_disks_of_4096_byte_sectors() {
    let _tidy = Tidy::new();
    let vg = LoopVg::with(&VgSpec::disks(1, 256).block_size(4096));
    let native = Native::open(&vg);
    native.create("a-b--c.d_e", 16);
    all_well(&vg, &native);
    assert_eq!(seen(&vg, "a-b--c.d_e"), Some((16, true)));
    vg.lvm.clean(&["lvrename", &vg.name, "a-b--c.d_e", "x-"]);
    all_well(&vg, &native);
    native.rename("x-", "y--");
    all_well(&vg, &native);
    vg.lvm.clean(&["lvremove", "-y", &vg.lv("y--")]);
    all_well(&vg, &native);
}

#[test]
fn repeating_changes_nothing() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    let first = native.create("one", 16);
    let seqno = vg.decode().seqno;
    let again = native.create("one", 16);
    assert!(!again.changed, "{again:?}");
    assert_eq!((again.id, again.dev), (first.id, first.dev));
    assert!(!native.extend("one", 16).changed);
    assert!(!native.activate("one").changed);
    assert_eq!(vg.decode().seqno, seqno, "no commit");
    let other = native
        .run(create("one", Size::Bytes(Bytes(32 << 20))))
        .unwrap_err();
    assert_eq!(other.kind(), Kind::AlreadyExists, "{other}");
    native.remove("one");
    let gone = Request::Remove {
        name: lv("one"),
        must_exist: false,
        require_tag: None,
    };
    assert!(!native.ok(gone).changed);
    all_well(&vg, &native);
}

#[test]
fn pitfall_53_an_open_lv_is_not_removed() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    let node = native.create("busy", 16).node.expect("a node");
    vg.lvm
        .clean(&["lvcreate", "-y", "-L", "16M", "-n", "theirs", &vg.name]);
    let open = [
        std::fs::File::open(&node).unwrap(),
        std::fs::File::open(vg.device("theirs")).unwrap(),
    ];
    let before = vg.decode();
    // Each refusal waits in case the opener is udev: one of a kind is enough.
    let requests = [
        Request::Remove {
            name: lv("busy"),
            must_exist: true,
            require_tag: None,
        },
        Request::Deactivate { name: lv("theirs") },
    ];
    for request in requests {
        let error = native.run(request).unwrap_err();
        assert_eq!(error.kind(), Kind::FailedPrecondition, "{error}");
    }
    assert!(
        !vg.lvm.run(&["lvremove", "-y", &vg.lv("busy")]).success(),
        "lvm2 agrees"
    );
    assert_eq!(
        vg.decode().text,
        before.text,
        "refused, yet something was written"
    );
    all_well(&vg, &native);
    drop(open);
    native.remove("busy");
    native.remove("theirs");
    all_well(&vg, &native);
}

/// LVs that we do not understand are listed, counted, and never changed.
#[test]
fn pitfall_54_a_snapshot_of_lvm2_and_its_origin_are_left_alone() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(256);
    let native = Native::open(&vg);
    native.create("origin", 32);
    vg.lvm.clean(&[
        "lvcreate",
        "-y",
        "-s",
        "-L",
        "16M",
        "-n",
        "snap",
        &vg.lv("origin"),
    ]);
    let before = vg.text();
    for request in [
        extend("origin", Size::Bytes(Bytes(64 << 20)), false),
        Request::Remove {
            name: lv("origin"),
            must_exist: true,
            require_tag: None,
        },
        Request::Rename {
            name: lv("origin"),
            to: lv("other"),
        },
        Request::Remove {
            name: lv("snap"),
            must_exist: true,
            require_tag: None,
        },
    ] {
        let what = format!("{request:?}");
        let error = native.run(request).expect_err(&what);
        assert_eq!(error.kind(), Kind::FailedPrecondition, "{what}: {error}");
    }
    assert_eq!(vg.text(), before, "refused, yet something was written");
    vg.assert_clean();

    // Beside them we work as ever, and they survive our rewrite.
    native.create("beside", 16);
    vg.assert_clean();
    assert_eq!(seen(&vg, "snap"), Some((16, true)));
    native.remove("beside");
    vg.lvm.clean(&["lvremove", "-y", &vg.lv("snap")]);
    native.extend("origin", 64);
    all_well(&vg, &native);
    native.remove("origin");
}
