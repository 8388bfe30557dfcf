//! The operations that tests interrupt or let fail.

use super::*;

/// An operation and what it may leave.
pub(super) struct Story {
    pub(super) name: &'static str,
    /// Makes what the request needs.
    pub(super) before: fn(&Engine),
    pub(super) request: fn() -> Request,
    /// The LVs if the request did not happen, and if it did.
    pub(super) outcomes: [&'static [&'static str]; 2],
}

/// One of each kind.
pub(super) fn stories() -> Vec<Story> {
    fn nothing(_: &Engine) {}
    fn one(engine: &Engine) {
        run(engine, Request::Create(create("one", 8))).unwrap();
    }
    fn raw(engine: &Engine) {
        run(engine, Request::Create(create_block("one", 8))).unwrap();
    }
    vec![
        Story {
            name: "create",
            before: nothing,
            request: || Request::Create(create("one", 8)),
            outcomes: [&[], &["one"]],
        },
        Story {
            name: "create block",
            before: nothing,
            request: || Request::Create(create_block("one", 8)),
            outcomes: [&[], &["one"]],
        },
        Story {
            name: "extend",
            before: one,
            request: || extend("one", 16),
            outcomes: [&["one"], &["one"]],
        },
        Story {
            name: "extend block",
            before: raw,
            request: || extend("one", 16),
            outcomes: [&["one"], &["one"]],
        },
        Story {
            name: "remove",
            before: one,
            request: || remove("one"),
            outcomes: [&["one"], &[]],
        },
        Story {
            name: "rename",
            before: one,
            request: || Request::Rename {
                name: lv("one"),
                to: lv("two"),
            },
            outcomes: [&["one"], &["two"]],
        },
        Story {
            name: "tag",
            before: one,
            request: || Request::Tags {
                name: lv("one"),
                add: vec![tag("t")],
                remove: vec![],
            },
            outcomes: [&["one"], &["one"]],
        },
    ]
}
