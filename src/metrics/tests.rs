//! The contract's names, labels and values, on a simulated machine.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use lvm2::edit::Layout;
use lvm2::name::{LvName, VgName};
use lvm2::units::{Bytes, ExtentSize, Sectors};

use super::{LvLimits, Metrics, render_lvm};
use crate::engine::{CreateLv, Engine, EngineConfig, Request, Size, Wipe};
use crate::host::sim::{CallKind, SimHost};

/// Every name of the contract that belongs to an LV, a VG or a PV.
const CONTRACT: &str = "openebs_size_of_volume lvm_lv_total_size_bytes lvm_lv_used_percent \
    lvm_lv_permission lvm_lv_when_full lvm_lv_health_status lvm_lv_raid_sync_action \
    lvm_lv_mda_total_size_bytes lvm_lv_mda_used_percent lvm_lv_snap_percent \
    openebs_lv_riops_limit openebs_lv_wiops_limit openebs_lv_rbps_limit openebs_lv_wbps_limit \
    lvm_vg_free_size_bytes lvm_vg_total_size_bytes lvm_vg_lv_count lvm_vg_pv_count \
    lvm_vg_max_lv_count lvm_vg_max_pv_count lvm_vg_snap_count lvm_vg_missing_pv_count \
    lvm_vg_mda_count lvm_vg_mda_used_count lvm_vg_mda_free_size_bytes \
    lvm_vg_mda_total_size_bytes lvm_vg_permission lvm_vg_allocation_policy \
    lvm_pv_total_size_bytes lvm_pv_free_size_bytes lvm_pv_used_size_bytes \
    lvm_pv_device_size_bytes lvm_pv_mda_total_size_bytes lvm_pv_mda_free_size_bytes";

const MIB: u64 = 1 << 20;

fn machine() -> (SimHost, Engine) {
    let sim = SimHost::new();
    let extent = ExtentSize::new(Sectors(8192)).unwrap();
    for (disk, vg) in [("/dev/sda", "data-a"), ("/dev/sdb", "other")] {
        sim.add_disk(disk, 256 * MIB, 512);
        sim.add_vg(vg, &[disk], extent).unwrap();
    }
    let engine = Engine::start(sim.host(), EngineConfig::default()).unwrap();
    (sim, engine)
}

fn create(engine: &Engine, name: &str, activate: bool) {
    let request = Request::Create(CreateLv {
        name: LvName::new(name).unwrap(),
        size: Size::Bytes(Bytes(8 * MIB)),
        tags: Vec::new(),
        layout: Layout::default(),
        wipe: Wipe::Signatures,
        activate,
    });
    let vg = VgName::new("data-a").unwrap();
    engine.submit(&vg, request).wait().unwrap();
}

fn render(engine: &Engine) -> String {
    let limits = LvLimits {
        write_iops: 7,
        ..LvLimits::default()
    };
    let limits = HashMap::from([("vol".to_owned(), limits)]);
    render_lvm(engine, &limits).unwrap().0
}

/// The value of the series that begins so, as it is written.
fn value<'a>(text: &'a str, series: &str) -> &'a str {
    let line = text.lines().find(|line| line.starts_with(series));
    let line = line.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    line.rsplit(' ').next().unwrap()
}

#[test]
fn names_are_the_contract_s_and_no_others() {
    let (_sim, engine) = machine();
    create(&engine, "vol", true);
    let text = render(&engine);
    let found: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            assert_eq!(kind, "gauge", "{name}");
            name
        })
        .collect();
    assert_eq!(found, CONTRACT.split_whitespace().collect());
}

#[test]
fn labels_and_values_are_the_contract_s() {
    let (_sim, engine) = machine();
    create(&engine, "my-vol", true);
    create(&engine, "vol", false);
    let text = render(&engine);
    let found = engine.find(&LvName::new("my-vol").unwrap()).unwrap();
    let minor = found[0].dev.unwrap().minor;
    let labels = format!(
        "{{active_status=\"active\",device=\"dm-{minor}\",dm_path=\"/dev/mapper/data--a-my--vol\",\
         host=\"sim\",name=\"my-vol\",path=\"/dev/data-a/my-vol\",pool=\"\",segtype=\"{}\",vg=\"data-a\"}}",
        "linear"
    );
    for (name, wanted) in [
        ("lvm_lv_total_size_bytes", "8388608"),
        ("lvm_lv_permission", "1"),
        ("lvm_lv_when_full", "-1"),
        ("lvm_lv_health_status", "0"),
        ("lvm_lv_raid_sync_action", "-1"),
        ("openebs_lv_wiops_limit", "0"),
    ] {
        assert_eq!(value(&text, &format!("{name}{labels}")), wanted, "{name}");
    }
    // An inactive LV hides nothing, and is there itself.
    let inactive = "openebs_size_of_volume{device=\"\",volumename=\"vol\"}";
    assert_eq!(value(&text, inactive), "8388608");
    let limit = "openebs_lv_wiops_limit{active_status=\"\"";
    assert_eq!(value(&text, limit), "7");
    for (name, wanted) in [
        ("lvm_vg_total_size_bytes", 252 * MIB),
        ("lvm_vg_free_size_bytes", 236 * MIB),
        ("lvm_vg_lv_count", 2),
        ("lvm_vg_pv_count", 1),
    ] {
        let series = format!("{name}{{name=\"data-a\"}}");
        assert_eq!(value(&text, &series), wanted.to_string(), "{name}");
    }
    let pv = "{allocatable=\"allocatable\",in_use=\"used\",missing=\"\",name=\"/dev/sda\",vg=\"data-a\"}";
    let number = |name: &str| value(&text, &format!("{name}{pv}")).parse::<u64>().unwrap();
    assert_eq!(number("lvm_pv_used_size_bytes"), 16 * MIB);
    assert_eq!(number("lvm_pv_device_size_bytes"), 256 * MIB);
    let area = number("lvm_pv_mda_total_size_bytes");
    let room = number("lvm_pv_mda_free_size_bytes");
    assert!(area > room && room > 0);
}

#[test]
fn a_broken_vg_hides_no_other_and_no_lock_is_taken() {
    let (sim, engine) = machine();
    create(&engine, "vol", true);
    let extent = ExtentSize::new(Sectors(8192)).unwrap();
    sim.add_disk("/dev/sdc", 64 * MIB, 512);
    sim.add_vg("other", &["/dev/sdc"], extent).unwrap();
    sim.clear_calls();
    let (text, troubles) = render_lvm(&engine, &HashMap::new()).unwrap();
    assert!(text.contains("lvm_vg_lv_count{name=\"data-a\"} 1"));
    assert_eq!(troubles.len(), 1);
    assert!(troubles[0].contains("other"), "{troubles:?}");
    let calls = sim.calls();
    assert!(!calls.is_empty());
    assert!(!calls.iter().any(|call| call.kind == CallKind::Lock));
}

#[test]
fn the_engine_s_work_is_measured() {
    let (_sim, engine) = machine();
    let metrics = Arc::new(Metrics::new().unwrap());
    engine.observe(metrics.clone());
    create(&engine, "vol", true);
    let vg = VgName::new("data-a").unwrap();
    let missing = Request::Activate {
        name: LvName::new("none").unwrap(),
    };
    assert!(engine.submit(&vg, missing).wait().is_err());
    let took = Duration::from_millis(3);
    metrics.called("NodePublishVolume", tonic::Code::Ok, took);
    metrics.reconciled("LVMVolume", Some("engine"), took);
    let text = metrics.render().unwrap();
    for line in [
        "lvcsi_operation_duration_seconds_count{operation=\"create\",result=\"ok\"} 1",
        "lvcsi_operation_duration_seconds_count{operation=\"activate\",result=\"NotFound\"} 1",
        "lvcsi_queue_depth 0",
        "lvcsi_commit_requests_sum{vg=\"data-a\"} 1",
        "lvcsi_commit_duration_seconds_count{vg=\"data-a\"} 1",
        "lvcsi_lock_wait_duration_seconds_count{vg=\"data-a\"} 2",
        "lvcsi_rpc_duration_seconds_count{code=\"Ok\",rpc=\"NodePublishVolume\"} 1",
        "lvcsi_reconcile_errors_total{kind=\"LVMVolume\",reason=\"engine\"} 1",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[test]
fn snapshots_and_pools_are_counted_and_labelled_as_lvm2_does() {
    let lines = |text: &str| {
        let sim = SimHost::new();
        sim.add_vg_text(text).unwrap();
        let engine = Engine::start(sim.host(), EngineConfig::default()).unwrap();
        render(&engine)
    };
    let listed = |text: &str| -> Vec<(String, String)> {
        let series = text
            .lines()
            .filter(|line| line.starts_with("lvm_lv_total_size_bytes{"));
        let label = |line: &str, name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        series
            .map(|line| (label(line, ",name"), label(line, "pool")))
            .collect()
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let own = |(name, pool): &(&str, &str)| ((*name).to_owned(), (*pool).to_owned());
        pairs.iter().map(own).collect()
    };
    let thick = lines(include_str!("../../lvm2/tests/data/meta-snapshot.txt"));
    assert_eq!(
        listed(&thick),
        pairs(&[("org", ""), ("snap1", ""), ("snap2", "")])
    );
    assert_eq!(value(&thick, "lvm_vg_lv_count{name=\"vgt\"}"), "3");
    assert_eq!(value(&thick, "lvm_vg_snap_count{name=\"vgt\"}"), "2");
    let thin = lines(include_str!("../../lvm2/tests/data/meta-thin.txt"));
    assert_eq!(
        listed(&thin),
        pairs(&[("pool", ""), ("th1", "pool"), ("th1s", "pool")])
    );
    assert_eq!(value(&thin, "lvm_vg_lv_count{name=\"vgt\"}"), "3");
    assert_eq!(value(&thin, "lvm_vg_snap_count{name=\"vgt\"}"), "0");
}
