//! Events of Kubernetes, which `kubectl describe` shows below an object: changes of a
//! `ClusterCatalog`, and of almanac itself, for administrators.
//!
//! An Event is written once and never tried again: the log and the status say the
//! same. One that repeats counts in its series. An object has a budget, so that no
//! failure fills the API server.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use metrics::counter;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kubernetes::problem::{Problem, of_request};
use crate::kubernetes::resources::{CLUSTER_CATALOGS, EVENTS, Kind, LEASES};

/// The namespace of Events about objects without one: the API server takes no other.
const NAMESPACE: &str = "default";
/// The name of the program in Events.
const CONTROLLER: &str = "almanac";
/// The longest note, instance and name that the API server takes, in bytes.
const MAX_NOTE: usize = 1_024;
const MAX_INSTANCE: usize = 128;
const MAX_NAME: usize = 253;

/// The most Events that wait to be written.
const MAX_WAITING: usize = 256;
/// The most objects that are remembered, and Events of each.
const MAX_SUBJECTS: usize = 2_048;
const MAX_KNOWN: usize = 16;
/// How long an Event is remembered. The API server keeps it for an hour.
const LIFE: Duration = Duration::from_mins(50);
/// The Events about an object that may come at once, and the time after which it
/// gets another one.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_mins(5);
/// The longest request.
const REQUEST: Duration = Duration::from_secs(10);
/// How long nothing is written after a failure, and after a refusal.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
const AFTER_REFUSAL: Duration = Duration::from_mins(5);

/// The object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    api_version: String,
    kind: &'static str,
    namespace: Option<String>,
    name: String,
    uid: String,
}

/// The text of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// Whether something is wrong.
    pub(super) is_warning: bool,
    /// One word, for programs.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) note: String,
}

/// Takes Events. Cheap to clone, and never waits.
#[derive(Clone)]
pub(super) struct Events(Option<Queue>);

#[derive(Clone)]
struct Queue {
    sender: mpsc::Sender<(Subject, Notice)>,
    /// The Lease of the leader, which stands for almanac.
    almanac: Subject,
}

/// The name of an object, with its namespace.
#[derive(Clone, Copy)]
pub(super) struct ObjectName<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl Events {
    /// Takes none.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Writes them until `stop`. Those about almanac are about this Lease.
    pub(super) fn start(
        client: Client,
        lease: ObjectName<'_>,
        pod: &str,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let (sender, waiting) = mpsc::channel(MAX_WAITING);
        let recorder = Recorder {
            client,
            instance: instance(pod),
            subjects: BTreeMap::new(),
            rests: BTreeMap::new(),
        };
        let stop = stop.clone();
        tasks.spawn(async move {
            stop.run_until_cancelled(recorder.run(waiting)).await;
        });
        let almanac = Subject {
            namespace: Some(lease.namespace.to_owned()),
            name: lease.name.to_owned(),
            ..Subject::new(LEASES)
        };
        Self(Some(Queue { sender, almanac }))
    }

    /// Records an Event about a `ClusterCatalog`.
    pub(super) fn of_catalog(&self, name: &str, object: &DynamicObject, notice: Notice) {
        let subject = Subject {
            name: name.to_owned(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
            ..Subject::new(CLUSTER_CATALOGS)
        };
        self.take(|_| subject, notice);
    }

    /// Records an Event about almanac.
    pub(super) fn of_almanac(&self, notice: Notice) {
        self.take(Clone::clone, notice);
    }

    fn take(&self, subject: impl FnOnce(&Subject) -> Subject, notice: Notice) {
        let Some(queue) = &self.0 else {
            return;
        };
        let sent = queue.sender.try_send((subject(&queue.almanac), notice));
        if sent.is_err() {
            count("dropped");
        }
    }
}

impl Subject {
    fn new(kind: Kind) -> Self {
        Self {
            api_version: kind.resource().api_version,
            kind: kind.object,
            namespace: None,
            name: String::new(),
            uid: String::new(),
        }
    }

    /// The namespace of its Events.
    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(NAMESPACE)
    }

    fn reference(&self) -> Value {
        let mut reference = json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name,
        });
        if let Some(namespace) = &self.namespace {
            reference["namespace"] = namespace.as_str().into();
        }
        if !self.uid.is_empty() {
            reference["uid"] = self.uid.as_str().into();
        }
        reference
    }
}

/// The Events about an object, and its budget.
struct Recorded {
    budget: u32,
    refilled: Instant,
    known: Vec<WrittenEvent>,
}

/// An Event that the API server has.
struct WrittenEvent {
    notice: Notice,
    name: String,
    count: u32,
    written: Instant,
}

/// Writes Events.
struct Recorder {
    client: Client,
    /// The name of the pod.
    instance: String,
    subjects: BTreeMap<Subject, Recorded>,
    /// The namespaces whose last Event was not written.
    rests: BTreeMap<String, Rest>,
}

/// The rest after a failure.
struct Rest {
    /// Nothing is written before.
    until: Instant,
    /// A failure that stays the same is logged once.
    problem: String,
}

impl Recorder {
    async fn run(mut self, mut waiting: mpsc::Receiver<(Subject, Notice)>) {
        while let Some((subject, notice)) = waiting.recv().await {
            let notice = Notice {
                note: note(&notice.note),
                ..notice
            };
            self.record(&subject, notice).await;
        }
    }

    async fn record(&mut self, subject: &Subject, notice: Notice) {
        let now = Instant::now();
        self.forget(now);
        let recorded = self.subjects.entry(subject.clone());
        let recorded = recorded.or_insert_with(|| Recorded::new(now));
        let mut known = recorded.known.iter();
        let position = known.position(|known| known.notice == notice);
        if let Some(position) = position {
            // It also counts while there is no budget to write it.
            recorded.known[position].count += 1;
        }
        let namespace = subject.namespace();
        let rest = self.rests.get(namespace);
        let rests = rest.is_some_and(|rest| now < rest.until);
        if rests || !recorded.take(now) {
            count("dropped");
            return;
        }
        let repeated = position.map(|position| recorded.known.remove(position));
        let (verb, written) = match repeated {
            Some(known) => self.repeat(subject, known).await,
            None => self.create(subject, notice).await,
        };
        let written = match written {
            Ok(known) => known,
            Err(problem) => return self.failed(namespace, verb, problem),
        };
        count("written");
        self.rests.remove(namespace);
        if let Some(recorded) = self.subjects.get_mut(subject) {
            if recorded.known.len() >= MAX_KNOWN {
                recorded.known.remove(0);
            }
            recorded.known.push(written);
        }
    }

    /// Forgets Events that the API server removes, and objects without any.
    fn forget(&mut self, now: Instant) {
        self.subjects.retain(|_, recorded| {
            recorded.known.retain(|known| now - known.written < LIFE);
            !recorded.known.is_empty() || now - recorded.refilled < LIFE
        });
        if self.subjects.len() >= MAX_SUBJECTS {
            self.subjects.clear();
        }
    }

    async fn create(
        &self,
        subject: &Subject,
        notice: Notice,
    ) -> (&'static str, Result<WrittenEvent, Problem>) {
        let name = name(&subject.name, fastrand::u64(..));
        let namespace = subject.namespace();
        let mut event = DynamicObject::new(&name, &EVENTS.resource()).within(namespace);
        event.data = json!({
            "type": if notice.is_warning { "Warning" } else { "Normal" },
            "reason": notice.reason,
            "action": notice.reason,
            "note": notice.note,
            "regarding": subject.reference(),
            "eventTime": time(),
            "reportingController": CONTROLLER,
            "reportingInstance": self.instance,
        });
        let api = self.api(namespace);
        let parameters = PostParams::default();
        let created = within(api.create(&parameters, &event), "create").await;
        let known = created.map(|_| WrittenEvent {
            notice,
            name,
            count: 1,
            written: Instant::now(),
        });
        ("create", known)
    }

    /// Counts an Event in its series; only this part of one may change.
    async fn repeat(
        &self,
        subject: &Subject,
        known: WrittenEvent,
    ) -> (&'static str, Result<WrittenEvent, Problem>) {
        let namespace = subject.namespace();
        let series = json!({ "series": { "count": known.count, "lastObservedTime": time() } });
        let api = self.api(namespace);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&series));
        let patching = api.patch(&known.name, &parameters, &patch);
        let patched = within(patching, "patch").await;
        let known = patched.map(|_| WrittenEvent {
            written: Instant::now(),
            ..known
        });
        ("patch", known)
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &EVENTS.resource())
    }

    /// Rests in a namespace after a failure. It is no failure of the cluster's health: nothing that
    /// is served depends on an Event.
    fn failed(&mut self, namespace: &str, verb: &'static str, problem: Problem) {
        count("failed");
        let resource = EVENTS.name();
        counter!("almanac_kubernetes_errors_total", "resource" => resource, "verb" => verb)
            .increment(1);
        let rest = if problem.is_forbidden {
            AFTER_REFUSAL
        } else {
            AFTER_FAILURE
        };
        let last = self.rests.get(namespace);
        if last.is_none_or(|last| last.problem != problem.text) {
            tracing::warn!(
                error = problem.text,
                "an Event of Kubernetes is not written"
            );
        }
        let rest = Rest {
            until: Instant::now() + rest,
            problem: problem.text,
        };
        self.rests.insert(namespace.to_owned(), rest);
    }
}

impl Recorded {
    fn new(now: Instant) -> Self {
        Self {
            budget: BURST,
            refilled: now,
            known: Vec::new(),
        }
    }

    /// Takes one from the budget, if something is left.
    fn take(&mut self, now: Instant) -> bool {
        let parts = (now - self.refilled).as_secs() / REFILL.as_secs();
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        if parts > 0 {
            self.budget = self.budget.saturating_add(parts).min(BURST);
            self.refilled += REFILL.saturating_mul(parts);
        }
        let has_one = self.budget > 0;
        self.budget = self.budget.saturating_sub(1);
        has_one
    }
}

async fn within<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
    verb: &'static str,
) -> Result<T, Problem> {
    match tokio::time::timeout(REQUEST, request).await {
        Ok(answer) => answer.map_err(|error| of_request(&error, EVENTS, verb)),
        Err(_) => Err("the API server does not answer in time".to_owned().into()),
    }
}

/// The name of a pod, as far as there is room.
fn instance(pod: &str) -> String {
    match &pod[..pod.floor_char_boundary(MAX_INSTANCE)] {
        "" => CONTROLLER.to_owned(),
        pod => pod.to_owned(),
    }
}

fn count(result: &'static str) {
    counter!("almanac_kubernetes_events_total", "result" => result).increment(1);
}

fn time() -> String {
    humantime::format_rfc3339_micros(SystemTime::now()).to_string()
}

/// The name of an Event: that of its object as far as there is room, and a number.
fn name(object: &str, number: u64) -> String {
    let end = format!(".{number:016x}");
    let is_allowed = |sign: &char| sign.is_ascii_lowercase() || sign.is_ascii_digit();
    let signs = object.chars().take(MAX_NAME - end.len());
    let signs = signs.map(|sign| match sign {
        '.' => '.',
        sign if is_allowed(&sign) => sign,
        _ => '-',
    });
    let begin: String = signs.collect();
    let begin = begin.trim_matches(|sign| !is_allowed(&sign));
    let begin = if begin.is_empty() { CONTROLLER } else { begin };
    format!("{begin}{end}")
}

/// A note that fits, without signs that move the cursor of a terminal.
fn note(text: &str) -> String {
    let plain = text
        .chars()
        .map(|sign| if sign.is_control() { ' ' } else { sign });
    let plain: String = plain.collect();
    // The API counts bytes.
    if plain.len() <= MAX_NOTE {
        return plain;
    }
    let end = plain.floor_char_boundary(MAX_NOTE - '…'.len_utf8());
    format!("{}…", &plain[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_whatever_its_object_is_called() {
        assert_eq!(name("a.b", 255), "a.b.00000000000000ff");
        assert_eq!(name("../A/ä", 1), "almanac.0000000000000001");
        let long = name(&"a".repeat(5_000), 1);
        assert_eq!(long.len(), MAX_NAME);
        let cut = name(&format!("{}.b", "a".repeat(235)), 1);
        assert_eq!(cut, format!("{}.0000000000000001", "a".repeat(235)));
    }

    #[test]
    fn a_note_fits_and_moves_no_cursor() {
        assert_eq!(note("a\u{1b}[31m\nb"), "a [31m b");
        assert_eq!(note(&"ä".repeat(2_000)).len(), MAX_NOTE - 1);
    }

    #[test]
    fn an_object_has_a_budget_that_refills_slowly() {
        let start = Instant::now();
        let mut recorded = Recorded::new(start);
        let taken = (0..BURST + 5).filter(|_| recorded.take(start));
        assert_eq!(taken.count(), BURST as usize);
        assert!(!recorded.take(start + REFILL / 2));
        assert!(recorded.take(start + REFILL));
        assert!(!recorded.take(start + REFILL));
        let later = start + REFILL * 100;
        let taken = (0..BURST + 5).filter(|_| recorded.take(later));
        assert_eq!(taken.count(), BURST as usize);
    }
}
