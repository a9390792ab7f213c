//! Who gets which pages.

use std::collections::{BTreeSet, VecDeque};
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::site::{BROWSER, attributes};
use crate::support::almanac::{Almanac, catalog, open_and_closed};
use crate::support::catalog::{Catalog, Format};
use crate::support::http;

/// Headers that browsers send over TLS and to their own machine only.
const NAVIGATES: (&str, &str) = ("Sec-Fetch-Mode", "navigate");

#[test]
fn pages_can_be_turned_off() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::small().write_to(folder.path(), Format::JsonLines);
    let source = catalog("small", &format!("file:{}", folder.path().display()));
    let mut almanac = Almanac::start(&format!("pages = false\n{source}"));
    almanac.until("small", "a revision", |status| status["state"] == "serving");
    let address = almanac.program.address("http");
    let get = |path: &str| http::ask(address, "GET", path, &BROWSER, b"").unwrap();
    assert_eq!(get("/").header("content-type"), Some("application/json"));
    for path in ["/search", "/catalogs/small/packages/etcd", "/assets/a/b"] {
        let reply = get(path);
        assert_eq!(reply.status, 404, "{path}");
        assert!(!reply.text().contains("<html"), "{path}");
    }
}

#[test]
fn the_admin_port_has_the_status_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::small().write_to(folder.path(), Format::JsonLines);
    let small = catalog("small", &format!("file:{}", folder.path().display()));
    let broken = catalog("broken", "file:/nowhere/<b>");
    let mut almanac = Almanac::start(&format!("{small}{broken}"));
    almanac.until("small", "a revision", |status| status["state"] == "serving");
    almanac.until("broken", "a failure", |status| status["state"] == "failing");
    let address = almanac.program.address("admin");
    let get = |path: &str| http::ask(address, "GET", path, &BROWSER, b"").unwrap();
    let page = get("/");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'; "),
        "{policy}"
    );
    let text = page.text();
    for part in [
        ">serving</span>",
        ">failing</span>",
        "file:/nowhere/&lt;b&gt;",
        "<dt>Memory</dt>",
        "<dt>Connections</dt><dd>admin",
        "1, 1 failed <span class=\"hours\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        get("/almanac.js").header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    let status: serde_json::Value = serde_json::from_slice(&get("/status").body).unwrap();
    let hours = &status["catalogs"][0]["passes"];
    let failed = hours
        .as_array()
        .unwrap()
        .iter()
        .map(|hour| hour["failed"].as_u64().unwrap());
    assert!(failed.sum::<u64>() > 0, "{status}");
    assert!(
        status["started"].is_string() && status["memory"].as_u64() > Some(0),
        "{status}"
    );
    assert_eq!(
        get("/almanac.css").header("content-type"),
        Some("text/css; charset=utf-8")
    );
}

#[test]
fn a_closed_catalog_is_on_no_page_without_its_token() {
    let contents = ["open-package", "closed-package"].map(Catalog::one);
    let (_folder, mut almanac) = open_and_closed([&contents[0], &contents[1]]);
    let address = almanac.program.address("http");
    let get = |path: &str, password: Option<&str>| {
        let value = BASE64.encode(format!("anybody:{}", password.unwrap_or_default()));
        let value = format!("Basic {value}");
        let mut headers = vec![BROWSER[0], NAVIGATES];
        if password.is_some() {
            headers.push(("Authorization", &value));
        }
        http::ask(address, "GET", path, &headers, b"").unwrap()
    };
    let reader = Some("reader-secret");
    for path in [
        "/",
        "/search",
        "/search?q=package",
        "/compare",
        "/changes",
        "/problems",
        "/api",
        "/catalogs/clsed",
        "/packages/closed-packag",
        "/suggest?q=clos",
        "/mirror?pick=closed/closed-package",
    ] {
        for password in [None, Some("other-secret")] {
            let text = get(path, password).text();
            let named = text
                .replace("value=\"closed/", "")
                .replace("pick=closed", "");
            let named = named.replace("\"closed\"", "");
            // The item of the address, which the client can remove from its basket.
            let named = named.replace("closed/closed-package", "");
            assert!(!named.contains("/catalogs/closed"), "{path}: {text}");
            assert!(!named.contains("closed-package"), "{path}: {text}");
        }
    }
    for path in ["/", "/search", "/compare", "/packages/closed-package"] {
        let reply = get(path, reader);
        assert!(reply.text().contains("/catalogs/closed"), "{path}");
        assert_eq!(
            reply.header("cache-control"),
            Some("private, no-cache"),
            "{path}"
        );
    }
    for path in [
        "/catalogs/closed",
        "/catalogs/closed/packages/closed-package",
    ] {
        let asked = get(path, None);
        assert_eq!(asked.status, 401, "{path}");
        assert!(asked.text().contains("href=\"/sign-in\""), "{path}");
        let challenge = asked.header("www-authenticate").unwrap();
        assert!(
            challenge.starts_with("Basic realm=\"almanac\""),
            "{challenge}"
        );
        assert_eq!(get(path, reader).status, 200, "{path}");
    }
    let asked = get("/sign-in", None);
    assert_eq!(asked.status, 401);
    assert!(
        asked
            .header("www-authenticate")
            .unwrap()
            .starts_with("Basic")
    );
    assert_eq!(get("/sign-in", Some("other-secret")).status, 401);
    let signed_in = get("/sign-in", reader);
    assert_eq!(
        (signed_in.status, signed_in.header("location")),
        (303, Some("/"))
    );
}

#[test]
fn a_selection_from_a_closed_catalog_names_it_in_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let content = Catalog::one("crane");
    content.write_to(&folder.path().join("content"), Format::JsonLines);
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, "reader-secret\n").unwrap();
    let source = format!("file:{}", folder.path().join("content").display());
    let vault = catalog("vault", &source);
    let config = format!(
        "{vault}\ntoken_files = [{tokens:?}]\n\n[[catalog]]\nname = \"shelf\"\nfrom = [\"vault\"]\n"
    );
    let mut almanac = Almanac::start(&config);
    almanac.until("shelf", "a revision", |status| status["state"] == "serving");
    let address = almanac.program.address("http");
    let of_api = [
        "/catalogs",
        "/api/v1/catalogs",
        "/catalogs/shelf",
        "/catalogs/shelf/api/v1/all",
        "/catalogs/shelf/api/v1/revisions",
        "/catalogs/shelf/api/v1/changes",
        "/catalogs/shelf/api/v1/changes.atom",
        "/catalogs/shelf/api/v1/packages",
        "/api/v1/facets",
        "/api/v1/search?q=crane",
        "/suggest?q=v",
        "/v2/_catalog",
        "/v2/shelf/manifests/latest",
        "/catalogs/vaul",
    ];
    for accept in [BROWSER[0].1, "application/json"] {
        let mut seen: BTreeSet<String> = of_api.into_iter().map(str::to_owned).collect();
        seen.insert("/".to_owned());
        let mut queue: VecDeque<String> = seen.iter().cloned().collect();
        while let Some(path) = queue.pop_front() {
            let reply = http::ask(address, "GET", &path, &[("Accept", accept)], b"").unwrap();
            let text = reply.text();
            let told = format!("{:?} {text}", reply.headers);
            assert!(!told.contains("vault"), "{path}: {told}");
            for link in attributes(&text, "href") {
                let is_own = link.starts_with('/') && link.matches('&').count() < 2;
                if is_own && seen.len() < 200 && seen.insert(link.clone()) {
                    queue.push_back(link);
                }
            }
        }
        let is_page = accept == BROWSER[0].1;
        let history = "/catalogs/shelf/packages/crane/history";
        assert!(!is_page || seen.contains(history), "{seen:?}");
    }
}

#[test]
fn a_browser_is_asked_for_a_token_where_nobody_on_the_way_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::small().write_to(&folder.path().join("content"), Format::JsonLines);
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, "reader-secret\n").unwrap();
    let source = format!("file:{}", folder.path().join("content").display());
    let (open, closed) = (catalog("open", &source), catalog("closed", &source));
    let config = format!("{open}\n{closed}\ntoken_files = [{tokens:?}]\n");
    let mut almanac = Almanac::start(&config);
    almanac.until("open", "a revision", |status| status["state"] == "serving");
    let address = almanac.program.address("http");
    let get = |path: &str, more: Option<(&str, &str)>| {
        let headers: Vec<_> = [BROWSER[0]].into_iter().chain(more).collect();
        http::ask(address, "GET", path, &headers, b"").unwrap()
    };
    for path in ["/sign-in", "/catalogs/closed"] {
        for (header, asks) in [
            (Some(NAVIGATES), true),
            (Some(("X-Forwarded-Proto", "https")), true),
            (Some(("X-Forwarded-Proto", "http")), false),
            // A proxy on this machine may pass on a browser elsewhere.
            (None, false),
        ] {
            let reply = get(path, header);
            assert_eq!(reply.status, 401, "{path}");
            let challenge = reply.header("www-authenticate").unwrap();
            assert_eq!(challenge.starts_with("Basic"), asks, "{path}: {header:?}");
        }
    }
    let link = "href=\"/sign-in\"";
    assert!(get("/", None).text().contains(link));
    let value = BASE64.encode("anybody:reader-secret");
    let value = format!("Basic {value}");
    let reader = Some(("Authorization", value.as_str()));
    assert!(!get("/", reader).text().contains(link));
}
