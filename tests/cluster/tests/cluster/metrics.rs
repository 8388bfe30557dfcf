//! The agent's metrics beside what lvm2 reports at the same moment.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod as PodObject;
use kube::api::{Api, ListParams};
use lvcsi_cluster::{Claim, Class, Cluster, Node, SYSTEM, VG};

/// Metrics of VGs, and the fields that lvm2 has for them.
const VG_FIELDS: [(&str, &str); 12] = [
    ("lvm_vg_free_size_bytes", "vg_free"),
    ("lvm_vg_total_size_bytes", "vg_size"),
    ("lvm_vg_lv_count", "lv_count"),
    ("lvm_vg_pv_count", "pv_count"),
    ("lvm_vg_max_lv_count", "max_lv"),
    ("lvm_vg_max_pv_count", "max_pv"),
    ("lvm_vg_snap_count", "snap_count"),
    ("lvm_vg_missing_pv_count", "vg_missing_pv_count"),
    ("lvm_vg_mda_count", "vg_mda_count"),
    ("lvm_vg_mda_used_count", "vg_mda_used_count"),
    ("lvm_vg_mda_free_size_bytes", "vg_mda_free"),
    ("lvm_vg_mda_total_size_bytes", "vg_mda_size"),
];
const PV_FIELDS: [(&str, &str); 6] = [
    ("lvm_pv_total_size_bytes", "pv_size"),
    ("lvm_pv_free_size_bytes", "pv_free"),
    ("lvm_pv_used_size_bytes", "pv_used"),
    ("lvm_pv_device_size_bytes", "dev_size"),
    ("lvm_pv_mda_total_size_bytes", "pv_mda_size"),
    ("lvm_pv_mda_free_size_bytes", "pv_mda_free"),
];
/// Labels of an LV's metrics that lvm2 reports too.
const LV_LABELS: [(&str, &str); 7] = [
    ("name", "lv_name"),
    ("path", "lv_path"),
    ("dm_path", "lv_dm_path"),
    ("vg", "vg_name"),
    ("host", "lv_host"),
    ("segtype", "segtype"),
    ("active_status", "lv_active"),
];
/// What an agent tells of its own work once it has made a volume.
const OWN: [&str; 5] = [
    "lvcsi_operation_duration_seconds_count",
    "lvcsi_lock_wait_duration_seconds_count",
    "lvcsi_commit_duration_seconds_count",
    "lvcsi_commit_requests_count",
    "lvcsi_reconcile_duration_seconds_count",
];

/// One line of the text format.
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// No label here has a quote or a comma in it.
fn samples(text: &str) -> Vec<Sample> {
    let read = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split(',');
        let pair = |label: &str| {
            let (key, value) = label.split_once('=')?;
            Some((key.to_owned(), value.trim_matches('"').to_owned()))
        };
        Some(Sample {
            name: name.to_owned(),
            labels: labels.filter_map(pair).collect(),
            value: value.parse().ok()?,
        })
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(read).collect()
}

/// Reads the metrics of a node's agent, on the node: pods have no address here.
async fn scrape(cluster: &Cluster, node: Node) -> Vec<Sample> {
    let pods: Api<PodObject> = Api::namespaced(cluster.client.clone(), SYSTEM);
    let agents = ListParams::default()
        .labels("app=openebs-lvm-node")
        .fields(&format!("spec.nodeName={}", node.name()));
    let agents = pods.list(&agents).await.expect("pods").items;
    let address = agents
        .iter()
        .find_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    let address = address.unwrap_or_else(|| panic!("no agent on {}", node.name()));
    let script = format!(
        "exec 3<>/dev/tcp/{address}/9500 && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
    );
    let answer = node.run(&format!("bash -c \"{script}\""));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(
        head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200"),
        "{head}"
    );
    samples(body)
}

/// Rows of an lvm2 report in bytes, field by field.
fn report(node: Node, command: &str, fields: &[&str]) -> Vec<BTreeMap<String, String>> {
    let script = format!(
        "{command} --noheadings --nosuffix --units b --separator '|' -o {}",
        fields.join(",")
    );
    let row = |line: &str| {
        let values = line.trim().split('|').map(str::to_owned);
        fields.iter().map(|f| (*f).to_owned()).zip(values).collect()
    };
    node.run(&script).lines().map(row).collect()
}

/// Asserts that the metric has this value for the one series with the label.
fn same(samples: &[Sample], metric: &str, label: (&str, &str), wanted: &str) {
    let of = |sample: &&Sample| {
        sample.name == metric && sample.labels.get(label.0).is_some_and(|v| v == label.1)
    };
    let found: Vec<f64> = samples.iter().filter(of).map(|s| s.value).collect();
    let wanted: f64 = wanted
        .parse()
        .unwrap_or_else(|_| panic!("{metric}: {wanted:?}"));
    assert_eq!(found, [wanted], "{metric} of {label:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: cargo xtask cluster test"]
async fn the_values_are_lvm2s() {
    let cluster = Cluster::connect().await;
    let story = cluster.story("metrics").await;
    let class = story.class(Class::new("c").immediate()).await;
    story.claim(Claim::new("data", &class, "64Mi")).await;
    let pv = story.bound("data").await;
    let node = story.node_of(&pv).await;
    // Its device follows when it comes to it, perhaps between two reports.
    node.run(&format!("lvchange -qq -ay {VG}/{pv}"));
    // One that is no device hides no other.
    node.run(&format!("lvcreate -qq -y -an -Wn -Zn -l 3 -n asleep {VG}"));
    let metrics = scrape(&cluster, node).await;

    let fields: Vec<&str> = VG_FIELDS.iter().map(|(_, field)| *field).collect();
    let vgs = report(node, &format!("vgs {VG}"), &fields);
    for (metric, field) in VG_FIELDS {
        same(&metrics, metric, ("name", VG), &vgs[0][field]);
    }
    let fields: Vec<&str> = PV_FIELDS.iter().map(|(_, field)| *field).collect();
    let pvs = report(node, "pvs", &[&["pv_name"], &fields[..]].concat());
    assert!(!pvs.is_empty());
    for pv in &pvs {
        for (metric, field) in PV_FIELDS {
            same(&metrics, metric, ("name", &pv["pv_name"]), &pv[field]);
        }
    }
    let fields: Vec<&str> = LV_LABELS.iter().map(|(_, field)| *field).collect();
    let lvs = report(node, "lvs", &[&["lv_size"], &fields[..]].concat());
    let names: Vec<&str> = lvs.iter().map(|lv| lv["lv_name"].as_str()).collect();
    assert!(
        names.contains(&"asleep") && names.contains(&pv.as_str()),
        "{names:?}"
    );
    for lv in &lvs {
        let name = lv["lv_name"].as_str();
        same(
            &metrics,
            "lvm_lv_total_size_bytes",
            ("name", name),
            &lv["lv_size"],
        );
        same(
            &metrics,
            "openebs_size_of_volume",
            ("volumename", name),
            &lv["lv_size"],
        );
        let of = |s: &&Sample| s.name == "lvm_lv_total_size_bytes" && s.labels["name"] == name;
        let labels = &metrics.iter().find(of).expect("a series").labels;
        for (label, field) in LV_LABELS {
            assert_eq!(labels[label], lv[field], "label {label} of {name}");
        }
    }
    for own in OWN {
        let told = |s: &&Sample| s.name == own && s.value > 0.0;
        assert!(metrics.iter().any(|s| told(&s)), "no {own}");
    }
    node.run(&format!("lvremove -qq -y {VG}/asleep"));
    story.end().await;
}
