//! What is wrong on the machine beside its VGs.

use std::collections::HashSet;
use std::time::Duration;

use super::repair::{Mended, Repair};
use super::{Defect, Finding, host_error};
use crate::engine::Engine;
use crate::engine::error::EngineError;
use crate::engine::zeroing::CLAIM_PREFIX;
use crate::host::{Host, LockMode};

/// Findings that belong to no VG. Writes nothing.
pub(in crate::engine) fn check_machine(engine: &Engine) -> Result<Vec<Finding>, EngineError> {
    let host = engine.host();
    let (_, remainder) = engine.registry().everything()?;
    let finding = |object: String, defect| Finding {
        object,
        lv: None,
        defect,
    };
    let problems = remainder.problems.into_iter();
    let mut found: Vec<Finding> = problems
        .map(|problem| finding(problem.object, Defect::Device(problem.detail)))
        .collect();
    let used = remainder.orphans.iter().filter(|pv| pv.header.in_use());
    found.extend(used.map(|pv| {
        let path = pv.device.info().path.display().to_string();
        finding(path, Defect::PvLooksUsed)
    }));
    found.extend(stale_mounts(host)?);
    let claims = host
        .locks
        .leftovers(CLAIM_PREFIX)
        .map_err(|error| host_error("lock files", error))?;
    found.extend(
        claims
            .into_iter()
            .map(|name| finding(name, Defect::StaleClaim)),
    );
    Ok(found)
}

/// Device nodes that are bound where a pod sees them, while their device is
/// gone: whoever gets the number next would be seen there.
fn stale_mounts(host: &Host) -> Result<Vec<Finding>, EngineError> {
    let mounts = host
        .fs
        .mounts()
        .map_err(|error| host_error("mounts", error))?;
    let devices = host
        .dm
        .list()
        .map_err(|error| host_error("devices", error))?;
    let minors: HashSet<u32> = devices.iter().map(|device| device.dev.minor).collect();
    let gone = |root: &str| {
        let minor = root.strip_prefix("/dm-")?.parse::<u32>().ok()?;
        (!minors.contains(&minor)).then_some(())
    };
    Ok(mounts
        .into_iter()
        .filter(|mount| mount.fs_type == "devtmpfs")
        .filter(|mount| mount.root.to_str().and_then(gone).is_some())
        .map(|mount| Finding {
            object: mount.target.display().to_string(),
            lv: None,
            defect: Defect::StaleMount(mount.root),
        })
        .collect())
}

/// Mends what [`check_machine`] found, as far as it is safe.
pub(in crate::engine) fn repair_machine(
    engine: &Engine,
    dry_run: bool,
) -> Result<Repair, EngineError> {
    let mut repair = Repair::default();
    for finding in check_machine(engine)? {
        match &finding.defect {
            Defect::StaleClaim => {
                let what = "removed the lock file".to_owned();
                let outcome = if dry_run {
                    Ok(())
                } else {
                    // Whoever lets go of a lock removes its file.
                    let name = &finding.object;
                    let lock = &engine.host().locks;
                    lock.lock(name, LockMode::Exclusive, Duration::ZERO)
                        .map(drop)
                };
                match outcome {
                    Ok(()) => repair.done.push(Mended { finding, what }),
                    Err(error) => repair.left.push(Mended {
                        finding,
                        what: error.to_string(),
                    }),
                }
            }
            defect => {
                let what = defect.advice().to_owned();
                repair.left.push(Mended { finding, what });
            }
        }
    }
    Ok(repair)
}
