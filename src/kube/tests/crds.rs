//! The definitions that are installed.

use std::path::Path;

use serde_json::{Value, json};

use crate::kube::crd;

fn definition(plural: &str) -> Value {
    let crds = crd::all();
    let crd = crds.iter().find(|crd| crd.spec.names.plural == plural);
    serde_json::to_value(crd.unwrap()).unwrap()
}

#[test]
fn the_committed_definitions_are_the_types() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/crds");
    for (name, text) in crd::manifest().unwrap() {
        let committed = std::fs::read_to_string(dir.join(&name)).unwrap_or_default();
        assert!(
            committed == text,
            "deploy/crds/{name} is not what the types say: run `cargo xtask crds`"
        );
    }
}

#[test]
fn names_are_the_contract_s() {
    for (plural, kind, short) in [
        ("lvmvolumes", "LVMVolume", json!(["lvmvol"])),
        ("lvmsnapshots", "LVMSnapshot", Value::Null),
        ("lvmnodes", "LVMNode", json!(["lvmnode"])),
    ] {
        let crd = definition(plural);
        assert_eq!(
            crd["metadata"]["name"],
            format!("{plural}.local.openebs.io")
        );
        assert_eq!(crd["spec"]["group"], "local.openebs.io");
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        assert_eq!(crd["spec"]["names"]["kind"], kind);
        assert_eq!(crd["spec"]["names"]["listKind"], format!("{kind}List"));
        assert_eq!(crd["spec"]["names"]["singular"], kind.to_lowercase());
        let names = &crd["spec"]["names"]["shortNames"];
        assert!(
            *names == short || (short.is_null() && *names == json!([])),
            "{names}"
        );
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["name"], "v1alpha1");
        assert_eq!(
            version["subresources"],
            json!({}),
            "status is part of the object"
        );
        assert_eq!(
            (&version["served"], &version["storage"]),
            (&json!(true), &json!(true))
        );
    }
}

#[test]
fn columns_are_the_contract_s() {
    let crd = definition("lvmvolumes");
    let columns: Vec<_> = crd["spec"]["versions"][0]["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            (
                column["name"].as_str().unwrap(),
                column["jsonPath"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        columns,
        [
            ("VolGroup", ".spec.volGroup"),
            ("Node", ".spec.ownerNodeID"),
            ("Size", ".spec.capacity"),
            ("Status", ".status.state"),
            ("Age", ".metadata.creationTimestamp"),
        ]
    );
}

#[test]
fn required_fields_and_enums_are_the_contract_s() {
    let schema = |plural: &str| {
        definition(plural)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    };
    let sorted = |list: &Value| {
        let mut names: Vec<String> = serde_json::from_value(list.clone()).unwrap();
        names.sort();
        names
    };
    let volume = schema("lvmvolumes");
    assert_eq!(sorted(&volume["required"]), ["spec"]);
    let spec = &volume["properties"]["spec"];
    assert_eq!(
        sorted(&spec["required"]),
        ["capacity", "ownerNodeID", "vgPattern", "volGroup"]
    );
    for field in ["shared", "thinProvision"] {
        assert_eq!(sorted(&spec["properties"][field]["enum"]), ["no", "yes"]);
        assert_eq!(spec["properties"][field]["type"], "string");
    }
    let state = &volume["properties"]["status"]["properties"]["state"];
    assert_eq!(sorted(&state["enum"]), ["Failed", "Pending", "Ready"]);
    let snapshot = schema("lvmsnapshots");
    assert_eq!(sorted(&snapshot["required"]), ["spec", "status"]);
    let spec = &snapshot["properties"]["spec"];
    assert_eq!(sorted(&spec["required"]), ["ownerNodeID", "volGroup"]);
    let node = schema("lvmnodes");
    assert_eq!(sorted(&node["required"]), ["volumeGroups"]);
    let vg = &node["properties"]["volumeGroups"]["items"];
    assert_eq!(sorted(&vg["required"]).len(), 16);
    assert!(!sorted(&vg["required"]).contains(&"thinPools".to_owned()));
    let quantities = [
        &vg["properties"]["free"],
        &vg["properties"]["thinPools"]["items"]["properties"]["size"],
        &snapshot["properties"]["status"]["properties"]["lvSize"],
    ];
    for quantity in quantities {
        assert_eq!(quantity["x-kubernetes-int-or-string"], true);
        let types = json!([{ "type": "integer" }, { "type": "string" }]);
        assert_eq!(quantity["anyOf"], types);
        assert!(quantity["type"].is_null(), "{quantity}");
    }
    for schema in [&volume, &snapshot, &node] {
        assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true);
    }
}

#[test]
fn unknown_fields_are_kept_and_none_are_filled_in() {
    for crd in crd::all() {
        let text = serde_json::to_string(&crd).unwrap();
        for word in ["\"nullable\"", "\"default\"", "uint"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
        assert!(text.contains("\"x-kubernetes-preserve-unknown-fields\":true"));
    }
}

#[test]
fn words_that_older_yaml_takes_for_booleans_are_quoted() {
    for (name, text) in crd::manifest().unwrap() {
        for line in text.lines() {
            let word = line.trim_start().trim_start_matches("- ");
            let word = word.rsplit(": ").next().unwrap();
            assert!(
                !matches!(word, "yes" | "no" | "on" | "off" | "y" | "n"),
                "{name}: {line}"
            );
        }
    }
}
