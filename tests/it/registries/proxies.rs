//! Proxies of the environment, and addresses of IPv6.

use std::fs;
use std::net::SocketAddr;

use images::Settings;
use serde_json::json;

use super::{REPOSITORY, SOURCE, put, resolve, trusting, upstream_of};
use crate::support::almanac::{Almanac, following};
use crate::support::image::image_of;
use crate::support::needs::skip;
use crate::support::program::Start;
use crate::support::proxy::Proxy;
use crate::support::registry::Access;
use crate::support::tls::Authority;
use crate::support::upstream::Upstream;

#[test]
fn proxies_are_taken_from_the_environment() {
    let (upstream, _) = upstream_of("first");
    let address: SocketAddr = upstream.host().parse().unwrap();
    let proxy = Proxy::start(address);
    let source = "registry.invalid/catalogs/a:latest";
    let render = |variables: &[(&str, &str)]| {
        let start = Start::new(["render", source, "--insecure=registry.invalid"]);
        let start = variables
            .iter()
            .fold(start, |start, (name, value)| start.variable(name, value));
        start.run()
    };
    let url = proxy.url("");
    let finished = render(&[("HTTP_PROXY", &url)]);
    assert!(finished.status.success(), "{finished:?}");
    let asked = proxy.asked();
    assert!(
        asked[0].contains("http://registry.invalid/v2/catalogs/a/manifests/latest"),
        "{asked:?}"
    );
    let finished = render(&[("HTTP_PROXY", &url), ("NO_PROXY", "registry.invalid")]);
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    assert!(
        finished.stderr.contains("cannot be reached"),
        "{finished:?}"
    );
    assert_eq!(proxy.asked().len(), asked.len());
}

#[test]
fn a_registry_elsewhere_leads_nobody_to_this_machine() {
    let (upstream, _) = upstream_of("first");
    let (storage, _) = upstream_of("first");
    let proxy = Proxy::start(upstream.host().parse().unwrap());
    let base = format!("http://{}", storage.host());
    upstream.misbehave(|behaviour| behaviour.redirect_blobs = Some(base.clone()));
    let render = |source: &str| {
        let host = source.split('/').next().unwrap();
        Start::new(["render", source, &format!("--insecure={host}")])
            .variable("HTTP_PROXY", &proxy.url(""))
            .run()
    };
    let finished = render("registry.invalid/catalogs/a:latest");
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    for said in [
        "the redirect of http://registry.invalid/v2/catalogs/a/blobs/".to_owned(),
        format!(" to {base}/v2/catalogs/a/blobs/"),
    ] {
        assert!(finished.stderr.contains(&said), "{finished:?}");
    }
    assert!(
        finished
            .stderr
            .contains("it leads to this machine, its network link"),
        "{finished:?}"
    );
    assert!(storage.requests().is_empty());
    // One that is here itself may.
    let finished = render(&upstream.reference(REPOSITORY, "latest"));
    assert!(finished.status.success(), "{finished:?}");
    assert!(!storage.requests().is_empty());
}

#[test]
fn the_log_says_which_proxies_are_used_and_what_is_wrong_with_exceptions() {
    let (upstream, image) = upstream_of("first");
    let proxy = Proxy::start(upstream.host().parse().unwrap());
    let source = "registry.invalid/catalogs/a:latest";
    let config = following(source) + "[registries]\ninsecure = [\"registry.invalid\"]\n";
    let variables = [
        ("HTTP_PROXY", proxy.url("me:s3cret@")),
        (
            "NO_PROXY",
            "quay.io, a*.example.com,http://x:s3cret@quay.example".to_owned(),
        ),
    ];
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let mut almanac = Almanac::start_with(&config, &variables);
    almanac.until_at("a", &image.digest());
    let log = almanac.program.log();
    let line = |said: &[&str]| {
        let mut lines = log.lines();
        let found = lines.any(|line| said.iter().all(|said| line.contains(said)));
        assert!(found, "{said:?} is not in {log}");
    };
    let host = proxy.url("");
    let host = host.trim_start_matches("http://").trim_end_matches('/');
    line(&["INFO", "HTTP_PROXY", host]);
    line(&["INFO", "NO_PROXY", "quay.io", "directly"]);
    line(&["WARN", "NO_PROXY", "a*.example.com", ".DOMAIN"]);
    line(&["WARN", "NO_PROXY", "quay.example", "without a scheme"]);
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn a_proxy_that_cannot_be_used_is_refused_by_the_name_of_its_variable() {
    for name in ["HTTPS_PROXY", "http_proxy", "ALL_PROXY"] {
        for value in [
            "socks5://user:s3cret@127.0.0.1:1080",
            "http://user:s3cret@",
            "http://user:s3cret@proxy example:80",
            "/s3cret",
        ] {
            let commands: [&[&str]; 2] =
                [&["serve", SOURCE, "--data-dir={data}"], &["render", SOURCE]];
            for command in commands {
                let start = Start::new(command.iter().copied());
                let finished = start.variable(name, value).run();
                assert_eq!(finished.status.code(), Some(2), "{finished:?}");
                assert!(finished.stderr.contains(name), "{finished:?}");
                assert!(!finished.stderr.contains("s3cret"), "{finished:?}");
            }
        }
    }
    // Nobody is asked through it, so it does not matter.
    let sample = concat!("file:", env!("CARGO_MANIFEST_DIR"), "/deploy/catalog");
    let start = Start::new(["render", sample]);
    let finished = start.variable("ALL_PROXY", "socks5://127.0.0.1:1080").run();
    assert!(finished.status.success(), "{finished:?}");
    let (upstream, _) = upstream_of("first");
    let proxy = Proxy::start(upstream.host().parse().unwrap());
    let source = "registry.invalid/catalogs/a:latest";
    let finished = Start::new(["render", source, "--insecure=registry.invalid"])
        .variable("all_proxy", &proxy.url(""))
        .run();
    assert!(finished.status.success(), "{finished:?}");
    assert!(!proxy.asked().is_empty());
}

#[test]
fn a_registry_may_have_an_address_of_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        skip("this machine has no IPv6");
        return;
    }
    let authority = Authority::new();
    let pair = authority.sign_for(&["::1"]);
    let folder = tempfile::tempdir().unwrap();
    for tls in [None, Some(pair.server(None))] {
        let has_tls = tls.is_some();
        let upstream = Upstream::start_at("[::1]:0", tls);
        upstream.push(REPOSITORY, "latest", &image_of("first"));
        upstream.misbehave(|behaviour| behaviour.access = Access::Basic("me", "secret"));
        if has_tls {
            put(folder.path(), &upstream.host(), "ca.crt", &authority.pem());
        }
        let auth = folder.path().join("auth.json");
        let entry = json!({"username": "me", "password": "secret"});
        let auths = json!({"auths": {(upstream.host()): entry}});
        fs::write(&auth, auths.to_string()).unwrap();
        let settings = Settings {
            auth_files: vec![auth],
            ..trusting(&folder)
        };
        resolve(&settings, &upstream.reference(REPOSITORY, "latest")).unwrap();
    }
}
