//! Who may read which catalog, by which port, and what is written of it.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use almanac::proto;
use base64::Engine as _;
use tempfile::TempDir;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format};
use crate::support::grpc::Client;
use crate::support::http::{self, Reply};
use crate::support::program::{PATIENCE, Start};
use crate::support::tls::Authority;

/// Two catalogs, `open` and `closed`, each with one package of its name.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["open", "closed"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            Catalog::one(name).write_to(&path, Format::JsonLines);
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Starts with more keys before the catalogs, more for `closed`, and more
    /// tables.
    fn start(&self, before: &str, closed: &str, tables: &str) -> Almanac {
        let source = |name: &str| catalog(name, &format!("file:{}", self.path(name)));
        let (open, other) = (source("open"), source("closed"));
        let config = format!("{before}\n{open}\n{other}\n{closed}\n{tables}");
        let mut almanac = Almanac::start(&config);
        for name in ["open", "closed"] {
            almanac.until(name, "a revision", |status| status["state"] == "serving");
        }
        almanac
    }
}

fn all(name: &str) -> String {
    format!("/catalogs/{name}/api/v1/all")
}

fn with_token(server: SocketAddr, path: &str, token: &str) -> Reply {
    let value = format!("Bearer {token}");
    http::ask(server, "GET", path, &[("Authorization", &value)], b"").unwrap()
}

#[test]
fn a_catalog_with_tokens_is_read_by_those_who_have_one() {
    let site = Site::new();
    site.write("tokens", "# readers\nfirst-secret\n");
    site.write("more", "second-secret\n");
    let files = [site.path("tokens"), site.path("more")];
    let mut almanac = site.start(
        "",
        &format!("token_files = {files:?}"),
        "[log]\nfilter = \"trace\"",
    );
    let http = almanac.program.address("http");

    let reply = http::get(http, &all("closed")).unwrap();
    assert_eq!(reply.status, 401);
    assert_eq!(
        reply.header("www-authenticate"),
        Some("Bearer realm=\"almanac\"")
    );
    let wrong = with_token(http, &all("closed"), "first-secre");
    assert_eq!(wrong.status, 401);
    assert_eq!(
        wrong.header("www-authenticate"),
        Some("Bearer realm=\"almanac\", error=\"invalid_token\"")
    );
    for token in ["first-secret", "second-secret"] {
        let reply = with_token(http, &all("closed"), token);
        assert_eq!(reply.status, 200);
        assert_eq!(reply.text(), Catalog::one("closed").text(Format::JsonLines));
    }
    // Everything of the catalog is behind it, however it is written; nothing
    // of others is.
    for (path, status) in [
        ("/catalogs/closed/api/v1/metas?schema=olm.package", 401),
        ("/catalogs/closed/api/v1/packages", 401),
        ("/catalogs/closed/api/v1/packages/closed/icon", 401),
        ("/catalogs/closed/api/v1/search?q=a", 401),
        ("/catalogs/closed/api/v1/graphql", 401),
        ("/catalogs/%63losed/api/v1/all", 401),
        ("/catalogs/closed%2f/api/v1/all", 400),
        ("/catalogs/%ff/api/v1/all", 400),
        ("/catalogs//closed/api/v1/all", 307),
        ("/catalogs/closed/api/v1/nothing", 404),
        // An absent one is answered like a closed one.
        ("/catalogs/other/api/v1/all", 401),
        ("/catalogs/open/api/v1/all", 200),
    ] {
        assert_eq!(http::get(http, path).unwrap().status, status, "{path}");
    }
    // A browser gets the page of GraphQL, which has a field for the token and no
    // data, with the same status.
    let accept = [("Accept", "text/html")];
    for (path, status) in [
        ("/catalogs/closed/api/v1/graphql", 401),
        ("/catalogs/closed/api/v1/packages", 401),
        ("/catalogs/open/api/v1/graphql", 200),
    ] {
        let reply = http::ask(http, "GET", path, &accept, b"").unwrap();
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(reply.header("www-authenticate").is_some(), status == 401);
        let page = reply.text().starts_with("<!doctype html>");
        assert_eq!(page, path.ends_with("graphql"), "{path}");
        let policy = reply.header("content-security-policy");
        assert_eq!(policy.is_some(), page, "{path}");
    }
    // Nor is its name told to those who do not know it.
    for path in [
        "/catalogs/close/api/v1/packages",
        "/catalogs/x/api/v1/packages",
        "/catalogs/close/api/v1/all",
        "/v2/_catalog",
    ] {
        let reply = http::get(http, path).unwrap();
        assert!(!reply.text().contains("closed"), "{}", reply.text());
    }
    for path in [&all("closed"), "/catalogs/closed/api/v1/graphql"] {
        let body = b"{\"query\": \"{ summary { totalSchemas } }\"}";
        let reply = http::ask(http, "POST", path, &[], body).unwrap();
        assert_eq!(reply.status, 401);
    }

    // A new file counts, and what it lacks does no more.
    site.write("tokens", "third-secret\n");
    let begin = Instant::now();
    while with_token(http, &all("closed"), "third-secret").status != 200 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(with_token(http, &all("closed"), "first-secret").status, 401);
    assert_eq!(
        with_token(http, &all("closed"), "second-secret").status,
        200
    );
    site.write("tokens", "not a token\n");
    almanac.program.wait_for_log("a refusal", |log| {
        log.contains("is no bearer token") && log.contains("line 1 of")
    });
    assert_eq!(with_token(http, &all("closed"), "third-secret").status, 200);

    let log = almanac.program.log();
    assert!(
        !log.contains("-secret") && !log.contains("not a token"),
        "{log}"
    );
    assert!(log.contains("without TLS"), "{log}");
    let metrics = http::get(almanac.program.address("admin"), "/metrics").unwrap();
    let metrics = metrics.text();
    assert!(metrics.contains(r#"almanac_http_denied_total{catalog="closed"}"#));
    assert!(metrics.contains(r#"code="401",catalog="closed",encoding="identity"}"#));
}

/// A reply without its date, as it would be for the name `closed`.
fn as_of_closed(mut reply: Reply) -> (u16, Vec<(String, String)>, String) {
    reply.headers.retain(|(name, _)| name != "date");
    reply.headers.sort();
    for (_, value) in &mut reply.headers {
        *value = value.replace("absent", "closed");
    }
    let body = String::from_utf8_lossy(&reply.body).replace("absent", "closed");
    (reply.status, reply.headers, body)
}

#[test]
fn a_closed_catalog_and_an_absent_one_get_the_same_answer() {
    let site = Site::new();
    site.write("tokens", "first-secret\n");
    site.write("others", "other-secret\n");
    let closed = format!("token_files = [{:?}]", site.path("tokens"));
    let source = format!("file:{}", site.path("open"));
    let other = catalog("theirs", &source) + &format!("token_files = [{:?}]", site.path("others"));
    let mut almanac = site.start("", &closed, &other);
    almanac.until("theirs", "a revision", |status| {
        status["state"] == "serving"
    });
    almanac.until_pullable("open");
    let http = almanac.program.address("http");
    let digest = format!("sha256:{}", "0".repeat(64));
    let below = [
        "/catalogs/NAME",
        "/catalogs/NAME/",
        "/catalogs/NAME/api/v1/all",
        "/catalogs/NAME/api/v1/all?x=1",
        "/catalogs/NAME/api/v1/metas?schema=olm.package",
        "/catalogs/NAME/api/v1/metas?wrong=1",
        "/catalogs/NAME/api/v1/packages",
        "/catalogs/NAME/api/v1/packages?wrong=1",
        "/catalogs/NAME/api/v1/packages/closed/icon",
        "/catalogs/NAME/api/v1/search?q=a",
        "/catalogs/NAME/api/v1/graphql",
        "/catalogs/NAME/api/v1/revisions",
        "/catalogs/NAME/changes",
        "/catalogs/NAME/changes.atom",
        "/catalogs/NAME/problems",
        "/catalogs/NAME/packages/closed",
        "/api/v1/changes?catalog=NAME",
        "/api/v1/problems?catalog=NAME",
        "/search?catalog=NAME",
        "/compare/diff?from=NAME&to=open",
        "/v2/NAME/tags/list",
        "/v2/NAME/manifests/latest",
        "/v2/NAME/manifests/DIGEST",
        "/v2/NAME/blobs/DIGEST",
        "/v2/NAME/referrers/DIGEST",
    ];
    let unknown = [None, Some("Bearer wrong-secret")];
    let known = [Some("Bearer other-secret")];
    for (authorization, refused) in unknown
        .map(|one| (one, [401, 401]))
        .into_iter()
        .chain(known.map(|one| (one, [404, 404])))
    {
        for path in below {
            for (method, accept) in [
                ("GET", "*/*"),
                ("GET", "text/html"),
                ("GET", "application/problem+json"),
                ("HEAD", "*/*"),
                ("POST", "*/*"),
                ("OPTIONS", "*/*"),
            ] {
                let ask = |name: &str| {
                    let path = path.replace("NAME", name).replace("DIGEST", &digest);
                    let mut headers = vec![("Accept", accept)];
                    headers.extend(authorization.map(|value| ("Authorization", value)));
                    let body = b"{\"query\": \"{ summary { totalSchemas } }\"}";
                    let body = if method == "POST" { &body[..] } else { b"" };
                    as_of_closed(http::ask(http, method, &path, &headers, body).unwrap())
                };
                let (closed, absent) = (ask("closed"), ask("absent"));
                assert_eq!(closed, absent, "{method} {path} {accept} {authorization:?}");
            }
        }
        let all = ["closed", "absent"].map(|name| {
            let headers: Vec<_> = authorization
                .map(|value| ("Authorization", value))
                .into_iter()
                .collect();
            http::ask(http, "GET", &all(name), &headers, b"")
                .unwrap()
                .status
        });
        assert_eq!(all, refused, "{authorization:?}");
    }
    // Their names come with nothing that others may read.
    for path in [
        "/",
        "/catalogs",
        "/api/v1/catalogs",
        "/api/v1/search?q=closed",
        "/api/v1/packages/closed",
        "/search?q=close",
        "/problems",
        "/changes",
        "/compare",
        "/api",
        "/v2/_catalog",
    ] {
        for accept in ["*/*", "text/html"] {
            let headers = [("Accept", accept), ("Authorization", "Bearer other-secret")];
            let reply = http::ask(http, "GET", path, &headers, b"").unwrap();
            let names = reply.text().matches("closed").count();
            // The text of a search is repeated.
            let given = path.contains("closed");
            assert!(given || names == 0, "{path}: {}", reply.text());
        }
    }
}

#[test]
fn a_catalog_that_was_public_until_it_was_removed_is_absent_for_everybody() {
    let site = Site::new();
    site.write("tokens", "secret\n");
    let tokens = format!("token_files = [{:?}]\n", site.path("tokens"));
    let theirs = catalog("theirs", &format!("file:{}", site.path("open"))) + &tokens;
    let mut almanac = site.start("", &tokens, &theirs);
    almanac.reconfigure(&theirs);
    almanac.until_names(&["theirs"]);
    let http = almanac.program.address("http");
    for (name, wanted) in [("open", 404), ("closed", 401), ("absent", 401)] {
        let begun = Instant::now();
        let mut found = 0;
        while found != wanted && begun.elapsed() < PATIENCE {
            found = http::get(http, &all(name)).unwrap().status;
        }
        assert_eq!(found, wanted, "{name}");
        let pulled = http::get(http, &format!("/v2/{name}/manifests/latest")).unwrap();
        assert_eq!(pulled.status, wanted, "{name}");
    }
}

#[test]
fn a_client_certificate_lets_in_where_it_is_asked_for() {
    let site = Site::new();
    let authority = Authority::new();
    site.write("ca.crt", &authority.pem());
    authority.sign().write(site.folder.path());
    let tls = format!(
        "[http_tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\nclient_certificates = \"optional\"",
        site.path("tls.crt"),
        site.path("tls.key"),
        site.path("ca.crt")
    );
    site.write("tokens", "a-token");
    let tokens = format!("token_files = [{:?}]", site.path("tokens"));
    for (more, denied) in [("", 403), (tokens.as_str(), 401)] {
        let asked = format!("client_certificate = true\n{more}");
        let mut almanac = site.start("", &asked, &tls);
        let http = almanac.program.address("http");
        let own = authority.sign();
        let (known, unknown) = (
            authority.client(Some(&own), &[]),
            authority.client(None, &[]),
        );
        assert_eq!(known.get(http, &all("closed")).unwrap().status, 200);
        assert_eq!(unknown.get(http, &all("closed")).unwrap().status, denied);
        assert_eq!(unknown.get(http, &all("open")).unwrap().status, 200);
        let token = [("Authorization", "Bearer a-token")];
        let reply = unknown.ask(http, &all("closed"), &token).unwrap();
        assert_eq!(reply.status == 200, denied == 401);
    }
}

#[test]
fn pages_of_other_origins_may_ask_when_they_are_named() {
    let site = Site::new();
    site.write("tokens", "a-token");
    let tokens = format!("token_files = [{:?}]", site.path("tokens"));
    let allowed = |almanac: &mut Almanac, method: &str, origin: &str, name: &str| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "GET"),
            ("Access-Control-Request-Headers", "authorization"),
        ];
        let address = almanac.program.address("http");
        http::ask(address, method, &all(name), &headers, b"").unwrap()
    };
    let origin = "https://console.example.com";
    let header = "access-control-allow-origin";

    let mut almanac = site.start("", &tokens, "");
    let reply = allowed(&mut almanac, "OPTIONS", origin, "open");
    assert_eq!((reply.status, reply.header(header)), (405, None));
    assert_eq!(
        allowed(&mut almanac, "GET", origin, "open").header(header),
        None
    );
    drop(almanac);

    let named = format!("cors_origins = [{origin:?}]");
    let mut almanac = site.start(&named, &tokens, "");
    for (method, name, status) in [
        ("OPTIONS", "open", 200),
        // No page can send a token with this question.
        ("OPTIONS", "closed", 200),
        ("GET", "open", 200),
        ("GET", "closed", 401),
    ] {
        let reply = allowed(&mut almanac, method, origin, name);
        assert_eq!(reply.status, status, "{method} {name}");
        assert_eq!(reply.header(header), Some(origin));
        let vary = reply.headers.iter().filter(|(name, _)| name == "vary");
        assert!(vary.into_iter().any(|(_, value)| value.contains("origin")));
    }
    // What is kept of an answer to nobody's page is not for a page.
    for path in [&all("open"), "/catalogs/open/api/v1/packages"] {
        let reply = http::get(almanac.program.address("http"), path).unwrap();
        let mut vary = reply.headers.iter().filter(|(name, _)| name == "vary");
        assert!(vary.any(|(_, value)| value.contains("origin")), "{path}");
    }
    let preflight = allowed(&mut almanac, "OPTIONS", origin, "open");
    let methods = preflight.header("access-control-allow-methods").unwrap();
    assert!(methods.contains("GET") && methods.contains("HEAD"));
    let headers = preflight.header("access-control-allow-headers").unwrap();
    for header in ["authorization", "if-none-match", "if-range"] {
        assert!(headers.contains(header), "{headers}");
    }
    let exposed = allowed(&mut almanac, "GET", origin, "open");
    let exposed = exposed.header("access-control-expose-headers").unwrap();
    assert!(
        exposed.contains("etag") && exposed.contains("link"),
        "{exposed}"
    );
    let other = allowed(&mut almanac, "GET", "https://elsewhere.example.com", "open");
    assert_eq!((other.status, other.header(header)), (200, None));
    drop(almanac);

    let mut almanac = site.start("cors_origins = [\"*\"]", "", "");
    let reply = allowed(&mut almanac, "GET", origin, "closed");
    assert_eq!(reply.header(header), Some("*"));
}

async fn names(client: &Client) -> Result<Vec<String>, tonic::Status> {
    let packages: Vec<proto::PackageName> = client
        .stream("/api.Registry/ListPackages", proto::ListPackageRequest {})
        .await?;
    Ok(packages.into_iter().map(|package| package.name).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_port_of_its_own_means_its_catalog_whatever_is_asked_for() {
    let site = Site::new();
    let mut almanac = site.start("", "grpc = \"127.0.0.1:0\"", "");
    let own = almanac.program.own_address("closed");
    let shared = almanac.program.address("grpc");
    assert_ne!(own, shared);
    for authority in [
        "open",
        "closed",
        "localhost:50051",
        "[::1]",
        "open.olm.svc:1",
    ] {
        let client = Client::called(own, authority);
        assert_eq!(names(&client).await.unwrap(), ["closed"], "{authority}");
    }
    let asked = names(&Client::called(shared, "localhost")).await;
    assert_eq!(asked.unwrap_err().code(), Code::NotFound);
    assert_eq!(
        names(&Client::called(shared, "closed")).await.unwrap(),
        ["closed"]
    );

    // Health and reflection are those of all.
    let client = Client::new(own);
    for service in ["", "Registry", "api.Registry", "open"] {
        let service = service.to_owned();
        let answer: HealthCheckResponse = client
            .unary(
                "/grpc.health.v1.Health/Check",
                HealthCheckRequest { service },
            )
            .await
            .unwrap();
        assert_eq!(answer.status(), ServingStatus::Serving);
    }
    drop(client);
    almanac.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_call_to_nobody_gets_the_names_of_open_catalogs() {
    let site = Site::new();
    site.write("tokens", "a-token");
    let closed = format!("token_files = [{:?}]", site.path("tokens"));
    let mut almanac = site.start("", &closed, "");
    let grpc = almanac.program.address("grpc");
    let asked = names(&Client::called(grpc, "localhost")).await.unwrap_err();
    assert_eq!(asked.code(), Code::NotFound);
    let wanted = "no catalog answers to \"localhost\"; there are: open";
    assert_eq!(asked.message(), wanted);
    // Those who know the name are answered: tokens do not guard gRPC.
    let called = Client::called(grpc, "closed");
    assert_eq!(names(&called).await.unwrap(), ["closed"]);
    drop(called);
    almanac.stop();
}

#[test]
fn ports_that_are_the_same_are_refused() {
    let site = Site::new();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("almanac.toml");
    let text = format!(
        "grpc = \"127.0.0.1:4711\"\n{}grpc = \"127.0.0.1:4711\"\n",
        catalog("open", &format!("file:{}", site.path("open")))
    );
    fs::write(&config, text).unwrap();
    let finished = crate::support::program::Start::new(["serve", "--config"])
        .argument(config.to_str().unwrap())
        .run();
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    let message = "grpc and grpc of the catalog open both listen at 127.0.0.1:4711";
    assert!(finished.stderr.contains(message), "{finished:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_are_logged_when_that_is_asked_for() {
    let site = Site::new();
    for (filter, wanted) in [("info", false), ("info,almanac::access=debug", true)] {
        let mut almanac = site.start("", "", &format!("[log]\nfilter = {filter:?}"));
        let http = almanac.program.address("http");
        let length = http::get(http, &all("open")).unwrap().body.len();
        http::get(http, "/catalogs/made-up/api/v1/all?secret=1").unwrap();
        let grpc = Client::called(almanac.program.address("grpc"), "closed");
        assert_eq!(names(&grpc).await.unwrap(), ["closed"]);
        let health = "/grpc.health.v1.Health/Check";
        grpc.raw(health, b"\x0a\x06closed").await.unwrap();
        if wanted {
            let bytes = format!("bytes={length} ");
            almanac.program.wait_for_log("requests and a call", |log| {
                let line = |parts: &[&str]| {
                    log.lines()
                        .filter(|line| line.contains("almanac::access"))
                        .any(|line| parts.iter().all(|part| line.contains(part)))
                };
                line(&[
                    "request",
                    "catalog=\"open\"",
                    "code=200",
                    &bytes,
                    "peer=127.",
                ]) && line(&["path=\"/catalogs/made-up/api/v1/all\"", "code=404"])
                    && line(&[
                        "call{",
                        "service=\"api.Registry\"",
                        "peer=127.",
                        "bytes=13",
                        "answered",
                        "method=\"ListPackages\"",
                        "catalog=\"closed\"",
                        "code=Ok",
                    ])
                    && line(&[
                        "service=\"grpc.health.v1.Health\"",
                        "method=\"Check\"",
                        "answered",
                        "catalog=\"closed\"",
                    ])
            });
        }
        almanac.stop();
        let log = almanac.program.log();
        assert_eq!(log.contains("almanac::access"), wanted, "{log}");
        assert!(!log.contains("secret"), "{log}");
    }
}

/// Every API that restricts catalogs decides alike: `access` makes the decision,
/// and the APIs only word it.
#[test]
fn all_apis_agree_who_may_read_a_catalog() {
    let site = Site::new();
    let authority = Authority::new();
    site.write("ca.crt", &authority.pem());
    authority.sign().write(site.folder.path());
    site.write("tokens", "good-secret");
    let tls = format!(
        "[http_tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\nclient_certificates = \"optional\"",
        site.path("tls.crt"),
        site.path("tls.key"),
        site.path("ca.crt")
    );
    let tokens = format!("token_files = [{:?}]", site.path("tokens"));
    let own = authority.sign();
    let (certified, plain) = (
        authority.client(Some(&own), &[]),
        authority.client(None, &[]),
    );
    let (good, bad) = ("Bearer good-secret", "Bearer bad-secret");
    let basic = |password: &str| {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("any:{password}"));
        format!("Basic {pair}")
    };
    for (rule, wanted) in [
        // Nothing, a wrong token, the right token, a certificate, and both.
        (String::new(), [true, true, true, true, true]),
        (tokens.clone(), [false, false, true, false, true]),
        (
            "client_certificate = true".to_owned(),
            [false, false, false, true, true],
        ),
        (
            format!("client_certificate = true\n{tokens}"),
            [false, false, true, true, true],
        ),
    ] {
        let mut almanac = site.start("", &rule, &tls);
        let http = almanac.program.address("http");
        let tags = "/v2/closed/tags/list";
        let begin = Instant::now();
        // The image is built after the catalog is served.
        while certified
            .ask(http, tags, &[("Authorization", good)])
            .unwrap()
            .status
            == 503
        {
            assert!(begin.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(50));
        }
        let presented = [
            (&plain, None),
            (&plain, Some(bad)),
            (&plain, Some(good)),
            (&certified, None),
            (&certified, Some(good)),
        ];
        for ((client, authorization), wanted) in presented.into_iter().zip(wanted) {
            let ask = |path: &str, authorization: Option<&str>| {
                let header = authorization.map(|value| ("Authorization", value));
                let headers: Vec<_> = header.into_iter().collect();
                client.ask(http, path, &headers).unwrap()
            };
            for path in [
                "/catalogs/closed/api/v1/all",
                "/catalogs/closed/api/v1/metas?schema=olm.package",
                "/catalogs/closed/api/v1/packages",
                tags,
            ] {
                let status = ask(path, authorization).status;
                let read = status == 200;
                assert_eq!(read, wanted, "{rule:?} {path} {authorization:?}: {status}");
                assert!(read || [401, 403].contains(&status), "{path}: {status}");
            }
            // Clients of registries send a token as the password.
            let password = authorization.and_then(|value| value.strip_prefix("Bearer "));
            if let Some(password) = password {
                let read = ask(tags, Some(&basic(password))).status == 200;
                assert_eq!(read, wanted, "{rule:?} {password}");
            }
            let listed = ask("/v2/_catalog", authorization);
            let listed = listed.status == 200 && listed.text().contains("\"closed\"");
            assert_eq!(listed, wanted, "{rule:?} {authorization:?}");
        }
        // Probes and metrics have no rules.
        let admin = almanac.program.address("admin");
        assert_eq!(http::get(admin, "/status").unwrap().status, 200);
        almanac.stop();
    }
}

#[test]
fn a_command_reads_a_guarded_catalog_with_its_token() {
    let site = Site::new();
    site.write("tokens", "# readers\n\nfirst-secret\nsecond-secret\n");
    site.write("wrong", "third-secret");
    site.write("empty", "# nobody\n");
    let files = [site.path("tokens")];
    let mut almanac = site.start("", &format!("token_files = {files:?}"), "");
    let url = format!("http://{}/catalogs/closed", almanac.program.address("http"));
    let list = |file: Option<&str>, variable: Option<&str>| {
        let mut start = Start::new(["list", "packages", &url]);
        if let Some(file) = file {
            start = start.argument(format!("--token-file={}", site.path(file)));
        }
        if let Some(value) = variable {
            start = start.variable("ALMANAC_TOKEN", value);
        }
        let finished = start.run();
        for part in [&finished.stdout, &finished.stderr] {
            assert!(!part.contains("-secret"), "{finished:#?}");
        }
        finished
    };
    for (file, variable, code) in [
        (Some("tokens"), None, 0),
        (None, Some("second-secret"), 0),
        // The flag takes precedence.
        (Some("tokens"), Some("third-secret"), 0),
        (Some("wrong"), Some("first-secret"), 3),
        (None, Some("third-secret"), 3),
        // An empty variable is not set.
        (None, Some(""), 3),
        (None, None, 3),
        (Some("empty"), None, 2),
        (Some("missing"), None, 2),
        (None, Some("no token"), 2),
    ] {
        let finished = list(file, variable);
        assert_eq!(
            finished.status.code(),
            Some(code),
            "{file:?} {variable:?}: {finished:#?}"
        );
        let listed = finished.stdout.contains("closed");
        assert_eq!(listed, code == 0, "{finished:#?}");
        let advice = finished.stderr.contains("--token-file");
        assert!(advice || code != 3, "{finished:#?}");
    }
    almanac.stop();
}
