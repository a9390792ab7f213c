//! Who asks, and what roles let it do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Target;
use super::rules::text;

/// The resource by which each user asks who it is. No role is needed for it.
pub(super) const SELF_REVIEWS: &str = "authentication.k8s.io/selfsubjectreviews";
/// The user of each request.
const USER: &str = "system:serviceaccount:olmv1-system:almanac";

/// The answer to the question who asks.
pub(super) fn self_review() -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
        "metadata": {"creationTimestamp": null},
        "status": {"userInfo": {"username": USER}},
    })
}

/// A rule of a role.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    /// The only namespace; `None` for all.
    namespace: Option<String>,
    rule: Value,
    /// The resources and verbs that a request needed.
    used: BTreeSet<(String, String)>,
}

/// The rules of roles, each of which is bound.
pub(super) fn grants(roles: &[Value]) -> Vec<Grant> {
    let mut all = Vec::new();
    for role in roles {
        let namespace = role["metadata"]["namespace"].as_str();
        let is_wide = role["kind"] == "ClusterRole";
        assert!(is_wide || role["kind"] == "Role" && namespace.is_some());
        for rule in role["rules"].as_array().unwrap() {
            all.push(Grant {
                namespace: namespace.filter(|_| !is_wide).map(str::to_owned),
                rule: rule.clone(),
                used: BTreeSet::new(),
            });
        }
    }
    all
}

/// Whether a rule lets a request pass.
pub(super) fn allowed(
    grants: &mut [Grant],
    verb: &str,
    target: &Target,
    query: &BTreeMap<String, String>,
) -> bool {
    let (group, plural) = match target.resource.split_once('/') {
        Some((group, plural)) => (group, plural),
        None => ("", &*target.resource),
    };
    let resource = match target.subresource.as_str() {
        "" => plural.to_owned(),
        below => format!("{plural}/{below}"),
    };
    // A list of one name is a request for it.
    let selector = query.get("fieldSelector").map(String::as_str);
    let selected = selector.and_then(|selector| selector.strip_prefix("metadata.name="));
    let name = selected.unwrap_or(&target.name);
    let granting = grants.iter_mut().find(|grant| {
        let has = |field: &str, wanted: &str| {
            let values = grant.rule[field].as_array();
            values.into_iter().flatten().any(|value| value == wanted)
        };
        let named = grant.rule["resourceNames"].is_null() || has("resourceNames", name);
        let here = grant.namespace.as_ref();
        here.is_none_or(|namespace| *namespace == target.namespace)
            && has("apiGroups", group)
            && has("resources", &resource)
            && has("verbs", verb)
            && named
    });
    let used = granting.map(|grant| grant.used.insert((resource.clone(), verb.to_owned())));
    used.is_some()
}

/// The rules with verbs that no request has needed, as `VERB RESOURCE`.
pub(super) fn unused(grants: &[Grant]) -> Vec<String> {
    let texts = |value: &Value| -> Vec<String> {
        let values = value.as_array().into_iter().flatten();
        values.map(text).collect()
    };
    let mut unused = Vec::new();
    for grant in grants {
        for resource in texts(&grant.rule["resources"]) {
            for verb in texts(&grant.rule["verbs"]) {
                let pair = (resource.clone(), verb);
                if !grant.used.contains(&pair) {
                    unused.push(format!("{} {resource}", pair.1));
                }
            }
        }
    }
    unused
}

/// The rules of the API server for Events.
pub(super) fn check_event(before: Option<&Value>, event: &Value) -> Result<(), String> {
    for (field, most) in [
        ("reportingController", 253),
        ("reportingInstance", 128),
        ("action", 128),
        ("reason", 128),
        ("eventTime", 64),
    ] {
        if !(1..=most).contains(&text(&event[field]).len()) {
            return Err(format!("{field}: is missing or too long"));
        }
    }
    if text(&event["note"]).len() > 1_024 || text(&event["metadata"]["name"]).len() > 253 {
        return Err("note or metadata.name: too long".into());
    }
    if !["Normal", "Warning"].contains(&&*text(&event["type"])) {
        return Err("type: is unknown".into());
    }
    let about = event["regarding"]["namespace"]
        .as_str()
        .unwrap_or("default");
    if event["metadata"]["namespace"] != about {
        return Err("regarding.namespace: does not match the namespace of the event".into());
    }
    if let Some(before) = before {
        let fixed = |event: &Value| {
            let mut event = event.clone();
            event["series"] = Value::Null;
            event["metadata"] = Value::Null;
            event
        };
        if fixed(before) != fixed(event) {
            return Err("only the series of an event may change".into());
        }
        if event["series"]["count"]
            .as_u64()
            .is_none_or(|count| count < 2)
        {
            return Err("series.count: should be at least 2".into());
        }
    }
    Ok(())
}
