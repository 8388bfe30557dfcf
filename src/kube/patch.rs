//! The changes that we make to objects, as JSON merge patches.
//!
//! A patch names only the fields that it is about, so whatever else is in an
//! object stays, whoever wrote it. Lists cannot be merged: a patch of the
//! finalizers carries the object's version, and is refused with a conflict if
//! somebody else changed the object meanwhile.

use kube::Resource;
use serde_json::{Value, json};

use super::crd::{ErrorCode, LvmVolume};
use super::names::{FINALIZER, KIND_ANNOTATION, NODE_LABEL};
use crate::error::Kind;

/// The volume exists in `vg` on `node`.
#[must_use]
pub fn ready(object: &LvmVolume, vg: &str, node: &str) -> Value {
    let mut patch = json!({
        "metadata": { "labels": { NODE_LABEL: node } },
        "spec": { "volGroup": vg },
        "status": { "state": "Ready", "error": null },
    });
    if !object.has_finalizer() {
        let finalizers = finalizers(object)
            .iter()
            .map(String::as_str)
            .chain([FINALIZER])
            .collect::<Vec<_>>();
        merge_metadata(&mut patch, object, &json!(finalizers));
    }
    patch
}

/// The volume cannot be made on `node`.
#[must_use]
pub fn failed(node: &str, kind: Kind, message: &str) -> Value {
    json!({
        "metadata": {
            "labels": { NODE_LABEL: node },
            "annotations": { KIND_ANNOTATION: kind.word() },
        },
        "status": {
            "state": "Failed",
            "error": { "code": code(kind), "message": message },
        },
    })
}

/// The volume is gone: the object may go.
#[must_use]
pub fn without_finalizer(object: &LvmVolume) -> Value {
    let others: Vec<_> = finalizers(object)
        .iter()
        .filter(|finalizer| *finalizer != FINALIZER)
        .collect();
    let mut patch = json!({});
    merge_metadata(&mut patch, object, &json!(others));
    patch
}

fn finalizers(object: &LvmVolume) -> &[String] {
    object.metadata.finalizers.as_deref().unwrap_or_default()
}

fn merge_metadata(patch: &mut Value, object: &LvmVolume, finalizers: &Value) {
    let metadata = &mut patch["metadata"];
    metadata["finalizers"] = finalizers.clone();
    metadata["resourceVersion"] = json!(object.meta().resource_version);
}

/// The contract's code.
fn code(kind: Kind) -> ErrorCode {
    if kind == Kind::ResourceExhausted {
        ErrorCode::InsufficientCapacity
    } else {
        ErrorCode::Internal
    }
}
