//! The objects with their versions, and what changes them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde_json::{Value, json};

use super::roles::{self, Grant, check_event};
use super::rules::{check, defaults, drop_status, json_patch, merge, prune_nulls, selected, text};
use super::{CATALOGS, EVENTS, Fault, Recorded, Rule, Target};

#[derive(Default)]
pub(super) struct State {
    pub(super) version: u64,
    /// Watches from before this version are refused.
    pub(super) oldest: u64,
    pub(super) objects: BTreeMap<Key, Value>,
    pub(super) events: Vec<Event>,
    pub(super) rules: Vec<Rule>,
    /// The only accepted bearer token.
    pub(super) token: Option<String>,
    pub(super) requests: VecDeque<Recorded>,
    /// The rules that let requests pass; `None`: all pass.
    pub(super) grants: Option<Vec<Grant>>,
    /// The requests that no rule let pass.
    pub(super) forbidden: Vec<String>,
    pub(super) next_uid: u64,
    /// The answer to each request for a single catalog.
    pub(super) live: Option<Value>,
    /// How often all watches were ended.
    pub(super) watches: u64,
}

/// The resource, the namespace (or nothing) and the name.
pub(super) type Key = (String, String, String);

#[derive(Clone)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) key: Key,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

pub(super) type Answer = Result<Value, Failure>;

/// The code, the reason and the message of a failure.
pub(super) struct Failure(pub(super) u16, pub(super) &'static str, pub(super) String);

impl State {
    pub(super) fn fault(&mut self, verb: &str, resource: &str) -> Option<Fault> {
        let index = self.rules.iter().position(|rule| {
            (rule.verb.is_empty() || rule.verb == verb)
                && (rule.resource.is_empty() || rule.resource == resource)
        })?;
        let rule = &mut self.rules[index];
        let fault = rule.fault.clone();
        if let Some(times) = &mut rule.times {
            *times -= 1;
            if *times == 0 {
                self.rules.remove(index);
            }
        }
        Some(fault)
    }

    pub(super) fn allows(
        &mut self,
        verb: &str,
        target: &Target,
        query: &BTreeMap<String, String>,
    ) -> bool {
        let Some(grants) = &mut self.grants else {
            return true;
        };
        let allowed =
            target.resource == roles::SELF_REVIEWS || roles::allowed(grants, verb, target, query);
        if !allowed {
            let Target {
                resource,
                namespace,
                name,
                subresource,
            } = target;
            let request = format!("{verb} {resource} {subresource} {namespace} {name} {query:?}");
            self.forbidden.push(request);
        }
        allowed
    }

    pub(super) fn object(&self, key: &Key) -> Answer {
        let found = self.objects.get(key).cloned();
        found.ok_or_else(|| Failure(404, "NotFound", format!("{} {:?} not found", key.0, key.2)))
    }

    pub(super) fn list(&self, target: &Target, query: &BTreeMap<String, String>) -> Answer {
        let matching = self.objects.iter().filter(|(key, object)| {
            key.0 == target.resource
                && (target.namespace.is_empty() || key.1 == target.namespace)
                && selected(object, query)
        });
        let items: Vec<Value> = matching.map(|(_, object)| object.clone()).collect();
        let limit = query.get("limit").and_then(|text| text.parse().ok());
        let limit: usize = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        // A token has the version of its list and the number of its first item.
        let (version, first) = match query.get("continue").filter(|text| !text.is_empty()) {
            Some(token) => {
                let (version, first) = token.split_once('-').unwrap();
                let version: u64 = version.parse().unwrap();
                if version < self.oldest {
                    return Err(Failure(410, "Expired", "the token has expired".into()));
                }
                (version, first.parse().unwrap())
            }
            None => (self.version, 0),
        };
        let rest = items.len() - first.min(items.len());
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if rest > limit {
            metadata["continue"] = format!("{version}-{}", first + limit).into();
        }
        let page: Vec<Value> = items.into_iter().skip(first).take(limit).collect();
        Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": page}))
    }

    pub(super) fn write(
        &mut self,
        verb: &str,
        target: &Target,
        document: Value,
        kind: &str,
    ) -> Answer {
        let mut key = target.key();
        let is_status = target.subresource == "status";
        if verb == "create" {
            key.2 = text(&document["metadata"]["name"]);
            if self.objects.contains_key(&key) {
                let message = format!("{} {:?} already exists", key.0, key.2);
                return Err(Failure(409, "AlreadyExists", message));
            }
            let mut object = document;
            object["metadata"]["namespace"] = match key.1.as_str() {
                "" => Value::Null,
                namespace => namespace.into(),
            };
            drop_status(&mut object, &key.0);
            return self.checked(key, None, object);
        }
        let before = self.object(&key)?;
        if verb == "delete" {
            return self.delete(&key);
        }
        let mut new = match (verb, kind) {
            ("update", _) => document,
            (_, "application/merge-patch+json") => {
                let mut patched = before.clone();
                merge(&mut patched, &document);
                patched
            }
            (_, "application/json-patch+json") => json_patch(before.clone(), &document)?,
            (_, other) => return Err(Failure(415, "UnsupportedMediaType", other.to_owned())),
        };
        let given = text(&new["metadata"]["resourceVersion"]);
        if given.is_empty() && verb == "update" {
            let message = "metadata.resourceVersion: must be specified for an update".to_owned();
            return Err(Failure(422, "Invalid", message));
        }
        if !given.is_empty() && given != text(&before["metadata"]["resourceVersion"]) {
            let message = "the object has been modified; please apply your changes to the latest \
                           version and try again";
            return Err(Failure(409, "Conflict", message.to_owned()));
        }
        if is_status {
            let status = new["status"].take();
            new = before.clone();
            new["status"] = status;
        } else if key.0 == CATALOGS {
            new["status"] = before["status"].clone();
        }
        if before["metadata"]["deletionTimestamp"].is_string() {
            new["metadata"]["deletionTimestamp"] = before["metadata"]["deletionTimestamp"].clone();
            let finalizers = |object: &Value| match &object["metadata"]["finalizers"] {
                Value::Array(all) => all.clone(),
                _ => Vec::new(),
            };
            let (old, left) = (finalizers(&before), finalizers(&new));
            if left.iter().any(|one| !old.contains(one)) {
                let message = "no new finalizers can be added if the object is being deleted";
                return Err(Failure(422, "Invalid", message.to_owned()));
            }
            if left.is_empty() {
                self.remove(&key);
                return Ok(new);
            }
        }
        self.checked(key, Some(before), new)
    }

    pub(super) fn checked(&mut self, key: Key, before: Option<Value>, mut object: Value) -> Answer {
        if key.0 == CATALOGS {
            defaults(&mut object);
            check(&object).map_err(|message| Failure(422, "Invalid", message))?;
        }
        if key.0 == EVENTS {
            let checked = check_event(before.as_ref(), &object);
            checked.map_err(|message| Failure(422, "Invalid", message))?;
        }
        Ok(self.store(key, before, object))
    }

    pub(super) fn delete(&mut self, key: &Key) -> Answer {
        let before = self.object(key)?;
        let mut after = before.clone();
        let finalizers = before["metadata"]["finalizers"].as_array();
        if finalizers.is_none_or(Vec::is_empty) {
            self.remove(key);
            return Ok(before);
        }
        after["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        Ok(self.store(key.clone(), Some(before), after))
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let before = self.objects.remove(key);
        self.version += 1;
        self.events.push(Event {
            version: self.version,
            key: key.clone(),
            before,
            after: None,
        });
    }

    /// Stores an object. One that stays the same keeps its version.
    pub(super) fn store(&mut self, key: Key, before: Option<Value>, mut object: Value) -> Value {
        prune_nulls(&mut object);
        let metadata = &mut object["metadata"];
        if let Some(before) = &before {
            for field in ["resourceVersion", "generation", "uid"] {
                metadata[field] = before["metadata"][field].clone();
            }
            prune_nulls(&mut object);
            if object == *before {
                return object;
            }
        } else {
            self.next_uid += 1;
            metadata["uid"] = format!("uid-{}", self.next_uid).into();
            metadata["generation"] = 0.into();
        }
        self.version += 1;
        let metadata = |object: &Value, field: &str| object["metadata"][field].clone();
        let counts = before.as_ref().is_none_or(|before| {
            let field = "deletionTimestamp";
            before["spec"] != object["spec"] || metadata(before, field) != metadata(&object, field)
        });
        if counts {
            let generation = metadata(&object, "generation").as_u64().unwrap_or_default();
            object["metadata"]["generation"] = (generation + 1).into();
        }
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(key.clone(), object.clone());
        self.events.push(Event {
            version: self.version,
            key,
            before,
            after: Some(object.clone()),
        });
        object
    }

    /// The line of an event for a watch, if it concerns it.
    pub(super) fn line(
        event: &Event,
        target: &Target,
        query: &BTreeMap<String, String>,
    ) -> Option<Bytes> {
        let (resource, namespace, _) = &event.key;
        let same_namespace = target.namespace.is_empty() || *namespace == target.namespace;
        if *resource != target.resource || !same_namespace {
            return None;
        }
        let was = event.before.as_ref().filter(|one| selected(one, query));
        let is = event.after.as_ref().filter(|one| selected(one, query));
        let (kind, mut object) = match (was, is) {
            (None, Some(object)) => ("ADDED", object.clone()),
            (Some(_), Some(object)) => ("MODIFIED", object.clone()),
            (Some(object), None) => ("DELETED", object.clone()),
            (None, None) => return None,
        };
        object["metadata"]["resourceVersion"] = event.version.to_string().into();
        Some(Bytes::from(
            json!({"type": kind, "object": object}).to_string() + "\n",
        ))
    }
}
