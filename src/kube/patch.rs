//! The changes that we make to objects, as JSON merge patches.
//!
//! A patch names only the fields that it is about, so whatever else is in an
//! object stays, whoever wrote it. Every patch carries the version of the object
//! that it is about, and is refused with a conflict if somebody else changed the
//! object meanwhile: lists cannot be merged, and an object of the same name may
//! be a new one, of another node.

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
        patch["metadata"]["finalizers"] = json!(finalizers);
    }
    of_version(patch, object)
}

/// The volume cannot be made on `node`.
#[must_use]
pub fn failed(object: &LvmVolume, node: &str, kind: Kind, message: &str) -> Value {
    let patch = json!({
        "metadata": {
            "labels": { NODE_LABEL: node },
            "annotations": { KIND_ANNOTATION: kind.word() },
        },
        "status": {
            "state": "Failed",
            "error": { "code": code(kind), "message": message },
        },
    });
    of_version(patch, object)
}

/// The volume is gone: the object may go.
#[must_use]
pub fn without_finalizer(object: &LvmVolume) -> Value {
    let others: Vec<_> = finalizers(object)
        .iter()
        .filter(|finalizer| *finalizer != FINALIZER)
        .collect();
    of_version(json!({ "metadata": { "finalizers": others } }), object)
}

fn finalizers(object: &LvmVolume) -> &[String] {
    object.metadata.finalizers.as_deref().unwrap_or_default()
}

fn of_version(mut patch: Value, object: &LvmVolume) -> Value {
    patch["metadata"]["resourceVersion"] = json!(object.meta().resource_version);
    patch
}

/// The contract's code.
fn code(kind: Kind) -> ErrorCode {
    if kind == Kind::ResourceExhausted {
        ErrorCode::InsufficientCapacity
    } else {
        ErrorCode::Internal
    }
}
