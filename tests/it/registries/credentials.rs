//! Pull secrets and credential helpers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::Settings;
use serde_json::json;

use super::{Conf, HEAD, REPOSITORY, SOURCE, mirror, registry, resolve, upstream_of};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::http;
use crate::support::program::Start;
use crate::support::proxy::Proxy;
use crate::support::registry::Access;

/// Writes a credential helper into a folder.
fn helper(folder: &Path, name: &str, script: &str) {
    let path = folder.join(format!("docker-credential-{name}"));
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_misspelt_key_is_a_warning_once_for_each_content_of_the_file() {
    let (upstream, image) = upstream_of("first");
    let rules = |lines: &str| {
        let rules = registry("") + &mirror(&upstream.host(), lines);
        format!("unqualified-search-registries = []\n{rules}")
    };
    let conf = Conf::new(&rules("insecur = true"));
    let mut almanac = Almanac::start(&(following(SOURCE) + &conf.key()));
    almanac.until_at("a", &image.digest());
    let polls = |almanac: &mut Almanac| {
        upstream.forget_requests();
        almanac.until("a", "some polls", |_| upstream.asked(HEAD) >= 3);
    };
    polls(&mut almanac);
    let warned = |almanac: &Almanac| {
        let log = almanac.program.log();
        let lines = log.lines().filter(|line| line.contains("is not known"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = warned(&almanac);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for said in [
        "registries.conf",
        "[[registry.mirror]]",
        "insecur",
        "did you mean \"insecure\"?",
    ] {
        assert!(lines[0].contains(said), "{lines:?}");
    }
    conf.write(&rules("insecur = false"));
    let begin = Instant::now();
    while warned(&almanac).len() < 2 {
        assert!(begin.elapsed() < Duration::from_secs(30), "no warning");
        std::thread::sleep(Duration::from_millis(10));
    }
    conf.write(&rules("insecure = true"));
    polls(&mut almanac);
    polls(&mut almanac);
    assert_eq!(warned(&almanac).len(), 2);
}

/// `PATH` with a folder before all others.
fn path_with(folder: &Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

#[test]
fn credential_helpers_are_asked_where_a_file_names_them() {
    let (upstream, _) = upstream_of("first");
    let folder = tempfile::tempdir().unwrap();
    let host = upstream.host();
    let log = folder.path().join("asked");
    let script = format!(
        "read -r server; echo \"$server\" >>{}; echo '{{\"Username\":\"me\",\"Secret\":\"secret\"}}'",
        log.display()
    );
    helper(
        folder.path(),
        "good",
        &script.replace("read -r server", "server=$(cat)"),
    );
    let token = r#"cat >/dev/null; echo '{"Username":"<token>","Secret":"refresh"}'"#;
    helper(folder.path(), "token", token);
    helper(
        folder.path(),
        "bad",
        "echo hunter2; echo hunter2 >&2; exit 1",
    );
    let auth = folder.path().join("config.json");
    for (config, access) in [
        (
            json!({"credHelpers": {(host.as_str()): "good"}}),
            Access::Basic("me", "secret"),
        ),
        (
            json!({"auths": {(host.as_str()): {}}, "credsStore": "good"}),
            Access::Token("me", "secret"),
        ),
        (
            json!({"credHelpers": {(host.as_str()): "token"}}),
            Access::Token("", "refresh"),
        ),
        // One that fails is passed over.
        (
            json!({"credHelpers": {(format!("{host}/catalogs")): "bad"}, "credsStore": "good"}),
            Access::Basic("me", "secret"),
        ),
    ] {
        upstream.misbehave(|behaviour| behaviour.access = access);
        fs::write(&auth, config.to_string()).unwrap();
        let finished = Start::new(["render", &upstream.reference(REPOSITORY, "latest")])
            .argument(format!("--auth-file={}", auth.display()))
            .variable("PATH", &path_with(folder.path()))
            .run();
        assert!(finished.status.success(), "{config}: {finished:?}");
        assert!(!finished.stderr.contains("hunter2"), "{finished:?}");
        let warned = finished.stderr.contains("docker-credential-bad failed");
        assert_eq!(warned, config["credHelpers"].to_string().contains("bad"));
    }
    let asked = fs::read_to_string(log).unwrap();
    assert!(asked.lines().all(|server| server == host), "{asked}");
}

#[test]
fn a_registry_that_asks_for_a_password_gets_the_one_beside_a_token() {
    let (upstream, _) = upstream_of("first");
    let folder = tempfile::tempdir().unwrap();
    let auth = folder.path().join("auth.json");
    let entry = json!({"auth": BASE64_STANDARD.encode("me:secret"), "identitytoken": "refresh"});
    fs::write(
        &auth,
        json!({"auths": {(upstream.host()): entry}}).to_string(),
    )
    .unwrap();
    let settings = Settings {
        auth_files: vec![auth],
        ..Settings::default()
    };
    for access in [Access::Basic("me", "secret"), Access::Token("", "refresh")] {
        upstream.misbehave(|behaviour| behaviour.access = access);
        resolve(&settings, &upstream.reference(REPOSITORY, "latest")).unwrap();
    }
}

#[test]
fn credential_helpers_of_registries_conf_are_asked_in_order() {
    let (upstream, _) = upstream_of("first");
    upstream.misbehave(|behaviour| behaviour.access = Access::Basic("me", "secret"));
    let folder = tempfile::tempdir().unwrap();
    helper(folder.path(), "none", "echo credentials not found; exit 1");
    let good = r#"server=$(cat); echo "{\"Username\":\"me\",\"Secret\":\"secret\"}""#;
    helper(folder.path(), "good", good);
    let other = r#"cat >/dev/null; echo '{"Username":"me","Secret":"other"}'"#;
    helper(folder.path(), "other", other);
    let auth = folder.path().join("auth.json");
    let secret =
        json!({"auths": {(upstream.host()): {"auth": BASE64_STANDARD.encode("me:secret")}}});
    fs::write(&auth, secret.to_string()).unwrap();
    for (names, succeeds) in [
        (r#"["none", "good", "other"]"#, true),
        (r#"["other", "good"]"#, false),
        (r#"["none", "containers-auth.json"]"#, true),
        (r#"["none"]"#, false),
        ("[]", true),
    ] {
        let conf = Conf::new(&format!("credential-helpers = {names}\n"));
        let path = conf.folder.path().join("registries.conf");
        let finished = Start::new(["render", &upstream.reference(REPOSITORY, "latest")])
            .argument(format!("--auth-file={}", auth.display()))
            .argument(format!("--registries-conf={}", path.display()))
            .variable("PATH", &path_with(folder.path()))
            .run();
        assert_eq!(finished.status.success(), succeeds, "{names}: {finished:?}");
    }
}

#[test]
fn no_secret_is_ever_shown() {
    const CANARY: &str = "canary-4711";
    let (open, _) = upstream_of("first");
    let (tokens, _) = upstream_of("second");
    let (refused, _) = upstream_of("third");
    open.misbehave(|behaviour| behaviour.access = Access::Basic("me", CANARY));
    tokens.misbehave(|behaviour| behaviour.access = Access::Token("", CANARY));
    refused.misbehave(|behaviour| behaviour.access = Access::Basic("me", "other"));
    let folder = tempfile::tempdir().unwrap();
    let said = format!("echo '{{\"Username\":\"me\",\"Secret\":\"{CANARY}\"}}'");
    helper(folder.path(), "good", &said);
    helper(
        folder.path(),
        "bad",
        &format!("echo {CANARY}; echo {CANARY} >&2; exit 1"),
    );
    helper(folder.path(), "odd", &format!("echo '{{\"{CANARY}'"));
    let password = BASE64_STANDARD.encode(format!("me:{CANARY}"));
    let auth = folder.path().join("auth.json");
    let config = json!({
        "auths": {
            (open.host()): {"auth": password},
            (tokens.host()): {"auth": BASE64_STANDARD.encode("x:"), "identitytoken": CANARY},
            (format!("{}/catalogs/a", open.host())): {"auth": format!("%{CANARY}")},
            (format!("{}/catalogs", open.host())): {"auth": 7, "password": CANARY},
            "helped.invalid": {"auth": password},
        },
        "credHelpers": {
            (refused.host()): "good",
            (format!("{}/catalogs", refused.host())): "bad",
            (format!("{}/catalogs/a", refused.host())): "odd",
        },
    });
    fs::write(&auth, config.to_string()).unwrap();
    let broken = folder.path().join("broken.json");
    fs::write(&broken, format!("{{\"auths\": {CANARY}")).unwrap();
    let proxy = Proxy::start("127.0.0.1:9".parse().unwrap()).url(&format!("me:{CANARY}@"));
    let policy = folder.path().join("policy.json");
    let text = json!({"default": [{"type": "insecureAcceptAnything"}]});
    fs::write(&policy, text.to_string()).unwrap();
    let mut text = "poll = \"100ms\"\n".to_owned();
    for (name, source) in [
        ("open", open.reference(REPOSITORY, "latest")),
        ("tokens", tokens.reference(REPOSITORY, "latest")),
        ("refused", refused.reference(REPOSITORY, "latest")),
        ("helped", "helped.invalid/catalogs/a:latest".to_owned()),
    ] {
        text += &catalog(name, &source);
    }
    let (auth_text, policy_text) = (auth.to_str().unwrap(), policy.to_str().unwrap());
    text = format!(
        "{text}[registries]\nauth_files = [{auth_text:?}]\npolicy_file = {policy_text:?}\n\
         [log]\nfilter = \"trace\"\nformat = \"json\"\n"
    );
    let mut almanac = Almanac::start_with(
        &text,
        &[
            ("HTTPS_PROXY", proxy.as_str()),
            ("PATH", path_with(folder.path()).as_str()),
        ],
    );
    for name in ["open", "tokens"] {
        almanac.until(name, "a revision", |status| !status["revision"].is_null());
    }
    for name in ["refused", "helped"] {
        almanac.until_failed(name);
    }
    let sent = open.requests();
    let sent = sent
        .iter()
        .any(|request| request.headers.contains_key(AUTHORIZATION));
    assert!(sent, "no password was used");
    // What it says about a file that is no longer one.
    fs::rename(&broken, &auth).unwrap();
    let status = almanac.until_failed("open");
    assert_eq!(status["last_result"]["reason"], "credentials");
    let admin = almanac.program.address("admin");
    let mut shown = almanac.program.log();
    for path in ["/status", "/metrics"] {
        shown += &http::get(admin, path).unwrap().text();
    }
    almanac.stop();
    shown += &almanac.program.log();
    assert!(shown.contains("helped.invalid"), "nothing was logged");
    for secret in [CANARY, &password, &BASE64_STANDARD.encode(CANARY)] {
        if let Some(at) = shown.find(secret) {
            let from = shown[..at].rfind('\n').map_or(0, |line| line + 1);
            panic!("{secret} in {}", shown[from..].lines().next().unwrap());
        }
    }
}
