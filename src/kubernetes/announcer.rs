//! The digests that `ClusterCatalogs` announce. The watched objects may be older than
//! those that a client has seen, so each question is answered by the live object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use kube::Api;
use kube::core::DynamicObject;
use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::snapshot::{Announced, Announcements};
use images::Reference;

/// The longest wait for a live object. After that the last known one counts.
const PATIENCE: Duration = Duration::from_secs(2);

/// Knows the announced digests.
pub(super) struct Announcer {
    api: Api<DynamicObject>,
    entries: RwLock<BTreeMap<String, Arc<Entry>>>,
}

/// A catalog of the cluster.
struct Entry {
    announced: RwLock<Announced>,
    /// When the last question to the API server began that came to its end. It
    /// answers all requests that came before it began.
    asked: Mutex<Option<Instant>>,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            announced: RwLock::new(Announced::Nothing),
            asked: Mutex::default(),
        }
    }
}

impl Entry {
    /// Takes the announced image. A digest that is known keeps the time of its first
    /// sight.
    fn set(&self, reference: Option<&Reference>) {
        let found = reference.and_then(Reference::digest).copied();
        let mut announced = self.announced.write();
        *announced = match (found, *announced) {
            (None, _) => Announced::Nothing,
            (Some(found), known @ Announced::Digest { digest, .. }) if found == digest => known,
            (Some(digest), _) => Announced::Digest {
                digest,
                since: Instant::now(),
            },
        };
    }
}

impl Announcer {
    pub(super) fn new(api: Api<DynamicObject>) -> Self {
        Self {
            api,
            entries: RwLock::default(),
        }
    }

    /// Takes the catalogs of the cluster and their announced images.
    pub(super) fn set(&self, catalogs: impl IntoIterator<Item = (String, Option<Reference>)>) {
        let mut entries = self.entries.write();
        let mut old = std::mem::take(&mut *entries);
        for (name, reference) in catalogs {
            let entry = old.remove(&name).unwrap_or_default();
            entry.set(reference.as_ref());
            entries.insert(name, entry);
        }
    }

    async fn ask(&self, name: &str) -> Announced {
        let Some(entry) = self.entries.read().get(name).cloned() else {
            return Announced::Unknown;
        };
        let came = Instant::now();
        let mut asked = entry.asked.lock().await;
        if asked.is_none_or(|asked| asked < came) {
            let began = Instant::now();
            match tokio::time::timeout(PATIENCE, self.api.get_opt(name)).await {
                Ok(Ok(object)) => {
                    let reference = object.as_ref().and_then(resolved_reference);
                    entry.set(reference.as_ref());
                }
                // Serving goes on without the API server.
                Ok(Err(error)) => tracing::debug!(catalog = name, %error, "cannot ask the cluster"),
                Err(_) => tracing::debug!(catalog = name, "the cluster does not answer"),
            }
            // Not before: the client may go, and the question with it.
            *asked = Some(began);
        }
        drop(asked);
        *entry.announced.read()
    }
}

impl Announcements for Announcer {
    fn announced<'a>(&'a self, catalog: &'a str) -> BoxFuture<'a, Announced> {
        self.ask(catalog).boxed()
    }
}

/// The image that a `ClusterCatalog` announces in its status, by digest.
pub(super) fn resolved_reference(object: &DynamicObject) -> Option<Reference> {
    let text = object.data["status"]["resolvedSource"]["image"]["ref"].as_str()?;
    let reference: Reference = text.parse().ok()?;
    reference.digest().is_some().then_some(reference)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU8, Ordering};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::kubernetes::resources::CLUSTER_CATALOGS;

    fn reference(question: u8) -> Reference {
        let text = format!(
            "quay.io/a/b@sha256:{}",
            format!("{question:02x}").repeat(32)
        );
        text.parse().unwrap()
    }

    /// An API server that takes a second for each question and announces another
    /// digest each time.
    fn announcer() -> Arc<Announcer> {
        let questions = Arc::new(AtomicU8::new(0));
        let service = tower::service_fn(move |_: Request<Body>| {
            let question = questions.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let image = json!({"ref": reference(question).to_string()});
                let object = json!({
                    "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
                    "metadata": {"name": "a"},
                    "status": {"resolvedSource": {"type": "Image", "image": image}},
                });
                let body = Body::from(object.to_string().into_bytes());
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        let client = Client::new(service, "default");
        let announcer = Announcer::new(Api::all_with(client, &CLUSTER_CATALOGS.resource()));
        announcer.set([("a".to_owned(), None)]);
        Arc::new(announcer)
    }

    /// Whether the digest of this question is announced.
    fn is_of(answer: Announced, question: u8) -> bool {
        let wanted = reference(question);
        matches!(answer, Announced::Digest { digest, .. } if Some(&digest) == wanted.digest())
    }

    #[tokio::test(start_paused = true)]
    async fn a_digest_is_announced_since_it_was_first_seen() {
        let entry = Entry::default();
        let since = |entry: &Entry| match *entry.announced.read() {
            Announced::Digest { since, .. } => since,
            other => panic!("{other:?}"),
        };
        entry.set(Some(&reference(1)));
        let first = since(&entry);
        tokio::time::sleep(Duration::from_secs(5)).await;
        entry.set(Some(&reference(1)));
        assert_eq!(since(&entry), first);
        entry.set(Some(&reference(2)));
        assert_eq!(since(&entry), Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_goes_leaves_no_older_answer_to_the_others() {
        let announcer = announcer();
        let ask = || {
            let announcer = Arc::clone(&announcer);
            tokio::spawn(async move { announcer.announced("a").await })
        };
        let first = ask();
        tokio::time::sleep(Duration::from_millis(500)).await;
        // Both wait for a question that begins after they came.
        let leaving = ask();
        tokio::task::yield_now().await;
        let staying = ask();
        assert!(is_of(first.await.unwrap(), 1));
        tokio::time::sleep(Duration::from_millis(500)).await;
        leaving.abort();
        assert!(is_of(staying.await.unwrap(), 3));
    }

    #[tokio::test(start_paused = true)]
    async fn one_question_answers_all_that_came_before_it() {
        let announcer = announcer();
        let ask = || {
            let announcer = Arc::clone(&announcer);
            tokio::spawn(async move { announcer.announced("a").await })
        };
        let first = ask();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let others = [ask(), ask(), ask()];
        assert!(is_of(first.await.unwrap(), 1));
        for other in others {
            assert!(is_of(other.await.unwrap(), 2));
        }
    }
}
