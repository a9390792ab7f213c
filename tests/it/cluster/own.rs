//! In the place of catalogd: almanac resolves `ClusterCatalogs`, serves them and writes
//! their status.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::support::almanac::Almanac;
use crate::support::api_server::{ApiServer, CATALOGS, EVENTS, Fault, cluster_catalog, resolve};
use crate::support::catalog::text_of;
use crate::support::image::{Built, image_of};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
const LEASES: &str = "coordination.k8s.io/leases";
const OWN_LEASE: &str = "almanac-cluster-catalogs";
const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";
const FINALIZER: &str = "olm.operatorframework.io/delete-server-cache";
const STATUS: &str = "olm.operatorframework.io/clustercatalogs/status";

fn config(api: &ApiServer) -> String {
    format!(
        "[kubernetes]\ncluster_catalogs = \"own\"\nkubeconfig = \"{}\"\n",
        api.kubeconfig().display()
    )
}

/// A registry with the package `first`, and an API server with the catalog `a` of it.
fn with_first() -> (Upstream, ApiServer) {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    upstream.push(REPOSITORY, "v1", &image_of("first"));
    let reference = upstream.reference(REPOSITORY, "v1");
    api.put(CATALOGS, cluster_catalog("a", &reference));
    (upstream, api)
}

fn resolved(upstream: &Upstream, image: &Built) -> String {
    let tagged = upstream.reference(REPOSITORY, "v1");
    let repository = tagged.strip_suffix(":v1").unwrap();
    format!("{repository}@{}", image.digest())
}

/// Whether a condition has this value and reason.
fn has(object: &Value, kind: &str, value: &str, reason: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|one| one["type"] == kind && one["status"] == value && one["reason"] == reason)
}

fn is_serving(object: &Value) -> bool {
    has(object, "Serving", "True", "Available")
}

/// The writes of statuses.
fn status_writes(api: &ApiServer) -> usize {
    let writes = api.writes();
    writes.iter().filter(|one| one.resource == STATUS).count()
}

fn catalogd_lease(holder: &str) -> Value {
    let now = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "catalogd-operator-lock", "namespace": "olmv1-system"},
        "spec": {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": 137},
    })
}

#[test]
fn a_catalog_is_resolved_served_and_its_status_written_as_catalogd_does() {
    let (upstream, api) = with_first();
    let mut almanac = Almanac::start(&config(&api));
    let object = api.until(CATALOGS, "a", |object| {
        is_serving(object) && object["metadata"]["labels"][NAME_LABEL] == "a"
    });
    assert_eq!(almanac.all("a").text(), text_of("first"));
    let condition = |index: usize, kind: &str, reason: &str, message: &str| {
        let since = object["status"]["conditions"][index]["lastTransitionTime"].clone();
        assert!(since.is_string());
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "observedGeneration": 1, "lastTransitionTime": since,
        })
    };
    let wanted = json!({
        "conditions": [
            condition(0, "Progressing", "Succeeded",
                "Successfully unpacked and stored content from resolved source"),
            condition(1, "Serving", "Available", "Serving desired content from resolved source"),
        ],
        "resolvedSource": {"type": "Image", "image": {"ref": resolved(&upstream, &image_of("first"))}},
        "urls": {"base": "https://catalogd-service.olmv1-system.svc/catalogs/a"},
        "lastUnpacked": object["status"]["lastUnpacked"],
    });
    assert_eq!(object["status"], wanted);
    assert!(object["status"]["lastUnpacked"].is_string());
    assert!(object["metadata"]["finalizers"].is_null());
    // A changed priority is a new generation of the same content.
    api.change(CATALOGS, "a", |object| {
        object["spec"]["priority"] = 7.into();
    });
    api.until(CATALOGS, "a", |object| {
        let conditions = object["status"]["conditions"].as_array().unwrap();
        conditions.iter().all(|one| one["observedGeneration"] == 2)
    });
    // The same after a restart, without a write.
    let before = api.get(CATALOGS, "a").unwrap();
    let writes = status_writes(&api);
    almanac.stop();
    almanac.restart_with(&config(&api));
    almanac.until_metrics("almanac_kubernetes_leader 1");
    almanac.until_names(&["a"]);
    let renewals = api.writes().len();
    // The writer compares once a second, and the Lease is renewed every two seconds.
    let begin = Instant::now();
    while api.writes().len() < renewals + 2 && begin.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(api.get(CATALOGS, "a").unwrap(), before);
    assert_eq!(status_writes(&api), writes);
    // A start without the API server knows what was announced.
    api.fail("", "", Fault::Status(503, "ServiceUnavailable"), None);
    almanac.stop();
    almanac.restart_with(&config(&api));
    almanac.until_names(&["a"]);
    assert_eq!(almanac.all("a").text(), text_of("first"));
}

#[test]
fn a_reference_is_announced_once_its_content_is_served() {
    let (upstream, api) = with_first();
    let mut almanac = Almanac::start(&config(&api));
    api.until(CATALOGS, "a", is_serving);
    upstream.push(REPOSITORY, "v2", &image_of("second"));
    let reference = upstream.reference(REPOSITORY, "v2");
    api.change(CATALOGS, "a", |object| {
        object["spec"]["source"]["image"]["ref"] = reference.clone().into();
    });
    let second = resolved(&upstream, &image_of("second"));
    api.until(CATALOGS, "a", |object| {
        object["status"]["resolvedSource"]["image"]["ref"] == second.as_str()
    });
    assert_eq!(almanac.all("a").text(), text_of("second"));
    // An image that is not there leaves all but Progressing.
    let missing = upstream.reference(REPOSITORY, "missing");
    let serving = api.get(CATALOGS, "a").unwrap()["status"]["conditions"][1].clone();
    api.change(CATALOGS, "a", |object| {
        object["spec"]["source"]["image"]["ref"] = missing.clone().into();
    });
    let object = api.until(CATALOGS, "a", |object| {
        has(object, "Progressing", "True", "Retrying")
    });
    let message = object["status"]["conditions"][0]["message"]
        .as_str()
        .unwrap();
    assert!(message.starts_with("source catalog content: "), "{message}");
    assert_eq!(object["status"]["conditions"][1], serving);
    assert_eq!(
        object["status"]["resolvedSource"]["image"]["ref"],
        second.as_str()
    );
    assert_eq!(almanac.all("a").text(), text_of("second"));
    // Nor does one that the API server takes and catalogd does not.
    api.change(CATALOGS, "a", |object| {
        object["spec"]["source"]["image"]["ref"] = "org/catalog:v1".into();
    });
    let object = api.until(CATALOGS, "a", |object| {
        has(object, "Progressing", "False", "Blocked")
    });
    assert_eq!(
        object["status"]["conditions"][0]["message"],
        "source catalog content: terminal error: error parsing image reference \
         \"org/catalog:v1\": repository name must be canonical"
    );
    almanac.program.wait_for_log("the blocked catalog", |log| {
        log.contains("cannot be used until the object changes")
            && log.contains("repository name must be canonical")
    });
    assert_eq!(
        object["status"]["resolvedSource"]["image"]["ref"],
        second.as_str()
    );
}

#[test]
fn an_unavailable_catalog_is_404_and_comes_back_and_a_deleted_one_goes() {
    let (_upstream, api) = with_first();
    api.change(CATALOGS, "a", |object| {
        object["metadata"]["finalizers"] = json!([FINALIZER]);
    });
    let long = format!("{}.{}", "b".repeat(63), "c".repeat(189));
    let mut object = api.get(CATALOGS, "a").unwrap();
    object["metadata"] = json!({"name": long});
    api.put(CATALOGS, object);
    let mut almanac = Almanac::start(&config(&api));
    let first = api.until(CATALOGS, "a", is_serving);
    // A name that no label can hold is served without the label.
    let other = api.until(CATALOGS, &long, is_serving);
    assert!(other["metadata"]["labels"].is_null());
    let set = |mode: &str| {
        api.change(CATALOGS, "a", |object| {
            object["spec"]["availabilityMode"] = mode.into();
        });
    };
    set("Unavailable");
    let object = api.until(CATALOGS, "a", |object| {
        has(object, "Serving", "False", "UserSpecifiedUnavailable")
    });
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        assert!(object["status"][field].is_null(), "{field}");
    }
    almanac.until_names(&[&long]);
    assert_eq!(almanac.all("a").status, 404);
    set("Available");
    let object = api.until(CATALOGS, "a", is_serving);
    assert_eq!(
        object["status"]["resolvedSource"],
        first["status"]["resolvedSource"]
    );
    assert_eq!(almanac.all("a").text(), text_of("first"));
    // The finalizer of catalogd would hold it for ever.
    api.delete(CATALOGS, "a");
    api.until(CATALOGS, "a", Value::is_null);
    almanac.until_names(&[&long]);
    assert_eq!(almanac.all("a").status, 404);
}

#[test]
fn nothing_is_written_beside_a_live_catalogd_until_it_releases_its_lease() {
    let (_upstream, api) = with_first();
    api.put(LEASES, catalogd_lease("catalogd"));
    let mut almanac = Almanac::start(&config(&api));
    let warned = |log: &str| log.contains("catalogd is alive in olmv1-system");
    almanac.program.wait_for_log("a warning", warned);
    api.until(LEASES, OWN_LEASE, |lease| !lease.is_null());
    almanac.until_metrics("almanac_kubernetes_blocked_writes_total 1");
    // Before that, the names of the catalogs are not known.
    let taken = |log: &str| log.contains("the catalogs of the cluster are taken");
    almanac.program.wait_for_log("the catalogs", taken);
    assert_eq!(almanac.all("a").status, 404);
    assert_eq!(status_writes(&api), 0);
    api.put(LEASES, catalogd_lease(""));
    api.until(CATALOGS, "a", is_serving);
    // It comes back.
    api.put(LEASES, catalogd_lease("catalogd"));
    let writes = status_writes(&api);
    api.change(CATALOGS, "a", |object| {
        object["spec"]["priority"] = 3.into();
    });
    almanac.until_metrics("almanac_kubernetes_leader 0");
    assert_eq!(status_writes(&api), writes);
    // What it announces is followed then.
    assert_eq!(almanac.all("a").text(), text_of("first"));
}

/// Clients keep content under the announced digest, so older content would stay there.
#[test]
fn a_new_writer_serves_nothing_older_than_what_is_announced() {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    // The tag of the object cannot be pulled.
    upstream.push(REPOSITORY, "first", &image_of("first"));
    let reference = upstream.reference(REPOSITORY, "v1");
    let mut object = cluster_catalog("a", &reference);
    resolve(&mut object, &resolved(&upstream, &image_of("first")));
    api.put(CATALOGS, object);
    api.put(LEASES, catalogd_lease("catalogd"));
    let mut almanac = Almanac::start(&config(&api));
    almanac.until_names(&["a"]);
    almanac.until("a", "the content", |status| status["state"] == "serving");
    assert_eq!(almanac.all("a").text(), text_of("first"));
    // catalogd announces the next digest and ends, and nobody can pull it.
    let second = resolved(&upstream, &image_of("second"));
    api.change(CATALOGS, "a", |object| resolve(object, &second));
    assert_eq!(almanac.all("a").status, 503);
    api.put(LEASES, catalogd_lease(""));
    almanac.until_metrics("almanac_kubernetes_leader 1");
    let object = api.until(CATALOGS, "a", |object| {
        has(object, "Progressing", "True", "Retrying")
    });
    let announced = |object: &Value| object["status"]["resolvedSource"]["image"]["ref"].clone();
    assert_eq!(announced(&object), second.as_str());
    let reply = almanac.all("a");
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    upstream.push(REPOSITORY, "v1", &image_of("second"));
    let object = api.until(CATALOGS, "a", is_serving);
    assert_eq!(announced(&object), second.as_str());
    assert_eq!(almanac.all("a").text(), text_of("second"));
}

#[test]
fn a_registry_that_asks_for_a_pause_is_told_at_once_and_its_pause_changes_no_message() {
    let (upstream, api) = with_first();
    upstream.misbehave(|it| {
        it.status = Some(429);
        it.retry_after = Some("3600".to_owned());
    });
    let _almanac = Almanac::start(&config(&api));
    let object = api.until(CATALOGS, "a", |object| {
        has(object, "Progressing", "True", "Retrying")
    });
    let message = &object["status"]["conditions"][0]["message"];
    let said = message.as_str().unwrap();
    assert!(
        said.ends_with("limits requests (429 Too Many Requests)"),
        "{said}"
    );
    // Another catalog of the host is not tried, for the rest of the pause.
    let mut other = cluster_catalog("b", &upstream.reference(REPOSITORY, "v1"));
    other["spec"]["priority"] = 1.into();
    api.put(CATALOGS, other);
    let other = api.until(CATALOGS, "b", |object| {
        has(object, "Progressing", "True", "Retrying")
    });
    assert_eq!(&other["status"]["conditions"][0]["message"], message);
}

#[test]
fn a_second_writer_causes_a_warning_and_no_thrash() {
    let (_upstream, api) = with_first();
    let mut almanac = Almanac::start(&config(&api));
    api.until(CATALOGS, "a", is_serving);
    let before = status_writes(&api);
    let begin = Instant::now();
    let mut second = 0;
    while begin.elapsed() < Duration::from_secs(5) {
        // As another program of the same kind does: it has loaded the content later.
        second += 1;
        let loaded = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        let loaded = humantime::format_rfc3339_seconds(loaded).to_string();
        api.change(CATALOGS, "a", |object| {
            object["status"]["urls"]["base"] = "https://other.svc/catalogs/a".into();
            object["status"]["lastUnpacked"] = loaded.into();
        });
        std::thread::sleep(Duration::from_millis(20));
    }
    let warned = |log: &str| log.contains("another program overwrites the status");
    almanac.program.wait_for_log("a warning", warned);
    let writes = status_writes(&api) - before;
    assert!((1..=6).contains(&writes), "{writes} writes");
    almanac.until_metrics("almanac_kubernetes_overwritten_total{catalog=\"a\"}");
}

#[test]
fn one_of_two_leads_and_the_other_follows_what_it_announces() {
    let (_upstream, api) = with_first();
    let mut first = Almanac::start(&config(&api));
    api.until(CATALOGS, "a", is_serving);
    let mut second = Almanac::start(&config(&api));
    second.until_names(&["a"]);
    second.until("a", "the content", |status| status["state"] == "serving");
    assert_eq!(second.all("a").text(), text_of("first"));
    second.until_metrics("almanac_kubernetes_leader 0");
    let holder = api.get(LEASES, OWN_LEASE).unwrap()["spec"]["holderIdentity"].clone();
    let writes = status_writes(&api);
    first.stop();
    second.until_metrics("almanac_kubernetes_leader 1");
    let lease = api.get(LEASES, OWN_LEASE).unwrap();
    assert_ne!(lease["spec"]["holderIdentity"], holder);
    assert_eq!(second.all("a").text(), text_of("first"));
    assert_eq!(status_writes(&api), writes);
}

#[test]
fn a_status_that_may_not_be_written_is_named_and_serving_goes_on() {
    let (_upstream, api) = with_first();
    api.fail("update", CATALOGS, Fault::Status(403, "Forbidden"), None);
    let mut almanac = Almanac::start(&config(&api));
    let wanted = "grant the verb update on clustercatalogs.olm.operatorframework.io/status";
    let named = |log: &str| log.contains(wanted);
    almanac
        .program
        .wait_for_log("the verb and the resource", named);
    assert_eq!(almanac.all("a").text(), text_of("first"));
    let event = api.until_event("Forbidden", |_| true);
    assert_eq!(event["regarding"]["name"], OWN_LEASE);
    assert_eq!(event["metadata"]["namespace"], "olmv1-system");
    assert!(event["note"].to_string().contains(wanted), "{event:#}");
    api.recover();
    api.until(CATALOGS, "a", is_serving);
}

#[test]
fn changes_of_a_catalog_are_events_of_its_object() {
    let (upstream, api) = with_first();
    let _almanac = Almanac::start(&config(&api));
    let first = resolved(&upstream, &image_of("first"));
    let event = api.until_event("Resolved", |_| true);
    assert_eq!(event["note"], format!("serving {first}"));
    assert_eq!(event["type"], "Normal");
    let uid = &api.get(CATALOGS, "a").unwrap()["metadata"]["uid"];
    assert_eq!(&event["regarding"]["uid"], uid);
    let set = |tag: &str| {
        let reference = upstream.reference(REPOSITORY, tag);
        api.change(CATALOGS, "a", |object| {
            object["spec"]["source"]["image"]["ref"] = reference.into();
        });
    };
    set("missing");
    let failed = api.until_event("Retrying", |_| true);
    assert_eq!(failed["type"], "Warning");
    set("v1");
    api.until_event("Recovered", |_| true);
    // The same again is counted.
    set("missing");
    let again = api.until_event("Retrying", |event| event["series"]["count"] == 2);
    assert_eq!(again["metadata"]["name"], failed["metadata"]["name"]);
}

#[test]
fn events_that_may_not_be_written_are_named_and_hinder_nothing() {
    let (_upstream, api) = with_first();
    api.fail("create", EVENTS, Fault::Status(403, "Forbidden"), None);
    let mut almanac = Almanac::start(&config(&api));
    api.until(CATALOGS, "a", is_serving);
    let wanted = "grant the verb create on events.events.k8s.io";
    let named = |log: &str| log.contains(wanted);
    almanac
        .program
        .wait_for_log("the verb and the resource", named);
    assert_eq!(almanac.ready().text(), "ok\n");
    assert!(api.all(EVENTS).is_empty());
}
