//! `ClusterCatalogs` that catalogd resolves are followed by digest, and served at
//! exactly the digest that is announced.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tonic::Code;

use crate::support::almanac::{Almanac, catalog};
use crate::support::api_server::{ApiServer, CATALOGS, Fault, cluster_catalog, resolve};
use crate::support::catalog::{Catalog, text_of};
use crate::support::http::{ask, get};
use crate::support::image::{Built, Image, image_of};
use crate::support::port::free_port;
use crate::support::program::{PATIENCE, Start, pause};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";

fn config(api: &ApiServer) -> String {
    format!(
        "poll = \"100ms\"\n[kubernetes]\ncluster_catalogs = \"follow\"\nkubeconfig = \"{}\"\n",
        api.kubeconfig().display()
    )
}

/// The reference with a digest, as catalogd announces it.
fn by_digest(upstream: &Upstream, image: &Built) -> String {
    let tagged = upstream.reference(REPOSITORY, "latest");
    let repository = tagged.strip_suffix(":latest").unwrap();
    format!("{repository}@{}", image.digest())
}

/// A registry with an image, and an API server with a catalog that announces it.
fn announced(name: &str, package: &str) -> (Upstream, ApiServer) {
    let upstream = Upstream::start();
    let api = ApiServer::start();
    let image = image_of(package);
    upstream.push(REPOSITORY, "latest", &image);
    let tag = upstream.reference(REPOSITORY, "latest");
    let mut object = cluster_catalog(name, &tag);
    resolve(&mut object, &by_digest(&upstream, &image));
    api.put(CATALOGS, object);
    (upstream, api)
}

/// Waits until the whole catalog is served with this status.
fn until_all(almanac: &mut Almanac, name: &str, status: u16) -> String {
    let begin = Instant::now();
    loop {
        let reply = almanac.all(name);
        if reply.status == status {
            return reply.text();
        }
        let late = begin.elapsed() >= PATIENCE;
        assert!(!late, "{name}: {} {}", reply.status, reply.text());
        pause(begin);
    }
}

#[test]
fn the_announced_digest_is_served_and_the_next_one_in_its_place() {
    let (upstream, api) = announced("a", "first");
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    assert_eq!(until_all(&mut almanac, "a", 200), text_of("first"));
    let second = image_of("second");
    upstream.push(REPOSITORY, "latest", &second);
    let reference = by_digest(&upstream, &second);
    api.change(CATALOGS, "a", |object| resolve(object, &reference));
    // From now on the first one would be older content under a newer reference.
    let begin = Instant::now();
    loop {
        let reply = almanac.all("a");
        if reply.status == 200 {
            assert_eq!(reply.text(), text_of("second"));
            break;
        }
        assert_eq!(reply.status, 503);
        assert!(begin.elapsed() < PATIENCE);
    }
    // Nothing is written beside catalogd.
    assert!(api.writes().is_empty(), "{:?}", api.writes());
}

#[test]
fn an_unavailable_catalog_is_answered_as_such_and_not_as_an_unknown_one() {
    let (upstream, api) = announced("a", "first");
    let tag = upstream.reference(REPOSITORY, "latest");
    let mut off = cluster_catalog("off", &tag);
    off["spec"]["availabilityMode"] = "Unavailable".into();
    api.put(CATALOGS, off);
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    until_all(&mut almanac, "a", 200);
    let said = "catalog off is set unavailable by the availabilityMode of its ClusterCatalog";
    for path in [
        "/catalogs/off/api/v1/all",
        "/catalogs/off/api/v1/packages",
        "/catalogs/off",
        "/catalogs/off/problems",
    ] {
        let reply = almanac.http(path);
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.text().contains(said), "{path}: {}", reply.text());
    }
    // Not the only other catalog.
    let refused = almanac.packages("off").unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(refused.message(), "catalog \"off\" is set unavailable");
    // Once it is deleted, it is unknown.
    api.delete(CATALOGS, "off");
    let begin = Instant::now();
    while almanac.all("off").text().contains(said) {
        assert!(begin.elapsed() < PATIENCE);
        pause(begin);
    }
    assert!(almanac.all("off").text().contains("there is no catalog"));
}

#[test]
fn a_digest_that_cannot_be_pulled_is_503_over_http_and_the_last_one_over_grpc() {
    let (upstream, api) = announced("a", "first");
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    until_all(&mut almanac, "a", 200);
    let missing = by_digest(&upstream, &image_of("missing"));
    api.change(CATALOGS, "a", |object| resolve(object, &missing));
    let reply = almanac.all("a");
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(reply.header("retry-after").is_some());
    almanac.until_failed("a");
    assert_eq!(almanac.all("a").status, 503);
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    // The announcement of what is served makes it visible again.
    let first = by_digest(&upstream, &image_of("first"));
    api.change(CATALOGS, "a", |object| resolve(object, &first));
    assert_eq!(almanac.all("a").text(), text_of("first"));
}

#[test]
fn a_request_is_compared_with_the_live_object_and_not_with_the_last_event() {
    let (upstream, api) = announced("a", "first");
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    until_all(&mut almanac, "a", 200);
    // catalogd has announced a digest, and no event has told it yet.
    let second = by_digest(&upstream, &image_of("second"));
    let mut live = api.get(CATALOGS, "a").unwrap();
    resolve(&mut live, &second);
    api.answer_gets_with(Some(live));
    assert_eq!(almanac.all("a").status, 503);
    api.answer_gets_with(None);
    assert_eq!(almanac.all("a").status, 200);
}

#[test]
fn catalogs_come_and_go_with_their_objects_and_long_names_are_taken() {
    let (upstream, api) = announced("a", "first");
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    let long = format!("{}.{}", "b".repeat(63), "c".repeat(189));
    assert_eq!(long.len(), 253);
    let mut object = cluster_catalog(&long, "quay.io/a/b:v1");
    api.put(CATALOGS, object.clone());
    resolve(&mut object, &by_digest(&upstream, &image_of("first")));
    api.put(CATALOGS, object);
    almanac.until_names(&["a", &long]);
    assert_eq!(until_all(&mut almanac, &long, 200), text_of("first"));
    // Set unavailable: catalogd removes the resolved source.
    api.change(CATALOGS, "a", |object| object["status"] = Value::Null);
    assert_eq!(almanac.all("a").status, 404);
    almanac.until_names(&[&long]);
    almanac.stop();
    // Nobody sees the event.
    api.delete(CATALOGS, &long);
    almanac.restart_with(&config(&api));
    almanac.until_names(&[]);
    assert_eq!(almanac.all(&long).status, 404);
}

#[test]
fn serving_goes_on_without_the_api_server_also_after_a_restart() {
    let (_upstream, api) = announced("a", "first");
    let config = config(&api);
    let mut almanac = Almanac::start(&config);
    almanac.until_names(&["a"]);
    until_all(&mut almanac, "a", 200);
    api.fail("", "", Fault::Status(503, "ServiceUnavailable"), None);
    assert_eq!(almanac.all("a").text(), text_of("first"));
    almanac.stop();
    almanac.restart_with(&config);
    almanac.until_names(&["a"]);
    assert_eq!(until_all(&mut almanac, "a", 200), text_of("first"));
    let failing =
        "almanac_kubernetes_up_to_date{resource=\"clustercatalogs.olm.operatorframework.io\"} 0";
    almanac.until_metrics(failing);
    assert!(
        almanac
            .ready()
            .text()
            .contains("cannot list clustercatalogs")
    );
    api.recover();
    let well = failing.replace("} 0", "} 1");
    almanac.until_metrics(&well);
    assert_eq!(almanac.ready().text(), "ok\n");
}

#[test]
fn a_silent_api_server_delays_answers_and_stops_none() {
    let (_upstream, api) = announced("a", "first");
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    until_all(&mut almanac, "a", 200);
    api.fail("", "", Fault::Silence, None);
    assert_eq!(almanac.all("a").text(), text_of("first"));
}

#[test]
fn a_forbidden_verb_is_named_with_its_resource() {
    let (_upstream, api) = announced("a", "first");
    api.fail("list", CATALOGS, Fault::Status(403, "Forbidden"), None);
    let mut almanac = Almanac::start(&config(&api));
    let wanted = "grant the verb list on clustercatalogs.olm.operatorframework.io";
    let named = |log: &str| log.contains(wanted);
    almanac
        .program
        .wait_for_log("the verb and the resource", named);
    let admin = almanac.program.address("admin").to_string();
    let begin = Instant::now();
    loop {
        let health = Start::new(["health", "--admin", &admin]).run();
        assert_eq!(health.status.code(), Some(1), "{health:#?}");
        let waits = "waiting for the catalogs of the cluster";
        assert!(health.stderr.contains(waits), "{health:#?}");
        if health.stderr.contains(wanted) {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{health:#?}");
        pause(begin);
    }
    let home = |almanac: &mut Almanac| {
        let http = almanac.program.address("http");
        let accept = [("Accept", "text/html")];
        ask(http, "GET", "/", &accept, b"").unwrap().text()
    };
    let unknown = "The catalogs of the cluster are not known yet";
    let text = home(&mut almanac);
    assert!(text.contains(unknown), "{text}");
    assert!(!text.contains("that you may read"), "{text}");
    // Nobody knows yet whether there is such a catalog.
    for path in ["/catalogs/a/api/v1/all", "/catalogs/a/api/v1/packages"] {
        let reply = get(almanac.program.address("http"), path).unwrap();
        assert_eq!(reply.status, 503, "{path}: {}", reply.text());
        assert!(reply.header("retry-after").is_some(), "{path}");
    }
    assert_eq!(almanac.packages("a").unwrap_err().code(), Code::Unavailable);
    api.recover();
    almanac.until_names(&["a"]);
    until_all(&mut almanac, "a", 200);
    let health = Start::new(["health", "--wait=5m", "--admin", &admin]).run();
    assert_eq!(health.status.code(), Some(0), "{health:#?}");
    assert_eq!(almanac.all("b").status, 404);
    let begin = Instant::now();
    while home(&mut almanac).contains(unknown) {
        assert!(begin.elapsed() < PATIENCE);
        pause(begin);
    }
}

#[test]
fn an_api_server_that_cannot_be_reached_is_named_by_almanac_alone() {
    let api = ApiServer::start();
    let (path, closed) = (api.kubeconfig(), free_port().to_string());
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&api.address.to_string(), &closed)).unwrap();
    let text = format!("[kubernetes]\ncluster_catalogs = \"follow\"\nkubeconfig = {path:?}\n");
    let mut almanac = Almanac::start(&text);
    let wanted = format!("cannot reach the API server http://{closed}: ");
    let named = |log: &str| log.contains(&wanted);
    almanac.program.wait_for_log("the address", named);
    let log = almanac.program.log();
    assert!(!log.contains("kube_client"), "{log}");
}

/// The client of Kubernetes reads the file again 50 seconds after the last time.
#[test]
fn a_token_that_the_cluster_replaces_counts_within_a_minute() {
    let (_upstream, api) = announced("a", "first");
    api.accept_token("first");
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    until_all(&mut almanac, "a", 200);
    thread::sleep(Duration::from_secs(46));
    api.replace_token("second");
    api.end_watches();
    let state =
        "almanac_kubernetes_up_to_date{resource=\"clustercatalogs.olm.operatorframework.io\"}";
    almanac.until_metrics(&format!("{state} 0"));
    let wanted = "the API server does not accept the credentials";
    let refused = |log: &str| log.contains(wanted);
    almanac.program.wait_for_log("the refusal", refused);
    assert_eq!(almanac.all("a").text(), text_of("first"));
    almanac.until_metrics(&format!("{state} 1"));
    api.delete(CATALOGS, "a");
    almanac.until_names(&[]);
}

#[test]
fn failing_watches_lose_no_event() {
    let (upstream, api) = announced("a", "first");
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    let mut names = vec!["a".to_owned()];
    let mut other = cluster_catalog("b", "quay.io/a/b:v1");
    resolve(&mut other, &by_digest(&upstream, &image_of("first")));
    let faults = [
        Fault::Cut,
        Fault::Expired,
        Fault::Status(410, "Expired"),
        Fault::Status(401, "Unauthorized"),
        Fault::Status(429, "TooManyRequests"),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        api.fail("watch", CATALOGS, fault, Some(1));
        // Each running watch ends.
        api.end_watches();
        other["metadata"]["name"] = format!("b{number}").into();
        api.put(CATALOGS, other.clone());
        names.push(format!("b{number}"));
        let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
        almanac.until_names(&wanted);
    }
}

#[test]
fn a_configured_catalog_takes_precedence_over_a_cluster_catalog() {
    let (upstream, api) = announced("a", "first");
    let other = Image::of_catalog(&Catalog::one("own")).build();
    upstream.push("catalogs/own", "v1", &other);
    let own = catalog("a", &upstream.reference("catalogs/own", "v1"));
    let config = config(&api) + &own;
    let mut almanac = Almanac::start(&config);
    almanac.until_at("a", &other.digest());
    let warned = |log: &str| log.contains("has the name of a ClusterCatalog");
    almanac.program.wait_for_log("a warning", warned);
    assert_eq!(almanac.all("a").text(), text_of("own"));
}

#[test]
fn a_removed_kubernetes_table_counts_after_a_restart() {
    let (upstream, api) = announced("a", "first");
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    until_all(&mut almanac, "a", 200);
    let reference = by_digest(&upstream, &image_of("first"));
    let without = format!("poll = \"100ms\"\n{}", catalog("b", &reference));
    almanac.reconfigure(&without);
    almanac.until_configuration("the warning", |status| {
        status["needs_restart"][0] == "kubernetes"
    });
    almanac.until_names(&["a", "b"]);
    assert_eq!(until_all(&mut almanac, "a", 200), text_of("first"));
    almanac.stop();
    almanac.restart_with(&without);
    almanac.until_names(&["b"]);
}

#[test]
fn catalogs_of_the_cluster_that_cannot_be_taken_are_tried_again() {
    let (_upstream, api) = announced("a", "first");
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "a-token\n").unwrap();
    // Its token file is read at each change of the catalogs.
    let webhook = format!(
        "[[webhook]]\nname = \"hook\"\nurl = \"http://127.0.0.1:9/\"\nallow_local = true\n\
         token_file = {token:?}\n"
    );
    let mut almanac = Almanac::start(&format!("{}{webhook}", config(&api)));
    almanac.until_names(&["a"]);
    fs::remove_file(&token).unwrap();
    api.delete(CATALOGS, "a");
    let refused = |log: &str| log.contains("the catalogs of the cluster cannot be taken");
    almanac.program.wait_for_log("an error", refused);
    assert_eq!(almanac.names(), ["a"]);
    fs::write(&token, "a-token\n").unwrap();
    almanac.until_names(&[]);
}
