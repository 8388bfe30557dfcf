//! As much of an API server's validation as the contract's schemas need.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::Value;

/// What is wrong with `value`, each with its path.
pub(super) fn violations(schema: &JSONSchemaProps, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, "", &mut found);
    found
}

fn check(schema: &JSONSchemaProps, value: &Value, path: &str, found: &mut Vec<String>) {
    let mut wrong = |what: String| found.push(format!("{path}: {what}"));
    match schema.type_.as_deref() {
        Some("string") if !value.is_string() => wrong("no string".into()),
        Some("integer") if !value.is_i64() => wrong("no integer".into()),
        Some("object") if !value.is_object() => wrong("no object".into()),
        Some("array") if !value.is_array() => wrong("no array".into()),
        Some("string" | "integer" | "object" | "array") | None => {}
        Some(other) => wrong(format!("a type that the contract has not: {other}")),
    }
    if schema.x_kubernetes_int_or_string == Some(true) && !(value.is_i64() || value.is_string()) {
        wrong("neither integer nor string".into());
    }
    if let Some(allowed) = &schema.enum_
        && !allowed.iter().any(|word| word.0 == *value)
    {
        wrong(format!("{value} is not allowed"));
    }
    if let (Some(least), Some(text)) = (schema.min_length, value.as_str())
        && i64::try_from(text.len()).unwrap() < least
    {
        wrong("too short".into());
    }
    if let (Some(least), Some(number)) = (schema.minimum, value.as_f64())
        && number < least
    {
        wrong("too small".into());
    }
    if let (Some(pattern), Some(text)) = (&schema.pattern, value.as_str())
        && !regex::Regex::new(pattern).unwrap().is_match(text)
    {
        wrong(format!("{text:?} does not match"));
    }
    for required in schema.required.iter().flatten() {
        if value.get(required).is_none() {
            wrong(format!("{required} is missing"));
        }
    }
    for (name, property) in schema.properties.iter().flatten() {
        if let Some(value) = value.get(name) {
            check(property, value, &format!("{path}.{name}"), found);
        }
    }
    if let (Some(JSONSchemaPropsOrArray::Schema(items)), Some(values)) =
        (&schema.items, value.as_array())
    {
        for (n, value) in values.iter().enumerate() {
            check(items, value, &format!("{path}[{n}]"), found);
        }
    }
}
