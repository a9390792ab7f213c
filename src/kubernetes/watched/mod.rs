//! The objects of one kind, as the API server has them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::{ListParams, WatchParams};
use kube::core::metadata::TypeMeta;
use kube::core::{DynamicObject, WatchEvent};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kubernetes::health::Failures;
use crate::kubernetes::problem::of_request;
use crate::kubernetes::resources::Kind;

/// The objects of a page.
const PAGE: u32 = 500;
/// The longest wait for a page, and for the head of a watch.
const LIST: Duration = Duration::from_mins(1);
/// The time after which the API server ends a watch, in seconds. It sends no more
/// than 295.
const WATCH: u32 = 290;
/// The longest silence of a watch.
const SILENCE: Duration = Duration::from_secs(WATCH as u64 + 5);
/// A shorter watch is followed by a pause.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// The pause after the first of several failures. It doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The objects by `NAMESPACE/NAME`, or `NAME` without a namespace.
pub(super) type Objects = Arc<BTreeMap<String, Arc<DynamicObject>>>;

/// The objects to keep.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) client: Client,
    pub(super) kind: Kind,
    /// The kind under which failures are known.
    pub(super) reported: Kind,
    /// One namespace; `None` for all.
    pub(super) namespace: Option<String>,
    /// A label selector.
    pub(super) labels: Option<String>,
    /// The name of the only object.
    pub(super) name: Option<String>,
    /// The objects that count if the API server lacks the kind. `None`: that is a
    /// failure like any other, and there is no list before the kind exists.
    pub(super) if_missing: Option<Objects>,
    pub(super) failures: Failures,
}

/// The end of a list or a watch.
enum Failure {
    Request(kube::Error),
    /// No answer.
    Silence,
    /// More objects than the kind may have.
    TooMany,
    /// An answer without a version, after which nothing can be watched.
    NoVersion,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Request(error)
    }
}

impl Failure {
    /// The status of the answer.
    fn code(&self) -> Option<u16> {
        match self {
            Self::Request(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Whether events may be missed without a new list: the version has expired, or
    /// an event was not taken.
    fn needs_list(&self) -> bool {
        match self {
            Self::TooMany | Self::NoVersion => true,
            Self::Silence => false,
            Self::Request(_) => self.code() == Some(410),
        }
    }
}

impl Watched {
    /// Only one object of a namespace.
    pub(super) fn of(mut self, namespace: &str, name: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self.name = Some(name.to_owned());
        self
    }

    /// Failures are known under another kind.
    pub(super) fn reported_as(mut self, kind: Kind) -> Self {
        self.reported = kind;
        self
    }

    /// The API of the objects.
    pub(super) fn api(&self) -> Api<DynamicObject> {
        let resource = self.kind.resource();
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Keeps the objects until `stop`. The value is `None` before the first list is
    /// complete. A failure keeps the last objects.
    pub(super) fn start(
        self,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> watch::Receiver<Option<Objects>> {
        let (objects, receiver) = watch::channel(None);
        let stop = stop.clone();
        tasks.spawn(async move {
            stop.run_until_cancelled(self.run(&objects)).await;
            self.failures.forget(self.reported);
        });
        receiver
    }

    async fn run(&self, objects: &watch::Sender<Option<Objects>>) {
        // The version after which to watch; `None` before a list.
        let mut version = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let (began, known) = (Instant::now(), objects.borrow().clone());
            let (verb, done) = match &mut version {
                None => {
                    let listed = self.list(objects).await;
                    ("list", listed.map(|listed| version = Some(listed)))
                }
                Some(version) => ("watch", self.watch(version, objects).await),
            };
            let has_news = !is_same(objects.borrow().as_ref(), known.as_ref());
            if has_news || began.elapsed() >= LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            match done {
                // A list is followed by a watch, and a watch by the next one.
                Ok(()) if verb == "list" || began.elapsed() >= SHORTEST_WATCH => {}
                done => {
                    if let Err(failure) = done {
                        // An API server forgets versions after minutes.
                        if verb == "list" || failure.code() != Some(410) {
                            self.report(verb, &failure, objects);
                        }
                        if failure.needs_list() {
                            version = None;
                        }
                    }
                    // No two almanacs ask at the same time.
                    tokio::time::sleep(pause.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn report(
        &self,
        verb: &'static str,
        failure: &Failure,
        objects: &watch::Sender<Option<Objects>>,
    ) {
        let problem = match failure {
            Failure::Request(error) => {
                if failure.code() == Some(404) && self.is_empty_without_kind(objects) {
                    self.failures.recovered(self.reported);
                    return;
                }
                of_request(error, self.kind, verb)
            }
            Failure::Silence => "the API server does not answer in time".to_owned().into(),
            Failure::TooMany => {
                let (resource, most) = (self.kind.name(), self.kind.most);
                format!("there are more than {most} {resource}").into()
            }
            Failure::NoVersion => "the API server gave a list without a version"
                .to_owned()
                .into(),
        };
        self.failures.failed(self.reported, verb, problem);
    }

    fn field_selector(&self) -> Option<String> {
        let name = self.name.as_ref();
        name.map(|name| format!("metadata.name={name}"))
    }

    /// Takes a complete list, and gives its version.
    async fn list(&self, objects: &watch::Sender<Option<Objects>>) -> Result<String, Failure> {
        let api = self.api();
        let mut parameters = ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.field_selector(),
            limit: Some(PAGE),
            ..ListParams::default()
        };
        let mut listed = BTreeMap::new();
        loop {
            let page = tokio::time::timeout(LIST, api.list(&parameters)).await;
            let page = page.map_err(|_| Failure::Silence)??;
            for object in page.items {
                let (key, object) = self.keyed(object);
                self.check_room(&listed, &key)?;
                listed.insert(key, object);
            }
            let token = page.metadata.continue_.filter(|token| !token.is_empty());
            if token.is_none() {
                let version = page.metadata.resource_version;
                let version = version.filter(|version| !version.is_empty());
                let version = version.ok_or(Failure::NoVersion)?;
                self.failures.recovered(self.reported);
                set(objects, Arc::new(listed));
                return Ok(version);
            }
            parameters.continue_token = token;
        }
    }

    /// Takes changes after a version, which moves with them, until the watch ends.
    async fn watch(
        &self,
        version: &mut String,
        objects: &watch::Sender<Option<Objects>>,
    ) -> Result<(), Failure> {
        let api = self.api();
        let parameters = WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.field_selector(),
            timeout: Some(WATCH),
            ..WatchParams::default()
        };
        let starting = tokio::time::timeout(LIST, api.watch(&parameters, version)).await;
        let mut events = starting.map_err(|_| Failure::Silence)??.boxed();
        self.failures.recovered(self.reported);
        loop {
            // The end of a watch may get lost.
            let Ok(event) = tokio::time::timeout(SILENCE, events.next()).await else {
                return Ok(());
            };
            let Some(event) = event else {
                return Ok(());
            };
            let (new, change) = match event? {
                WatchEvent::Bookmark(bookmark) => (bookmark.metadata.resource_version, None),
                WatchEvent::Error(status) => {
                    return Err(Failure::Request(kube::Error::Api(status)));
                }
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let new = object.metadata.resource_version.clone();
                    let (key, object) = self.keyed(object);
                    if let Some(objects) = &*objects.borrow() {
                        self.check_room(objects, &key)?;
                    }
                    (new.unwrap_or_default(), Some((key, Some(object))))
                }
                WatchEvent::Deleted(object) => {
                    let new = object.metadata.resource_version.clone();
                    (new.unwrap_or_default(), Some((key(&object), None)))
                }
            };
            if new.is_empty() {
                return Err(Failure::NoVersion);
            }
            *version = new;
            self.failures.recovered(self.reported);
            if let Some((key, object)) = change {
                change_one(objects, key, object);
            }
        }
    }

    /// Takes the objects that count without the kind, unless others are known.
    /// Returns whether there are none, so that nothing is lost.
    fn is_empty_without_kind(&self, objects: &watch::Sender<Option<Objects>>) -> bool {
        let Some(stored) = &self.if_missing else {
            return false;
        };
        let known = objects.borrow().clone();
        let counting = known.unwrap_or_else(|| {
            tracing::info!(resource = self.kind.name(), "the cluster has no such kind");
            set(objects, Arc::clone(stored));
            Arc::clone(stored)
        });
        counting.is_empty()
    }

    /// Whether the kind may have another object.
    fn check_room(
        &self,
        objects: &BTreeMap<String, Arc<DynamicObject>>,
        key: &str,
    ) -> Result<(), Failure> {
        if objects.len() >= self.kind.most && !objects.contains_key(key) {
            return Err(Failure::TooMany);
        }
        Ok(())
    }

    /// An object as it is kept, with its key.
    fn keyed(&self, mut object: DynamicObject) -> (String, Arc<DynamicObject>) {
        // Objects of a list lack it.
        let resource = self.kind.resource();
        object.types = Some(TypeMeta {
            api_version: resource.api_version,
            kind: resource.kind,
        });
        // It is large, and of no use here.
        object.metadata.managed_fields = None;
        (key(&object), Arc::new(object))
    }
}

/// Publishes objects that differ from the last ones.
fn set(objects: &watch::Sender<Option<Objects>>, new: Objects) {
    objects.send_if_modified(|current| {
        let differs = current.as_ref() != Some(&new);
        if differs {
            *current = Some(new);
        }
        differs
    });
}

/// Publishes a change of one object; `None` removes it. Only this object is compared,
/// and the map is copied only while a reader holds it.
fn change_one(
    objects: &watch::Sender<Option<Objects>>,
    key: String,
    new: Option<Arc<DynamicObject>>,
) {
    objects.send_if_modified(|current| {
        let current = current.get_or_insert_default();
        if current.get(&key) == new.as_ref() {
            return false;
        }
        let current = Arc::make_mut(current);
        match new {
            Some(new) => current.insert(key, new),
            None => current.remove(&key),
        };
        true
    });
}

/// Whether nothing was published between the two.
fn is_same(one: Option<&Objects>, other: Option<&Objects>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

pub(super) fn key(object: &DynamicObject) -> String {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    match &object.metadata.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
