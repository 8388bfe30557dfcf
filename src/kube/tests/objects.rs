//! Objects that the peer's releases wrote: accepted, read, and changed without
//! loss.

use std::fs;

use kube::{CustomResourceExt, Resource};
use serde_json::{Value, json};

use super::merge;
use super::schema::violations;
use crate::error::Kind;
use crate::kube::crd::{self, LvmNode, LvmSnapshot, LvmVolume, VolumeState};
use crate::kube::names::FINALIZER;
use crate::kube::patch;

/// Release and object of every fixture of a kind.
fn fixtures(kind: &str) -> Vec<(String, Value)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/kube/tests/objects");
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let name = path.file_stem()?.to_str()?.strip_prefix(kind)?.to_owned();
            let text = fs::read_to_string(&path).unwrap();
            Some((name, serde_json::from_str(&text).unwrap()))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() > 3, "fixtures of {kind}");
    found
}

fn schema_violations(name: &str, object: &Value) -> Vec<String> {
    let crds = crd::all();
    let crd = crds
        .iter()
        .find(|crd| crd.metadata.name.as_deref() == Some(name))
        .unwrap();
    let schema = crd.spec.versions[0].schema.as_ref().unwrap();
    violations(schema.open_api_v3_schema.as_ref().unwrap(), object)
}

#[test]
fn objects_of_every_release_are_accepted() {
    for (kind, name) in [
        ("volume-", LvmVolume::crd_name()),
        ("snapshot-", LvmSnapshot::crd_name()),
        ("node-", LvmNode::crd_name()),
    ] {
        for (release, object) in fixtures(kind) {
            let wrong = schema_violations(name, &object);
            match release.as_str() {
                // The contract's schema has required the pattern since 0.5,
                // and its states do not grow.
                "before-patterns" => assert_eq!(wrong, [".spec: vgPattern is missing"]),
                "future" => assert_eq!(wrong, [".status.state: \"Resizing\" is not allowed"]),
                _ => assert_eq!(wrong, [""; 0], "{kind}{release}"),
            }
        }
    }
}

#[test]
fn wrong_objects_are_not_accepted() {
    let (_, good) = fixtures("volume-").swap_remove(0);
    for (change, wrong) in [
        (json!({ "spec": { "shared": "true" } }), ".spec.shared"),
        (
            json!({ "spec": { "thinProvision": true } }),
            ".spec.thinProvision",
        ),
        (json!({ "spec": { "capacity": "" } }), ".spec.capacity"),
        (json!({ "spec": { "capacity": 5 } }), ".spec.capacity"),
        (
            json!({ "spec": { "ownerNodeID": null } }),
            "ownerNodeID is missing",
        ),
        (
            json!({ "spec": { "volGroup": null } }),
            "volGroup is missing",
        ),
        (json!({ "status": { "state": "Gone" } }), ".status.state"),
        (json!({ "spec": null }), "spec is missing"),
    ] {
        let mut object = good.clone();
        merge(&mut object, &change);
        let found = schema_violations(LvmVolume::crd_name(), &object).join("\n");
        assert!(found.contains(wrong), "{change}: {found}");
    }
    let (_, mut node) = fixtures("node-").swap_remove(0);
    node["volumeGroups"][0]["free"] = json!("lots");
    assert_eq!(schema_violations(LvmNode::crd_name(), &node).len(), 1);
}

#[test]
fn objects_of_every_release_are_read() {
    for (release, object) in fixtures("volume-") {
        let volume: LvmVolume = serde_json::from_value(object.clone()).unwrap();
        let word = object["status"]["state"].as_str().unwrap();
        let state = match release.as_str() {
            "future" => VolumeState::Unknown,
            _ => serde_json::from_value(json!(word)).unwrap(),
        };
        assert_eq!(volume.state(), state, "{release}");
        assert!(volume.spec.capacity().is_ok());
        assert_eq!(
            volume.has_finalizer(),
            object["metadata"]["finalizers"].is_array()
        );
    }
    let thin: Vec<_> = fixtures("snapshot-")
        .into_iter()
        .map(|(release, object)| {
            let snapshot: LvmSnapshot = serde_json::from_value(object).unwrap();
            let thin = snapshot
                .spec
                .thin_provision
                .is_some_and(|thin| thin.is_thin());
            (release, thin)
        })
        .filter_map(|(release, thin)| thin.then_some(release))
        .collect();
    assert_eq!(thin, ["1.10", "1.8-boolean", "1.8-word"]);
    for (release, object) in fixtures("node-") {
        let node: LvmNode = serde_json::from_value(object).unwrap();
        for vg in &node.spec.volume_groups {
            assert!(vg.size.bytes().is_ok(), "{release}");
        }
    }
}

/// Paths of every value in which two objects differ.
fn differences(a: &Value, b: &Value, path: &str, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            let names: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
            for name in names {
                let at = format!("{path}.{name}");
                differences(&a[name], &b[name], &at, found);
            }
        }
        _ if a != b => found.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn a_change_touches_only_what_it_is_about() {
    for (release, object) in fixtures("volume-") {
        let volume: LvmVolume = serde_json::from_value(object.clone()).unwrap();
        for (change, may) in [
            (
                patch::ready(&volume, "lvmvg", "node-1"),
                &[
                    ".metadata.finalizers",
                    ".metadata.labels.kubernetes.io/nodename",
                    ".spec.volGroup",
                    ".status.state",
                    ".status.error",
                ][..],
            ),
            (
                patch::failed(&volume, "node-1", Kind::ResourceExhausted, "full"),
                &[
                    ".metadata.annotations.local.csi.openebs.io/failure",
                    ".metadata.labels.kubernetes.io/nodename",
                    ".status.state",
                    ".status.error.code",
                    ".status.error.message",
                ][..],
            ),
            (
                patch::without_finalizer(&volume),
                &[".metadata.finalizers"][..],
            ),
        ] {
            let mut changed = object.clone();
            merge(&mut changed, &change);
            let mut found = Vec::new();
            differences(&object, &changed, "", &mut found);
            // An object without error, labels or annotations gets the whole.
            let allowed = |path: &String| may.iter().any(|m| m.starts_with(path.as_str()));
            assert!(found.iter().all(allowed), "{release}: {found:?}");
            let again: LvmVolume = serde_json::from_value(changed).unwrap();
            assert_eq!(again.spec.capacity, volume.spec.capacity);
        }
    }
}

#[test]
fn finalizers_of_others_stay_and_conflicts_are_seen() {
    let all = fixtures("volume-");
    let find = |release: &str| -> LvmVolume {
        let (_, object) = all.iter().find(|(name, _)| name == release).unwrap();
        serde_json::from_value(object.clone()).unwrap()
    };
    let two = find("1.7");
    let removal = patch::without_finalizer(&two);
    assert_eq!(
        removal["metadata"]["finalizers"],
        json!(["example.com/backup"])
    );
    assert_eq!(
        removal["metadata"]["resourceVersion"],
        json!(two.meta().resource_version)
    );
    // Nothing to add: no list is sent, so nobody's can be overwritten.
    assert!(
        patch::ready(&two, "lvmvg", "n")["metadata"]
            .get("finalizers")
            .is_none()
    );
    let none = find("1.0");
    let ready = patch::ready(&none, "lvmvg", "n");
    assert_eq!(ready["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(ready["metadata"]["resourceVersion"], json!("1201"));
    // The object of that name may be another node's by now.
    let told = patch::ready(&two, "lvmvg", "n");
    let version = json!(two.meta().resource_version);
    assert_eq!(told["metadata"]["resourceVersion"], version);
    let full = patch::failed(&none, "n", Kind::ResourceExhausted, "m");
    assert_eq!(full["status"]["error"]["code"], "InsufficientCapacity");
    assert_eq!(full["metadata"]["resourceVersion"], json!("1201"));
    let other = patch::failed(&none, "n", Kind::FailedPrecondition, "m");
    assert_eq!(other["status"]["error"]["code"], "Internal");
}
