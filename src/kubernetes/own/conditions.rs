//! The status of a `ClusterCatalog`, word for word as catalogd writes it: clients and
//! people compare it.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::kubernetes::events::Notice;

/// The longest message that the definition allows, in bytes.
const MAX_MESSAGE: usize = 32_768;

const SUCCEEDED: &str = "Successfully unpacked and stored content from resolved source";
const AVAILABLE: &str = "Serving desired content from resolved source";
const UNAVAILABLE: &str = "Catalog availability mode is set to Unavailable";

/// The result of the last pass of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The image of the object is served.
    Served {
        /// The repository in the object, and the digest.
        reference: String,
        /// When this digest was first loaded.
        loaded: SystemTime,
    },
    /// The last attempt failed. Earlier content stays.
    Failed {
        /// The error.
        message: String,
        /// Whether only a change of the object can help.
        terminal: bool,
    },
    /// The object says that the catalog is unavailable.
    Unavailable,
    /// The object is being deleted.
    Deleting,
}

/// The reason of an image that cannot be used until the object changes.
pub(super) const BLOCKED: &str = "Blocked";

/// The status after an outcome, or `None` if the object has it.
pub(super) fn next(
    current: &Value,
    generation: i64,
    outcome: &Outcome,
    base_url: &str,
    now: SystemTime,
) -> Option<Value> {
    let mut status = match current {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    let set = |status: &mut Map<String, Value>, kind, [value, reason, message]: [&str; 3]| {
        set_condition(status, generation, now, kind, [value, reason, message]);
    };
    match outcome {
        Outcome::Served { reference, loaded } => {
            set(&mut status, "Progressing", ["True", "Succeeded", SUCCEEDED]);
            set(&mut status, "Serving", ["True", "Available", AVAILABLE]);
            let source = json!({ "type": "Image", "image": { "ref": reference } });
            // It belongs to the digest, so it also stays over a restart.
            let stays = status.get("resolvedSource") == Some(&source)
                && status.get("lastUnpacked").is_some_and(Value::is_string);
            if !stays {
                status.insert("lastUnpacked".into(), time(*loaded).into());
            }
            status.insert("resolvedSource".into(), source);
            status.insert("urls".into(), json!({ "base": base_url }));
        }
        Outcome::Failed { message, terminal } => {
            let end = message.floor_char_boundary(MAX_MESSAGE);
            let message = &message[..end];
            let condition = if *terminal {
                ["False", BLOCKED, message]
            } else {
                ["True", "Retrying", message]
            };
            set(&mut status, "Progressing", condition);
        }
        Outcome::Unavailable => {
            set(
                &mut status,
                "Progressing",
                ["True", "Succeeded", UNAVAILABLE],
            );
            let condition = ["False", "UserSpecifiedUnavailable", UNAVAILABLE];
            set(&mut status, "Serving", condition);
            remove_content(&mut status);
        }
        Outcome::Deleting => {
            set(&mut status, "Serving", ["False", "Unavailable", ""]);
            remove_content(&mut status);
        }
    }
    let status = Value::Object(status);
    (status != *current).then_some(status)
}

/// The Event for a change of the status, if administrators should see one.
pub(super) fn notice_of(before: &Value, after: &Value) -> Option<Notice> {
    let [old, new] = [before, after].map(|status| {
        let conditions = status["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let progressing = conditions.find(|one| one["type"] == "Progressing");
        let reference = status["resolvedSource"]["image"]["ref"].as_str();
        let text = |field: &str| progressing.and_then(|one| one[field].as_str());
        (reference, text("reason"), text("message"))
    });
    let notice = |is_warning, reason, note: &str| {
        Some(Notice {
            is_warning,
            reason,
            note: note.to_owned(),
        })
    };
    match new {
        (_, Some("Retrying"), Some(message)) if old.2 != new.2 => notice(true, "Retrying", message),
        (_, Some(BLOCKED), Some(message)) if old.2 != new.2 => notice(true, BLOCKED, message),
        (Some(reference), Some("Succeeded"), _) if old.0 != new.0 => {
            notice(false, "Resolved", &format!("serving {reference}"))
        }
        (Some(reference), Some("Succeeded"), _) if old.1 != new.1 => {
            notice(false, "Recovered", &format!("still serving {reference}"))
        }
        (None, Some("Succeeded"), Some(UNAVAILABLE)) if old.2 != new.2 => {
            notice(false, "Unavailable", UNAVAILABLE)
        }
        _ => None,
    }
}

/// Sets a condition. Its time moves with its value only.
fn set_condition(
    status: &mut Map<String, Value>,
    generation: i64,
    now: SystemTime,
    kind: &str,
    [value, reason, message]: [&str; 3],
) {
    let conditions = status
        .entry("conditions")
        .or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(conditions) = conditions else {
        return;
    };
    let position = conditions.iter().position(|one| one["type"] == kind);
    let old = position.map(|position| &conditions[position]);
    let since = old.filter(|old| old["status"] == value);
    let since = since.and_then(|old| old["lastTransitionTime"].as_str());
    let since = since.map_or_else(|| time(now), str::to_owned);
    let new = json!({
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    });
    match position {
        Some(position) => conditions[position] = new,
        None => conditions.push(new),
    }
}

fn remove_content(status: &mut Map<String, Value>) {
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        status.remove(field);
    }
}

fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const BASE: &str = "https://catalogd-service.olmv1-system.svc/catalogs/a";

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_767_225_600 + seconds)
    }

    fn after(current: &Value, generation: i64, outcome: &Outcome, seconds: u64) -> Value {
        next(current, generation, outcome, BASE, at(seconds)).unwrap()
    }

    fn served() -> Outcome {
        Outcome::Served {
            reference: format!("quay.io/a/b@sha256:{}", "0".repeat(64)),
            loaded: at(1),
        }
    }

    fn failed(terminal: bool) -> Outcome {
        let message = "source catalog content: no route".to_owned();
        Outcome::Failed { message, terminal }
    }

    fn condition(kind: &str, parts: [&str; 3], generation: i64, since: &str) -> Value {
        let [status, reason, message] = parts;
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": since,
        })
    }

    fn succeeded() -> Value {
        json!({
            "conditions": [
                condition("Progressing", ["True", "Succeeded", SUCCEEDED], 1, "2026-01-01T00:00:05Z"),
                condition("Serving", ["True", "Available", AVAILABLE], 1, "2026-01-01T00:00:05Z"),
            ],
            "resolvedSource": {"type": "Image", "image": {
                "ref": format!("quay.io/a/b@sha256:{}", "0".repeat(64)),
            }},
            "urls": {"base": BASE},
            "lastUnpacked": "2026-01-01T00:00:01Z",
        })
    }

    #[test]
    fn success_sets_everything_and_repeats_without_a_write() {
        let status = after(&Value::Null, 1, &served(), 5);
        assert_eq!(status, succeeded());
        // Hours of polls later nothing has changed.
        for hour in 1..5 {
            let now = at(hour * 3_600);
            assert_eq!(next(&status, 1, &served(), BASE, now), None);
        }
    }

    #[test]
    fn a_transient_error_changes_progressing_alone() {
        let status = after(&succeeded(), 2, &failed(false), 9);
        let mut wanted = succeeded();
        let parts = ["True", "Retrying", "source catalog content: no route"];
        wanted["conditions"][0] = condition("Progressing", parts, 2, "2026-01-01T00:00:05Z");
        assert_eq!(status, wanted);
        assert_eq!(next(&status, 2, &failed(false), BASE, at(99)), None);
    }

    #[test]
    fn a_terminal_error_blocks_and_leaves_the_rest() {
        let status = after(&succeeded(), 2, &failed(true), 9);
        let mut wanted = succeeded();
        let parts = ["False", "Blocked", "source catalog content: no route"];
        wanted["conditions"][0] = condition("Progressing", parts, 2, "2026-01-01T00:00:09Z");
        assert_eq!(status, wanted);
    }

    #[test]
    fn a_catalog_that_was_never_loaded_has_progressing_alone() {
        let status = after(&Value::Null, 1, &failed(false), 3);
        let parts = ["True", "Retrying", "source catalog content: no route"];
        let condition = condition("Progressing", parts, 1, "2026-01-01T00:00:03Z");
        assert_eq!(status, json!({"conditions": [condition]}));
    }

    #[test]
    fn an_unavailable_catalog_has_no_content_and_comes_back() {
        let status = after(&succeeded(), 2, &Outcome::Unavailable, 9);
        let parts = ["False", "UserSpecifiedUnavailable", UNAVAILABLE];
        let wanted = json!({"conditions": [
            condition("Progressing", ["True", "Succeeded", UNAVAILABLE], 2, "2026-01-01T00:00:05Z"),
            condition("Serving", parts, 2, "2026-01-01T00:00:09Z"),
        ]});
        assert_eq!(status, wanted);
        let back = after(&status, 3, &served(), 11);
        assert_eq!(back["lastUnpacked"], "2026-01-01T00:00:01Z");
        let since = "2026-01-01T00:00:11Z";
        let parts = ["True", "Available", AVAILABLE];
        assert_eq!(back["conditions"][1], condition("Serving", parts, 3, since));
    }

    #[test]
    fn a_deleted_catalog_is_not_served_any_more() {
        let status = after(&succeeded(), 2, &Outcome::Deleting, 9);
        let mut progressing = succeeded()["conditions"][0].clone();
        progressing["observedGeneration"] = 1.into();
        let serving = ["False", "Unavailable", ""];
        let wanted = json!({"conditions": [
            progressing,
            condition("Serving", serving, 2, "2026-01-01T00:00:09Z"),
        ]});
        assert_eq!(status, wanted);
    }

    #[test]
    fn the_time_of_loading_stays_with_the_digest() {
        let later = Outcome::Served {
            reference: format!("quay.io/a/b@sha256:{}", "0".repeat(64)),
            loaded: at(500),
        };
        assert_eq!(next(&succeeded(), 1, &later, BASE, at(501)), None);
        let other = Outcome::Served {
            reference: format!("quay.io/a/b@sha256:{}", "1".repeat(64)),
            loaded: at(500),
        };
        let status = after(&succeeded(), 1, &other, 501);
        assert_eq!(status["lastUnpacked"], "2026-01-01T00:08:20Z");
    }

    #[test]
    fn administrators_are_told_of_real_changes_alone() {
        let reason =
            |before: &Value, after: &Value| notice_of(before, after).map(|notice| notice.reason);
        let retrying = after(&succeeded(), 2, &failed(false), 9);
        assert_eq!(reason(&Value::Null, &succeeded()), Some("Resolved"));
        assert_eq!(reason(&succeeded(), &retrying), Some("Retrying"));
        assert_eq!(reason(&retrying, &succeeded()), Some("Recovered"));
        let blocked = after(&Value::Null, 1, &failed(true), 9);
        assert_eq!(reason(&Value::Null, &blocked), Some("Blocked"));
        let unavailable = after(&succeeded(), 2, &Outcome::Unavailable, 9);
        assert_eq!(reason(&succeeded(), &unavailable), Some("Unavailable"));
        assert_eq!(reason(&unavailable, &succeeded()), Some("Resolved"));
        // A new generation of the same content and the same failure, and a deletion.
        let same = after(&succeeded(), 7, &served(), 9);
        assert_eq!(reason(&succeeded(), &same), None);
        let again = after(&retrying, 7, &failed(false), 9);
        assert_eq!(reason(&retrying, &again), None);
        let deleted = after(&succeeded(), 2, &Outcome::Deleting, 9);
        assert_eq!(reason(&succeeded(), &deleted), None);
    }

    #[test]
    fn conditions_of_others_stay_and_messages_have_a_bound() {
        let foreign = json!({"conditions": [{"type": "Other", "status": "True"}]});
        let long = Outcome::Failed {
            message: "ä".repeat(40_000),
            terminal: false,
        };
        let status = after(&foreign, 1, &long, 1);
        assert_eq!(status["conditions"][0]["type"], "Other");
        let message = status["conditions"][1]["message"].as_str().unwrap();
        assert_eq!(message.len(), MAX_MESSAGE);
    }
}
