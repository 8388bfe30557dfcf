//! The contract's metrics of LVs, VGs and PVs: names, labels and values as the
//! peer's exporter has them.

use std::collections::HashMap;

use lvm2::model::Lv;
use lvm2::name::dm_name;
use lvm2::units::Bytes;
use prometheus::{GaugeVec, Opts, Registry};

use super::own::{MetricsError, print};
use super::vg_fields::{allocation_policy, lv_counts, permissions};
use crate::engine::roles::Roles;
use crate::engine::{Engine, LvReport, PvReport, VgReport};

/// Labels of everything about an LV.
const LV: [&str; 9] = [
    "name",
    "path",
    "dm_path",
    "vg",
    "device",
    "host",
    "segtype",
    "pool",
    "active_status",
];
/// Labels of everything about a PV.
const PV: [&str; 5] = ["name", "allocatable", "vg", "missing", "in_use"];

/// Limits of an LV's I/O that are in force; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LvLimits {
    /// Reads a second.
    pub read_iops: u64,
    /// Writes a second.
    pub write_iops: u64,
    /// Bytes read a second.
    pub read_bps: u64,
    /// Bytes written a second.
    pub write_bps: u64,
}

/// The text of the contract's metrics for every VG that can be read, and for
/// each that cannot, the reason. Blocks; takes no lock.
///
/// # Errors
/// If the VGs cannot be listed, or the text not be made.
pub fn render_lvm(
    engine: &Engine,
    limits: &HashMap<String, LvLimits>,
) -> Result<(String, Vec<String>), MetricsError> {
    let mut families = Families::default();
    let mut troubles = Vec::new();
    match engine.vg_names() {
        Err(error) => troubles.push(error.to_string()),
        Ok(names) => {
            for name in names {
                // One broken VG hides no other.
                match engine.vg(&name) {
                    Ok(report) => families.vg(&report, limits)?,
                    Err(error) => troubles.push(error.to_string()),
                }
            }
        }
    }
    Ok((print(&families.registry)?, troubles))
}

/// Gauges, made as they are first set, so that none is listed without a value.
#[derive(Default)]
struct Families {
    registry: Registry,
    gauges: HashMap<&'static str, GaugeVec>,
}

impl Families {
    fn set(
        &mut self,
        name: &'static str,
        help: &str,
        names: &[&str],
        values: &[&str],
        value: f64,
    ) -> Result<(), MetricsError> {
        let gauge = match self.gauges.get(name) {
            Some(gauge) => gauge.clone(),
            None => {
                let made = GaugeVec::new(Opts::new(name, help), names)?;
                self.registry.register(Box::new(made.clone()))?;
                self.gauges.insert(name, made.clone());
                made
            }
        };
        gauge.with_label_values(values).set(value);
        Ok(())
    }

    fn vg(
        &mut self,
        report: &VgReport,
        limits: &HashMap<String, LvLimits>,
    ) -> Result<(), MetricsError> {
        let vg = &report.vg;
        // Only LVs that we do not make are anything to each other.
        let foreign = vg.lvs().iter().any(|lv| !lv.is_native());
        let roles = foreign.then(|| Roles::of(vg));
        for (lv, state) in vg.lvs().iter().zip(&report.lvs) {
            let listed = match &roles {
                Some(roles) => roles.is_listed(lv),
                None => lv.visible(),
            };
            if listed {
                let limits = limits.get(lv.name.as_str()).copied().unwrap_or_default();
                let pool = roles.as_ref().and_then(|roles| pool(roles, lv));
                self.lv(report, lv, state, pool, limits)?;
            }
        }
        for pv in &report.pvs {
            self.pv(pv)?;
        }
        let extent = vg.extent_size();
        let missing = report.pvs.iter().filter(|pv| pv.missing).count();
        let (lvs, snapshots) = lv_counts(vg);
        let metadata = &report.metadata;
        let name = [vg.name().as_str()];
        for (metric, help, value) in [
            (
                "lvm_vg_free_size_bytes",
                "Free bytes of the VG",
                bytes(extent.bytes_of(vg.free_extents())),
            ),
            (
                "lvm_vg_total_size_bytes",
                "Bytes of the VG",
                bytes(extent.bytes_of(vg.extents_total())),
            ),
            ("lvm_vg_lv_count", "LVs", count(lvs)),
            ("lvm_vg_pv_count", "PVs", count(vg.pvs().len())),
            (
                "lvm_vg_max_lv_count",
                "Most LVs allowed, 0 for no limit",
                number(vg.max_lv()),
            ),
            (
                "lvm_vg_max_pv_count",
                "Most PVs allowed, 0 for no limit",
                number(vg.max_pv()),
            ),
            ("lvm_vg_snap_count", "Snapshots", count(snapshots)),
            (
                "lvm_vg_missing_pv_count",
                "PVs that are missing",
                count(missing),
            ),
            ("lvm_vg_mda_count", "Metadata areas", count(metadata.areas)),
            (
                "lvm_vg_mda_used_count",
                "Metadata areas in use",
                count(metadata.used_areas),
            ),
            (
                "lvm_vg_mda_free_size_bytes",
                "Free bytes of the fullest metadata area",
                bytes(metadata.free()),
            ),
            (
                "lvm_vg_mda_total_size_bytes",
                "Bytes of the smallest metadata area",
                bytes(metadata.size),
            ),
            (
                "lvm_vg_permission",
                "-1 undefined, 0 writeable, 1 read-only",
                f64::from(permissions(vg)),
            ),
            (
                "lvm_vg_allocation_policy",
                "-1 undefined, 0 normal, 1 contiguous, 2 cling, 3 anywhere, 4 inherited",
                f64::from(allocation_policy(vg)),
            ),
        ] {
            self.set(metric, help, &["name"], &name, value)?;
        }
        Ok(())
    }

    fn lv(
        &mut self,
        report: &VgReport,
        lv: &Lv,
        state: &LvReport,
        pool: Option<&str>,
        limits: LvLimits,
    ) -> Result<(), MetricsError> {
        let vg = &report.vg;
        let (vg_name, name) = (vg.name().as_str(), lv.name.as_str());
        let device = state.device.as_ref();
        let node = device.map_or_else(String::new, |device| format!("dm-{}", device.dev.minor));
        let size = bytes(vg.extent_size().bytes_of(lv.extents()));
        self.set(
            "openebs_size_of_volume",
            "Bytes of the volume",
            &["volumename", "device"],
            &[name, &node],
            size,
        )?;
        let partial = report.is_partial(lv);
        let permission = match device {
            _ if !lv.writable() => 2.0,
            Some(device) if device.read_only => 3.0,
            _ => 1.0,
        };
        let labels = [
            name,
            &format!("/dev/{vg_name}/{name}"),
            &format!("/dev/mapper/{}", dm_name(vg_name, name, None)),
            vg_name,
            &node,
            lv.creation_host.as_deref().unwrap_or_default(),
            lv.type_name(),
            pool.unwrap_or_default(),
            if device.is_some_and(|device| device.active_table) {
                "active"
            } else {
                ""
            },
        ];
        for (metric, help, value) in [
            ("lvm_lv_total_size_bytes", "Bytes of the LV", size),
            (
                "lvm_lv_used_percent",
                "Used part of a thin LV or snapshot",
                0.0,
            ),
            (
                "lvm_lv_permission",
                "-1 undefined, 0 unknown, 1 writeable, 2 read-only, 3 read-only-override",
                permission,
            ),
            (
                "lvm_lv_when_full",
                "What a full thin pool does: -1 undefined, 0 error, 1 queue",
                -1.0,
            ),
            (
                "lvm_lv_health_status",
                "-1 undefined, 0 well, 1 partial, 2 refresh needed, 3 mismatches exist",
                f64::from(u8::from(partial)),
            ),
            (
                "lvm_lv_raid_sync_action",
                "-1 undefined, 0 idle, 1 frozen, 2 resync, 3 recover, 4 check, 5 repair",
                -1.0,
            ),
            (
                "lvm_lv_mda_total_size_bytes",
                "Bytes of a thin pool's metadata",
                0.0,
            ),
            (
                "lvm_lv_mda_used_percent",
                "Used part of a thin pool's metadata",
                0.0,
            ),
            ("lvm_lv_snap_percent", "Used part of a snapshot", 0.0),
            (
                "openebs_lv_riops_limit",
                "Limit of reads a second, 0 for none",
                number(limits.read_iops),
            ),
            (
                "openebs_lv_wiops_limit",
                "Limit of writes a second, 0 for none",
                number(limits.write_iops),
            ),
            (
                "openebs_lv_rbps_limit",
                "Limit of bytes read a second, 0 for none",
                number(limits.read_bps),
            ),
            (
                "openebs_lv_wbps_limit",
                "Limit of bytes written a second, 0 for none",
                number(limits.write_bps),
            ),
        ] {
            self.set(metric, help, &LV, &labels, value)?;
        }
        Ok(())
    }

    fn pv(&mut self, pv: &PvReport) -> Result<(), MetricsError> {
        let path = pv
            .device
            .as_ref()
            .map(|device| device.path.display().to_string());
        let name = path.unwrap_or_else(|| "[unknown]".to_owned());
        let word = |is: bool, word: &'static str| if is { word } else { "" };
        let labels = [
            name.as_str(),
            word(pv.allocatable, "allocatable"),
            pv.vg.as_ref().map_or("", |vg| vg.as_str()),
            word(pv.missing, "missing"),
            word(pv.vg.is_some(), "used"),
        ];
        let used = Bytes(pv.size.0.saturating_sub(pv.free.0));
        let device = pv.device.as_ref().map_or(0, |device| device.size);
        for (metric, help, value) in [
            ("lvm_pv_total_size_bytes", "Bytes of the PV", bytes(pv.size)),
            (
                "lvm_pv_free_size_bytes",
                "Free bytes of the PV",
                bytes(pv.free),
            ),
            (
                "lvm_pv_used_size_bytes",
                "Used bytes of the PV",
                bytes(used),
            ),
            (
                "lvm_pv_device_size_bytes",
                "Bytes of the PV's device",
                number(device),
            ),
            (
                "lvm_pv_mda_total_size_bytes",
                "Bytes of the PV's smallest metadata area",
                bytes(pv.metadata.size),
            ),
            (
                "lvm_pv_mda_free_size_bytes",
                "Free bytes of the PV's fullest metadata area",
                bytes(pv.metadata.free()),
            ),
        ] {
            self.set(metric, help, &PV, &labels, value)?;
        }
        Ok(())
    }
}

/// The pool of a thin or cached LV.
fn pool<'a>(roles: &'a Roles, lv: &Lv) -> Option<&'a str> {
    ["thin_pool", "cache_pool"]
        .into_iter()
        .find_map(|key| roles.str(lv.name.as_str(), key))
}

fn bytes(bytes: Bytes) -> f64 {
    number(bytes.0)
}

fn count(count: usize) -> f64 {
    number(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Prometheus knows one kind of number. Sizes are multiples of sectors, so
/// they stay exact up to 4 EiB.
#[allow(clippy::cast_precision_loss, reason = "exact below 2^53, see above")]
fn number(number: u64) -> f64 {
    number as f64
}
