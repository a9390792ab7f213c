//! The API server of the tests behaves as one of Kubernetes does.

use serde_json::{Value, json};

use crate::support::api_server::{ApiServer, CATALOGS, Fault, cluster_catalog};
use crate::support::http::{Reply, ask};

const PATH: &str = "/apis/olm.operatorframework.io/v1/clustercatalogs";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

fn send(api: &ApiServer, method: &str, path: &str, kind: &str, body: &Value) -> Reply {
    let headers = [("Content-Type", kind)];
    let body = body.to_string();
    ask(api.address, method, path, &headers, body.as_bytes()).unwrap()
}

fn put(api: &ApiServer, path: &str, body: &Value) -> Reply {
    send(api, "PUT", path, "application/json", body)
}

fn list(api: &ApiServer, query: &str) -> Value {
    let path = format!("{PATH}?{query}");
    let reply = ask(api.address, "GET", &path, &[], b"").unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// The events of a watch that ends at once.
fn events(api: &ApiServer, query: &str) -> Vec<Value> {
    let path = format!("{PATH}?watch=true&timeoutSeconds=0&{query}");
    let reply = ask(api.address, "GET", &path, &[], b"").unwrap();
    assert_eq!(reply.status, 200);
    let text = reply.text();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter();
    kinds.map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn a_list_has_pages_selectors_and_tokens_that_expire() {
    let api = ApiServer::start();
    for name in ["a", "b", "c"] {
        let mut object = cluster_catalog(name, "quay.io/a/b:v1");
        object["metadata"]["labels"] = json!({"team": if name == "b" { "two" } else { "one" }});
        api.put(CATALOGS, object);
    }
    let page = list(&api, "limit=2");
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = list(&api, &format!("limit=2&continue={token}"));
    assert_eq!(rest["items"][0]["metadata"]["name"], "c");
    assert!(rest["metadata"]["continue"].is_null());
    let chosen = list(&api, "labelSelector=team%3Dtwo");
    assert_eq!(chosen["items"].as_array().unwrap().len(), 1);
    let chosen = list(&api, "fieldSelector=metadata.name%3Da");
    assert_eq!(chosen["items"][0]["metadata"]["name"], "a");
    api.change(CATALOGS, "a", |object| {
        object["spec"]["priority"] = 7.into();
    });
    api.forget_events();
    let path = format!("{PATH}?limit=2&continue={token}");
    assert_eq!(
        ask(api.address, "GET", &path, &[], b"").unwrap().status,
        410
    );
}

#[test]
fn a_watch_begins_after_its_version_and_knows_selectors_and_bookmarks() {
    let api = ApiServer::start();
    let mut object = cluster_catalog("a", "quay.io/a/b:v1");
    object["metadata"]["labels"] = json!({"team": "one"});
    api.put(CATALOGS, object);
    let begin = version(&list(&api, "limit=1")["items"][0]);
    api.change(CATALOGS, "a", |object| {
        object["spec"]["priority"] = 7.into();
    });
    api.put(CATALOGS, cluster_catalog("b", "quay.io/a/b:v1"));
    let from = format!("resourceVersion={begin}");
    assert_eq!(kinds(&events(&api, &from)), ["MODIFIED", "ADDED"]);
    // An object that leaves the selection is deleted for the watch.
    api.change(CATALOGS, "a", |object| {
        object["metadata"]["labels"] = json!({});
    });
    let selected = format!("{from}&labelSelector=team%3Done");
    assert_eq!(kinds(&events(&api, &selected)), ["MODIFIED", "DELETED"]);
    api.delete(CATALOGS, "b");
    let all = events(&api, &format!("{from}&allowWatchBookmarks=true"));
    let wanted = ["MODIFIED", "ADDED", "MODIFIED", "DELETED", "BOOKMARK"];
    assert_eq!(kinds(&all), wanted);
    assert!(all[4]["object"]["spec"].is_null());
    api.forget_events();
    let path = format!("{PATH}?watch=true&{from}");
    assert_eq!(
        ask(api.address, "GET", &path, &[], b"").unwrap().status,
        410
    );
    api.fail("watch", CATALOGS, Fault::Expired, Some(1));
    assert_eq!(events(&api, &from)[0]["object"]["code"], 410);
}

#[test]
fn writes_have_versions_generations_defaults_and_rules() {
    let api = ApiServer::start();
    let json = "application/json";
    let created = send(
        &api,
        "POST",
        PATH,
        json,
        &cluster_catalog("a", "quay.io/a/b:v1"),
    );
    assert_eq!(created.status, 200);
    let again = send(
        &api,
        "POST",
        PATH,
        json,
        &cluster_catalog("a", "quay.io/a/b:v1"),
    );
    assert_eq!(
        (again.status, reason(&again)),
        (409, "AlreadyExists".into())
    );
    let mut object = api.get(CATALOGS, "a").unwrap();
    assert_eq!(object["metadata"]["generation"], 1);
    assert_eq!(object["spec"]["availabilityMode"], "Available");
    let path = format!("{PATH}/a");
    // Without a difference nothing changes.
    assert_eq!(put(&api, &path, &object).status, 200);
    assert_eq!(version(&api.get(CATALOGS, "a").unwrap()), version(&object));
    // The main path ignores the status, and the status path all else.
    let mut changed = object.clone();
    changed["metadata"]["labels"] = json!({"a": "b"});
    changed["status"] = json!({"urls": {"base": "https://a"}});
    assert_eq!(put(&api, &path, &changed).status, 200);
    let now = api.get(CATALOGS, "a").unwrap();
    assert_eq!(
        (&now["status"], &now["metadata"]["generation"]),
        (&Value::Null, &json!(1))
    );
    let stale = put(&api, &path, &changed);
    assert_eq!((stale.status, reason(&stale)), (409, "Conflict".into()));
    let mut status = now.clone();
    status["metadata"]["labels"] = json!({});
    status["status"] = json!({"urls": {"base": "https://a"}, "unknown": 1});
    assert_eq!(put(&api, &format!("{path}/status"), &status).status, 200);
    let now = api.get(CATALOGS, "a").unwrap();
    assert_eq!(now["status"], json!({"urls": {"base": "https://a"}}));
    assert_eq!(now["metadata"]["labels"], json!({"a": "b"}));
    // What the definition forbids.
    object["metadata"]["resourceVersion"] = Value::Null;
    assert_eq!(put(&api, &path, &object).status, 422);
    for wrong in [
        json!({"spec": {"source": {"image": {"ref": "a/b@sha256:0", "pollIntervalMinutes": 1}}}}),
        json!({"spec": {"source": {"image": {"pollIntervalMinutes": 0}}}}),
        json!({"spec": {"source": null}}),
    ] {
        assert_eq!(
            send(&api, "PATCH", &path, MERGE, &wrong).status,
            422,
            "{wrong}"
        );
    }
    let wrong =
        json!({"status": {"resolvedSource": {"type": "Image", "image": {"ref": "a/b:v1"}}}});
    let reply = send(&api, "PATCH", &format!("{path}/status"), MERGE, &wrong);
    assert_eq!(reply.status, 422);
}

#[test]
fn patches_and_deletions_follow_their_rules() {
    let api = ApiServer::start();
    let mut object = cluster_catalog("a", "quay.io/a/b:v1");
    object["metadata"]["finalizers"] = json!(["one"]);
    api.put(CATALOGS, object);
    let path = format!("{PATH}/a");
    let stale = json!({"metadata": {"resourceVersion": "1"}});
    assert_eq!(send(&api, "PATCH", &path, MERGE, &stale).status, 409);
    let absent = json!([
        {"op": "test", "path": "/metadata/labels", "value": null},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
    ]);
    assert_eq!(send(&api, "PATCH", &path, JSON_PATCH, &absent).status, 200);
    assert_eq!(send(&api, "PATCH", &path, JSON_PATCH, &absent).status, 422);
    api.delete(CATALOGS, "a");
    let deleting = api.get(CATALOGS, "a").unwrap();
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleting["metadata"]["generation"], 2);
    let more = json!({"metadata": {"finalizers": ["one", "two"]}});
    assert_eq!(send(&api, "PATCH", &path, MERGE, &more).status, 422);
    let none = json!({"metadata": {"finalizers": []}});
    assert_eq!(send(&api, "PATCH", &path, MERGE, &none).status, 200);
    assert_eq!(api.get(CATALOGS, "a"), None);
}

fn reason(reply: &Reply) -> String {
    let status: Value = serde_json::from_slice(&reply.body).unwrap();
    status["reason"].as_str().unwrap().to_owned()
}

#[test]
fn another_token_is_not_accepted() {
    let api = ApiServer::start();
    api.accept_token("second");
    let asked = |token: &str| {
        let value = format!("Bearer {token}");
        let headers = [("Authorization", value.as_str())];
        ask(api.address, "GET", PATH, &headers, b"").unwrap().status
    };
    assert_eq!((asked("first"), asked("second")), (401, 200));
}
