//! What bindgen makes of the kernel headers; see `wrapper.h`. The layout of
//! every structure is asserted at compile time by the generated code itself.

#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    unused_qualifications,
    clippy::multiple_unsafe_ops_per_block,
    clippy::undocumented_unsafe_blocks,
    reason = "generated code follows the kernel's names and has no comments"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
