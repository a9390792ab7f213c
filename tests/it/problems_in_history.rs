//! Problems that belong to files, and equal content without them, in the history.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::catalog::{Catalog, entry};
use crate::support::program::{PATIENCE, pause};
use crate::support::served::{Folders, Served};

/// A package whose channel has no bundle.
const BROKEN: &str = r#"{"schema": "olm.package", "name": "broken", "defaultChannel": "stable"}

{"schema": "olm.channel", "package": "broken", "name": "stable",
 "entries": [{"name": "broken.v1.0.0"}]}
"#;

/// A catalog that ends with a document of this number.
fn numbered(number: u32) -> Catalog {
    let catalog = Catalog::new().package("etcd", |package| {
        package.channel("stable", [entry("etcd.v1.0.0")])
    });
    catalog.blob(serde_json::json!({"schema": "custom", "number": number}))
}

/// Waits until the history of a catalog has so many revisions, and gives the kinds and codes
/// of the last changes.
fn until(served: &Served, catalog: &str, count: usize) -> Vec<String> {
    let begin = std::time::Instant::now();
    loop {
        let told = get(served, catalog, "revisions");
        if told["total"] == count && told["items"][0]["served"] == true {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{told:#}");
        pause(begin);
    }
    let told = changes(served, catalog, "");
    let listed = &get(served, catalog, "revisions")["items"][0]["changes"];
    if count > 1 {
        assert_eq!(*listed, told.len(), "{told:?}");
    }
    told
}

fn changes(served: &Served, catalog: &str, query: &str) -> Vec<String> {
    let told = get(served, catalog, &format!("changes{query}"));
    let told = told["changes"].as_array().unwrap().iter();
    let short = told.map(|change| {
        let text = |key: &str| change[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("kind"), text("code"))
    });
    short.collect()
}

fn get(served: &Served, catalog: &str, path: &str) -> Value {
    let reply = served.get(&format!("/catalogs/{catalog}/api/v1/{path}"));
    serde_json::from_slice(&reply.body).unwrap_or_default()
}

/// An empty document, which is a problem of its file and no part of the content.
fn write_empty(folder: &Path) {
    fs::write(folder.join("empty.yaml"), "---\n# nothing\n").unwrap();
}

#[test]
fn a_problem_of_a_file_is_told_once_and_only_of_its_catalog() {
    let folders = Folders::of("a", &numbered(1)).catalog("b", &numbered(1));
    let served = Served::catalogs(&folders);
    until(&served, "a", 1);
    until(&served, "b", 1);
    write_empty(&folders.path("a"));
    assert_eq!(until(&served, "a", 2), ["problem-found document-empty"]);
    // It has the content that the other one had before.
    fs::write(folders.path("b").join("c.json"), r#"{"schema":"custom"}"#).unwrap();
    assert!(until(&served, "b", 2).is_empty());

    // A page of one revision is no page of the next, though the content is the same.
    let page = get(&served, "a", "revisions?limit=1");
    let token = page["continue"].as_str().unwrap().to_owned();
    fs::remove_file(folders.path("a").join("empty.yaml")).unwrap();
    assert_eq!(until(&served, "a", 3), ["problem-solved document-empty"]);
    let path = format!("/catalogs/a/api/v1/revisions?limit=1&continue={token}");
    assert_eq!(served.get(&path).status, 410);
    let revisions = get(&served, "a", "revisions");
    let first = revisions["items"][2]["revision"].as_str().unwrap();
    assert!(changes(&served, "a", &format!("?from={first}")).is_empty());
}

/// A repair makes the outline again of the content.
#[test]
fn a_repair_forgets_no_problem_of_a_file() {
    let folders = Folders::of("a", &numbered(1));
    write_empty(&folders.path("a"));
    fs::write(folders.path("a").join("broken.json"), BROKEN).unwrap();
    let mut served = Served::catalogs(&folders);
    until(&served, "a", 1);
    let broken = get(&served, "a", "packages/broken");
    assert!(broken.to_string().contains("broken.json"), "{broken}");
    served.program.terminate();
    assert!(served.program.wait(PATIENCE).success());
    let revisions = fs::read_dir(served.program.data().join("revisions")).unwrap();
    for revision in revisions {
        let path = revision.unwrap().path().join("messages.pb");
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let mut served = served.start_again();
    served.wait_for_status("a", |status| status["damage"]["repair"] == "done");
    // Positions in the files of the source are not in what a repair reads.
    assert_eq!(get(&served, "a", "packages/broken"), broken);
    fs::write(folders.path("a").join("c.json"), r#"{"schema":"custom"}"#).unwrap();
    assert!(until(&served, "a", 2).is_empty());
}

/// A package that rarely changes in a catalog that often does.
#[test]
fn a_feed_has_changes_behind_many_updates_without_any() {
    let folders = Folders::of("a", &Catalog::one("lamp"));
    let served = Served::catalogs(&folders);
    until(&served, "a", 1);
    folders.replace("a", &numbered(0));
    let mut count = 2;
    assert!(!until(&served, "a", count).is_empty());
    for number in 1..=52 {
        folders.replace("a", &numbered(number));
        count += 1;
        assert!(until(&served, "a", count).is_empty());
    }
    let feed = |query: &str| {
        let reply = served.get(&format!("/catalogs/a/api/v1/changes.atom{query}"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.text().matches("<entry>").count()
    };
    for query in ["", "?package=etcd", "?package=lamp"] {
        assert_eq!(feed(query), 1, "{query}");
    }
    let reply = served.get("/api/v1/changes");
    let told: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(told["total"], 1, "{told}");
}
