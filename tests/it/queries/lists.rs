//! Lists, their pages and what clients keep of them.

use std::collections::BTreeSet;
use std::io::Read as _;

use serde_json::{Value, json};

use super::{API, ask, each, harbor, refused, served, text};
use crate::support::catalog::Catalog;
use crate::support::http::Reply;
use crate::support::served::{Folders, Served};

#[test]
fn all_packages_are_listed_with_their_channels_and_heads() {
    let served = served();
    let list = ask(&served, "packages");
    assert_eq!(each(&list, "name"), ["buoy", "crane", "winch", "wreck"]);
    assert_eq!(
        (&list["total"], &list["continue"]),
        (&json!(4), &json!(null))
    );
    assert_eq!(
        list["items"][1],
        json!({
            "name": "crane",
            "displayName": "Harbor Crane",
            "summary": "Lifts containers off ships.",
            "defaultChannel": "stable",
            "head": "crane.v1.2.0",
            "version": "1.2.0",
            "channels": [
                {
                    "name": "archive",
                    "head": "shared.v0.9.0",
                    "version": "0.9.0",
                    "entries": 1,
                    "deprecation": "Nobody cranes like that any more.",
                },
                {"name": "fast", "head": "crane.v2.0.0-rc.1", "version": "2.0.0-rc.1", "entries": 1},
                {"name": "stable", "head": "crane.v1.2.0", "version": "1.2.0", "entries": 4},
            ],
            "quarantined": false,
            "icon": {"href": format!("{API}/packages/crane/icon"), "mediaType": "image/svg+xml"},
        })
    );
    assert_eq!(list["items"][2]["deprecation"], "Use a crane.");
}

#[test]
fn lists_come_in_pages_that_lead_to_each_other() {
    let served = served();
    let mut path = format!("{API}/packages?limit=3&fields=name,head");
    let mut found = Vec::new();
    let mut pages = 0;
    loop {
        let reply = served.get(&path);
        let page: Value = serde_json::from_slice(&reply.body).unwrap();
        found.extend(page["items"].as_array().unwrap().clone());
        pages += 1;
        let Some(link) = reply.header("link") else {
            assert_eq!(page["continue"], Value::Null);
            break;
        };
        let (target, relation) = link.split_once("; ").unwrap();
        assert_eq!(relation, "rel=\"next\"");
        let target = target.trim_matches(['<', '>']);
        let token = page["continue"].as_str().unwrap();
        assert!(target.ends_with(token), "{target}");
        path = format!("{API}/packages{target}");
    }
    assert_eq!((found.len(), pages), (4, 2));
    assert_eq!(found[0], json!({"name": "buoy", "head": "buoy.v0.1.0"}));
    assert_eq!(found[3], json!({"name": "wreck"}), "it has no single head");
    // A page is one of its list: as long as one likes, and of no other list.
    let token = ask(&served, "packages?limit=1")["continue"].clone();
    let token = token.as_str().unwrap();
    let rest = ask(&served, &format!("packages?continue={token}&fields=name"));
    assert_eq!(rest["items"].as_array().unwrap().len(), 3);
    let other = refused(&served, &format!("{API}/search?q=a&continue={token}"), 400);
    assert!(text(&other["detail"]).contains("another query"), "{other}");
}

#[test]
fn a_page_of_a_catalog_that_has_changed_is_gone() {
    let folders = Folders::of("harbor", &harbor());
    let mut served = Served::start(folders.sources().into_iter().chain(["--poll=100ms".into()]));
    let token = ask(&served, "packages?limit=1")["continue"].clone();
    let path = format!(
        "{API}/packages?limit=1&continue={}",
        token.as_str().unwrap()
    );
    assert_eq!(served.get(&path).status, 200);
    let before = served.status("harbor")["revision"]["content"].clone();
    folders.replace("harbor", &Catalog::small());
    served.wait_for_status("harbor", |status| status["revision"]["content"] != before);
    let problem = refused(&served, &path, 410);
    assert_eq!(problem["type"], "urn:almanac:problem:expired-continue");
    assert_eq!(each(&ask(&served, "packages"), "name"), ["etcd"]);
    // The words went with the revision that had them.
    assert_eq!(ask(&served, "search?q=crane")["total"], 0);
    assert_eq!(each(&ask(&served, "search?q=etcd"), "name"), ["etcd"]);
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let served = served();
    let path = format!("{API}/packages");
    let plain = served.get(&path);
    let etag = plain.header("etag").unwrap();
    let modified = plain.header("last-modified").unwrap();
    assert_eq!(plain.header("cache-control"), Some("no-cache"));
    let headers = |reply: &Reply| reply.headers.iter().cloned().collect::<BTreeSet<_>>();
    for (name, value, status) in [
        ("If-None-Match", etag, 304),
        ("If-None-Match", "\"other\"", 200),
        ("If-Modified-Since", modified, 304),
        ("If-Match", "\"other\"", 412),
    ] {
        let reply = served.ask("GET", &path, &[(name, value)]);
        assert_eq!(reply.status, status, "{name}: {value}");
        assert_eq!(reply.header("etag"), Some(etag));
        assert_eq!(reply.body.is_empty(), status != 200);
        let head = served.ask("HEAD", &path, &[(name, value)]);
        let lasting = |reply: &Reply| -> BTreeSet<_> {
            headers(reply)
                .into_iter()
                .filter(|(name, _)| name != "date")
                .collect()
        };
        assert_eq!(lasting(&head), lasting(&reply), "{name}: {value}");
        assert!(head.body.is_empty());
    }
    let packed = served.ask("GET", &path, &[("Accept-Encoding", "gzip")]);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_ne!(packed.header("etag"), Some(etag));
    let mut unpacked = Vec::new();
    let mut gzip = flate2::read::GzDecoder::new(&packed.body[..]);
    gzip.read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    // Another answer is another state, a later start is not.
    let other = served.get(&format!("{path}?limit=1"));
    assert_ne!(other.header("etag"), Some(etag));
    let served = served.restart();
    assert_eq!(served.get(&path).header("etag"), Some(etag));
}
