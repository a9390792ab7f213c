//! Addresses that people make by shortening others.

use std::collections::BTreeSet;

use super::assert_sound;
use super::site::{BROWSER, attributes, page, served, text_of};
use crate::support::served::Served;

/// The page that a browser comes to in the end.
fn followed(served: &Served, path: &str) -> String {
    let mut path = path.to_owned();
    for _ in 0..4 {
        let reply = page(served, &path);
        if let Some(location) = reply.header("location") {
            location.clone_into(&mut path);
            continue;
        }
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        let kind = reply.header("content-type");
        assert_eq!(kind, Some("text/html; charset=utf-8"), "{path}");
        return path;
    }
    panic!("{path} leads to no page");
}

#[test]
fn every_shortened_address_of_a_page_leads_to_a_page() {
    let served = served();
    let package = "/catalogs/sample/packages/ferry-operator";
    let hostile = "/catalogs/hostile/packages/hostile";
    let mut linked: BTreeSet<String> = BTreeSet::new();
    for path in [
        "/",
        "/search",
        "/apis",
        "/compare",
        "/problems",
        "/catalogs/hostile",
        package,
        hostile,
        "/catalogs/sample/packages/ferry-operator/versions",
        "/catalogs/hostile/packages/hostile/apis",
    ] {
        linked.extend(attributes(&text_of(&served, path), "href"));
    }
    linked.insert(format!("{package}/bundles/ferry-operator.v2.1.0"));
    linked.insert("/compare/diff?from=sample&to=hostile".to_owned());
    let mut shortened = BTreeSet::new();
    for link in &linked {
        // The API has its own addresses, and files have none below them.
        let path = link.split(['?', '#']).next().unwrap();
        let of_file = path.starts_with("/assets/") || path.contains("/api/v1/");
        if !path.starts_with('/') || of_file {
            continue;
        }
        let mut rest = path;
        while let Some((shorter, _)) = rest.rsplit_once('/').filter(|(rest, _)| !rest.is_empty()) {
            shortened.insert(shorter.to_owned());
            rest = shorter;
        }
    }
    for path in [
        "/catalogs",
        "/packages",
        "/compare",
        "/catalogs/hostile/packages",
        "/catalogs/sample/packages/ferry-operator/bundles",
        "/apis/g",
    ] {
        assert!(shortened.contains(path), "{path}: {shortened:?}");
    }
    for path in &shortened {
        followed(&served, path);
    }
}

#[test]
fn an_address_with_a_usual_word_leads_to_the_page_that_it_means() {
    let served = served();
    let package = "/catalogs/sample/packages/ferry-operator";
    for (path, wanted) in [
        ("/catalogs/", "/catalogs".to_owned()),
        ("/compare/diff", "/compare".to_owned()),
        ("/api/v1", "/api".to_owned()),
        ("/catalogs/sample/api/v1", "/api".to_owned()),
        (
            "/catalogs/sample/search",
            "/search?catalog=sample".to_owned(),
        ),
        (
            &format!("{package}/channels/v1"),
            format!("{package}/versions?channel=v1"),
        ),
        (
            &format!("{package}/versions/2.1.0"),
            format!("{package}/bundles/2.1.0"),
        ),
        (&format!("{package}/plan/"), format!("{package}/updates")),
    ] {
        assert_eq!(followed(&served, path), wanted, "{path}");
    }
    // Programs get the error, and so does a browser whose address has a typing error.
    let path = "/catalogs/sample/packages";
    assert_eq!(page(&served, path).status, 307);
    assert_eq!(page(&served, path).header("vary"), Some("Accept"));
    assert_eq!(served.get(path).status, 404);
    for path in [
        "/catalogs/sample/packages/nope/channels",
        "/catalogs/sample/packages/ferry-operator/channels/nope/more",
        "/catalogs/sample/api/v1/",
    ] {
        assert_eq!(page(&served, path).status, 404, "{path}");
    }
}

#[test]
fn a_version_in_the_place_of_its_bundle_shows_the_bundle() {
    let served = served();
    let base = "/catalogs/sample/packages/ferry-operator/bundles";
    let text = text_of(&served, &format!("{base}/2.1.0"));
    assert!(
        text.contains("<title>ferry-operator.v2.1.0 in sample"),
        "{text}"
    );
    let path = format!("{base}/ferry-operator.v2.1.1+build");
    let reply = page(&served, &path);
    assert_eq!(reply.status, 404);
    let text = reply.text();
    assert_sound(&path, &text);
    assert!(
        text.contains("<span aria-current=\"page\">ferry-operator.v2.1.1+build</span>"),
        "{text}"
    );
}

#[test]
fn the_catalogs_are_a_page_for_browsers_and_a_list_for_programs_at_each_address() {
    let served = served();
    let home = text_of(&served, "/");
    assert!(home.contains("href=\"/api/v1/catalogs\""), "{home}");
    assert!(text_of(&served, "/catalogs").contains("<h1>Catalogs</h1>"));
    let json = served.get("/catalogs");
    let of_browser = served.ask("GET", "/api/v1/catalogs", &BROWSER);
    assert_eq!(json.header("content-type"), Some("application/json"));
    assert_eq!(of_browser.header("content-type"), Some("application/json"));
    assert_eq!(json.text(), of_browser.text());
}
