//! The objects of one kind, as the API server has them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::core::DynamicObject;
use kube::core::metadata::TypeMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kubernetes::health::{Failures, of_watcher};
use crate::kubernetes::resources::Kind;

/// The wait before a new list, after the server no longer has the version from
/// which to watch.
const BEFORE_LIST: Duration = Duration::from_secs(1);

/// The objects by `NAMESPACE/NAME`, or `NAME` without a namespace.
pub(super) type Objects = Arc<BTreeMap<String, Arc<DynamicObject>>>;

/// The objects to keep.
pub(super) struct Watched {
    pub(super) client: Client,
    pub(super) kind: Kind,
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

impl Watched {
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
        });
        receiver
    }

    async fn run(self, objects: &watch::Sender<Option<Objects>>) {
        let mut config = watcher::Config::default();
        config.label_selector.clone_from(&self.labels);
        config.field_selector = self
            .name
            .as_ref()
            .map(|name| format!("metadata.name={name}"));
        loop {
            self.follow(config.clone(), objects).await;
            tokio::time::sleep(BEFORE_LIST).await;
        }
    }

    /// Lists and watches until a new list is needed.
    async fn follow(&self, config: watcher::Config, objects: &watch::Sender<Option<Objects>>) {
        let mut events = std::pin::pin!(watcher(self.api(), config).default_backoff());
        let mut listed = BTreeMap::new();
        let mut too_many = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    too_many = false;
                }
                Ok(watcher::Event::InitApply(object)) => {
                    too_many |= !self.insert(&mut listed, object);
                }
                Ok(watcher::Event::InitDone) => {
                    let listed = std::mem::take(&mut listed);
                    if !too_many {
                        self.failures.recovered(self.kind);
                        set(objects, Arc::new(listed));
                    }
                }
                Ok(watcher::Event::Apply(object)) => {
                    self.failures.recovered(self.kind);
                    let mut changed = objects.borrow().clone().unwrap_or_default();
                    if self.insert(Arc::make_mut(&mut changed), object) {
                        set(objects, changed);
                    }
                }
                Ok(watcher::Event::Delete(object)) => {
                    self.failures.recovered(self.kind);
                    let mut changed = objects.borrow().clone().unwrap_or_default();
                    Arc::make_mut(&mut changed).remove(&key(&object));
                    set(objects, changed);
                }
                Err(error) => {
                    let missing = code(&error) == Some(404);
                    if !(missing && self.is_empty_without_kind(objects)) {
                        let (verb, problem) = of_watcher(&error, self.kind);
                        self.failures.failed(self.kind, verb, problem);
                    }
                    // The stream would ask for the same version for ever.
                    if matches!(error, watcher::Error::WatchStartFailed(_))
                        && code(&error) == Some(410)
                    {
                        return;
                    }
                }
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

    /// Adds an object, or returns `false` if there are too many.
    fn insert(
        &self,
        objects: &mut BTreeMap<String, Arc<DynamicObject>>,
        mut object: DynamicObject,
    ) -> bool {
        let key = key(&object);
        if objects.len() >= self.kind.most && !objects.contains_key(&key) {
            let (resource, most) = (self.kind.name(), self.kind.most);
            let problem = format!("there are more than {most} {resource}");
            self.failures.failed(self.kind, "list", problem);
            return false;
        }
        // Objects of a list lack it.
        let resource = self.kind.resource();
        object.types = Some(TypeMeta {
            api_version: resource.api_version,
            kind: resource.kind,
        });
        // It is large, and of no use here.
        object.metadata.managed_fields = None;
        objects.insert(key, Arc::new(object));
        true
    }
}

/// Publishes objects that differ from the last ones.
fn set(objects: &watch::Sender<Option<Objects>>, new: Objects) {
    objects.send_if_modified(|current| {
        let differs = current.as_ref() != Some(&new);
        *current = Some(new);
        differs
    });
}

pub(super) fn key(object: &DynamicObject) -> String {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    match &object.metadata.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// The status of the answer that an error is made of.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}
