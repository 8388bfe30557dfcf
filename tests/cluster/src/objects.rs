//! Builders of the objects that a user writes.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as PodObject};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use crate::{DRIVER, Node, VG};

/// The image of the tests' pods, which every node has.
const IMAGE: &str = "docker.io/library/busybox:stable";

/// A StorageClass.
pub struct Class {
    pub(crate) name: String,
    parameters: Vec<(String, String)>,
    immediate: bool,
    provisioner: String,
    topology: Option<Value>,
}

impl Class {
    /// Volumes on the VG of every node, made when a pod needs them.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            parameters: vec![("volgroup".to_owned(), VG.to_owned())],
            immediate: false,
            provisioner: DRIVER.to_owned(),
            topology: None,
        }
    }

    /// Made at once.
    #[must_use]
    pub fn immediate(mut self) -> Self {
        self.immediate = true;
        self
    }

    /// Of another driver.
    #[must_use]
    pub fn of(mut self, provisioner: &str) -> Self {
        provisioner.clone_into(&mut self.provisioner);
        self.parameters.clear();
        self
    }

    /// Sets a parameter.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.parameters.retain(|(known, _)| known != key);
        if key == "vgpattern" {
            self.parameters.retain(|(known, _)| known != "volgroup");
        }
        self.parameters.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Only on this node.
    #[must_use]
    pub fn on(mut self, node: Node) -> Self {
        let expression = json!({"key": "openebs.io/nodename", "values": [node.name()]});
        self.topology = Some(json!([{"matchLabelExpressions": [expression]}]));
        self
    }

    pub(crate) fn object(self, name: &str, story: &str) -> StorageClass {
        let mode = if self.immediate {
            "Immediate"
        } else {
            "WaitForFirstConsumer"
        };
        let parameters: serde_json::Map<String, Value> = self
            .parameters
            .into_iter()
            .map(|(key, value)| (key, value.into()))
            .collect();
        let mut object = json!({
            "metadata": {"name": name, "labels": {"story": story}},
            "provisioner": self.provisioner,
            "parameters": parameters,
            "volumeBindingMode": mode,
            "allowVolumeExpansion": true,
        });
        if let Some(topology) = self.topology {
            object["allowedTopologies"] = topology;
        }
        serde_json::from_value(object).expect("a StorageClass")
    }
}

/// A PVC.
#[derive(Clone)]
pub struct Claim<'a> {
    pub(crate) name: &'a str,
    class: &'a str,
    size: &'a str,
    block: bool,
}

impl<'a> Claim<'a> {
    /// Of a class and size.
    #[must_use]
    pub fn new(name: &'a str, class: &'a str, size: &'a str) -> Self {
        Self {
            name,
            class,
            size,
            block: false,
        }
    }

    /// As a device.
    #[must_use]
    pub fn block(mut self) -> Self {
        self.block = true;
        self
    }

    pub(crate) fn object(&self) -> PersistentVolumeClaim {
        let mode = if self.block { "Block" } else { "Filesystem" };
        serde_json::from_value(json!({
            "metadata": {"name": self.name},
            "spec": {
                "storageClassName": self.class,
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": mode,
                "resources": {"requests": {"storage": self.size}},
            },
        }))
        .expect("a PVC")
    }
}

/// A pod with one container.
#[derive(Clone)]
pub struct Pod<'a> {
    pub(crate) name: &'a str,
    script: &'a str,
    claim: Option<&'a str>,
    block: bool,
    node: Option<String>,
}

impl<'a> Pod<'a> {
    /// One that runs a shell script.
    #[must_use]
    pub fn new(name: &'a str, script: &'a str) -> Self {
        Self {
            name,
            script,
            claim: None,
            block: false,
            node: None,
        }
    }

    /// With a claim's volume, at `/data`.
    #[must_use]
    pub fn with(mut self, claim: &'a str) -> Self {
        self.claim = Some(claim);
        self
    }

    /// The volume is a device, `/data`.
    #[must_use]
    pub fn block(mut self) -> Self {
        self.block = true;
        self
    }

    /// On a node of this name.
    #[must_use]
    pub fn on(mut self, node: String) -> Self {
        self.node = Some(node);
        self
    }

    pub(crate) fn object(&self) -> PodObject {
        let mut container = json!({
            "name": "app",
            "image": IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", self.script],
        });
        let mut spec = json!({
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "tolerations": [],
        });
        if let Some(claim) = self.claim {
            if self.block {
                container["volumeDevices"] = json!([{"name": "data", "devicePath": "/data"}]);
            } else {
                container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
            }
            spec["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
        }
        if let Some(node) = &self.node {
            spec["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        }
        spec["containers"] = json!([container]);
        serde_json::from_value(json!({"metadata": {"name": self.name}, "spec": spec}))
            .expect("a pod")
    }
}

/// Bytes of a quantity such as `64Mi` or a plain number.
///
/// # Panics
/// If it is neither.
#[must_use]
pub fn sized(quantity: &str) -> u64 {
    let digits = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &quantity[digits.len()..] {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        other => panic!("{quantity:?}: unit {other:?}"),
    };
    digits.parse::<u64>().expect("a number") * unit
}
