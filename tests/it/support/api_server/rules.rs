//! Rules of objects: selectors, defaults, validation and patches.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

use super::CATALOGS;
use super::store::{Answer, Failure};

pub(super) fn selected(object: &Value, query: &BTreeMap<String, String>) -> bool {
    let labels = &object["metadata"]["labels"];
    let terms = |name: &str| {
        let terms = query.get(name).cloned().unwrap_or_default();
        let terms = terms.split(',').map(str::to_owned);
        terms.filter(|term| !term.is_empty()).collect::<Vec<_>>()
    };
    let labelled = terms("labelSelector")
        .iter()
        .all(|term| match term.split_once('=') {
            Some((key, value)) => labels[key] == value.trim_start_matches('='),
            None => !labels[term.as_str()].is_null(),
        });
    let named = terms("fieldSelector").iter().all(|term| {
        let name = term.strip_prefix("metadata.name=");
        name.is_some_and(|name| object["metadata"]["name"] == name)
    });
    labelled && named
}

/// The defaults of the definition of `ClusterCatalogs`, without unknown fields.
pub(super) fn defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    if spec["priority"].is_null() {
        spec["priority"] = 0.into();
    }
    if spec["availabilityMode"].is_null() {
        spec["availabilityMode"] = "Available".into();
    }
    keep(spec, &["source", "priority", "availabilityMode"]);
    let known = ["conditions", "resolvedSource", "urls", "lastUnpacked"];
    keep(&mut object["status"], &known);
}

pub(super) fn keep(object: &mut Value, known: &[&str]) {
    if let Value::Object(fields) = object {
        fields.retain(|key, _| known.contains(&key.as_str()));
    }
}

/// The rules of the definition of `ClusterCatalogs`.
pub(super) fn check(object: &Value) -> Result<(), String> {
    let image = &object["spec"]["source"]["image"];
    let reference = text(&image["ref"]);
    if object["spec"]["source"]["type"] != "Image" || reference.is_empty() || reference.len() > 1000
    {
        return Err("spec.source: an image is required".into());
    }
    let has_digest = reference.contains("@sha256:");
    if has_digest && !image["pollIntervalMinutes"].is_null() {
        return Err("cannot specify pollIntervalMinutes while using digest-based image".into());
    }
    if image["pollIntervalMinutes"]
        .as_i64()
        .is_some_and(|minutes| minutes < 1)
    {
        return Err("pollIntervalMinutes: should be greater than or equal to 1".into());
    }
    let status = &object["status"];
    if !status["resolvedSource"].is_null() {
        let resolved = text(&status["resolvedSource"]["image"]["ref"]);
        let digest = resolved.rsplit_once("@sha256:").map(|(_, digest)| digest);
        let is_whole = digest.is_some_and(|digest| digest.len() == 64);
        if !is_whole || resolved.len() > 1000 || status["resolvedSource"]["type"] != "Image" {
            return Err("status.resolvedSource: must end with a digest".into());
        }
    }
    if !status["urls"].is_null() {
        let base = text(&status["urls"]["base"]);
        if !base.starts_with("http") || base.len() > 525 {
            return Err("status.urls.base: must be a valid URL".into());
        }
    }
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    for condition in conditions {
        let has = |field: &str| !text(&condition[field]).is_empty();
        let whole = has("type") && has("status") && has("reason") && has("lastTransitionTime");
        if !whole || !condition["message"].is_string() {
            return Err(format!("status.conditions: incomplete: {condition}"));
        }
    }
    Ok(())
}

/// A main resource with a status of its own ignores it at first.
pub(super) fn drop_status(object: &mut Value, resource: &str) {
    if resource == CATALOGS {
        object["status"] = Value::Null;
    }
}

pub(super) fn prune_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(prune_nulls);
    }
}

/// RFC 7396.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// The part of RFC 6902 that clients use here.
pub(super) fn json_patch(mut object: Value, patch: &Value) -> Answer {
    let invalid = |message: &str| Failure(422, "Invalid", message.to_owned());
    for operation in patch.as_array().ok_or_else(|| invalid("no list"))? {
        let pointer = text(&operation["path"]);
        let (parent, last) = pointer.rsplit_once('/').ok_or_else(|| invalid("no path"))?;
        let last = last.replace("~1", "/").replace("~0", "~");
        match operation["op"].as_str() {
            Some("test") => {
                let found = object.pointer(&pointer).cloned().unwrap_or_default();
                if found != operation["value"] {
                    return Err(invalid("the test of a JSON patch failed"));
                }
            }
            Some("add" | "replace") => {
                let parent = object
                    .pointer_mut(parent)
                    .ok_or_else(|| invalid("no parent"))?;
                match parent {
                    Value::Array(items) => items.push(operation["value"].clone()),
                    parent => parent[last] = operation["value"].clone(),
                }
            }
            Some("remove") => {
                let parent = object
                    .pointer_mut(parent)
                    .ok_or_else(|| invalid("no parent"))?;
                match parent {
                    Value::Array(items) => {
                        items.remove(last.parse().map_err(|_| invalid("no number"))?);
                    }
                    parent => parent[last] = Value::Null,
                }
            }
            _ => return Err(invalid("an unknown operation")),
        }
    }
    Ok(object)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
