//! Reading: what there is, and what a request would do.

use std::collections::HashMap;
use std::sync::Arc;

use lvm2::edit;
use lvm2::name::{LvName, dm_uuid};
use lvm2::units::{Bytes, Extents};

use super::activation;
use super::batch::stamp;
use super::copies::FoundPv;
use super::error::EngineError;
use super::execute::describe;
use super::loaded::Loaded;
use super::permit;
use super::prepare::{self, Context, Zero};
use super::request::Request;
use super::state::{
    LvReport, LvState, MetadataUse, Plan, Problem, PvReport, Report, VgReport, VgSummary,
};
use super::visit::Visitor;
use crate::host::Host;

/// Everything, from a new look at all devices.
pub(super) fn everything(visitor: &Visitor) -> Result<Report, EngineError> {
    let (loaded, remainder) = visitor.registry.everything()?;
    let mut report = Report {
        orphans: remainder.orphans.iter().map(orphan).collect(),
        skipped: remainder.skipped,
        problems: remainder.problems,
        vgs: Vec::new(),
    };
    for loaded in loaded {
        let object = loaded.vg.name().to_string();
        let findings = loaded.hazards.iter().map(ToString::to_string);
        report.problems.extend(
            findings
                .chain(loaded.outdated.iter().cloned())
                .map(|detail| Problem {
                    object: object.clone(),
                    detail,
                }),
        );
        let question = |host: &Host, loaded: &Arc<Loaded>| vg(host, loaded);
        let vg = visitor.ask(&loaded, Arc::new(question))?;
        report
            .problems
            .extend(vg.refusal.iter().map(|refusal| Problem {
                object: object.clone(),
                detail: refusal.to_string(),
            }));
        report.vgs.push(vg);
    }
    Ok(report)
}

/// One VG.
pub(super) fn vg(host: &Host, loaded: &Loaded) -> Result<VgReport, EngineError> {
    let vg = &loaded.vg;
    // One call lists all devices; only LVs that are active cost another.
    let entries = host.dm.list().map_err(|source| EngineError::Host {
        object: vg.name().to_string(),
        source: Arc::new(source),
    })?;
    let active: HashMap<&str, ()> = entries
        .iter()
        .map(|entry| (entry.uuid.as_str(), ()))
        .collect();
    let mut lvs = Vec::with_capacity(vg.lvs().len());
    for lv in vg.lvs() {
        let uuid = dm_uuid(&vg.id(), &lv.id, None);
        let device = if active.contains_key(uuid.as_str()) {
            activation::present(host, vg, lv)?
        } else {
            None
        };
        lvs.push(LvReport {
            name: lv.name.clone(),
            device,
        });
    }
    Ok(VgReport {
        vg: Arc::clone(vg),
        pvs: pvs(loaded),
        lvs,
        refusal: loaded.refusal(&host.identity),
        metadata: loaded.metadata_use(),
    })
}

/// One VG without the devices of its LVs.
pub(super) fn summary(host: &Host, loaded: &Loaded) -> VgSummary {
    VgSummary {
        vg: Arc::clone(&loaded.vg),
        pvs: pvs(loaded),
        refusal: loaded.refusal(&host.identity),
        hazards: loaded.hazards.clone(),
        metadata: loaded.metadata_use(),
    }
}

fn pvs(loaded: &Loaded) -> Vec<PvReport> {
    let vg = &loaded.vg;
    let mut used: HashMap<&str, u64> = HashMap::new();
    for lv in vg.lvs() {
        for extents in lv.uses() {
            *used.entry(extents.key).or_default() += extents.count.0;
        }
    }
    vg.pvs()
        .iter()
        .map(|pv| {
            let allocated = used.get(pv.key.as_str()).copied().unwrap_or(0);
            let free = Extents(pv.pe_count.0.saturating_sub(allocated));
            let device = loaded.device(&pv.id).map(|device| device.info().clone());
            PvReport {
                id: pv.id,
                missing: pv.missing || device.is_none(),
                device,
                vg: Some(vg.name().clone()),
                size: vg.extent_size().bytes_of(pv.pe_count),
                free: vg.extent_size().bytes_of(free),
                allocatable: pv.allocatable,
                tags: pv.tags.clone(),
                extents: (pv.pe_count, Extents(allocated)),
                metadata: loaded.pv_metadata_use(&pv.id),
            }
        })
        .collect()
}

fn orphan(pv: &FoundPv) -> PvReport {
    let info = pv.device.info().clone();
    PvReport {
        id: pv.device.id,
        vg: None,
        size: Bytes(info.size),
        free: Bytes(info.size),
        device: Some(info),
        // One that a VG uses whose metadata is not to be found is not free.
        allocatable: !pv.header.in_use(),
        missing: false,
        tags: Vec::new(),
        extents: (Extents(0), Extents(0)),
        metadata: MetadataUse::default(),
    }
}

/// The LV of this name, if the VG has one.
pub(super) fn find(
    host: &Host,
    loaded: &Loaded,
    name: &LvName,
) -> Result<Option<LvState>, EngineError> {
    let vg = &loaded.vg;
    let Some(lv) = vg.lv(name.as_str()) else {
        return Ok(None);
    };
    let dev = activation::present(host, vg, lv)?.map(|device| device.dev);
    let node = dev
        .map(|dev| host.dm.node(dev))
        .transpose()
        .map_err(|source| EngineError::Host {
            object: format!("{}/{name}", vg.name()),
            source: Arc::new(source),
        })?;
    Ok(Some(LvState {
        dev,
        node,
        ..describe(vg, lv, false)
    }))
}

/// What a request would do.
pub(super) fn plan(host: &Host, loaded: &Loaded, request: &Request) -> Result<Plan, EngineError> {
    let context = Context::of(host);
    let old = &loaded.vg;
    let planned = permit::planned(loaded, host, prepare::plan(old, request, &context))?;
    let name = old.name().as_str();
    let mut steps: Vec<String> = planned
        .before
        .iter()
        .map(|step| step.describe(name))
        .collect();
    let mut last = Arc::clone(&planned.vg);
    let mut after: Vec<String> = planned
        .after
        .iter()
        .map(|step| step.describe(name))
        .collect();
    permit::check(loaded, host, old, &planned)?;
    if !Arc::ptr_eq(old, &planned.vg) {
        steps.push(commit_step(loaded, &planned.vg));
    }
    steps.append(&mut after);
    if let Some(zero) = &planned.zero {
        last = finish(loaded, &planned.vg, zero, &mut steps)?;
    }
    if Arc::ptr_eq(old, &last) {
        return Ok(Plan {
            diff: String::new(),
            steps,
        });
    }
    let description = format!(
        "Write from lvcsi {} {name}/{}.",
        request.verb(),
        request.lv()
    );
    let sealed =
        edit::seal(&last, &stamp(host, description)).map_err(|source| EngineError::Edit {
            vg: old.name().clone(),
            source: Arc::new(source),
        })?;
    Ok(Plan {
        diff: edit::diff(old, &sealed),
        steps,
    })
}

fn finish(
    loaded: &Loaded,
    vg: &Arc<lvm2::model::Vg>,
    zero: &Zero,
    steps: &mut Vec<String>,
) -> Result<Arc<lvm2::model::Vg>, EngineError> {
    let name = loaded.vg.name().as_str();
    let second = prepare::plan_finish(vg, zero)?;
    steps.extend(second.before.iter().map(|step| step.describe(name)));
    steps.push(commit_step(loaded, &second.vg));
    steps.extend(second.after.iter().map(|step| step.describe(name)));
    Ok(second.vg)
}

fn commit_step(loaded: &Loaded, vg: &lvm2::model::Vg) -> String {
    let areas = loaded.metadata_use().used_areas;
    let size = vg.print().len();
    format!(
        "write about {size} bytes of metadata to {areas} area(s), flush, write the header(s), flush"
    )
}
