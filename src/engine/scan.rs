//! Finding PVs and the VGs they form.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lvm2::id::VgId;
use lvm2::name::VgName;
use lvm2::ondisk::label;
use lvm2::tables::DevNo;

use super::area::{Area, PvDevice};
use super::copies::{FoundPv, MetadataCopy, TextCache, read_copy};
use super::lanes::{Begun, Key, Lanes};
use super::loaded::Loaded;
use super::state::Problem;
use crate::host::{DeviceInfo, Host, SkipReason, Skipped};

/// Everything that one look at all devices found.
pub(super) struct Scan {
    pub(super) vgs: BTreeMap<VgName, Vec<Loaded>>,
    /// PVs that belong to no readable VG.
    pub(super) orphans: Vec<FoundPv>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) problems: Vec<Problem>,
}

/// Devices that are open already, by number, so that a scan keeps their
/// handles.
pub(super) type Known = BTreeMap<DevNo, Arc<PvDevice>>;

/// Bytes from the start of a device in which a label is looked for.
const LABEL_AREA: usize = 2048;

/// Looks at the devices that discovery found. A device that fails or does not
/// answer within `timeout` is reported and left out.
pub(super) fn scan(
    host: &Host,
    lanes: &Lanes,
    timeout: Duration,
    known: &Known,
    (devices, mut skipped): (Vec<DeviceInfo>, Vec<Skipped>),
) -> Scan {
    let mut problems = Vec::new();
    let mut found = Vec::new();
    for (device, outcome) in probe_all(host, lanes, devices, timeout, known) {
        match outcome {
            Some(Ok(Some(pv))) => found.push(pv),
            Some(Ok(None)) => {}
            Some(Err(detail)) => {
                skipped.push(Skipped {
                    path: device.path,
                    reason: SkipReason::Unreadable(detail),
                });
            }
            None => {
                skipped.push(Skipped {
                    path: device.path,
                    reason: SkipReason::TimedOut(timeout),
                });
            }
        }
    }
    found.sort_by_key(|pv| pv.device.info().devno);
    let vgs = group(&found, &mut problems);
    let orphans: Vec<FoundPv> = found
        .into_iter()
        .filter(|pv| {
            !vgs.values()
                .flatten()
                .any(|loaded| loaded.vg.pv_by_id(&pv.device.id).is_some())
        })
        .collect();
    problems.extend(orphans.iter().filter_map(unreadable));
    Scan {
        vgs,
        orphans,
        skipped,
        problems,
    }
}

fn group(found: &[FoundPv], problems: &mut Vec<Problem>) -> BTreeMap<VgName, Vec<Loaded>> {
    let mut ids: Vec<VgId> = found
        .iter()
        .flat_map(|pv| &pv.copies)
        .filter_map(|copy| copy.vg().map(|vg| vg.id()))
        .collect();
    ids.sort();
    ids.dedup();
    let mut vgs: BTreeMap<VgName, Vec<Loaded>> = BTreeMap::new();
    for loaded in ids.into_iter().filter_map(|id| Loaded::assemble(id, found)) {
        for pv in found {
            let claims = pv
                .copies
                .iter()
                .filter_map(MetadataCopy::vg)
                .any(|vg| vg.id() == loaded.vg.id());
            if claims && loaded.vg.pv_by_id(&pv.device.id).is_none() {
                problems.push(Problem {
                    object: pv.device.info().path.display().to_string(),
                    detail: format!(
                        "was removed from VG {} while it was away; `vgck --updatemetadata {}` clears it",
                        loaded.vg.name(),
                        loaded.vg.name()
                    ),
                });
            }
        }
        vgs.entry(loaded.vg.name().clone())
            .or_default()
            .push(loaded);
    }
    vgs
}

/// What is wrong with a PV that belongs to a VG which nothing describes.
fn unreadable(pv: &FoundPv) -> Option<Problem> {
    let detail = pv.unreadable()?;
    Some(Problem {
        object: pv.device.info().path.display().to_string(),
        detail: format!(
            "its metadata is unreadable ({detail}), and no other PV describes its VG; look at it with \
             `lvcsi inspect`, restore it with `vgcfgrestore`"
        ),
    })
}

type Outcome = Option<Result<Option<FoundPv>, String>>;

/// Probes all devices at once, each in a lane of its own: one that hangs costs
/// its time-out once and holds up nobody else.
fn probe_all(
    host: &Host,
    lanes: &Lanes,
    devices: Vec<DeviceInfo>,
    timeout: Duration,
    known: &Known,
) -> Vec<(DeviceInfo, Outcome)> {
    let begun: Vec<_> = devices
        .into_iter()
        .map(|device| {
            let host = host.clone();
            let target = device.clone();
            let open = known.get(&device.devno).cloned();
            let look = move || probe(&host, &target, open);
            let begun = lanes.begin(Key::Device(device.devno), timeout, look);
            (device, begun)
        })
        .collect();
    begun
        .into_iter()
        .map(|(device, begun)| {
            let outcome = begun.and_then(Begun::wait);
            (device, outcome.ok())
        })
        .collect()
}

/// Reads label, headers and texts of one device. `None` if it is no PV.
fn probe(
    host: &Host,
    device: &DeviceInfo,
    known: Option<Arc<PvDevice>>,
) -> Result<Option<FoundPv>, String> {
    let reader = match &known {
        Some(open) if open.info() == device => Arc::clone(&open.reader),
        _ => host
            .block
            .open(device, false)
            .map_err(|error| error.to_string())?,
    };
    let mut head = [0; LABEL_AREA];
    reader
        .read_at(0, &mut head)
        .map_err(|error| error.to_string())?;
    let Some(label) = label::find(&head).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let header = label.header;
    let pv = match known {
        Some(open) if open.info() == device && open.id == header.id => open,
        _ => Arc::new(PvDevice::new(header.id, reader, Arc::clone(&host.block))),
    };
    let mut texts = TextCache::default();
    let copies = header
        .metadata_areas
        .iter()
        .map(|area| {
            let area = Area {
                pv: Arc::clone(&pv),
                start: area.offset.0,
                size: area.size.0,
            };
            read_copy(&area, &mut texts)
        })
        .collect();
    Ok(Some(FoundPv {
        device: pv,
        header,
        copies,
    }))
}
