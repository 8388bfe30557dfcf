//! What must hold for every state that a power cut can leave.

use std::collections::BTreeSet;

use lvcsi::engine::{Engine, tags};
use lvcsi::host::sim::{DiskImage, SimHost};
use lvcsi_kit::decode;
use lvm2::check::check;
use lvm2::model::{AreaRef, SegmentKind, Vg};

use crate::layouts::{images, machine_on};
use crate::requests::{ask, create, vg};
use crate::states::Window;
use crate::stories::{self, Act, start};
use crate::tenants::{Lvs, Tenant};
use crate::trace::Trace;

/// Names, extents and tags of the LVs.
pub(crate) type Shape = BTreeSet<(String, i64, Vec<String>)>;

pub(crate) fn shape(vg: &decode::Vg) -> Shape {
    let row = |lv: &decode::Lv| {
        let mut tags = lv.tags.clone();
        tags.sort();
        (lv.name.clone(), lv.extents(), tags)
    };
    vg.lvs.iter().map(row).collect()
}

/// What the decoder finds on the disks.
pub(crate) struct Seen {
    pub(crate) pvs: Vec<decode::Pv>,
    /// The newest version.
    pub(crate) vg: decode::Vg,
    /// Some area has an older one.
    pub(crate) mixed: bool,
}

/// Reads all areas. Each must name a complete text, and two of one number the
/// same one.
pub(crate) fn read(images: &[DiskImage]) -> Result<Seen, String> {
    let mut pvs = Vec::new();
    for image in images {
        let pv = decode::pv_with(&|offset, length| image.read(offset, length));
        pvs.push(pv.map_err(|defect| format!("{}: {defect}", image.info().path.display()))?);
    }
    let mut texts: Vec<&str> = Vec::new();
    for mda in pvs.iter().flat_map(|pv| &pv.mdas) {
        texts.push(mda.text.as_deref().ok_or("an area without a text")?);
    }
    texts.sort_unstable();
    texts.dedup();
    let mut vgs: Vec<_> = texts.into_iter().map(decode::Vg::from_text).collect();
    vgs.sort_by_key(|vg| vg.seqno);
    if let Some(pair) = vgs.windows(2).find(|pair| pair[0].seqno == pair[1].seqno) {
        return Err(format!("two texts with number {}", pair[0].seqno));
    }
    let mixed = vgs.len() > 1;
    let vg = vgs.pop().ok_or("no VG")?;
    vg.assert_sound();
    Ok(Seen { pvs, vg, mixed })
}

/// What is the same for all states of a trace.
pub(crate) struct Case<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) act: Act,
    pub(crate) tenants: &'a [Tenant],
    /// The LVs once the operation was asked for again.
    pub(crate) done: &'a Shape,
}

impl Case<'_> {
    /// Says what is wrong with a state.
    pub(crate) fn judge(&self, disks: &[DiskImage], window: Window) -> Result<(), String> {
        let seen = read(disks)?;
        self.known_version(&seen.vg, window)?;
        Lvs::new(&seen.vg, &seen.pvs, disks).judge(self.tenants)?;

        let sim = machine_on(disks);
        let engine = start(&sim);
        agree(&engine, &seen.vg)?;
        let recovery = engine.recover();
        if !recovery.problems.is_empty() {
            return Err(format!("recovery: {:?}", recovery.problems));
        }
        let recovered = our_vg(&engine)?;
        self.old_or_new(&recovered, window)?;

        stories::again(self.act, &engine)?;
        ask(&engine, create("next", 1)).map_err(|error| format!("the next commit: {error}"))?;
        self.at_the_end(&sim, &engine, disks.len())
    }

    /// The newest text is a version of this operation that can be there.
    fn known_version(&self, vg: &decode::Vg, window: Window) -> Result<(), String> {
        let seqno = u32::try_from(vg.seqno).map_err(|error| error.to_string())?;
        let version = self.trace.versions.get(&seqno);
        let version = version.ok_or(format!("nobody wrote a version {seqno}"))?;
        if version.text != vg.text {
            return Err(format!("version {seqno} is not what was written"));
        }
        if seqno < window.least || seqno > window.most {
            return Err(format!("version {seqno} instead of one of {window:?}"));
        }
        Ok(())
    }

    /// After recovery the LVs are those of a finished version.
    fn old_or_new(&self, vg: &decode::Vg, window: Window) -> Result<(), String> {
        let incomplete = |lv: &decode::Lv| lv.tags.iter().any(|tag| tag == tags::INCOMPLETE);
        let answered = window.least == self.trace.after();
        let from = if answered {
            window.least
        } else {
            self.trace.before
        };
        let mut finished = self
            .trace
            .versions
            .range(from..)
            .map(|(_, version)| &version.lvs)
            .filter(|lvs| !lvs.iter().any(incomplete));
        if finished.any(|lvs| *lvs == vg.lvs) {
            return Ok(());
        }
        // The version before may have been an unfinished one.
        if matches!(self.act, Act::Recover) && shape(vg) == *self.done {
            return Ok(());
        }
        Err(format!("recovery leaves {:?}", vg.names()))
    }

    /// The operation was repeated and another commit was made.
    fn at_the_end(&self, sim: &SimHost, engine: &Engine, count: usize) -> Result<(), String> {
        let found = engine.check(&vg()).map_err(|error| error.to_string())?;
        if !found.is_empty() {
            return Err(format!("check at the end: {found:?}"));
        }
        let disks = images(sim, count);
        let seen = read(&disks)?;
        if seen.mixed {
            return Err("the next commit leaves an older copy".to_owned());
        }
        agree(engine, &seen.vg)?;
        let mut lvs = shape(&seen.vg);
        lvs.retain(|lv| lv.0 != "next");
        if lvs != *self.done {
            return Err(format!("the request again leaves {lvs:?}"));
        }
        Lvs::new(&seen.vg, &seen.pvs, &disks).judge(self.tenants)?;
        devices(engine, &seen.vg)
    }
}

/// Every device belongs to an LV and works.
fn devices(engine: &Engine, vg: &decode::Vg) -> Result<(), String> {
    let dm = &engine.host().dm;
    for entry in dm.list().map_err(|error| error.to_string())? {
        let known = vg
            .lvs
            .iter()
            .any(|lv| entry.uuid.ends_with(&lv.id.replace('-', "")));
        if !known {
            return Err(format!("device {} belongs to no LV", entry.name));
        }
    }
    Ok(())
}

fn our_vg(engine: &Engine) -> Result<decode::Vg, String> {
    let report = engine.vg(&vg()).map_err(|error| error.to_string())?;
    Ok(decode::Vg::from_text(&report.vg.print()))
}

/// Our reader sees what the decoder saw, and finds nothing that forbids a
/// change.
fn agree(engine: &Engine, theirs: &decode::Vg) -> Result<(), String> {
    let outline = engine.outline(&vg()).map_err(|error| error.to_string())?;
    if outline.refusal.is_some() || !outline.hazards.is_empty() {
        return Err(format!(
            "refused: {:?} {:?}",
            outline.refusal, outline.hazards
        ));
    }
    let ours = &outline.vg;
    if ours.print() != theirs.text {
        return Err("we read another text than the decoder".to_owned());
    }
    let violations = check(ours);
    if !violations.is_empty() {
        return Err(format!("violations: {violations:?}"));
    }
    let lvs = translate(ours);
    if lvs != theirs.lvs {
        return Err(format!("we read {lvs:?}, the decoder {:?}", theirs.lvs));
    }
    Ok(())
}

/// Our LVs in the decoder's words.
fn translate(vg: &Vg) -> Vec<decode::Lv> {
    let signed = |number: u64| i64::try_from(number).expect("a number of extents");
    vg.lvs()
        .iter()
        .map(|lv| {
            let segments = lv.segments.iter().map(|segment| {
                let SegmentKind::Striped { stripes, .. } = &segment.kind else {
                    panic!("{}: {segment:?}", lv.name)
                };
                let stripes = stripes.iter().map(|stripe| match &stripe.area {
                    AreaRef::Pv(key, first) => (key.clone(), signed(first.0)),
                    other => panic!("{}: {other:?}", lv.name),
                });
                decode::Segment {
                    start: signed(segment.start.0),
                    count: signed(segment.count.0),
                    stripes: stripes.collect(),
                }
            });
            decode::Lv {
                name: lv.name.to_string(),
                id: lv.id.to_string(),
                tags: lv.tags.iter().map(ToString::to_string).collect(),
                status: lv.status.clone(),
                segments: segments.collect(),
            }
        })
        .collect()
}
