//! Mirror sets, image policies and the pull secret of the cluster count for the next
//! pull, and a failure keeps the last ones.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::support::almanac::{Almanac, catalog};
use crate::support::api_server::{ApiServer, Fault};
use crate::support::image::image_of;
use crate::support::program::Start;
use crate::support::registry::Access;
use crate::support::upstream::Upstream;

const DIGEST_MIRRORS: &str = "config.openshift.io/imagedigestmirrorsets";
const TAG_MIRRORS: &str = "config.openshift.io/imagetagmirrorsets";
const POLICIES: &str = "config.openshift.io/clusterimagepolicies";
const SECRETS: &str = "secrets";
const ACCOUNTS: &str = "serviceaccounts";

fn config(api: &ApiServer, keys: &str, source: &str) -> String {
    let table = format!(
        "[kubernetes]\nkubeconfig = \"{}\"\n{keys}\n",
        api.kubeconfig().display()
    );
    format!("poll = \"100ms\"\n{table}{}", catalog("a", source))
}

fn mirror_set(name: &str, source: &str, mirror: &str) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ImageTagMirrorSet",
        "metadata": {"name": name},
        "spec": {"imageTagMirrors": [{
            "source": source, "mirrors": [mirror], "mirrorSourcePolicy": "NeverContactSource",
        }]},
    })
}

/// A policy that demands a signature which no image has.
fn unmet_policy(source: &str) -> Value {
    let scope = source.strip_suffix(":v1").unwrap();
    let key = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEWsYBIEGxoKfRSxWZFvYmYF4oz+bx\n3a5gjmEeKNgkSd8rN2xkl1pVZ1n0BhIAfHHJcJ0vDw1iU1RQ2VGUoIxrMg==\n-----END PUBLIC KEY-----\n";
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterImagePolicy",
        "metadata": {"name": "signed"},
        "spec": {"scopes": [scope], "policy": {"rootOfTrust": {
            "policyType": "PublicKey",
            "publicKey": {"keyData": BASE64_STANDARD.encode(key)},
        }}},
    })
}

#[test]
fn a_mirror_set_of_the_cluster_counts_at_once_and_survives_failures() {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    upstream.push("mirrored/a", "v1", &image_of("first"));
    // This host does not exist.
    let config = config(&api, "mirror_sets = true", "registry.invalid/catalogs/a:v1");
    let mut almanac = Almanac::start(&config);
    almanac.until_failed("a");
    let mirror = upstream.reference("mirrored/a", "v1");
    let mirror = mirror.strip_suffix(":v1").unwrap();
    api.put(
        TAG_MIRRORS,
        mirror_set("a", "registry.invalid/catalogs/a", mirror),
    );
    almanac.until_at("a", &image_of("first").digest());
    // The last mirrors count while the cluster cannot be read, also after a restart.
    api.fail("", "", Fault::Status(503, "ServiceUnavailable"), None);
    upstream.push("mirrored/a", "v1", &image_of("second"));
    almanac.stop();
    almanac.restart_with(&config);
    almanac.until_at("a", &image_of("second").digest());
}

/// A catalog that is pulled once these objects of the cluster can be read. The error before
/// has these words.
fn refused_before_read(
    resource: &'static str,
    keys: &str,
    words: [&str; 2],
) -> (Upstream, ApiServer, Almanac) {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    let image = image_of("first");
    upstream.push("catalogs/a", "v1", &image);
    let source = upstream.reference("catalogs/a", "v1");
    api.fail("list", resource, Fault::Status(403, "Forbidden"), None);
    let mut almanac = Almanac::start(&config(&api, keys, &source));
    let status = almanac.until_failed("a");
    let error = status["last_error"].to_string();
    for said in words {
        assert!(error.contains(said), "{status:#}");
    }
    assert!(!error.contains("No such file"), "{status:#}");
    api.recover();
    almanac.until_at("a", &image.digest());
    (upstream, api, almanac)
}

#[test]
fn nothing_is_pulled_before_the_mirror_sets_are_known() {
    let words = [
        "mirror sets of the cluster were not read yet",
        "imagetagmirrorsets.config.openshift.io",
    ];
    refused_before_read(TAG_MIRRORS, "mirror_sets = true", words);
}

#[test]
fn nothing_is_pulled_before_the_policies_are_known() {
    let words = [
        "image policies of the cluster were not read yet",
        "list and watch on clusterimagepolicies",
    ];
    let (upstream, api, mut almanac) =
        refused_before_read(POLICIES, "image_policies = true", words);
    let source = upstream.reference("catalogs/a", "v1");
    api.put(POLICIES, unmet_policy(&source));
    let stored = almanac.program.data().join("cluster/policies/objects.json");
    let written = || fs::read_to_string(&stored).is_ok_and(|text| text.contains("\"signed\""));
    almanac.until("a", "the policy", |_| written());
    upstream.push("catalogs/a", "v1", &image_of("second"));
    almanac.until_failed("a");
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
}

#[test]
fn the_pull_secret_counts_in_both_formats_and_the_last_good_one_stays() {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    upstream.push("catalogs/a", "v1", &image_of("first"));
    upstream.misbehave(|behaviour| behaviour.access = Access::Basic("user", "password"));
    let source = upstream.reference("catalogs/a", "v1");
    let registry = source.split('/').next().unwrap();
    let entry = json!({registry: {"username": "user", "password": "password"}});
    let secret = |key: &str, content: &Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "pull-secret", "namespace": "openshift-config"},
            "data": {key: BASE64_STANDARD.encode(content.to_string())},
        })
    };
    let key = "pull_secret = \"openshift-config/pull-secret\"";
    let mut almanac = Almanac::start(&config(&api, key, &source));
    almanac.until_failed("a");
    api.put(
        SECRETS,
        secret(".dockerconfigjson", &json!({"auths": entry})),
    );
    almanac.until_at("a", &image_of("first").digest());
    let file = almanac.program.data().join("cluster/credentials.json");
    // One that cannot be used changes nothing.
    let before = fs::read(&file).unwrap();
    api.put(SECRETS, secret(".dockerconfigjson", &json!("hidden")));
    let warned = |log: &str| log.contains("openshift-config/pull-secret cannot be used");
    almanac.program.wait_for_log("a warning", warned);
    assert_eq!(fs::read(&file).unwrap(), before);
    assert!(!almanac.program.log().contains("hidden"));
    // The old format, and none.
    let mut old = entry;
    old[registry]["email"] = "somebody@example.com".into();
    api.put(SECRETS, secret(".dockercfg", &old));
    almanac.until("a", "the old format", |_| {
        fs::read(&file).is_ok_and(|content| content != before)
    });
    upstream.push("catalogs/a", "v1", &image_of("second"));
    almanac.until_at("a", &image_of("second").digest());
    api.delete(SECRETS, "pull-secret");
    almanac.until("a", "no credentials", |_| !file.exists());
    // Only this secret was asked for.
    let requests = api.requests();
    let mut secrets = requests.iter().filter(|one| one.resource == SECRETS);
    assert!(secrets.all(|one| one.query.contains("fieldSelector=metadata.name")));
    assert!(api.get(DIGEST_MIRRORS, "a").is_none());
}

/// A secret of the service account's namespace with this password.
fn account_secret(name: &str, registry: &str, password: &str) -> Value {
    let entry = json!({registry: {"username": "user", "password": password}});
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "olmv1-system"},
        "data": {".dockercfg": BASE64_STANDARD.encode(entry.to_string())},
    })
}

/// The service account of almanac, with these secrets.
fn service_account(secrets: &[&str]) -> Value {
    let secrets = secrets.iter().map(|name| json!({"name": name}));
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "almanac", "namespace": "olmv1-system"},
        "imagePullSecrets": secrets.collect::<Vec<_>>(),
    })
}

#[test]
fn the_secrets_of_the_service_account_count_in_their_order() {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    upstream.push("catalogs/a", "v1", &image_of("first"));
    upstream.misbehave(|behaviour| behaviour.access = Access::Basic("user", "password"));
    let source = upstream.reference("catalogs/a", "v1");
    let registry = source.split('/').next().unwrap();
    api.put(SECRETS, account_secret("wrong", registry, "wrong"));
    api.put(SECRETS, account_secret("right", registry, "password"));
    api.put(ACCOUNTS, service_account(&["wrong", "right"]));
    let mut almanac = Almanac::start(&config(&api, "image_pull_secrets = true", &source));
    almanac.until_at("a", &image_of("first").digest());
    let file = almanac.program.data().join("cluster/credentials.json");
    let until = |almanac: &mut Almanac, password: &str| {
        almanac.until("a", "the credentials", |_| {
            fs::read_to_string(&file).is_ok_and(|text| text.contains(password))
        });
    };
    until(&mut almanac, "\"password\":\"password\"");
    api.put(ACCOUNTS, service_account(&["right", "wrong"]));
    until(&mut almanac, "\"password\":\"wrong\"");
    upstream.push("catalogs/a", "v1", &image_of("second"));
    almanac.until_failed("a");
    api.put(ACCOUNTS, service_account(&["right"]));
    almanac.until_at("a", &image_of("second").digest());
    // A secret that is no longer named is no longer watched: each watch ends, and only
    // the one of the other secret begins again.
    let of = |name: &str| {
        let selector = format!("fieldSelector=metadata.name%3D{name}");
        let requests = api.requests().into_iter();
        let requests = requests.filter(|one| one.resource == SECRETS);
        requests.filter(|one| one.query.contains(&selector)).count()
    };
    let before = of("wrong");
    assert!(before > 0);
    for _ in 0..2 {
        let right = of("right");
        api.end_watches();
        almanac.until("a", "another watch", |_| of("right") > right);
    }
    assert_eq!(of("wrong"), before);
    api.put(ACCOUNTS, service_account(&[]));
    almanac.until("a", "no credentials", |_| !file.exists());
}

#[test]
fn credentials_of_a_secret_that_the_settings_no_longer_name_are_removed_by_the_next_start() {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    let image = image_of("first");
    upstream.push("catalogs/a", "v1", &image);
    let source = upstream.reference("catalogs/a", "v1");
    api.put(
        SECRETS,
        account_secret("old", "registry.invalid", "password"),
    );
    let named = |name: &str| {
        config(
            &api,
            &format!("pull_secret = \"olmv1-system/{name}\""),
            &source,
        )
    };
    let mut almanac = Almanac::start(&named("old"));
    let file = almanac.program.data().join("cluster/credentials.json");
    almanac.until("a", "the credentials", |_| file.exists());
    almanac.stop();
    // The new one is not known yet.
    api.fail("", SECRETS, Fault::Status(503, "ServiceUnavailable"), None);
    almanac.restart_with(&named("old"));
    almanac.until_at("a", &image.digest());
    assert!(file.exists());
    almanac.stop();
    almanac.restart_with(&named("new"));
    almanac.until_at("a", &image.digest());
    assert!(!file.exists());
}

#[test]
fn a_missing_kind_of_policies_stops_pulls_and_keeps_the_stored_ones() {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    let image = image_of("first");
    upstream.push("catalogs/a", "v1", &image);
    let source = upstream.reference("catalogs/a", "v1");
    let config = config(&api, "image_policies = true", &source);
    let lack = || api.fail("list", POLICIES, Fault::Status(404, "NotFound"), None);
    lack();
    let mut almanac = Almanac::start(&config);
    let failing =
        "almanac_kubernetes_up_to_date{resource=\"clusterimagepolicies.config.openshift.io\"} 0";
    almanac.until_metrics(failing);
    let status = almanac.until_failed("a");
    assert!(
        status["last_error"].to_string().contains("policies"),
        "{status:#}"
    );
    api.recover();
    almanac.until_at("a", &image.digest());
    api.put(POLICIES, unmet_policy(&source));
    let stored = almanac.program.data().join("cluster/policies/objects.json");
    let written = || fs::read_to_string(&stored).is_ok_and(|text| text.contains("\"signed\""));
    almanac.until("a", "the policy", |_| written());
    almanac.stop();
    lack();
    almanac.restart_with(&config);
    almanac.until_metrics(failing);
    upstream.push("catalogs/a", "v1", &image_of("second"));
    almanac.until_failed("a");
    assert!(written());
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
}

#[test]
fn a_missing_kind_of_mirror_sets_keeps_the_stored_ones() {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    upstream.push("mirrored/a", "v1", &image_of("first"));
    let mirror = upstream.reference("mirrored/a", "v1");
    let mirror = mirror.strip_suffix(":v1").unwrap();
    let set = mirror_set("a", "registry.invalid/catalogs/a", mirror);
    api.put(TAG_MIRRORS, set);
    // A kind that never existed counts as empty.
    api.fail("list", DIGEST_MIRRORS, Fault::Status(404, "NotFound"), None);
    let config = config(&api, "mirror_sets = true", "registry.invalid/catalogs/a:v1");
    let mut almanac = Almanac::start(&config);
    almanac.until_at("a", &image_of("first").digest());
    almanac.stop();
    api.fail("list", TAG_MIRRORS, Fault::Status(404, "NotFound"), None);
    almanac.restart_with(&config);
    almanac.until_metrics(
        "almanac_kubernetes_up_to_date{resource=\"imagetagmirrorsets.config.openshift.io\"} 0",
    );
    upstream.push("mirrored/a", "v1", &image_of("second"));
    almanac.until_at("a", &image_of("second").digest());
}

/// Of the policies that `serve` with the same configuration has stored.
#[test]
fn commands_hold_to_the_stored_policies_of_the_cluster() {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    upstream.push("catalogs/a", "v1", &image_of("first"));
    let source = upstream.reference("catalogs/a", "v1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("almanac.toml");
    let text = config(&api, "image_policies = true\nmirror_sets = true", &source);
    fs::write(&file, format!("data_dir = \"data\"\n{text}")).unwrap();
    let check = || {
        let finished = Start::new(["check", "--config", file.to_str().unwrap(), "a"]).run();
        (finished.status.code(), finished.stderr)
    };
    let cluster = folder.path().join("data/cluster");
    // A folder without its file says nothing about the cluster.
    for kind in ["mirrors", "policies"] {
        fs::create_dir_all(cluster.join(kind)).unwrap();
    }
    let store = |kind: &str, items: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        fs::write(cluster.join(kind).join("objects.json"), list.to_string()).unwrap();
    };
    for (kind, unknown) in [
        (
            "policies",
            "image policies of the cluster were not read yet",
        ),
        ("mirrors", "mirror sets of the cluster were not read yet"),
    ] {
        let (code, error) = check();
        assert!(error.contains(unknown), "{error}");
        assert_eq!(code, Some(3), "{error}");
        store(kind, &[]);
    }
    store("policies", &[unmet_policy(&source)]);
    let (code, error) = check();
    // The message names the place of the object that decides.
    for said in [
        "is not admitted",
        "policies/objects.json",
        "ClusterImagePolicy signed",
    ] {
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(code, Some(3), "{error}");
    store("policies", &[]);
    let (code, error) = check();
    assert_ne!(code, Some(3), "{error}");
}

#[test]
fn what_the_settings_no_longer_read_is_removed_at_the_next_start() {
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    let image = image_of("first");
    upstream.push("catalogs/a", "v1", &image);
    let source = upstream.reference("catalogs/a", "v1");
    let auths =
        json!({"auths": {"registry.invalid": {"username": "user", "password": "password"}}});
    api.put(
        SECRETS,
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "pull-secret", "namespace": "openshift-config"},
            "data": {".dockerconfigjson": BASE64_STANDARD.encode(auths.to_string())},
        }),
    );
    let secret = "pull_secret = \"openshift-config/pull-secret\"";
    let objects = "mirror_sets = true\nimage_policies = true";
    let mut almanac = Almanac::start(&config(&api, &format!("{secret}\n{objects}"), &source));
    almanac.until_at("a", &image.digest());
    let folder = almanac.program.data().join("cluster");
    let has = |name: &str| folder.join(name).exists();
    almanac.until("a", "all files", |_| {
        ["credentials.json", "mirrors", "policies"]
            .into_iter()
            .all(has)
    });
    almanac.stop();
    almanac.restart_with(&config(&api, objects, &source));
    almanac.until_at("a", &image.digest());
    assert!(!has("credentials.json"));
    assert!(has("mirrors") && has("policies"));
    almanac.stop();
    almanac.restart_with(&format!("poll = \"100ms\"\n{}", catalog("a", &source)));
    almanac.until_at("a", &image.digest());
    assert!(!has("mirrors") && !has("policies"));
}
