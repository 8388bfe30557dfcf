//! LVM2 metadata as a pure library: what lies on the disk, the text in it,
//! the volume group it describes, how to change that, and the device-mapper
//! tables that follow from it.
//!
//! Nothing here reads a device, a clock or a source of randomness: bytes,
//! times and random bits are passed in, and bytes come back. That makes every
//! rule testable without a kernel.
//!
//! From the bottom up: [`units`], [`id`], [`name`] and [`crc`] are the basic
//! types; [`text`] is the lossless tree of the metadata language; [`ondisk`]
//! is the label, the metadata area header and its ring; [`model`] is the
//! volume group; [`check`], [`alloc`], [`edit`], [`tables`] and [`backup`] work on
//! it.

#![forbid(unsafe_code)]

pub mod alloc;
pub mod backup;
pub mod check;
pub mod crc;
pub mod edit;
pub mod id;
pub mod model;
pub mod name;
pub mod ondisk;
pub mod tables;
pub mod text;
pub mod units;
