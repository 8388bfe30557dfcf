//! What an operation told the disks, sector by sector.

use std::collections::{BTreeMap, HashMap};

use lvcsi::host::sim::{DiskEvent, DiskImage};
use lvcsi_kit::decode;

use crate::layouts::{Layout, VG};

/// The note in the record that the caller has its answer.
pub(crate) const ANSWERED: &str = "answered";

/// One event.
pub(crate) enum Step {
    /// Sectors that a write changed, with their new content.
    Write {
        disk: usize,
        sectors: Vec<(u64, usize)>,
        /// The sequence number that a header names from then on.
        names: Option<u32>,
    },
    Flush {
        disk: usize,
    },
    /// The operation is acknowledged.
    Answered,
}

/// A recorded operation.
pub(crate) struct Trace {
    /// The disks before.
    pub(crate) base: Vec<DiskImage>,
    pub(crate) steps: Vec<Step>,
    /// Contents of sectors, each once.
    pub(crate) contents: Vec<Vec<u8>>,
    /// Every text that a header named, by sequence number.
    pub(crate) versions: BTreeMap<u32, decode::Vg>,
    /// The version before.
    pub(crate) before: u32,
    /// A text went over the end of its ring.
    pub(crate) wraps: bool,
}

impl Trace {
    pub(crate) fn new(base: Vec<DiskImage>, events: &[DiskEvent]) -> Self {
        let mut trace = Self {
            steps: Vec::new(),
            contents: Vec::new(),
            versions: BTreeMap::new(),
            before: 0,
            wraps: false,
            base,
        };
        let mut now = trace.base.clone();
        for image in &now {
            trace.learn(image, None);
        }
        trace.before = trace.after();
        trace.wraps = false;
        let mut numbers = HashMap::new();
        for event in events {
            let step = match event {
                DiskEvent::Write { disk, offset, data } => {
                    trace.write(disk, *offset, data, &mut now, &mut numbers)
                }
                DiskEvent::Zero { disk, offset, len } => {
                    let zeros = vec![0; usize::try_from(*len).expect("a length")];
                    trace.write(disk, *offset, &zeros, &mut now, &mut numbers)
                }
                DiskEvent::Flush { disk } => Step::Flush { disk: number(disk) },
                DiskEvent::Failed { .. } => continue,
                DiskEvent::Mark(note) => {
                    assert_eq!(note, ANSWERED);
                    Step::Answered
                }
            };
            trace.steps.push(step);
        }
        trace
    }

    fn write(
        &mut self,
        disk: &str,
        offset: u64,
        data: &[u8],
        now: &mut [DiskImage],
        numbers: &mut HashMap<Vec<u8>, usize>,
    ) -> Step {
        let disk = number(disk);
        let image = &mut now[disk];
        let size = u64::from(image.info().block_size);
        let len = data.len() as u64;
        let (first, end) = (offset / size, (offset + len).div_ceil(size));
        let sector_len = usize::try_from(size).expect("a sector");
        let zeros = data.iter().all(|byte| *byte == 0);
        let mut old = Vec::new();
        for sector in first..end {
            // A hole stays one.
            if zeros && image.is_zero(sector * size, size) {
                continue;
            }
            old.push((sector, image.read(sector * size, sector_len)));
        }
        image.write(offset, data);
        let mut sectors = Vec::new();
        for (sector, old) in old {
            let new = image.read(sector * size, sector_len);
            if new == old {
                continue;
            }
            let next = self.contents.len();
            let content = *numbers.entry(new.clone()).or_insert(next);
            if content == next {
                self.contents.push(new);
            }
            sectors.push((sector, content));
        }
        let image = image.clone();
        let names = self.learn(&image, Some(offset));
        Step::Write {
            disk,
            sectors,
            names,
        }
    }

    /// Reads the text that the area with its header at `offset` names, or that
    /// of every area; a newer one is a new version of the VG.
    fn learn(&mut self, image: &DiskImage, offset: Option<u64>) -> Option<u32> {
        let pv = decode::pv_with(&|offset, length| image.read(offset, length));
        let pv = pv.expect("a PV while nothing fails");
        let mut named = None;
        for mda in &pv.mdas {
            if offset.is_some_and(|offset| offset != mda.start) {
                continue;
            }
            let vg = decode::Vg::from_text(mda.text.as_deref().expect("a text"));
            assert_eq!(vg.name, VG);
            let seqno = u32::try_from(vg.seqno).expect("a sequence number");
            self.wraps |= mda.offset + mda.text_size > mda.size;
            named = Some(seqno);
            if let Some(known) = self.versions.get(&seqno) {
                assert_eq!(known.text, vg.text, "two texts with number {seqno}");
            } else {
                self.versions.insert(seqno, vg);
            }
        }
        named
    }

    /// The newest version.
    pub(crate) fn after(&self) -> u32 {
        *self.versions.keys().next_back().expect("a version")
    }
}

fn number(path: &str) -> usize {
    (0..)
        .find(|number| Layout::path(*number) == path)
        .expect("a disk of the VG")
}
