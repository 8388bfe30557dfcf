//! What is on the disks after a cut, and after the driver has recovered.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lvcsi_kit::decode::{self, Vg};
use lvcsi_kit::loopvg::dm_escape;
use lvcsi_kit::{Lvm, pattern};

use crate::host::Host;
use crate::{DISKS, VG};

/// A volume that is there.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) size: u64,
}

impl Volume {
    /// Its device's node.
    pub(crate) fn node(&self) -> PathBuf {
        Path::new("/dev/mapper").join(format!("{}-{}", dm_escape(VG), dm_escape(&self.name)))
    }
}

/// Decodes every metadata area before anybody writes. Each must name a whole
/// text, an older or a newer one.
pub(crate) fn after_the_cut() -> String {
    let mut texts = Vec::new();
    for disk in DISKS {
        let pv = decode::pv(Path::new(disk)).unwrap_or_else(|defect| panic!("{disk}: {defect}"));
        for mda in pv.mdas {
            let text = mda
                .text
                .unwrap_or_else(|| panic!("{disk}: no metadata text"));
            texts.push(text);
        }
    }
    let mut vgs: Vec<Vg> = texts.iter().map(|text| Vg::from_text(text)).collect();
    vgs.sort_by_key(|vg| vg.seqno);
    for pair in vgs.windows(2) {
        assert!(
            pair[0].seqno != pair[1].seqno || pair[0].text == pair[1].text,
            "two texts of one sequence number:\n{}\n{}",
            pair[0].text,
            pair[1].text
        );
    }
    let newest = vgs.last().expect("a metadata area");
    newest.assert_sound();
    let differ = vgs[0].seqno != newest.seqno;
    let incomplete = newest
        .lvs
        .iter()
        .filter(|lv| lv.tags.iter().any(|tag| tag == "lvcsi.incomplete"))
        .count();
    format!("cut {} {incomplete}", u8::from(differ))
}

/// lvm2 finds no fault, agrees with the decoder, and every volume is reported
/// with what it holds.
pub(crate) fn after_recovery(host: &Host, lvm: &Lvm) -> Vec<Volume> {
    lvm.clean(&["vgck", VG]);
    let vg = decode::vg(&DISKS.map(Path::new));
    vg.assert_sound();
    let rows = lvm.lvs(VG);
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, vg.names(), "lvm2 and the decoder see different LVs");
    // One command for all of them; a VG without an LV has nothing to activate.
    if !rows.is_empty() {
        lvm.clean(&["vgchange", "-q", "-q", "-ay", VG]);
    }
    let mut volumes = Vec::new();
    for row in rows {
        let volume = Volume {
            name: row.name,
            size: row.size,
        };
        let runs = pattern::read_device(&volume.node(), &volume.name, volume.size)
            .unwrap_or_else(|e| panic!("{}: {e}", volume.name));
        let mut line = format!(
            "volume {} {} {}",
            volume.name,
            volume.size,
            row.tags.join(",")
        );
        for run in runs {
            let _ = write!(line, " {run}");
        }
        host.ask(&line);
        volumes.push(volume);
    }
    volumes
}
