//! Addresses: of a content, of the site, and of a page for programs.

use serde_json::Value;

use super::site::{BROWSER, attributes, text_of};
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format};
use crate::support::http;
use crate::support::served::{Folders, Served};

#[test]
fn a_link_for_an_earlier_content_says_so_and_leads_to_the_difference() {
    let folders = Folders::of("harbor", &Catalog::one("crane"));
    let mut served = Served::catalogs(&folders);
    let package = "/catalogs/harbor/packages/crane";
    let text = text_of(&served, package);
    let links = attributes(&text, "href");
    let permanent = links.iter().find(|link| link.contains("?at=")).unwrap();
    assert!(permanent.starts_with(package), "{permanent}");
    let same = text_of(&served, permanent);
    assert!(!same.contains("This link was made"), "{same}");
    let before = served.status("harbor")["revision"].clone();
    let crane = Catalog::one("crane").package("hook", |package| {
        package
            .channel("stable", [crate::support::catalog::entry("hook.v1.0.0")])
            .bundle(crate::support::catalog::bundle("hook.v1.0.0"))
    });
    folders.replace("harbor", &crane);
    served.wait_for_status("harbor", |status| status["revision"] != before);
    let begin = std::time::Instant::now();
    let moved = loop {
        let text = text_of(&served, permanent);
        if text.contains("This link was made") {
            break text;
        }
        assert!(
            begin.elapsed() < crate::support::program::PATIENCE,
            "{text}"
        );
        crate::support::program::pause(begin);
    };
    let links = attributes(&moved, "href");
    let diff = links
        .iter()
        .find(|link| link.starts_with("/compare/diff"))
        .unwrap();
    let text = text_of(&served, diff);
    assert!(
        text.contains("hook") && text.contains("package added"),
        "{text}"
    );
    let route = diff.replace("/compare/diff", "/api/v1/diff");
    let found: Value = serde_json::from_slice(&served.get(&route).body).unwrap();
    assert_eq!(found["counts"]["package-added"], 1, "{found}");
    let home = text_of(&served, "/");
    assert!(
        home.contains("Latest changes") && home.contains("1 package added"),
        "{home}"
    );
    let changes = text_of(&served, "/changes");
    let words = "<p class=\"soft\">1 package added";
    assert!(changes.contains(words), "{changes}");
    let unknown = served.get("/api/v1/diff?from=harbor@0000&to=harbor");
    assert_eq!(unknown.status, 404);
}

#[test]
fn feeds_and_commands_have_the_address_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::small().write_to(folder.path(), Format::JsonLines);
    let source = catalog("small", &format!("file:{}", folder.path().display()));
    let pages = "[pages]\nurl = \"https://almanac.example.com\"\nsources = false\n";
    let mut almanac = Almanac::start(&format!("{source}{pages}"));
    almanac.until("small", "a revision", |status| status["state"] == "serving");
    let address = almanac.program.address("http");
    let get = |path: &str| http::ask(address, "GET", path, &BROWSER, b"").unwrap();
    let home = get("/").text();
    assert!(
        !home.contains(">Version<") && !home.contains("folder"),
        "{home}"
    );
    assert!(
        home.contains("curl -fsS 'https://almanac.example.com/api/v1/catalogs'"),
        "{home}"
    );
    let feed = get("/catalogs/small/changes.atom");
    assert_eq!(feed.status, 200);
    assert!(
        feed.text().contains("\"https://almanac.example.com/"),
        "{}",
        feed.text()
    );
    let feed = get("/catalogs/small/packages/etcd/history.atom");
    assert!(feed.text().contains("package=etcd"), "{}", feed.text());
    let search = get("/opensearch.xml").text();
    assert!(
        search.contains("\"https://almanac.example.com/search?q="),
        "{search}"
    );
    // Almanac is behind a proxy with TLS, so it may ask for a token.
    let set = get("/api/v1/mirror?pick=small/etcd&format=image-set").text();
    assert!(set.contains("almanac.example.com/small:latest"), "{set}");
}

#[test]
fn answers_with_the_address_of_the_request_vary_by_it() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::small().write_to(folder.path(), Format::JsonLines);
    let source = catalog("small", &format!("file:{}", folder.path().display()));
    for (pages, wanted) in [
        ("", true),
        ("[pages]\nurl = \"https://almanac.example.com\"\n", false),
    ] {
        let mut almanac = Almanac::start(&format!("{source}{pages}"));
        almanac.until("small", "a revision", |status| status["state"] == "serving");
        let address = almanac.program.address("http");
        for path in [
            "/",
            "/catalogs/small/changes.atom",
            "/catalogs/small/packages/etcd/history.atom",
            "/opensearch.xml",
            "/api/v1/mirror?pick=small/etcd&format=image-set",
        ] {
            let reply = http::ask(address, "GET", path, &BROWSER, b"").unwrap();
            assert_eq!(reply.status, 200, "{path}");
            let mut vary = reply.headers.iter().filter(|(name, _)| name == "vary");
            let varies = vary.any(|(_, value)| value.contains("Host"));
            assert_eq!(varies, wanted, "{path} {pages}");
        }
    }
}

#[test]
fn a_comparison_is_a_table_and_a_file() {
    let folders = Folders::of("a", &Catalog::one("crane")).catalog("b", &Catalog::one("hook"));
    let served = Served::catalogs(&folders);
    let text = text_of(&served, "/compare");
    for part in ["<td>removed</td>", "<td>added</td>"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let links = attributes(&text, "href");
    let csv = links
        .iter()
        .find(|link| link.ends_with("format=csv"))
        .unwrap();
    let reply = served.get(csv);
    assert_eq!(
        reply.header("content-type"),
        Some("text/csv; charset=utf-8")
    );
    let rows: Vec<String> = reply.text().lines().map(str::to_owned).collect();
    assert_eq!(rows[0], "package,a channel,a version,b channel,b version");
    assert!(
        rows[1].starts_with("crane,") && rows[1].ends_with(",,"),
        "{rows:?}"
    );
    assert!(rows[2].starts_with("hook,,,"), "{rows:?}");
}

#[test]
fn the_reference_has_forms_that_lead_to_its_routes() {
    let served = Served::catalogs(&Folders::of("a", &Catalog::one("crane")));
    let text = text_of(&served, "/api");
    assert!(text.contains("value=\"/api/v1/plan\""), "{text}");
    assert!(text.contains("curl -fsS 'http://127.0.0.1:"), "{text}");
    let form = "/api?route=%2Fcatalogs%2F%7Bcatalog%7D%2Fapi%2Fv1%2Fupdates&catalog=a&package=crane&range=";
    let reply = served.ask("GET", form, &BROWSER);
    assert_eq!(reply.status, 303);
    let location = reply.header("location").unwrap();
    assert_eq!(location, "/catalogs/a/api/v1/updates?package=crane");
    assert_eq!(served.get(location).status, 200);
    let missing = "/api?route=%2Fapi%2Fv1%2Fpackages%2F%7Bpackage%7D";
    assert_eq!(served.ask("GET", missing, &BROWSER).status, 400);
}

#[test]
fn two_versions_are_compared_on_the_page_of_one() {
    let sample = format!("sample=file:{}/deploy/catalog", env!("CARGO_MANIFEST_DIR"));
    let served = Served::start([sample]);
    let page = "/catalogs/sample/packages/ferry-operator/bundles/ferry-operator.v2.1.0";
    let text = text_of(&served, &format!("{page}?with=ferry-operator.v2.0.0"));
    assert!(text.contains("to this version"), "{text}");
    assert!(text.contains("Came from"), "{text}");
    let unknown = served.ask("GET", &format!("{page}?with=nope"), &BROWSER);
    assert_eq!(unknown.status, 404);
}

#[test]
fn changes_are_filtered_by_kind_and_date() {
    let folders = Folders::of("harbor", &Catalog::one("crane"));
    let served = Served::catalogs(&folders);
    let text = text_of(&served, "/changes?kind=head-moved&since=2026-01-31");
    assert!(text.contains("value=\"head-moved\" selected"), "{text}");
    for (path, status) in [
        ("/changes?kind=nope", 400),
        ("/changes?since=yesterday", 400),
        ("/catalogs/harbor/changes?since=2026-01-31T08:00:00Z", 200),
    ] {
        let reply = served.ask("GET", path, &BROWSER);
        assert_eq!(reply.status, status, "{path}");
    }
}

#[test]
fn changes_since_last_week_are_one_link_away() {
    let folders = Folders::of("harbor", &Catalog::one("crane"));
    let served = Served::catalogs(&folders);
    for (path, rest) in [
        ("/changes", ""),
        (
            "/catalogs/harbor/changes?kind=head-moved",
            "kind=head-moved&",
        ),
    ] {
        let text = text_of(&served, path);
        assert!(text.contains("the last 30 updates"), "{text}");
        let own = path.split('?').next().unwrap();
        let begin = format!("{own}?{rest}since=20");
        let links = attributes(&text, "href");
        let links: Vec<&String> = links
            .iter()
            .filter(|link| link.starts_with(&begin))
            .collect();
        assert_eq!(links.len(), 3, "{text}");
        let dated = text_of(&served, links[1]);
        assert!(!dated.contains("the last 30 updates"), "{dated}");
    }
    let wrong = served
        .ask("GET", "/changes?since=yesterday", &BROWSER)
        .text();
    assert!(!wrong.contains("number of a revision"), "{wrong}");
}
