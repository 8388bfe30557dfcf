//! Stock lvm2 as the judge of a state, on loop devices.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use lvcsi::host::sim::DiskImage;
use lvcsi_kit::{Disk, Lvm, Ran, decode, host, lvm};

use crate::check::{Seen, shape};
use crate::layouts::VG;

/// Says what lvm2 has against the disks, or what it reads differently.
pub(crate) fn judge(images: &[DiskImage], seen: &Seen) -> Result<(), String> {
    let dir = tempfile::Builder::new()
        .prefix("lvcsi-crash-")
        .tempdir_in(host::scratch())
        .map_err(|error| error.to_string())?;
    let disks: Vec<Disk> = images
        .iter()
        .enumerate()
        .map(|(number, image)| loop_disk(dir.path(), number, image))
        .collect();
    let paths: Vec<&Path> = disks.iter().map(Disk::path).collect();
    let lvm = Lvm::apart(&paths);

    let vgck = lvm.run(&["vgck", VG]);
    let tolerated = if seen.mixed { is_older_copy } else { nothing };
    expect(&vgck, tolerated)?;
    let columns = "lv_name,seg_size_pe,vg_seqno";
    let lvs = lvm.run(&["lvs", "-a", "--noheadings", "--segments", "-o", columns, VG]);
    expect(&lvs, tolerated)?;
    let mut theirs: Vec<String> = lvs.stdout.lines().map(words).collect();
    theirs.sort();
    let seqno = seen.vg.seqno;
    let segments = |lv: &decode::Lv| {
        let row = |segment: &decode::Segment| format!("{} {} {seqno}", lv.name, segment.count);
        lv.segments.iter().map(row).collect::<Vec<_>>()
    };
    let mut ours: Vec<String> = seen.vg.lvs.iter().flat_map(segments).collect();
    ours.sort();
    if theirs != ours {
        return Err(format!("lvm2 reads {theirs:?}, we read {ours:?}"));
    }

    // The next commit is lvm2's own: all copies are equal after it.
    expect(&lvm.run(&["vgchange", "--addtag", "judged", VG]), tolerated)?;
    expect(&lvm.run(&["vgck", VG]), nothing)?;
    let after = decode::vg(&paths);
    if shape(&after) != shape(&seen.vg) || after.seqno <= seqno {
        return Err(format!("lvm2's commit leaves {:?}", after.names()));
    }
    Ok(())
}

fn loop_disk(dir: &Path, number: usize, image: &DiskImage) -> Disk {
    let name = format!("disk{number}");
    let file = File::create(dir.join(&name)).expect("a file for a disk");
    for (offset, bytes) in image.parts() {
        file.write_all_at(bytes, offset).expect("content of a disk");
    }
    let info = image.info();
    Disk::new(dir, &name, info.size, info.block_size)
}

fn words(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.join(" ")
}

fn nothing(_: &str) -> bool {
    false
}

/// What lvm2 says about a copy that the next commit brings up to date.
fn is_older_copy(line: &str) -> bool {
    line.contains("ignoring metadata seqno")
        || line.contains("Inconsistent metadata found for VG")
        || line == "See vgck --updatemetadata to correct inconsistency."
        || line.contains("updating old metadata to")
}

fn expect(ran: &Ran, tolerated: fn(&str) -> bool) -> Result<(), String> {
    let complaint = lvm::complaints(ran)
        .into_iter()
        .find(|line| !tolerated(line));
    if ran.success() && complaint.is_none() {
        Ok(())
    } else {
        Err(format!("lvm2: {ran}"))
    }
}
