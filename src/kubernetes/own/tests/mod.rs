//! The writer with its election and its guard, beside an API server in memory, over
//! hours of a paused clock.

mod served;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Owning;
use crate::kubernetes::events::{Events, ObjectName};
use crate::kubernetes::health::{Health, channel};
use crate::kubernetes::resources::CLUSTER_CATALOGS;
use crate::kubernetes::settings::Settings;
use crate::kubernetes::watched::Objects;
use crate::snapshot::Catalogs;

const CATALOGD: &str =
    "/apis/coordination.k8s.io/v1/namespaces/olmv1-system/leases/catalogd-operator-lock";
const OURS: &str =
    "/apis/coordination.k8s.io/v1/namespaces/olmv1-system/leases/almanac-cluster-catalogs";
const STATUS: &str = "/apis/olm.operatorframework.io/v1/clustercatalogs/a/status";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// An API server with Leases, and one `ClusterCatalog` whose new status becomes the
/// next event of a watch.
#[derive(Clone)]
struct Server(Arc<Mutex<State>>);

struct State {
    leases: BTreeMap<String, Value>,
    objects: watch::Sender<Option<Objects>>,
    /// The changes, without those of our Lease, and when they came.
    writes: Vec<(Instant, Method, String, Value)>,
    version: u64,
    /// Whether Leases cannot be written.
    refuses_leases: bool,
    /// The namespace that takes no Events.
    refuses_events: Option<&'static str>,
    /// Whether writes of a status work and their answers are lost.
    loses_answers: bool,
    /// Whether nothing listens, and the requests so far.
    is_gone: bool,
    requests: usize,
}

impl Server {
    fn start(mode: &str) -> Self {
        Self::with(&json!({"availabilityMode": mode, "source": {"type": "Image"}}))
    }

    /// With this specification.
    fn with(spec: &Value) -> Self {
        let mut object: DynamicObject = serde_json::from_value(json!({"metadata": {
            "name": "a", "generation": 1, "resourceVersion": "10", "uid": "u",
            "labels": {"olm.operatorframework.io/metadata.name": "a"},
        }}))
        .unwrap();
        object.data = json!({"spec": spec});
        let all = BTreeMap::from([("a".to_owned(), Arc::new(object))]);
        Self(Arc::new(Mutex::new(State {
            leases: BTreeMap::new(),
            objects: watch::Sender::new(Some(Arc::new(all))),
            writes: Vec::new(),
            version: 10,
            refuses_leases: false,
            refuses_events: None,
            loses_answers: false,
            is_gone: false,
            requests: 0,
        })))
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                {
                    let mut state = server.0.lock();
                    state.requests += 1;
                    if state.is_gone {
                        return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
                    }
                }
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let found = server.answer(&parts.method, parts.uri.path(), body);
                let is_lost = server.0.lock().loses_answers && parts.uri.path() == STATUS;
                let (code, answer) = match found {
                    Some(_) if is_lost => (
                        500,
                        json!({"code": 500, "reason": "", "message": "", "status": "Failure"}),
                    ),
                    Some(answer) => (200, answer),
                    None => (
                        404,
                        json!({"code": 404, "reason": "NotFound", "message": "",
                        "status": "Failure"}),
                    ),
                };
                let body = Body::from(answer.to_string().into_bytes());
                let answer = Response::builder().status(code).body(body).unwrap();
                Ok::<_, io::Error>(answer)
            }
        });
        Client::new(service, "olmv1-system")
    }

    fn answer(&self, method: &Method, path: &str, mut body: Value) -> Option<Value> {
        let mut state = self.0.lock();
        state.version += 1;
        if method == Method::GET {
            return state.leases.get(path).cloned();
        }
        body["metadata"]["resourceVersion"] = state.version.to_string().into();
        if path.contains("/leases") {
            if state.refuses_leases {
                return None;
            }
            let path = match body["metadata"]["name"].as_str() {
                Some(name) if method == Method::POST => format!("{path}/{name}"),
                _ => path.to_owned(),
            };
            state.leases.insert(path, body.clone());
            return Some(body);
        }
        let refuses = |namespace: &str| path.ends_with(&format!("/{namespace}/events"));
        if state.refuses_events.is_some_and(refuses) {
            return None;
        }
        let write = (
            Instant::now(),
            method.clone(),
            path.to_owned(),
            body.clone(),
        );
        state.writes.push(write);
        if path == STATUS {
            let object: DynamicObject = serde_json::from_value(body.clone()).unwrap();
            let all = BTreeMap::from([("a".to_owned(), Arc::new(object))]);
            state.objects.send_replace(Some(Arc::new(all)));
        }
        Some(body)
    }

    /// Renews the Lease of catalogd, or releases it.
    fn renew(&self, holder: &str) {
        let renewed = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        let lease = json!({"metadata": {"name": "catalogd-operator-lock"}, "spec": {
            "holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 137,
        }});
        self.0.lock().leases.insert(CATALOGD.to_owned(), lease);
    }

    /// Removes the status, as another version of the object.
    fn overwrite(&self, version: &str) {
        self.rewrite(version, |status| *status = Value::Null);
    }

    /// Gives our Lease to another almanac.
    fn lead(&self, holder: &str, renewal: u32) {
        let lease = json!({"metadata": {"name": super::LEASE}, "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewal,
        }});
        self.0.lock().leases.insert(OURS.to_owned(), lease);
    }

    /// Sets the status as another version of the object, with this change of what it is.
    fn rewrite(&self, version: &str, change: impl FnOnce(&mut Value)) {
        let objects = self.0.lock().objects.clone();
        objects.send_modify(|objects| {
            let objects = Arc::make_mut(objects.as_mut().unwrap());
            let object = Arc::make_mut(objects.get_mut("a").unwrap());
            object.metadata.resource_version = Some(version.to_owned());
            change(&mut object.data["status"]);
        });
    }

    /// The status that the object has.
    fn status(&self) -> Value {
        let objects = self.0.lock().objects.borrow().clone().unwrap();
        objects["a"].data["status"].clone()
    }

    /// How often the status was written.
    fn status_writes(&self) -> usize {
        let writes = self.writes();
        let statuses = writes.iter().filter(|(_, write)| write.contains(STATUS));
        statuses.count()
    }

    /// The changes so far: when they came, and what they are.
    fn writes(&self) -> Vec<(Instant, String)> {
        let state = self.0.lock();
        let writes = state.writes.iter();
        let writes = writes.map(|(at, method, path, body)| {
            let reason = body["reason"].as_str().unwrap_or_default();
            (*at, format!("{method} {path} {reason}").trim().to_owned())
        });
        writes.collect()
    }
}

/// An almanac in the place of catalogd, until its token is cancelled.
fn own(server: &Server) -> CancellationToken {
    own_with_health(server).0
}

/// The same, with its failures.
fn own_with_health(server: &Server) -> (CancellationToken, watch::Receiver<Health>) {
    own_catalogs(server, Catalogs::new([], None).0)
}

/// The same, which serves these catalogs.
fn own_catalogs(
    server: &Server,
    catalogs: Catalogs,
) -> (CancellationToken, watch::Receiver<Health>) {
    let (client, stop, tasks) = (
        server.client(),
        CancellationToken::new(),
        TaskTracker::new(),
    );
    let lease = ObjectName {
        namespace: "olmv1-system",
        name: super::LEASE,
    };
    let events = Events::start(client.clone(), lease, "almanac-0", &tasks, &stop);
    let settings = Settings {
        pod: "almanac-0".to_owned(),
        service_url: "https://a".to_owned(),
        ..Settings::default()
    };
    let (failures, health) = channel(events.clone());
    let owning = Owning {
        client: client.clone(),
        settings: &settings,
        namespace: "olmv1-system".to_owned(),
        api: kube::Api::all_with(client, &CLUSTER_CATALOGS.resource()),
        objects: server.0.lock().objects.subscribe(),
        catalogs,
        failures,
        events,
    };
    owning.start(&tasks, &stop);
    (stop, health)
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_a_change_makes_one_write_and_one_event() {
    let server = Server::start("Unavailable");
    let stop = own(&server);
    sleep(Duration::from_hours(1)).await;
    stop.cancel();
    let lease = "/apis/events.k8s.io/v1/namespaces/olmv1-system/events";
    let mut writes: Vec<String> = server.writes().into_iter().map(|(_, it)| it).collect();
    writes.sort();
    let wanted = [
        format!("POST {EVENTS} Unavailable"),
        format!("POST {lease} LeaderElection"),
        format!("PUT {STATUS}"),
    ];
    assert_eq!(writes, wanted);
    let objects = server.0.lock().objects.borrow().clone().unwrap();
    let serving = &objects["a"].data["status"]["conditions"][1];
    assert_eq!(serving["reason"], "UserSpecifiedUnavailable");
}

#[tokio::test(start_paused = true)]
async fn a_blocked_catalog_is_told_once_with_its_object() {
    let server = Server::start("Available");
    let stop = own(&server);
    sleep(Duration::from_hours(1)).await;
    stop.cancel();
    let state = server.0.lock();
    let events = state.writes.iter().filter(|(_, _, path, _)| path == EVENTS);
    let [(_, _, _, event)] = &events.collect::<Vec<_>>()[..] else {
        panic!("{:#?}", state.writes)
    };
    assert_eq!(
        (&event["reason"], &event["type"]),
        (&json!("Blocked"), &json!("Warning"))
    );
    let regarding = json!({"apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog", "name": "a", "uid": "u"});
    assert_eq!(event["regarding"], regarding);
    assert_eq!(event["metadata"]["namespace"], "default");
    assert_eq!(event["reportingInstance"], "almanac-0");
    let note = event["note"].as_str().unwrap();
    assert!(note.ends_with("image source is nil"), "{note}");
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_killed_catalogd_counts_until_it_has_not_moved_for_137_seconds() {
    let server = Server::start("Unavailable");
    server.renew("catalogd");
    let stop = own(&server);
    // As catalogd renews it.
    for _ in 0..20 {
        sleep(Duration::from_secs(26)).await;
        server.renew("catalogd");
    }
    let killed = Instant::now();
    sleep(Duration::from_mins(5)).await;
    stop.cancel();
    let writes = server.writes();
    let mut writes = writes.iter().filter(|(_, write)| write.starts_with("PUT"));
    let after = writes.next().unwrap().0 - killed;
    // Each look is ten seconds after the last one.
    let wanted = Duration::from_secs(137)..Duration::from_secs(170);
    assert!(wanted.contains(&after), "{after:?}");
    assert!(writes.next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_found_young_and_never_moves_counts_for_137_seconds() {
    let server = Server::start("Unavailable");
    server.renew("catalogd");
    let begin = Instant::now();
    let stop = own(&server);
    sleep(Duration::from_mins(5)).await;
    let first = server
        .writes()
        .into_iter()
        .find(|(_, it)| it.starts_with("PUT"));
    let after = first.unwrap().0 - begin;
    assert!(after >= Duration::from_secs(137), "{after:?}");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_its_lease_writes_nothing_until_it_can() {
    let server = Server::start("Unavailable");
    let stop = own(&server);
    sleep(Duration::from_secs(30)).await;
    server.0.lock().refuses_leases = true;
    sleep(Duration::from_secs(12)).await;
    let before = server.writes().len();
    server.overwrite("x");
    sleep(Duration::from_hours(1)).await;
    assert_eq!(server.writes().len(), before);
    server.0.lock().refuses_leases = false;
    sleep(Duration::from_secs(30)).await;
    let writes = server.writes();
    let written = |(_, write): &(Instant, String)| *write == format!("PUT {STATUS}");
    assert!(writes[before..].iter().any(written), "{writes:?}");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_gone_for_an_hour_is_written_to_once_it_is_back() {
    let server = Server::start("Unavailable");
    let (stop, health) = own_with_health(&server);
    sleep(Duration::from_secs(30)).await;
    assert!(health.borrow().is_empty());
    let (written, asked) = {
        let mut state = server.0.lock();
        state.is_gone = true;
        (state.writes.len(), state.requests)
    };
    server.overwrite("x");
    let begin = Instant::now();
    let mut said = BTreeSet::new();
    while begin.elapsed() < Duration::from_hours(1) {
        sleep(Duration::from_secs(10)).await;
        said.insert(format!("{:?}", health.borrow()));
    }
    // Each resource that failed is told, and its text stays.
    assert!(said.len() <= 3, "{said:#?}");
    assert!(said.iter().any(|it| it.contains("leases")), "{said:#?}");
    let asked = server.0.lock().requests - asked;
    // As Kubernetes' own electors ask: every two seconds for the Lease.
    assert!(asked <= 2 * 1800 + 10, "{asked}");
    assert_eq!(server.writes().len(), written);
    server.0.lock().is_gone = false;
    sleep(Duration::from_mins(1)).await;
    assert!(health.borrow().is_empty(), "{:?}", health.borrow());
    let reason = &server.status()["conditions"][1]["reason"];
    assert_eq!(reason, "UserSpecifiedUnavailable");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_one_takes_ends_the_writes() {
    let server = Server::start("Unavailable");
    let stop = own(&server);
    sleep(Duration::from_secs(30)).await;
    let before = server.writes().len();
    for renewal in 0..150 {
        server.lead("other", renewal);
        sleep(Duration::from_secs(2)).await;
        if renewal == 3 {
            server.overwrite("x");
        }
    }
    assert_eq!(server.writes().len(), before);
    // The other one is gone.
    sleep(Duration::from_secs(30)).await;
    assert!(server.writes().len() > before);
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_catalogd_that_comes_back_stops_the_writes_and_is_told_once() {
    let server = Server::start("Unavailable");
    let stop = own(&server);
    sleep(Duration::from_secs(30)).await;
    server.renew("catalogd");
    let before = server.writes().len();
    for minute in 0..60 {
        // It overwrites the status, too.
        server.overwrite(&format!("c{minute}"));
        server.renew("catalogd");
        sleep(Duration::from_mins(1)).await;
    }
    stop.cancel();
    let writes = server.writes();
    let after: Vec<&String> = writes[before..].iter().map(|(_, write)| write).collect();
    let lease = "/apis/events.k8s.io/v1/namespaces/olmv1-system/events";
    assert_eq!(after, [&format!("POST {lease} CatalogdIsAlive")]);
}

/// For minutes, and so shortly that only the look before a write sees it.
#[tokio::test(start_paused = true)]
async fn a_status_of_a_catalogd_that_left_again_is_not_told_as_overwritten() {
    for minutes in [10, 0] {
        let server = Server::start("Unavailable");
        let stop = own(&server);
        sleep(Duration::from_secs(30)).await;
        assert_eq!(server.status_writes(), 1);
        for minute in 0..=minutes {
            server.renew("catalogd");
            server.overwrite(&format!("c{minute}"));
            sleep(Duration::from_secs(if minutes == 0 { 4 } else { 60 })).await;
        }
        assert_eq!(server.status_writes(), 1);
        server.renew("");
        sleep(Duration::from_mins(1)).await;
        // Another writer still is one.
        assert_eq!(server.status_writes(), 2, "{:?}", server.writes());
        let told = |server: &Server| {
            let writes = server.writes().into_iter();
            writes.filter(|(_, it)| it.ends_with("Overwritten")).count()
        };
        assert_eq!(told(&server), 0, "{minutes}");
        server.overwrite("d");
        sleep(Duration::from_mins(1)).await;
        stop.cancel();
        assert_eq!(told(&server), 1, "{minutes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_worked_without_an_answer_fails_no_longer() {
    let server = Server::start("Unavailable");
    server.0.lock().loses_answers = true;
    let (stop, health) = own_with_health(&server);
    let is_status = |resource: &String| resource.starts_with("clustercatalogs");
    let mut waiting = health.clone();
    let failing = waiting.wait_for(|health| health.keys().any(is_status));
    assert!(failing.await.is_ok());
    sleep(Duration::from_mins(1)).await;
    assert!(health.borrow().is_empty(), "{:?}", health.borrow());
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_its_lease_reports_no_catalogd_any_more() {
    let server = Server::start("Unavailable");
    server.renew("catalogd");
    let (stop, health) = own_with_health(&server);
    sleep(Duration::from_secs(30)).await;
    let is_catalogd = |resource: &String| resource.contains("catalogd");
    assert!(health.borrow().keys().any(is_catalogd));
    for renewal in 0..20 {
        server.lead("other", renewal);
        sleep(Duration::from_secs(2)).await;
    }
    assert!(health.borrow().is_empty(), "{:?}", health.borrow());
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_takes_no_events_silences_no_other() {
    let server = Server::start("Unavailable");
    server.0.lock().refuses_events = Some("olmv1-system");
    let stop = own(&server);
    sleep(Duration::from_mins(1)).await;
    stop.cancel();
    let writes: Vec<String> = server.writes().into_iter().map(|(_, it)| it).collect();
    let wanted = format!("POST {EVENTS} Unavailable");
    assert!(writes.contains(&wanted), "{writes:?}");
}
