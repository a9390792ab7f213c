//! Entity tags, changes and addresses, on catalogs made here.

use std::time::Instant;

use crate::support::catalog::{Catalog, Package, bundle, entry};
use crate::support::program::{PATIENCE, pause};
use crate::support::served::{Folders, Served};
use crate::web_pages::site::{BROWSER, TABS, page, text_of};

fn one(version: &str) -> impl FnOnce(Package) -> Package {
    let name = format!("lamp.v{version}");
    move |package| {
        package
            .channel("stable", [entry(&name)])
            .bundle(bundle(&name))
    }
}

fn steady(package: Package) -> Package {
    package
        .channel("stable", [entry("mast.v1.0.0")])
        .bundle(bundle("mast.v1.0.0"))
}

/// Waits until a page shows something.
fn wait_for(served: &Served, path: &str, part: &str) -> String {
    let begin = Instant::now();
    loop {
        let text = text_of(served, path);
        if text.contains(part) {
            return text;
        }
        assert!(begin.elapsed() < PATIENCE, "{path}: no {part}: {text}");
        pause(begin);
    }
}

#[test]
fn a_publication_changes_the_entity_tags_of_its_pages_only() {
    let before = || {
        Catalog::new()
            .package("lamp", one("1.0.0"))
            .package("mast", steady)
    };
    let folders = Folders::of("moving", &before()).catalog("still", &before());
    let served = Served::catalogs(&folders);
    let of = |catalog: &str, package: &str| -> Vec<String> {
        let package = |tab| format!("/catalogs/{catalog}/packages/{package}{tab}");
        let own = ["", "/changes", "/problems"].map(|tab| format!("/catalogs/{catalog}{tab}"));
        let bundle = format!("/catalogs/{catalog}/packages/mast/bundles/mast.v1.0.0");
        TABS.into_iter()
            .map(package)
            .chain(own)
            .chain([bundle])
            .collect()
    };
    let tag = |path: &str| page(&served, path).header("etag").unwrap().to_owned();
    let tags_of =
        |paths: &[String]| -> Vec<String> { paths.iter().map(|path| tag(path)).collect() };
    // Both catalogs have the same packages: the page of one tells the versions of others.
    let (moving, still) = (of("moving", "lamp"), of("still", "mast"));
    let across = [
        "/",
        "/search",
        "/compare?catalog=moving&catalog=still",
        "/packages/lamp",
    ]
    .map(str::to_owned);
    let old = [tags_of(&moving), tags_of(&still), tags_of(&across)];
    for (path, tag) in moving
        .iter()
        .chain(&across)
        .zip(old[0].iter().chain(&old[2]))
    {
        let again = served.ask("GET", path, &[BROWSER[0], ("If-None-Match", tag)]);
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
    folders.replace(
        "moving",
        &Catalog::new()
            .package("lamp", one("1.1.0"))
            .package("mast", steady),
    );
    wait_for(&served, "/catalogs/moving/packages/lamp", "1.1.0");
    for (path, old) in moving.iter().zip(&old[0]).chain(across.iter().zip(&old[2])) {
        assert_ne!(tag(path), *old, "{path}");
    }
    assert_eq!(tags_of(&still), old[1]);
}

#[test]
fn changes_and_their_feed_name_just_what_changed() {
    let gone = |package: Package| package.channel("stable", [entry("gone.v1.0.0")]);
    let before = Catalog::new()
        .package("lamp", one("1.0.0"))
        .package("mast", steady)
        .package("gone", gone);
    let folders = Folders::of("a", &before);
    let served = Served::catalogs(&folders);
    wait_for(&served, "/catalogs/a", "mast");
    folders.replace(
        "a",
        &Catalog::new()
            .package("lamp", one("1.1.0"))
            .package("mast", steady),
    );
    let feed = "/catalogs/a/api/v1/changes.atom";
    for path in ["/catalogs/a/changes", "/changes"] {
        let text = wait_for(&served, path, "package removed");
        let text = text.split("<main").nth(1).unwrap();
        for part in ["gone", "lamp", "1.0.0", "1.1.0"] {
            assert!(text.contains(part), "{path}: {part}: {text}");
        }
        assert!(!text.contains("mast"), "{path}: {text}");
    }
    let feed = served.get(feed).text();
    // What the page tells, programs get as JSON.
    let told = |query: &str| -> serde_json::Value {
        let reply = served.get(&format!("/api/v1/changes{query}"));
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        serde_json::from_slice(&reply.body).unwrap()
    };
    let all = told("");
    assert_eq!(
        (&all["total"], &all["items"][0]["catalog"]),
        (&1.into(), &"a".into()),
        "{all}"
    );
    assert_eq!(
        all["items"][0]["total"],
        all["items"][0]["changes"].as_array().unwrap().len()
    );
    let removed = told("?catalog=a&package=gone&kind=package-removed");
    assert_eq!(
        removed["items"][0]["changes"][0]["package"], "gone",
        "{removed}"
    );
    assert_eq!(told("?package=mast")["total"], 0);
    // Entries and the feed link a page for people.
    let pages: Vec<&str> = feed.split("type=\"text/html\" href=\"").skip(1).collect();
    assert_eq!(pages.len(), 2, "{feed}");
    for page in pages {
        let link = page.split('"').next().unwrap().replace("&amp;", "&");
        let path = &link[link.find("/c").unwrap()..];
        let text = text_of(&served, path);
        assert!(text.contains("gone"), "{path}: {text}");
    }
    for part in ["gone", "lamp.v1.1.0"] {
        assert!(feed.contains(part), "{part}: {feed}");
    }
    assert!(!feed.contains("mast"), "{feed}");
    // What did not change has no history.
    let history = text_of(&served, "/catalogs/a/packages/mast/history");
    assert!(
        !history.contains("lamp") && !history.contains("removed"),
        "{history}"
    );
}

#[test]
fn the_address_of_a_way_shows_the_same_way_again() {
    let names: Vec<String> = (0..12).map(|at| format!("lamp.v1.{at}.0")).collect();
    let entries = names.iter().enumerate().map(|(at, name)| match at {
        0 => entry(name),
        at => entry(name).replaces(&names[at - 1]),
    });
    let catalog = Catalog::new().package("lamp", |package| package.channel("stable", entries));
    let folders = Folders::of("a", &catalog);
    let served = Served::catalogs(&folders);
    let query = "from=lamp.v1.1.0&to=lamp.v1.10.0";
    for tab in ["versions", "updates"] {
        let path = format!("/catalogs/a/packages/lamp/{tab}?{query}");
        let first = text_of(&served, &path);
        assert!(first.contains("9 step"), "{path}: {first}");
        assert_eq!(text_of(&served, &path), first);
    }
    let text = text_of(
        &served,
        &format!("/catalogs/a/packages/lamp/versions?{query}"),
    );
    // Rows of both ends and the fold between them, joined by lines of the way.
    assert!(text.contains("class=\"replaces way\""), "{text}");
    assert_eq!(
        text.matches("<tr class=\"selected way\">").count(),
        2,
        "{text}"
    );
}
