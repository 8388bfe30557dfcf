//! Tests of the resources and the agent, on objects as JSON.

mod answer;
mod crds;
pub(in crate::kube) mod fake;
mod manifests;
mod objects;
mod peer;
mod schema;
mod state;

use serde_json::Value;

/// Applies a JSON merge patch, as an API server does.
pub(in crate::kube) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(serde_json::Map::new());
    }
    let Value::Object(object) = object else {
        return;
    };
    for (name, value) in fields {
        if value.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[test]
fn merging_follows_the_rules() {
    use serde_json::json;
    let mut object = json!({ "a": { "b": 1, "c": [1, 2] }, "d": "x" });
    merge(
        &mut object,
        &json!({ "a": { "c": [3], "n": { "m": 1 } }, "d": null }),
    );
    assert_eq!(
        object,
        json!({ "a": { "b": 1, "c": [3], "n": { "m": 1 } } })
    );
}
