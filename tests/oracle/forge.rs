//! Metadata that stock lvm2 would not write, put on disks behind everybody's
//! back, with checksums that are right.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use lvcsi_kit::{LoopVg, decode};

/// Where an area's header says that its text begins: offset, size, checksum.
const LOCATION: usize = 40;

/// Replaces the text in every metadata area that is in use. The next text of
/// the ring begins after the old one's sectors: what is longer spills over.
pub(crate) fn text(vg: &LoopVg, change: impl Fn(&str) -> String) {
    for path in vg.paths() {
        for mda in decode::pv(path).expect("a PV").mdas {
            let Some(text) = mda.text.filter(|_| !mda.ignored) else {
                continue;
            };
            let new = change(&text);
            assert_ne!(new, text, "nothing was changed");
            let mut bytes = new.into_bytes();
            bytes.push(0);
            assert!(mda.offset + bytes.len() as u64 <= mda.size, "it would wrap");
            let mut header = mda.header;
            put(
                &mut header,
                LOCATION + 8,
                &(bytes.len() as u64).to_le_bytes(),
            );
            let sum = decode::crc(&bytes);
            put(&mut header, LOCATION + 16, &sum.to_le_bytes());
            let sum = decode::crc(&header[4..]);
            put(&mut header, 0, &sum.to_le_bytes());
            write(path, mda.start + mda.offset, &bytes);
            write(path, mda.start, &header);
        }
    }
}

/// As [`text`], with the first `from` of the text replaced.
pub(crate) fn replace(vg: &LoopVg, from: &str, to: &str) {
    text(vg, |text| {
        assert!(text.contains(from), "no {from:?} in {text}");
        text.replacen(from, to, 1)
    });
}

/// Overwrites bytes of a device.
pub(crate) fn write(path: &Path, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path);
    let file = file.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    file.write_all_at(bytes, offset).expect("write");
    file.sync_all().expect("sync");
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}
