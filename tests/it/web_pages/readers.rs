//! Who gets which pages.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::site::BROWSER;
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format};
use crate::support::http;

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
        policy.starts_with("default-src 'none'; style-src 'self'"),
        "{policy}"
    );
    let text = page.text();
    for part in [
        ">serving</span>",
        ">failing</span>",
        "file:/nowhere/&lt;b&gt;",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        get("/almanac.css").header("content-type"),
        Some("text/css; charset=utf-8")
    );
}

#[test]
fn a_closed_catalog_is_on_no_page_without_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["open", "closed"] {
        let content = Catalog::one(&format!("{name}-package"));
        content.write_to(&folder.path().join(name), Format::JsonLines);
    }
    fs::write(path("tokens"), "reader-secret\n").unwrap();
    let source = |name: &str| catalog(name, &format!("file:{}", path(name)));
    let (open, closed) = (source("open"), source("closed"));
    let config = format!("{open}\n{closed}\ntoken_files = [{:?}]\n", path("tokens"));
    let mut almanac = Almanac::start(&config);
    for name in ["open", "closed"] {
        almanac.until(name, "a revision", |status| status["state"] == "serving");
    }
    let address = almanac.program.address("http");
    let get = |path: &str, password: Option<&str>| {
        let value = BASE64.encode(format!("anybody:{}", password.unwrap_or_default()));
        let value = format!("Basic {value}");
        let mut headers = vec![BROWSER[0]];
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
