//! The API server of a cluster, as far as almanac uses one: objects of any kind with
//! versions, lists with pages, watches, writes with conflicts, finalizers, and the
//! rules of `ClusterCatalogs`. It fails on request.
//!
//! It stops, with all of its connections, when it is dropped.

mod roles;
mod rules;
mod store;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State as Shared};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::program::{PATIENCE, pause};
use super::runtime::background;
use store::{Failure, Key, State};

/// The resource of Events.
pub(crate) const EVENTS: &str = "events.k8s.io/events";
/// The resource of `ClusterCatalogs`.
pub(crate) const CATALOGS: &str = "olm.operatorframework.io/clustercatalogs";
/// The longest body of a request, in bytes.
const MAX_BODY: usize = 4 << 20;

/// An API server that is running.
pub(crate) struct ApiServer {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
    folder: TempDir,
    /// Serves it; ends with it.
    _runtime: Runtime,
}

/// A way to fail.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// An answer with this code and reason.
    Status(u16, &'static str),
    /// No answer.
    Silence,
    /// A watch that ends in the middle of a line.
    Cut,
    /// A watch whose first event says that the version has expired.
    Expired,
}

/// A request that fails.
#[derive(Clone, Debug)]
struct Rule {
    /// The verb of roles; empty for any.
    verb: &'static str,
    /// `GROUP/PLURAL`; empty for any.
    resource: &'static str,
    fault: Fault,
    /// How often; `None` until it is removed.
    times: Option<u32>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

/// A parsed path.
struct Target {
    resource: String,
    namespace: String,
    name: String,
    subresource: String,
}

impl ApiServer {
    /// Starts an empty server on a free port of 127.0.0.1.
    pub(crate) fn start() -> Self {
        let runtime = background();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            version: 100,
            ..State::default()
        }));
        let (changed, _) = watch::channel(100);
        let routes = Router::new()
            .fallback(handle)
            .with_state((Arc::clone(&state), changed.clone()));
        runtime.spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Self {
            address,
            state,
            changed,
            folder: tempfile::tempdir().unwrap(),
            _runtime: runtime,
        }
    }

    /// A kubeconfig for this server.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        let path = self.folder.path().join("kubeconfig");
        let token = self.folder.path().join("token");
        if !token.exists() {
            std::fs::write(&token, "first").unwrap();
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "test", "user": {"tokenFile": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "olmv1-system"}}],
        });
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Accepts this bearer token only.
    pub(crate) fn accept_token(&self, token: &str) {
        self.state().token = Some(token.to_owned());
    }

    /// Writes another bearer token to the file, and accepts no other.
    pub(crate) fn replace_token(&self, token: &str) {
        std::fs::write(self.folder.path().join("token"), token).unwrap();
        self.accept_token(token);
    }

    /// Makes requests fail, so many times or until [`ApiServer::recover`].
    pub(crate) fn fail(
        &self,
        verb: &'static str,
        resource: &'static str,
        fault: Fault,
        times: Option<u32>,
    ) {
        self.state().rules.push(Rule {
            verb,
            resource,
            fault,
            times,
        });
    }

    /// Lets requests pass that these roles allow, and no others.
    pub(crate) fn enforce(&self, roles: &[Value]) {
        self.state().grants = Some(roles::grants(roles));
    }

    /// The requests that no role allowed, and the verbs of rules that no request has
    /// needed.
    pub(crate) fn forbidden_and_unused(&self) -> (Vec<String>, Vec<String>) {
        let state = self.state();
        let unused = state.grants.as_deref().map(roles::unused);
        (state.forbidden.clone(), unused.unwrap_or_default())
    }

    /// Ends all failures.
    pub(crate) fn recover(&self) {
        self.state().rules.clear();
    }

    /// Answers requests for single objects with this one, as if it had changed and
    /// no event had arrived yet.
    pub(crate) fn answer_gets_with(&self, object: Option<Value>) {
        self.state().live = object;
    }

    /// Ends each running watch.
    pub(crate) fn end_watches(&self) {
        let mut state = self.state();
        state.watches += 1;
        self.announce(&state);
    }

    /// Forgets all events so far, so that a watch from before them is refused.
    pub(crate) fn forget_events(&self) {
        let mut state = self.state();
        state.oldest = state.version;
    }

    /// Creates or replaces an object whatever its version is, status included.
    pub(crate) fn put(&self, resource: &str, mut object: Value) {
        if resource == CATALOGS {
            rules::defaults(&mut object);
        }
        let mut state = self.state();
        let metadata = &object["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        let key = (resource.to_owned(), text("namespace"), text("name"));
        let before = state.objects.get(&key).cloned();
        state.store(key, before, object);
        self.announce(&state);
    }

    /// Changes an object.
    pub(crate) fn change(&self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let found = state.objects.iter();
        let mut found = found.filter(|((kind, _, own), _)| kind == resource && own == name);
        let (key, before) = found.next().map(|(k, v)| (k.clone(), v.clone())).unwrap();
        let mut after = before.clone();
        change(&mut after);
        state.store(key, Some(before), after);
        self.announce(&state);
    }

    /// Deletes an object, as a user does it.
    pub(crate) fn delete(&self, resource: &str, name: &str) {
        let mut state = self.state();
        let key = state.objects.keys();
        let mut key = key.filter(|(kind, _, own)| kind == resource && own == name);
        let key = key.next().cloned().unwrap();
        let _ = state.delete(&key);
        self.announce(&state);
    }

    /// An object, if it is there.
    pub(crate) fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let state = self.state();
        let mut found = state.objects.iter();
        let found = found.find(|((kind, _, own), _)| kind == resource && own == name);
        found.map(|(_, object)| object.clone())
    }

    /// All objects of a resource.
    pub(crate) fn all(&self, resource: &str) -> Vec<Value> {
        let state = self.state();
        let found = state
            .objects
            .iter()
            .filter(|((kind, ..), _)| kind == resource);
        found.map(|(_, object)| object.clone()).collect()
    }

    /// Waits for an Event with this reason that is as `good` wants it.
    pub(crate) fn until_event(&self, reason: &str, good: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let all = self.all(EVENTS);
            let found = all.iter().find(|one| one["reason"] == reason && good(one));
            if let Some(found) = found {
                return found.clone();
            }
            assert!(begin.elapsed() < PATIENCE, "no {reason} in {all:#?}");
            pause(begin);
        }
    }

    /// Waits until an object is as `good` wants it.
    pub(crate) fn until(&self, resource: &str, name: &str, good: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let found = self.get(resource, name).unwrap_or_default();
            if good(&found) {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "{name} stays {found:#}");
            pause(begin);
        }
    }

    /// The requests so far, oldest first.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.state().requests.iter().cloned().collect()
    }

    /// The requests that change something.
    pub(crate) fn writes(&self) -> Vec<Recorded> {
        let mut requests = self.requests();
        requests.retain(|one| !["get", "list", "watch"].contains(&one.verb.as_str()));
        requests
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn announce(&self, state: &State) {
        self.changed.send_replace(state.version);
    }
}

/// A `ClusterCatalog` for an image.
pub(crate) fn cluster_catalog(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": image}}},
    })
}

/// Sets the status that catalogd writes once it serves this digest.
pub(crate) fn resolve(object: &mut Value, reference: &str) {
    object["status"] = json!({
        "resolvedSource": {"type": "Image", "image": {"ref": reference}},
        "urls": {"base": "https://almanac.olmv1-system.svc/catalogs/x"},
        "conditions": [],
    });
}

async fn handle(
    Shared((state, changed)): Shared<(Arc<Mutex<State>>, watch::Sender<u64>)>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Some(target) = target(parts.uri.path()) else {
        return failed(&Failure(404, "NotFound", "no such path".into()));
    };
    let query: BTreeMap<String, String> = parts.uri.query().map_or_else(BTreeMap::new, |query| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let decoded = |text: &str| {
            percent_encoding::percent_decode_str(&text.replace('+', " "))
                .decode_utf8_lossy()
                .into_owned()
        };
        pairs
            .map(|(key, value)| (decoded(key), decoded(value)))
            .collect()
    });
    let body = to_bytes(body, MAX_BODY).await.unwrap_or_default();
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_watch = query
        .get("watch")
        .is_some_and(|on| on == "true" || on == "1");
    let verb = match parts.method {
        Method::GET if is_watch => "watch",
        Method::GET if target.name.is_empty() => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        _ => "delete",
    };
    let fault = {
        let mut state = state.lock().unwrap();
        state.requests.push_back(Recorded {
            verb: verb.to_owned(),
            resource: match target.subresource.as_str() {
                "" => target.resource.clone(),
                below => format!("{}/{below}", target.resource),
            },
            name: target.name.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body: document.clone(),
        });
        let given = parts.headers.get("authorization");
        let given = given
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let token = state.token.as_ref();
        let is_known = token.is_none_or(|token| given == format!("Bearer {token}"));
        if !is_known {
            Some(Fault::Status(401, "Unauthorized"))
        } else if !state.allows(verb, &target, &query) {
            Some(Fault::Status(403, "Forbidden"))
        } else {
            state.fault(verb, &target.resource)
        }
    };
    match fault {
        Some(Fault::Status(code, reason)) => {
            let message = format!("{verb} of {} fails on request", target.resource);
            return failed(&Failure(code, reason, message));
        }
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::Cut) => return lines(vec![Bytes::from_static(b"{\"type\":\"MODI")]),
        Some(Fault::Expired) => {
            let status = status(410, "Expired", "too old resource version");
            let line = json!({"type": "ERROR", "object": status}).to_string() + "\n";
            return lines(vec![line.into()]);
        }
        None => {}
    }
    let answer = match verb {
        "create" if target.resource == roles::SELF_REVIEWS => Ok(roles::self_review()),
        "watch" => return watched(state, &changed, target, &query),
        "list" => state.lock().unwrap().list(&target, &query),
        "get" => {
            let state = state.lock().unwrap();
            let live = state.live.clone().filter(|_| target.resource == CATALOGS);
            live.map_or_else(|| state.object(&target.key()), Ok)
        }
        _ => {
            let kind = parts.headers.get("content-type");
            let kind = kind
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default();
            let mut state = state.lock().unwrap();
            let answer = state.write(verb, &target, document, kind);
            changed.send_replace(state.version);
            answer
        }
    };
    match answer {
        Ok(value) => axum::Json(value).into_response(),
        Err(failure) => failed(&failure),
    }
}

fn target(path: &str) -> Option<Target> {
    let mut parts = path.trim_matches('/').split('/');
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    parts.next()?;
    let mut first = parts.next()?;
    let mut namespace = "";
    if first == "namespaces" {
        namespace = parts.next()?;
        first = parts.next()?;
    }
    Some(Target {
        resource: if group.is_empty() {
            first.to_owned()
        } else {
            format!("{group}/{first}")
        },
        namespace: namespace.to_owned(),
        name: parts.next().unwrap_or_default().to_owned(),
        subresource: parts.next().unwrap_or_default().to_owned(),
    })
}

impl Target {
    fn key(&self) -> Key {
        (
            self.resource.clone(),
            self.namespace.clone(),
            self.name.clone(),
        )
    }
}

/// The events after a version, until the time of the watch is over.
fn watched(
    state: Arc<Mutex<State>>,
    changed: &watch::Sender<u64>,
    target: Target,
    query: &BTreeMap<String, String>,
) -> Response {
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<u64>().ok());
    let version = number("resourceVersion").unwrap_or_default();
    if version < state.lock().unwrap().oldest {
        return failed(&Failure(410, "Expired", "too old resource version".into()));
    }
    let bookmarks = query
        .get("allowWatchBookmarks")
        .is_some_and(|on| on == "true");
    let end = tokio::time::Instant::now()
        + Duration::from_secs(number("timeoutSeconds").unwrap_or(1_800));
    let round = state.lock().unwrap().watches;
    let (news, query) = (changed.subscribe(), query.clone());
    let events = stream::unfold(
        (version, news, false),
        move |(version, mut news, is_over)| {
            let (state, target, query) = (Arc::clone(&state), &target, query.clone());
            let target = Target {
                resource: target.resource.clone(),
                namespace: target.namespace.clone(),
                name: String::new(),
                subresource: String::new(),
            };
            async move {
                if is_over {
                    return None;
                }
                loop {
                    news.borrow_and_update();
                    let (new, last) = {
                        let state = state.lock().unwrap();
                        if state.watches != round {
                            return None;
                        }
                        let new = state.events.iter().filter(|event| event.version > version);
                        let new = new.filter_map(|event| State::line(event, &target, &query));
                        (new.collect::<Vec<_>>().concat(), state.version)
                    };
                    if !new.is_empty() {
                        let bytes = Ok::<_, Infallible>(Bytes::from(new));
                        return Some((bytes, (last, news, false)));
                    }
                    tokio::select! {
                        _ = news.changed() => {}
                        () = tokio::time::sleep_until(end) => {
                            if !bookmarks {
                                return None;
                            }
                            let object = json!({
                                "kind": "Bookmark", "apiVersion": "v1",
                                "metadata": {"resourceVersion": last.to_string()},
                            });
                            let line = json!({"type": "BOOKMARK", "object": object});
                            let line = Bytes::from(line.to_string() + "\n");
                            return Some((Ok(line), (last, news, true)));
                        }
                    }
                }
            }
        },
    );
    Response::new(Body::from_stream(events))
}

fn lines(lines: Vec<Bytes>) -> Response {
    let lines = lines.into_iter().map(Ok::<_, Infallible>);
    Response::new(Body::from_stream(stream::iter(lines)))
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

fn failed(Failure(code, reason, message): &Failure) -> Response {
    let body = axum::Json(status(*code, reason, message));
    let mut response = (StatusCode::from_u16(*code).unwrap(), body).into_response();
    if *code == 429 {
        response
            .headers_mut()
            .insert("retry-after", "1".parse().unwrap());
    }
    response
}
