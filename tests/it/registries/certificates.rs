//! Private authorities, client certificates and insecure places.

use std::fs;
use std::net::SocketAddr;

use images::{Registries, Settings};
use tempfile::TempDir;

use super::{Conf, HEAD, REPOSITORY, put, resolve, trusting, upstream_of};
use crate::support::image::{Built, image_of};
use crate::support::port::NOBODY;
use crate::support::program::Start;
use crate::support::proxy::Proxy;
use crate::support::registry::Access;
use crate::support::tls::{Authority, Pair};
use crate::support::upstream::Upstream;

/// A registry on this machine that speaks TLS, and the folder of certificates
/// that trusts it.
fn secured(authority: &Authority, clients: Option<&Authority>) -> (Upstream, Built, TempDir) {
    let pair = authority.sign_for(&["localhost", "127.0.0.1", "registry.invalid"]);
    let upstream = Upstream::start_at("127.0.0.1:0", Some(pair.server(clients)));
    let image = image_of("first");
    upstream.push(REPOSITORY, "latest", &image);
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &upstream.host(), "ca.crt", &authority.pem());
    (upstream, image, folder)
}

#[test]
fn an_authority_is_trusted_at_the_host_of_its_folder() {
    let authority = Authority::new();
    let (upstream, _, folder) = secured(&authority, None);
    let source = upstream.reference(REPOSITORY, "latest");
    resolve(&trusting(&folder), &source).unwrap();
    assert_eq!(upstream.lines()[0], HEAD);

    // Another authority is not it, until the file is replaced.
    let stranger = Authority::new();
    put(folder.path(), &upstream.host(), "ca.crt", &stranger.pem());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let registries = Registries::new(&trusting(&folder)).unwrap();
    let ask = || {
        runtime.block_on(async {
            let route = registries.route(&source.parse().unwrap()).await.unwrap();
            route.resolve().await
        })
    };
    assert_eq!(ask().unwrap_err().reason(), "tls");
    let both = stranger.pem() + &authority.pem();
    put(folder.path(), &upstream.host(), "ca.crt", &both);
    ask().unwrap();
    put(folder.path(), &upstream.host(), "ca.crt", "no certificate");
    let error = ask().unwrap_err();
    assert_eq!(error.reason(), "certificates");
    assert!(error.to_string().contains("ca.crt"), "{error}");
}

#[test]
fn a_certificate_of_ours_is_shown_to_the_host_of_its_folder() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let (upstream, _, folder) = secured(&authority, Some(&clients));
    let source = upstream.reference(REPOSITORY, "latest");
    assert!(resolve(&trusting(&folder), &source).is_err());
    let Pair { certificate, key } = clients.sign();
    put(folder.path(), &upstream.host(), "client.cert", &certificate);
    put(folder.path(), &upstream.host(), "client.key", &key);
    resolve(&trusting(&folder), &source).unwrap();
}

#[test]
fn a_token_service_is_trusted_as_its_registry_is() {
    let authority = Authority::new();
    let (upstream, _, folder) = secured(&authority, None);
    upstream.misbehave(|behaviour| behaviour.access = Access::AnonymousToken);
    let source = upstream.reference(REPOSITORY, "latest");
    resolve(&trusting(&folder), &source).unwrap();
    assert!(upstream.asked("GET /token") > 0);
}

#[test]
fn a_token_service_that_is_down_does_not_lead_to_plain_http() {
    let (upstream, _, _folder) = secured(&Authority::new(), None);
    let realm = format!("https://{NOBODY}/token");
    upstream.misbehave(|behaviour| behaviour.access = Access::Realm(realm.clone()));
    let conf = Conf::new(&format!(
        "[[registry]]\nlocation = {:?}\ninsecure = true\n",
        upstream.host()
    ));
    let settings = Settings {
        attempts: 1.try_into().unwrap(),
        ..conf.settings()
    };
    let source = upstream.reference(REPOSITORY, "latest");
    let error = resolve(&settings, &source).unwrap_err();
    assert!(error.to_string().contains(&realm), "{error}");
}

#[test]
fn an_insecure_place_may_have_any_certificate_or_none() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (upstream, _, folder) = secured(&authority, None);
    let (plain, _) = upstream_of("first");
    for registry in [&upstream, &plain] {
        put(folder.path(), &registry.host(), "ca.crt", &stranger.pem());
        for insecure in [false, true] {
            let conf = Conf::new(&format!(
                "[[registry]]\nlocation = {:?}\ninsecure = {insecure}\n",
                registry.host()
            ));
            let settings = Settings {
                certificate_folders: vec![folder.path().to_owned()],
                ..conf.settings()
            };
            let found = resolve(&settings, &registry.reference(REPOSITORY, "latest"));
            assert_eq!(found.is_ok(), insecure, "{found:?}");
        }
    }
}

#[test]
fn an_insecure_registry_on_this_machine_may_speak_tls() {
    let (tls, _, _) = secured(&Authority::new(), None);
    let (plain, _) = upstream_of("first");
    for registry in [&tls, &plain] {
        let conf = Conf::new(&format!(
            "[[registry]]\nlocation = {:?}\ninsecure = true\n",
            registry.host()
        ));
        resolve(&conf.settings(), &registry.reference(REPOSITORY, "latest")).unwrap();
    }
}

#[test]
fn the_systems_authorities_are_those_that_the_environment_names() {
    let authority = Authority::new();
    let (upstream, image, folder) = secured(&authority, None);
    let address: SocketAddr = upstream.host().parse().unwrap();
    let proxy = Proxy::start(address).url("");
    let bundle = folder.path().join("bundle.pem");
    fs::write(&bundle, authority.pem()).unwrap();
    let directory = folder.path().join("certs");
    put(&directory, "", "authority.pem", &authority.pem());
    let source = "registry.invalid/catalogs/a:latest";
    for (name, value) in [
        ("SSL_CERT_FILE", bundle.to_str().unwrap()),
        ("SSL_CERT_DIR", directory.to_str().unwrap()),
        ("ALMANAC_CA_FILE", bundle.to_str().unwrap()),
    ] {
        let finished = Start::new(["render", source])
            .variable("HTTPS_PROXY", &proxy)
            .variable(name, value)
            .run();
        assert!(finished.status.success(), "{name}: {finished:?}");
    }
    let finished = Start::new(["render", source])
        .variable("HTTPS_PROXY", &proxy)
        .run();
    assert_eq!(finished.status.code(), Some(3), "{finished:?}");
    assert!(finished.stderr.contains("no trusted TLS"), "{finished:?}");
    drop(image);
}
