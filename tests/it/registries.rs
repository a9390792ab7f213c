//! Images are pulled from where the files of a cluster say: from mirrors, with
//! pull secrets, trusting private authorities, through proxies.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::{Error, MirrorFiles, Registries, Settings};
use serde_json::json;
use tempfile::TempDir;

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::Catalog;
use crate::support::http;
use crate::support::image::{Built, Image};
use crate::support::needs::skip;
use crate::support::port::NOBODY;
use crate::support::program::Start;
use crate::support::proxy::Proxy;
use crate::support::registry::{Access, DigestHeader};
use crate::support::tls::{Authority, Pair};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
/// A source that nobody reaches, since there is no such domain.
const SOURCE: &str = "source.invalid/catalogs/a:latest";
const HEAD: &str = "HEAD /v2/catalogs/a/manifests/latest";

fn image_of(package: &str) -> Built {
    Image::of_catalog(&Catalog::one(package)).build()
}

/// A registry that has an image of one package.
fn upstream_of(package: &str) -> (Upstream, Built) {
    let upstream = Upstream::start();
    let image = image_of(package);
    upstream.push(REPOSITORY, "latest", &image);
    (upstream, image)
}

/// A `[[registry]]` for the unreachable source, with further lines.
fn registry(lines: &str) -> String {
    format!("[[registry]]\nlocation = \"source.invalid\"\n{lines}\n")
}

fn mirror(location: &str, lines: &str) -> String {
    format!("[[registry.mirror]]\nlocation = {location:?}\n{lines}\n")
}

/// A folder with a `registries.conf`.
struct Conf {
    folder: TempDir,
}

impl Conf {
    fn new(text: &str) -> Self {
        let conf = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        conf.write(text);
        conf
    }

    fn write(&self, text: &str) {
        // As mounted files are changed: in one step.
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.folder.path().join("registries.conf")).unwrap();
    }

    fn key(&self) -> String {
        let path = self.folder.path().join("registries.conf");
        let path = path.to_str().unwrap();
        format!("[registries]\nregistries_conf = [{path:?}]\n")
    }

    fn settings(&self) -> Settings {
        Settings {
            mirrors: MirrorFiles {
                named: vec![self.folder.path().join("registries.conf")],
                ..MirrorFiles::default()
            },
            connect_timeout: Duration::from_secs(5),
            ..Settings::default()
        }
    }
}

/// Resolves a source with settings.
fn resolve(settings: &Settings, source: &str) -> Result<(String, Option<String>), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let registries = Registries::new(settings).unwrap();
        let route = registries.route(&source.parse().unwrap()).await?;
        let digest = route.resolve().await?.digest;
        route.manifest(&digest).await?;
        Ok((digest.to_string(), route.served_by()))
    })
}

#[test]
fn a_mirror_serves_under_the_name_that_was_asked_for() {
    let (upstream, image) = upstream_of("first");
    let conf = Conf::new(&registry(&mirror(&upstream.host(), "")));
    let mut almanac = Almanac::start(&(following(SOURCE) + &conf.key()));
    let status = almanac.until_at("a", &image.digest());
    let served_by = format!("{}/{REPOSITORY}", upstream.host());
    assert_eq!(status["served_by"], served_by);
    assert_eq!(status["source"], SOURCE);
    assert_eq!(
        status["revision"]["source"],
        format!("{SOURCE} linux/amd64")
    );
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    almanac
        .program
        .wait_for_log("who served it", |log| log.contains(&served_by));

    // The files count anew at each pass.
    let (other, second) = upstream_of("second");
    conf.write(&registry(&mirror(&other.host(), "")));
    let status = almanac.until_at("a", &second.digest());
    assert_eq!(
        status["served_by"],
        format!("{}/{REPOSITORY}", other.host())
    );

    // A broken file stops pulls and not what is served.
    conf.write("[[registry]]\nlocation = 7\n");
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "mirrors");
    let error = status["last_error"].as_str().unwrap();
    assert!(
        error.contains("registries.conf") && error.contains("line 2"),
        "{error}"
    );
    assert_eq!(almanac.packages("a").unwrap(), ["second"]);
    conf.write(&registry(&mirror(&other.host(), "")));
    almanac.until("a", "a pass", |status| status["failures"] == 0);
}

#[test]
fn a_mirror_that_fails_is_followed_by_the_next() {
    let (good, image) = upstream_of("first");
    let bad = Upstream::start();
    let conf = Conf::new(&registry(
        &(mirror(&bad.host(), "") + &mirror(&good.host(), "")),
    ));
    let faults: [fn(&Upstream); 5] = [
        |_| {},
        |bad| bad.misbehave(|behaviour| behaviour.status = Some(500)),
        |bad| bad.misbehave(|behaviour| behaviour.access = Access::Basic("me", "secret")),
        |bad| {
            bad.push(REPOSITORY, "latest", &image_of("first"));
            bad.misbehave(|behaviour| behaviour.altered = true);
        },
        |bad| {
            bad.misbehave(|behaviour| {
                behaviour.not_a_manifest = true;
                behaviour.digest_header = DigestHeader::Absent;
            });
        },
    ];
    for fault in faults {
        bad.behave();
        fault(&bad);
        let (digest, served_by) = resolve(&conf.settings(), SOURCE).unwrap();
        assert_eq!(digest, image.digest().to_string());
        assert_eq!(served_by, Some(format!("{}/{REPOSITORY}", good.host())));
    }
}

#[test]
fn a_mirror_whose_blobs_break_off_is_left_for_the_next() {
    let (good, image) = upstream_of("first");
    for altered in [true, false] {
        let (bad, _) = upstream_of("first");
        bad.misbehave(|behaviour| {
            behaviour.altered = altered;
            behaviour.cut = (!altered).then_some(50);
        });
        // By digest, so that the manifest comes from the store of the good one.
        let conf = Conf::new(&registry(
            &(mirror(&bad.host(), "") + &mirror(&good.host(), "")),
        ));
        let mut almanac = Almanac::start(&(following(SOURCE) + &conf.key()));
        almanac.until_at("a", &image.digest());
        assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    }
}

#[test]
fn when_no_place_has_it_each_is_named() {
    let bad = Upstream::start();
    let conf = Conf::new(&registry(&mirror(&format!("{}/below", bad.host()), "")));
    let error = resolve(&conf.settings(), SOURCE).unwrap_err();
    let text = error.to_string();
    for part in [
        SOURCE,
        &format!("{}/below/catalogs/a:latest", bad.host()),
        "MANIFEST_UNKNOWN",
        "https://source.invalid/v2/catalogs/a/manifests/latest",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(error.reason(), "unreachable");
    assert!(error.is_temporary());
}

#[test]
fn a_mirror_is_asked_for_digests_or_tags_as_it_says() {
    let (upstream, image) = upstream_of("first");
    let by_digest = format!("source.invalid/catalogs/a@{}", image.digest());
    for (lines, takes_tags, takes_digests) in [
        ("", true, true),
        ("pull-from-mirror = \"all\"", true, true),
        ("pull-from-mirror = \"digest-only\"", false, true),
        ("pull-from-mirror = \"tag-only\"", true, false),
    ] {
        let conf = Conf::new(&registry(&mirror(&upstream.host(), lines)));
        assert_eq!(
            resolve(&conf.settings(), SOURCE).is_ok(),
            takes_tags,
            "{lines}"
        );
        let found = resolve(&conf.settings(), &by_digest).is_ok();
        assert_eq!(found, takes_digests, "{lines}");
    }
    let lines = "mirror-by-digest-only = true\n".to_owned() + &mirror(&upstream.host(), "");
    let conf = Conf::new(&registry(&lines));
    assert!(resolve(&conf.settings(), SOURCE).is_err());
    assert!(resolve(&conf.settings(), &by_digest).is_ok());
}

#[test]
fn what_is_blocked_is_not_asked() {
    let (upstream, image) = upstream_of("first");
    let source = upstream.reference(REPOSITORY, "latest");
    let blocked = format!(
        "[[registry]]\nlocation = {:?}\nblocked = true\n",
        upstream.host()
    );
    let conf = Conf::new(&blocked);
    let error = resolve(&conf.settings(), &source).unwrap_err();
    assert_eq!(error.reason(), "blocked");
    assert!(error.to_string().contains(&source), "{error}");
    assert!(upstream.lines().is_empty());

    // Its mirror still is.
    let (other, _) = upstream_of("first");
    let conf = Conf::new(&(blocked.clone() + &mirror(&other.host(), "")));
    let (digest, _) = resolve(&conf.settings(), &source).unwrap();
    assert_eq!(digest, image.digest().to_string());
    other.misbehave(|behaviour| behaviour.status = Some(503));
    let error = resolve(&conf.settings(), &source).unwrap_err();
    assert_eq!(error.reason(), "server_error");
    assert!(error.to_string().contains("blocks"), "{error}");
    assert!(upstream.lines().is_empty());
}

#[test]
fn the_mirrors_of_openshift_are_taken_as_they_are() {
    let (upstream, image) = upstream_of("first");
    let set = |kind: &str, list: &str, policy: &str| {
        let (group, version) = match kind {
            "ImageContentSourcePolicy" => ("operator.openshift.io", "v1alpha1"),
            _ => ("config.openshift.io", "v1"),
        };
        format!(
            "apiVersion: {group}/{version}\nkind: {kind}\nmetadata:\n  name: mirrors\nspec:\n  \
             {list}:\n  - source: source.invalid\n    mirrors:\n    - {}\n{policy}",
            upstream.host()
        )
    };
    let by_digest = format!("source.invalid/catalogs/a@{}", image.digest());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mirrors.yaml");
    let settings = Settings {
        mirrors: MirrorFiles {
            kubernetes: vec![path.clone()],
            ..MirrorFiles::default()
        },
        ..Settings::default()
    };
    let never = "    mirrorSourcePolicy: NeverContactSource\n";
    let allow = "    mirrorSourcePolicy: AllowContactingSource\n";
    for (kind, list, policy, takes_tags) in [
        ("ImageDigestMirrorSet", "imageDigestMirrors", never, false),
        ("ImageTagMirrorSet", "imageTagMirrors", allow, true),
        (
            "ImageContentSourcePolicy",
            "repositoryDigestMirrors",
            "",
            false,
        ),
    ] {
        fs::write(&path, set(kind, list, policy)).unwrap();
        let tags = resolve(&settings, SOURCE);
        assert_eq!(tags.is_ok(), takes_tags, "{kind}");
        assert_eq!(
            resolve(&settings, &by_digest).is_ok(),
            !takes_tags,
            "{kind}"
        );
        if policy == never {
            assert_eq!(tags.unwrap_err().reason(), "blocked");
        }
    }
    let arguments = ["check", &by_digest, "--mirror-file", path.to_str().unwrap()];
    fs::write(
        &path,
        set("ImageDigestMirrorSet", "imageDigestMirrors", never),
    )
    .unwrap();
    let finished = Start::new(arguments).run();
    assert_ne!(finished.status.code(), Some(3), "{finished:?}");
}

#[test]
fn a_short_name_is_refused_whatever_the_files_say() {
    let conf = Conf::new("unqualified-search-registries = [\"quay.io\"]\n");
    let path = conf.folder.path().join("registries.conf");
    let finished = Start::new(["check", "operatorhubio/catalog:latest"])
        .argument(format!("--registries-conf={}", path.display()))
        .run();
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(finished.stderr.contains("fully qualified"), "{finished:?}");
}

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

fn put(folder: &Path, host: &str, name: &str, content: &str) {
    fs::create_dir_all(folder.join(host)).unwrap();
    fs::write(folder.join(host).join(name), content).unwrap();
}

fn trusting(folder: &TempDir) -> Settings {
    Settings {
        certificate_folders: vec![folder.path().to_owned()],
        ..Settings::default()
    }
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

#[test]
fn a_mirror_that_makes_no_reference_is_named_and_passed_over() {
    let (upstream, _) = upstream_of("first");
    let bad = mirror("mirror.invalid/UPPER", "");
    let good = mirror(&upstream.host(), "");
    let conf = Conf::new(&registry(&format!("{bad}{good}")));
    let (_, served_by) = resolve(&conf.settings(), SOURCE).unwrap();
    assert_eq!(served_by, Some(format!("{}/{REPOSITORY}", upstream.host())));
    conf.write(&registry(&format!("blocked = true\n{bad}")));
    let error = resolve(&conf.settings(), SOURCE).unwrap_err().to_string();
    for said in [SOURCE, "mirror.invalid/UPPER/catalogs/a:latest", "blocks"] {
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_signal_has_a_catalog_that_failed_tried_again_at_once() {
    let (upstream, image) = upstream_of("first");
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("registries.conf");
    let host = upstream.host();
    let blocked = format!("[[registry]]\nlocation = \"{host}\"\nblocked = true\n");
    fs::write(&conf, blocked).unwrap();
    let source = upstream.reference("catalogs/a", "latest");
    let mut almanac = Almanac::start(&format!(
        "poll = \"1h\"\n{}[registries]\nregistries_conf = [{conf:?}]\n",
        catalog("a", &source)
    ));
    // The next try is nine seconds away then, or more.
    almanac.until("a", "two failures", |status| status["failures"] == 2);
    fs::write(&conf, "").unwrap();
    let begin = Instant::now();
    almanac.program.signal("HUP");
    almanac.until_at("a", &image.digest());
    assert!(begin.elapsed() < Duration::from_secs(7));
}

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
