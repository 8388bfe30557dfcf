//! Requests in short.

use lvcsi::engine::{CreateLv, Engine, EngineError, LvState, Request, Size, Wipe, tags};
use lvm2::edit::Layout;
use lvm2::name::{LvName, Tag, VgName};
use lvm2::units::Bytes;

use crate::layouts::{MIB, VG};

pub(crate) fn vg() -> VgName {
    VgName::new(VG).expect("name of a VG")
}

pub(crate) fn lv(name: &str) -> LvName {
    LvName::new(name).expect("name of an LV")
}

pub(crate) fn tag(text: &str) -> Tag {
    Tag::new(text).expect("a tag")
}

/// An LV for a file system.
pub(crate) fn create(name: &str, mib: u64) -> Request {
    Request::Create(new_lv(name, mib, "mount", Wipe::Signatures))
}

/// A raw block volume.
pub(crate) fn create_block(name: &str, mib: u64) -> Request {
    Request::Create(new_lv(name, mib, "block", Wipe::Zero))
}

fn new_lv(name: &str, mib: u64, access: &str, wipe: Wipe) -> CreateLv {
    CreateLv {
        name: lv(name),
        size: Size::Bytes(Bytes(mib * MIB)),
        tags: vec![tag(tags::OWNED), tag(&format!("{}{access}", tags::ACCESS))],
        layout: Layout::default(),
        wipe,
        activate: true,
    }
}

pub(crate) fn extend(name: &str, mib: u64) -> Request {
    Request::Extend {
        name: lv(name),
        size: Size::Bytes(Bytes(mib * MIB)),
        add: false,
        layout: Layout::default(),
    }
}

pub(crate) fn remove(name: &str) -> Request {
    Request::Remove {
        name: lv(name),
        must_exist: false,
        require_tag: None,
    }
}

pub(crate) fn rename(name: &str, to: &str) -> Request {
    Request::Rename {
        name: lv(name),
        to: lv(to),
    }
}

pub(crate) fn add_tag(name: &str, text: &str) -> Request {
    Request::Tags {
        name: lv(name),
        add: vec![tag(text)],
        remove: Vec::new(),
    }
}

/// Asks and waits.
pub(crate) fn ask(engine: &Engine, request: Request) -> Result<LvState, EngineError> {
    engine.submit(&vg(), request).wait()
}
