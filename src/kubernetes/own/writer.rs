//! Writes the status of `ClusterCatalogs`: only real differences, only as the leader,
//! never beside a live catalogd, and ever more rarely where somebody else overwrites
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use metrics::counter;
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::kubernetes::events::{Events, Notice};
use crate::kubernetes::health::Failures;
use crate::kubernetes::own::conditions::{self, BLOCKED, Outcome, notice_of};
use crate::kubernetes::own::guard::{Guard, blocked_writes};
use crate::kubernetes::own::image::image;
use crate::kubernetes::own::lease::leads;
use crate::kubernetes::problem::{Problem, of_request};
use crate::kubernetes::resources::{CATALOG_METADATA, CATALOG_STATUS, CLUSTER_CATALOGS, Kind};
use crate::kubernetes::watched::Objects;
use crate::snapshot::{AnnouncedBy, AttemptFailure, Catalogs};
use images::Reference;

/// The time between two comparisons.
const TICK: Duration = Duration::from_secs(1);
/// The longest request.
const REQUEST: Duration = Duration::from_secs(10);
/// How long the event of a write may take to arrive.
const EVENT: Duration = Duration::from_secs(10);
/// The wait after a failed write.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// The wait after the first time that somebody overwrites a status. It doubles.
const AFTER_OVERWRITE: Duration = Duration::from_secs(30);
/// The most doublings: 16 minutes.
const MAX_DOUBLINGS: u32 = 5;

/// The label with the name, by which `ClusterExtensions` select catalogs.
const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";
/// The longest value of a label.
const MAX_LABEL: usize = 63;
/// The finalizer of catalogd. Nobody else would remove it.
const FINALIZER: &str = "olm.operatorframework.io/delete-server-cache";

/// Compares the objects with what is served.
pub(super) struct Writer {
    pub(super) api: Api<DynamicObject>,
    pub(super) objects: watch::Receiver<Option<Objects>>,
    pub(super) catalogs: Catalogs,
    pub(super) leads: watch::Receiver<Option<Instant>>,
    pub(super) resolves: watch::Receiver<bool>,
    pub(super) guard: Arc<Mutex<Guard>>,
    pub(super) service_url: String,
    pub(super) failures: Failures,
    pub(super) events: Events,
    pub(super) records: Records,
}

/// The last writes, by object.
#[derive(Default)]
pub(super) struct Records(BTreeMap<String, Record>);

impl Records {
    /// Forgets what was written: a status that differs from it is not overwritten.
    fn reset(&mut self) {
        for record in self.0.values_mut() {
            *record = Record::default();
        }
    }
}

/// Result of a write to an object.
#[derive(Default)]
struct Record {
    /// The version from which the last write came, and when.
    written: Option<(String, Instant)>,
    /// What that write said, and of which generation of the object.
    said: Option<(i64, Outcome)>,
    /// How often somebody has overwritten it.
    overwritten: u32,
    /// No write before.
    rest_until: Option<Instant>,
}

impl Writer {
    /// Compares and writes for ever.
    pub(super) async fn run(mut self) {
        loop {
            tokio::time::sleep(TICK).await;
            let resolves = *self.resolves.borrow_and_update();
            let objects = self.objects.borrow_and_update().clone();
            let (true, Some(objects)) = (resolves, objects) else {
                for name in self.records.0.keys() {
                    self.forget_failures(name);
                }
                if !resolves {
                    // Another writer is the right one until almanac resolves again.
                    self.records.reset();
                }
                continue;
            };
            let known = self.records.0.keys();
            for name in known.filter(|name| !objects.contains_key(*name)) {
                self.forget_failures(name);
            }
            self.records.0.retain(|name, _| objects.contains_key(name));
            for (name, object) in objects.iter() {
                self.keep(name, object).await;
            }
        }
    }

    /// Forgets failed writes to an object that almanac writes no more.
    fn forget_failures(&self, name: &str) {
        let failures = self.failures.of(name);
        failures.forget(CATALOG_STATUS);
        failures.forget(CATALOG_METADATA);
    }

    /// Brings an object up to date.
    async fn keep(&mut self, name: &str, object: &DynamicObject) {
        let now = Instant::now();
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        let record = self.records.0.entry(name.to_owned()).or_default();
        if record.rest_until.is_some_and(|until| now < until) {
            return;
        }
        // The event of the last write is on its way.
        let is_old = |(written, at): &(String, Instant)| *written == version && now - *at < EVENT;
        if record.written.as_ref().is_some_and(is_old) {
            return;
        }
        let deleting = object.metadata.deletion_timestamp.is_some();
        let outcome = self.outcome(name, object);
        let is_known = outcome.is_some();
        let status = outcome.and_then(|outcome| {
            let status = self.status(name, object, &outcome)?;
            Some((outcome, status))
        });
        let metadata = if deleting {
            without_finalizer(object)
        } else {
            label(name, object)
        };
        // A write without an answer may have worked all the same.
        let failures = self.failures.of(name);
        if is_known && status.is_none() {
            failures.forget(CATALOG_STATUS);
        }
        if metadata.is_none() {
            failures.forget(CATALOG_METADATA);
        }
        if status.is_none() && metadata.is_none() || !self.may_write().await {
            return;
        }
        let written = match status {
            Some((outcome, status)) => self.write_status(name, object, outcome, status).await,
            None => true,
        };
        // After a status the version is another: the next comparison goes on.
        let is_status = self.records.0.get(name).is_some_and(|record| {
            let written = record.written.as_ref();
            written.is_some_and(|(written, _)| *written == version)
        });
        if let (true, false, Some(patch)) = (written, is_status, metadata) {
            self.patch(name, &version, &patch).await;
        }
    }

    /// The result of a catalog; `None` while it is unknown.
    fn outcome(&self, name: &str, object: &DynamicObject) -> Option<Outcome> {
        if object.metadata.deletion_timestamp.is_some() {
            return Some(Outcome::Deleting);
        }
        if object.data["spec"]["availabilityMode"] == "Unavailable" {
            return Some(Outcome::Unavailable);
        }
        let reference = match image(object) {
            Ok(image) => image.reference,
            Err(message) => {
                return Some(Outcome::Failed {
                    message,
                    terminal: true,
                });
            }
        };
        let source = reference.to_string();
        let catalog = self.catalogs.get(name)?;
        let status = catalog.status();
        // What follows is of the image of the object.
        if catalog.routing.announced != AnnouncedBy::Almanac || status.source != source {
            return None;
        }
        if let Some(failure) = &status.failure {
            return Some(failed(&reference, failure));
        }
        let snapshot = catalog.snapshot()?;
        let revision = snapshot.revision();
        let reference = reference.with_digest(revision.digest).to_string();
        let announced = &object.data["status"]["resolvedSource"]["image"]["ref"];
        // Content of an earlier time may be older than what is announced by now.
        let is_current =
            status.resolved.is_some() || announced.is_null() || *announced == reference;
        (revision.identity.source == source && is_current).then_some(Outcome::Served {
            reference,
            loaded: revision.committed,
        })
    }

    fn status(&self, name: &str, object: &DynamicObject, outcome: &Outcome) -> Option<Value> {
        let generation = object.metadata.generation.unwrap_or_default();
        let base = format!("{}/catalogs/{name}", self.service_url);
        let current = &object.data["status"];
        conditions::next(current, generation, outcome, &base, SystemTime::now())
    }

    /// Whether this almanac still leads, and no catalogd lives.
    async fn may_write(&mut self) -> bool {
        let guarded = self.guard.lock().await.live().await;
        if !matches!(guarded, Ok(None)) {
            blocked_writes().increment(1);
            if matches!(guarded, Ok(Some(_))) {
                // The status is catalogd's now, and not overwritten.
                self.records.reset();
            }
            return false;
        }
        leads(&self.leads)
    }

    /// Writes a status. Returns whether that worked.
    async fn write_status(
        &mut self,
        name: &str,
        object: &DynamicObject,
        outcome: Outcome,
        status: Value,
    ) -> bool {
        let mut new = object.clone();
        new.data["status"] = status.clone();
        let parameters = PostParams::default();
        let writing = self.api.replace_status(name, &parameters, &new);
        let written = tokio::time::timeout(REQUEST, writing).await;
        let record = self.records.0.entry(name.to_owned()).or_default();
        match written {
            Ok(Ok(_)) => {
                self.failures.of(name).recovered(CATALOG_STATUS);
                tracing::debug!(catalog = name, "the status is written");
                let version = object.metadata.resource_version.clone().unwrap_or_default();
                record.written = Some((version, Instant::now()));
                let generation = object.metadata.generation.unwrap_or_default();
                let said = Some((generation, outcome));
                // The same again: somebody has overwritten it, with whatever.
                if record.said == said {
                    let note = "another program overwrites the status; almanac writes it again at \
                                growing intervals";
                    let notice = Notice {
                        is_warning: true,
                        reason: "Overwritten",
                        note: note.to_owned(),
                    };
                    self.events.of_catalog(name, object, notice);
                    counter!("almanac_kubernetes_overwritten_total", "catalog" => name.to_owned())
                        .increment(1);
                    tracing::warn!(
                        catalog = name,
                        "another program overwrites the status of the ClusterCatalog; almanac \
                         writes it again at growing intervals"
                    );
                    let doublings = record.overwritten.min(MAX_DOUBLINGS);
                    record.overwritten += 1;
                    let rest = AFTER_OVERWRITE * 2_u32.pow(doublings);
                    record.rest_until = Some(Instant::now() + rest);
                } else {
                    record.overwritten = 0;
                    if let Some(notice) = notice_of(&object.data["status"], &status) {
                        log_blocked(name, &notice);
                        self.events.of_catalog(name, object, notice);
                    }
                }
                record.said = said;
                true
            }
            // The next event has the new version.
            Ok(Err(kube::Error::Api(answer))) if matches!(answer.code, 404 | 409) => false,
            Ok(Err(error)) => {
                let problem = of_request(&error, CATALOG_STATUS, "update");
                self.failed(name, CATALOG_STATUS, "update", problem);
                false
            }
            Err(_) => {
                let problem = "the API server does not answer in time".to_owned().into();
                self.failed(name, CATALOG_STATUS, "update", problem);
                false
            }
        }
    }

    /// Changes labels or finalizers.
    async fn patch(&mut self, name: &str, version: &str, metadata: &Value) {
        let mut patch = json!({ "metadata": metadata });
        patch["metadata"]["resourceVersion"] = version.into();
        let parameters = PatchParams::default();
        let patch = Patch::Merge(&patch);
        let patching = self.api.patch(name, &parameters, &patch);
        match tokio::time::timeout(REQUEST, patching).await {
            Ok(Ok(_)) => {
                self.failures.of(name).recovered(CATALOG_METADATA);
                let record = self.records.0.entry(name.to_owned()).or_default();
                record.written = Some((version.to_owned(), Instant::now()));
            }
            Ok(Err(kube::Error::Api(answer))) if matches!(answer.code, 404 | 409) => {}
            Ok(Err(error)) => {
                let problem = of_request(&error, CLUSTER_CATALOGS, "patch");
                self.failed(name, CATALOG_METADATA, "patch", problem);
            }
            Err(_) => {
                let problem = "the API server does not answer in time".to_owned().into();
                self.failed(name, CATALOG_METADATA, "patch", problem);
            }
        }
    }

    fn failed(&mut self, name: &str, kind: Kind, verb: &'static str, problem: Problem) {
        self.failures.of(name).failed(kind, verb, problem);
        let record = self.records.0.entry(name.to_owned()).or_default();
        record.rest_until = Some(Instant::now() + AFTER_FAILURE);
    }
}

/// The outcome of a failed attempt, with catalogd's prefix. Without the label, only
/// another image can help, so catalogd does not try a digest again.
fn failed(reference: &Reference, failure: &AttemptFailure) -> Outcome {
    let terminal = failure.reason == "no_label" && reference.digest().is_some();
    let prefix = match (failure.is_of_content, terminal) {
        (true, _) => "error storing fbc: ",
        (false, true) => "source catalog content: terminal error: ",
        (false, false) => "source catalog content: ",
    };
    Outcome::Failed {
        message: format!("{prefix}{}", failure.text),
        terminal,
    }
}

/// The label with the name, if it is missing and can be set.
fn label(name: &str, object: &DynamicObject) -> Option<Value> {
    let labels = object.metadata.labels.as_ref();
    let has = labels.and_then(|labels| labels.get(NAME_LABEL));
    let is_missing = has.is_none_or(|value| value != name);
    (is_missing && name.len() <= MAX_LABEL).then(|| json!({ "labels": { NAME_LABEL: name } }))
}

/// The finalizers without catalogd's, if it is there.
fn without_finalizer(object: &DynamicObject) -> Option<Value> {
    let all = object.metadata.finalizers.as_deref().unwrap_or_default();
    let left: Vec<&String> = all.iter().filter(|one| *one != FINALIZER).collect();
    (left.len() < all.len()).then(|| json!({ "finalizers": left }))
}

/// Logs that an image cannot be used. No pass does: the catalog is not followed then.
fn log_blocked(name: &str, notice: &Notice) {
    if notice.reason == BLOCKED {
        tracing::warn!(
            catalog = name,
            error = notice.note,
            "the image of the ClusterCatalog cannot be used until the object changes"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(metadata: &Value) -> DynamicObject {
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn the_label_is_set_where_a_label_can_hold_the_name() {
        let long = "a".repeat(64);
        assert!(label("a", &object(&json!({}))).is_some());
        assert!(label("a", &object(&json!({"labels": {NAME_LABEL: "b"}}))).is_some());
        assert!(label("a", &object(&json!({"labels": {NAME_LABEL: "a"}}))).is_none());
        assert!(label(&long, &object(&json!({}))).is_none());
    }

    #[test]
    fn only_the_finalizer_of_catalogd_is_removed() {
        let left = without_finalizer(&object(&json!({"finalizers": ["other", FINALIZER]})));
        assert_eq!(left, Some(json!({"finalizers": ["other"]})));
        assert_eq!(
            without_finalizer(&object(&json!({"finalizers": ["other"]}))),
            None
        );
    }

    #[test]
    fn a_digest_without_the_label_is_not_tried_again() {
        let tag: Reference = "quay.io/a/b:v1".parse().unwrap();
        let digest = tag.with_digest(images::Digest::of(b""));
        let message = |reference, reason, is_of_content| {
            let text = "no".to_owned();
            let failure = AttemptFailure {
                text,
                reason,
                is_of_content,
            };
            match failed(reference, &failure) {
                Outcome::Failed { message, terminal } => (message, terminal),
                other => panic!("{other:?}"),
            }
        };
        let retried = ("source catalog content: no".to_owned(), false);
        assert_eq!(message(&tag, "no_label", false), retried);
        assert_eq!(message(&digest, "http", false), retried);
        let (text, terminal) = message(&digest, "no_label", false);
        assert_eq!(text, "source catalog content: terminal error: no");
        assert!(terminal);
        // The files were read.
        let refused = ("error storing fbc: no".to_owned(), false);
        assert_eq!(message(&digest, "refused", true), refused);
    }
}
