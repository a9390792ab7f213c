//! Lists and watches beside an API server in memory.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::kubernetes::events::Events;
use crate::kubernetes::health;
use crate::kubernetes::resources::API_SERVERS;

/// An API server with these lists, one after the other, and watches; the last ones
/// are repeated. A watch without events is silent if it is `None`.
struct Server {
    lists: Vec<Value>,
    watches: Vec<Option<Value>>,
    asked: Mutex<Vec<String>>,
    /// How long nothing listens after a list, until when, and how often that was noticed.
    outage: Duration,
    gone_until: Mutex<Option<Instant>>,
    refused: Mutex<usize>,
}

impl Server {
    fn start(lists: &[Value], watches: &[Option<Value>]) -> Arc<Self> {
        Self::start_with(lists, watches, Duration::ZERO)
    }

    fn start_with(lists: &[Value], watches: &[Option<Value>], outage: Duration) -> Arc<Self> {
        Arc::new(Self {
            outage,
            lists: lists.to_vec(),
            watches: watches.to_vec(),
            asked: Mutex::default(),
            gone_until: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    fn watched(self: &Arc<Self>) -> Watched {
        let server = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.reach().map(|()| {
                let (code, body) = server.answer(&request.uri().to_string());
                Response::builder().status(code).body(body).unwrap()
            });
            std::future::ready(answer)
        });
        Watched {
            client: Client::new(service, "default"),
            kind: API_SERVERS,
            reported: API_SERVERS,
            namespace: None,
            labels: None,
            name: None,
            if_missing: None,
            failures: health::channel(Events::none()).0,
        }
    }

    /// Fails while nothing listens.
    fn reach(&self) -> io::Result<()> {
        if self
            .gone_until
            .lock()
            .is_some_and(|until| Instant::now() < until)
        {
            *self.refused.lock() += 1;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(())
    }

    fn answer(&self, uri: &str) -> (u16, BoxBody<Bytes, Infallible>) {
        let mut asked = self.asked.lock();
        let is_watch = uri.contains("watch=true");
        let before = asked
            .iter()
            .filter(|it| it.contains("watch=true") == is_watch);
        let before = before.count();
        asked.push(uri.to_owned());
        if !is_watch {
            *self.gone_until.lock() = Some(Instant::now() + self.outage);
            let list = &self.lists[before.min(self.lists.len() - 1)];
            let code = list["code"].as_u64().unwrap_or(200);
            let body = Full::new(list.to_string().into()).boxed();
            return (u16::try_from(code).unwrap(), body);
        }
        let body = match &self.watches[before.min(self.watches.len() - 1)] {
            Some(event) if event.is_null() => Full::default().boxed(),
            Some(event) => Full::new(format!("{event}\n").into()).boxed(),
            None => {
                let silence = stream::pending::<Result<Frame<Bytes>, Infallible>>();
                BodyExt::boxed(StreamBody::new(silence))
            }
        };
        (200, body)
    }

    fn asked(&self, what: &str) -> usize {
        let asked = self.asked.lock();
        asked.iter().filter(|uri| uri.contains(what)).count()
    }
}

fn object(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "APIServer",
        "metadata": {"name": name, "resourceVersion": version},
    })
}

fn list(version: &str, names: &[&str]) -> Value {
    let items = names.iter().map(|name| object(name, version));
    let items: Vec<Value> = items.collect();
    json!({"metadata": {"resourceVersion": version}, "items": items})
}

fn status(code: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": "", "message": "",
    })
}

/// The failures at this time, and those once nothing is watched any more. The
/// second value of the first pair is whether there was ever one.
async fn failures_after(watched: Watched, time: Duration) -> ((usize, bool), usize) {
    let (failures, health) = health::channel(Events::none());
    let watched = Watched {
        failures,
        ..watched
    };
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let _objects = watched.start(&tasks, &stop);
    tokio::time::sleep(time).await;
    let failing = (health.borrow().len(), health.has_changed().unwrap());
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    (failing, health.borrow().len())
}

async fn names_after(watched: Watched, time: Duration) -> Vec<String> {
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let objects = watched.start(&tasks, &stop);
    tokio::time::sleep(time).await;
    stop.cancel();
    let objects = objects.borrow().clone().unwrap();
    objects.keys().cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_repeated_ever_more_rarely() {
    let server = Server::start(&[list("1", &["a"])], &[Some(Value::Null)]);
    let names = names_after(server.watched(), Duration::from_mins(10)).await;
    assert_eq!(names, ["a"]);
    let watches = server.asked("watch=true&");
    assert!((10..=40).contains(&watches), "{watches}");
    assert_eq!(server.asked("limit="), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_begun_again_from_the_same_version() {
    let server = Server::start(&[list("7", &["a"])], &[None]);
    names_after(server.watched(), Duration::from_mins(15)).await;
    let asked = server.asked.lock();
    let (lists, watches) = asked.split_at(1);
    assert!(lists[0].contains("limit=500"), "{lists:?}");
    // One every 295 seconds.
    assert_eq!(watches.len(), 4, "{watches:?}");
    assert!(watches.iter().all(|uri| uri.contains("resourceVersion=7")));
}

#[tokio::test(start_paused = true)]
async fn more_objects_than_the_kind_may_have_change_nothing() {
    let added = json!({"type": "ADDED", "object": object("b", "2")});
    let lists = [list("1", &["a"]), list("2", &["a", "b"])];
    let server = Server::start(&lists, &[Some(added)]);
    let names = names_after(server.watched(), Duration::from_mins(2)).await;
    assert_eq!(names, ["a"]);
    assert!(server.asked("limit=") > 2);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_needs_a_new_list() {
    let status = json!({"code": 410, "reason": "Expired", "message": "", "status": "Failure"});
    let expired = json!({"type": "ERROR", "object": status});
    let lists = [list("1", &["a"]), list("2", &["b"])];
    let server = Server::start(&lists, &[Some(expired), None]);
    let names = names_after(server.watched(), Duration::from_mins(2)).await;
    assert_eq!(names, ["b"]);
    assert_eq!((server.asked("limit="), server.asked("watch=true")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_no_failure() {
    let expired = json!({"type": "ERROR", "object": status(410)});
    let server = Server::start(&[list("1", &["a"])], &[Some(expired), None]);
    let failures = failures_after(server.watched(), Duration::from_mins(1)).await;
    assert_eq!(failures, ((0, false), 0));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_begins_ends_a_failure() {
    let failure = json!({"type": "ERROR", "object": status(500)});
    let server = Server::start(&[list("1", &["a"])], &[Some(failure), None]);
    let failures = failures_after(server.watched(), Duration::from_mins(1)).await;
    assert_eq!(failures, ((0, true), 0));
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_that_counts_as_empty_ends_a_failure() {
    let server = Server::start(&[status(503), status(404)], &[None]);
    let watched = Watched {
        if_missing: Some(Objects::default()),
        ..server.watched()
    };
    let failures = failures_after(watched, Duration::from_mins(1)).await;
    assert_eq!(failures, ((0, true), 0));
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_no_longer_watched_do_not_fail() {
    let server = Server::start(&[status(403)], &[None]);
    let failures = failures_after(server.watched(), Duration::from_mins(1)).await;
    assert_eq!(failures, ((1, true), 0));
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_the_api_server_keeps_the_objects_and_then_none_is_missed() {
    let changed = json!({"type": "MODIFIED", "object": object("a", "2")});
    let events = [Some(changed), None];
    let hour = Duration::from_hours(1);
    let server = Server::start_with(&[list("1", &["a"])], &events, hour);
    let (failures, health) = health::channel(Events::none());
    let watched = Watched {
        failures,
        ..server.watched()
    };
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let mut objects = watched.start(&tasks, &stop);
    let version = |objects: &Option<Objects>| {
        let known = objects.as_ref().unwrap();
        known["a"].metadata.resource_version.clone().unwrap()
    };
    objects.changed().await.unwrap();
    let back = server.gone_until.lock().unwrap();
    tokio::time::sleep_until(back - Duration::from_secs(1)).await;
    assert_eq!(version(&objects.borrow_and_update()), "1");
    assert_eq!(health.borrow().len(), 1);
    objects.changed().await.unwrap();
    let late = back.elapsed();
    assert!(late <= LONGEST_PAUSE.mul_f64(1.25), "{late:?}");
    assert_eq!(version(&objects.borrow()), "2");
    assert!(health.borrow().is_empty());
    // Asked ever more rarely, and from where it was.
    let refused = *server.refused.lock();
    assert!((100..=170).contains(&refused), "{refused}");
    assert_eq!(server.asked("limit="), 1);
    stop.cancel();
}

#[test]
fn a_change_of_one_object_is_published_once_and_copies_no_others() {
    let (objects, mut reader) = watch::channel(None);
    let one = |version: &str| {
        let object = serde_json::from_value(object("a", version)).unwrap();
        Some(Arc::new(object))
    };
    change_one(&objects, "a".to_owned(), one("1"));
    let before = Arc::as_ptr(reader.borrow_and_update().as_ref().unwrap());
    change_one(&objects, "a".to_owned(), one("1"));
    assert!(!reader.has_changed().unwrap());
    change_one(&objects, "a".to_owned(), one("2"));
    assert!(reader.has_changed().unwrap());
    let after = Arc::as_ptr(reader.borrow_and_update().as_ref().unwrap());
    assert_eq!(before, after);
    change_one(&objects, "a".to_owned(), None);
    assert!(reader.borrow_and_update().as_ref().unwrap().is_empty());
}
