//! Queries over HTTP, as clients use them: what is answered, how it is paged
//! and kept, and what is said of a question that makes no sense.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::http::Reply;
use crate::support::needs::skip_without;
use crate::support::schema;
use crate::support::served::{Folders, Served, start, with};

const API: &str = "/catalogs/harbor/api/v1";

/// Three packages in order and one with two heads. Both `crane` and `winch`
/// have a bundle `shared.v0.9.0`.
fn harbor() -> Catalog {
    let crane = |version: &str| {
        bundle(&format!("crane.v{version}"))
            .provides("lift.example.com", "v1", "CraneCluster")
            .related_image("hook", "example.com/hook:1")
            .csv_metadata(json!({
                "annotations": {
                    "categories": "Logistics, Storage",
                    "description": "Lifts containers off ships.",
                    "repository": "https://example.com/crane",
                },
                "displayName": "Harbor Crane",
                "description": "# Crane\n\nLifts *everything*.",
                "keywords": ["lifting", "überladen"],
                "provider": {"name": "Dockside"},
            }))
    };
    Catalog::new()
        .package("crane", |package| {
            package
                .description("Cranes of a harbor.")
                .icon("image/svg+xml", b"<svg onload=\"alert(1)\"/>")
                .default_channel("stable")
                .channel(
                    "stable",
                    [
                        entry("crane.v1.0.0"),
                        entry("crane.v1.1.0").replaces("crane.v1.0.0"),
                        entry("crane.v1.2.0")
                            .replaces("crane.v1.1.0")
                            .skips(["crane.v1.1.1"])
                            .skip_range(">=1.0.5 <1.2.0"),
                        entry("crane.v1.1.1").replaces("crane.v1.0.0"),
                    ],
                )
                .channel("fast", [entry("crane.v2.0.0-rc.1").skip_range("<2.0.0")])
                .channel("archive", [entry("shared.v0.9.0")])
                .bundle(crane("1.2.0").requires_package("winch", ">=1.0.0"))
                .bundle(crane("1.1.0"))
                .bundle(crane("2.0.0-rc.1"))
                .deprecate_channel("archive", "Nobody cranes like that any more.")
                .deprecate_bundle("crane.v1.1.0", "Drops things.")
        })
        .package("winch", |package| {
            package
                .channel("stable", [entry("shared.v0.9.0")])
                .deprecate("Use a crane.")
                .bundle(bundle("shared.v0.9.0").csv_metadata(json!({
                    "displayName": "Winch",
                    "description": "What a crane hangs on.",
                })))
        })
        .package("buoy", |package| {
            package.channel("stable", [entry("buoy.v0.1.0")])
        })
        .package("wreck", |package| {
            package
                .channel("stable", [entry("wreck.v1.0.0"), entry("wreck.v2.0.0")])
                .bundle(bundle("wreck.v2.0.0").provides("lift.example.com", "v1", "Wreck"))
        })
}

fn served() -> Served {
    Served::catalogs(&Folders::of("harbor", &harbor()))
}

/// The JSON that a path of the catalog is answered with.
fn ask(served: &Served, path: &str) -> Value {
    let reply = served.get(&format!("{API}/{path}"));
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    serde_json::from_slice(&reply.body).unwrap()
}

/// One field of each item.
fn each<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item[field].as_str().unwrap()).collect()
}

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
fn a_package_tells_what_its_head_says() {
    let served = served();
    let package = ask(&served, "packages/crane");
    for (field, wanted) in [
        ("description", json!("# Crane\n\nLifts *everything*.")),
        ("keywords", json!(["lifting", "überladen"])),
        ("provider", json!({"name": "Dockside"})),
        ("categories", json!(["Logistics", "Storage"])),
        ("repository", json!("https://example.com/crane")),
        ("installModes", json!(["AllNamespaces"])),
        ("maturity", json!("alpha")),
        (
            "providedApis",
            json!([{"group": "lift.example.com", "version": "v1", "kind": "CraneCluster"}]),
        ),
    ] {
        assert_eq!(package[field], wanted, "{field}");
    }
    assert_eq!(
        package["channels"][2]["versions"],
        json!(["1.2.0", "1.1.0", "1.0.0", "1.1.1"])
    );
    let some = ask(&served, "packages/crane?fields=version,name");
    assert_eq!(some.to_string(), r#"{"name":"crane","version":"1.2.0"}"#);
    // Every described field may be selected.
    let described = &description(&served)["components"]["schemas"]["Package"]["properties"];
    for field in described.as_object().unwrap().keys() {
        ask(&served, &format!("packages/crane?fields={field}"));
    }
}

#[test]
fn an_icon_is_sent_so_that_nothing_in_it_runs() {
    let served = served();
    let reply = served.get(&format!("{API}/packages/crane/icon"));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.text(), "<svg onload=\"alert(1)\"/>");
    assert_eq!(reply.header("content-type"), Some("image/svg+xml"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    let policy = reply.header("content-security-policy").unwrap();
    assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"));
    let etag = reply.header("etag").unwrap();
    assert!(etag.starts_with('"'), "{etag}");
    let problem = refused(&served, &format!("{API}/packages/winch/icon"), 404);
    assert_eq!(problem["type"], "urn:almanac:problem:no-icon");
}

#[test]
fn a_channel_has_its_entries_in_order() {
    let served = served();
    let channel = ask(&served, "packages/crane/channels/stable");
    assert_eq!(
        channel,
        json!({
            "package": "crane",
            "name": "stable",
            "default": true,
            "head": "crane.v1.2.0",
            "version": "1.2.0",
            "quarantined": false,
            "entries": [
                {
                    "name": "crane.v1.2.0",
                    "version": "1.2.0",
                    "replaces": "crane.v1.1.0",
                    "skips": ["crane.v1.1.1"],
                    "skipRange": ">=1.0.5 <1.2.0",
                },
                {
                    "name": "crane.v1.1.0",
                    "version": "1.1.0",
                    "replaces": "crane.v1.0.0",
                    "deprecation": "Drops things.",
                },
                {"name": "crane.v1.0.0", "version": "1.0.0"},
                {"name": "crane.v1.1.1", "version": "1.1.1", "replaces": "crane.v1.0.0"},
            ],
        })
    );
}

#[test]
fn bundles_of_one_name_are_told_apart_by_their_package() {
    let served = served();
    let list = ask(&served, "bundles/shared.v0.9.0");
    assert_eq!(each(&list, "package"), ["crane", "winch"]);
    let one = ask(&served, "bundles/shared.v0.9.0?package=winch");
    assert_eq!(one["items"][0]["metadata"]["displayName"], "Winch");
    assert_eq!(one["total"], 1);
    let list = ask(&served, "bundles/crane.v1.2.0");
    let bundle = &list["items"][0];
    assert_eq!(
        bundle["channels"],
        json!([{
            "name": "stable",
            "head": true,
            "replaces": "crane.v1.1.0",
            "skips": ["crane.v1.1.1"],
            "skipRange": ">=1.0.5 <1.2.0",
        }])
    );
    assert_eq!(
        bundle["dependencies"],
        json!([{
            "type": "olm.package.required",
            "value": {"packageName": "winch", "versionRange": ">=1.0.0"},
        }])
    );
    assert_eq!(bundle["relatedImages"][0]["image"], "example.com/hook:1");
    let old = ask(&served, "bundles/crane.v1.1.0?fields=deprecation");
    assert_eq!(old["items"], json!([{"deprecation": "Drops things."}]));
}

#[test]
fn providers_are_found_by_what_is_known_of_an_api() {
    let served = served();
    let all = ask(&served, "providers?kind=CraneCluster");
    assert_eq!(
        each(&all, "bundle"),
        ["crane.v2.0.0-rc.1", "crane.v1.2.0", "crane.v1.1.0"]
    );
    assert_eq!(all["items"][1]["defaultChannel"], true);
    for (query, wanted) in [
        ("group=lift.example.com&heads=true", 2),
        ("group=lift.example.com", 4),
        ("group=lift.example.com&version=v2", 0),
        ("kind=CraneCluster&heads=true", 2),
        ("kind=cranecluster", 0),
    ] {
        let found = ask(&served, &format!("providers?{query}"));
        assert_eq!(found["total"], wanted, "{query}");
    }
    let page = ask(&served, "providers?kind=CraneCluster&limit=2");
    let rest = format!(
        "providers?kind=CraneCluster&limit=2&continue={}",
        text(&page["continue"])
    );
    assert_eq!(each(&ask(&served, &rest), "bundle"), ["crane.v1.1.0"]);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn updates_follow_the_rules_of_both_versions_of_olm() {
    let served = served();
    let updates = ask(&served, "updates?package=crane&from=crane.v1.0.0");
    let candidates = |updates: &Value| -> Vec<String> {
        let all = updates["candidates"].as_array().unwrap().iter();
        all.map(|one| format!("{} {}", text(&one["version"]), one["edges"]))
            .collect()
    };
    assert_eq!(
        candidates(&updates),
        [
            "2.0.0-rc.1 [\"skipRange\"]",
            "1.1.1 [\"replaces\"]",
            "1.0.0 [\"installed\"]",
            // Deprecated.
            "1.1.0 [\"replaces\"]",
        ]
    );
    let stable = &updates["paths"][2];
    assert_eq!(stable["channel"], "stable");
    assert_eq!(stable["reachesHead"], true);
    let steps = stable["steps"].as_array().unwrap().iter();
    let steps: Vec<_> = steps.map(|step| text(&step["version"])).collect();
    assert_eq!(steps, ["1.1.0", "1.2.0"]);

    // By a version that the catalog does not have, in one channel and range.
    let updates = ask(
        &served,
        "updates?package=crane&from=1.0.7&channel=stable&range=%3E%3D1.0,+%3C2",
    );
    assert_eq!(candidates(&updates), ["1.2.0 [\"skipRange\"]"]);
    // A `+` that nobody escaped is a blank in a URL.
    let updates = ask(&served, "updates?package=crane&from=1.0.7+1");
    assert_eq!(updates["from"], json!({"version": "1.0.7+1"}));
    let updates = ask(
        &served,
        "updates?package=crane&from=1.0.7&channel=stable&range=%3E%3D1.0,+%3C2",
    );
    assert_eq!(updates["from"], json!({"version": "1.0.7"}));
    assert_eq!(updates["channels"], json!(["stable"]));
    let channels = ask(&served, "updates?package=crane&channel=fast&channel=stable");
    assert_eq!(channels["channels"], json!(["fast", "stable"]));
    assert_eq!(channels["candidates"].as_array().unwrap().len(), 5);
}

#[test]
fn a_search_finds_words_by_their_beginnings_and_the_best_first() {
    let served = served();
    for (query, wanted) in [
        // In the name, then in the description.
        ("crane", &["crane", "winch"][..]),
        ("CRAN", &["crane", "winch"]),
        ("harbor", &["crane"]),
        ("uberl", &["crane"]),
        ("cluster", &["crane"]),
        ("dockside%20lifting", &["crane"]),
        ("crane%20winch", &["winch"]),
        ("nothing-of-that", &[]),
        // Nothing of this is syntax.
        ("crane%22", &["crane", "winch"]),
        ("name:crane", &[]),
        ("crane%20OR%20buoy", &[]),
        ("crane*", &["crane", "winch"]),
        ("%28crane", &["crane", "winch"]),
        ("-crane%20%5E", &["crane", "winch"]),
        ("NEAR%28crane%20winch%29", &[]),
        ("%00crane", &["crane", "winch"]),
        ("%CC%81%F0%9F%A7%80%20crane", &["crane", "winch"]),
        // As some systems write what is a letter with an accent.
        ("cra%CC%82ne", &["crane", "winch"]),
    ] {
        let found = ask(&served, &format!("search?q={query}"));
        assert_eq!(each(&found, "name"), wanted, "{query}");
    }
    let page = ask(&served, "search?q=crane&limit=1&fields=name");
    assert_eq!(page["items"], json!([{"name": "crane"}]));
    assert_eq!(page["total"], 2);
}

#[test]
fn a_package_with_errors_is_there_and_says_so() {
    let served = served();
    let package = ask(&served, "packages/wreck");
    assert_eq!(package["quarantined"], true);
    assert_eq!(package["problems"][0]["code"], "channel-multiple-heads");
    assert_eq!(package["head"], Value::Null);
    let channel = ask(&served, "packages/wreck/channels/stable");
    assert_eq!(
        (&channel["quarantined"], &channel["head"]),
        (&json!(true), &json!(null))
    );
    let names: Vec<_> = channel["entries"].as_array().unwrap().iter().collect();
    assert_eq!(
        names[0]["name"], "wreck.v2.0.0",
        "the highest version first"
    );
    let bundles = ask(&served, "bundles/wreck.v2.0.0");
    assert_eq!(bundles["items"][0]["quarantined"], true);
    let providers = ask(&served, "providers?kind=Wreck");
    assert_eq!(providers["items"][0]["quarantined"], true);
    let updates = ask(&served, "updates?package=wreck&from=1.0.0");
    assert_eq!(updates["quarantined"], true);
    assert_eq!(updates["paths"], json!([]), "OLM v0 does not see it");
    assert_eq!(each(&ask(&served, "search?q=wreck"), "name"), ["wreck"]);
}

/// The problem that a path is answered with.
fn refused(served: &Served, path: &str, status: u16) -> Value {
    let reply = served.get(path);
    assert_eq!(reply.status, status, "{path}: {}", reply.text());
    let problem: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(problem["status"], status, "{path}");
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    problem
}

/// Questions that make no sense: path, status, the end of the type, what the
/// message says.
const SENSELESS: &[(&str, u16, &str, &str)] = &[
    (
        "packages/crone",
        404,
        "unknown-package",
        "did you mean \"crane\"?",
    ),
    ("packages/x", 404, "unknown-package", "there are \"buoy\""),
    (
        "packages/crane/channels/stabel",
        404,
        "unknown-channel",
        "did you mean \"stable\"?",
    ),
    (
        "packages/crane/channels/x",
        404,
        "unknown-channel",
        "\"archive\", \"fast\"",
    ),
    (
        "bundles/crane.v1.2.1",
        404,
        "unknown-bundle",
        "crane.v1.2.0",
    ),
    (
        "bundles/shared.v0.9.0?package=buoy",
        404,
        "unknown-bundle",
        "",
    ),
    (
        "bundles/shared.v0.9.0?package=boy",
        404,
        "unknown-package",
        "buoy",
    ),
    (
        "updates?package=crane&from=crane.v7",
        404,
        "unknown-bundle",
        "",
    ),
    (
        "updates?package=crane&channel=x",
        404,
        "unknown-channel",
        "stable",
    ),
    ("updates", 400, "missing-parameter", "package"),
    (
        "updates?package=crane&range=%3E%3E1",
        400,
        "invalid-parameter",
        ">=1.2.0",
    ),
    (
        "updates?package=crane&limit=1",
        400,
        "unknown-parameter",
        "package, from",
    ),
    ("providers", 400, "missing-parameter", "\"kind\""),
    ("providers?version=v1", 400, "missing-parameter", "\"kind\""),
    (
        "providers?kind=a&heads=yes",
        400,
        "invalid-parameter",
        "true or false",
    ),
    (
        "providers?kind=a&by=bundle",
        400,
        "invalid-parameter",
        "entry or package",
    ),
    ("search", 400, "missing-parameter", "\"q\""),
    ("search?q=%20--", 400, "invalid-parameter", "letter"),
    (
        "search?q=a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q",
        400,
        "invalid-parameter",
        "16 words",
    ),
    (
        "packages?limit=0",
        400,
        "invalid-parameter",
        "from 1 to 500",
    ),
    (
        "packages?limit=501",
        400,
        "invalid-parameter",
        "from 1 to 500",
    ),
    (
        "packages?limit=1e1",
        400,
        "invalid-parameter",
        "from 1 to 500",
    ),
    ("packages?limit=1&limit=1", 400, "invalid-parameter", "once"),
    ("packages?continue=x", 400, "invalid-parameter", "token"),
    (
        "packages?lmit=1",
        400,
        "unknown-parameter",
        "did you mean \"limit\"?",
    ),
    (
        "packages?fields=nme",
        400,
        "invalid-parameter",
        "did you mean \"name\"?",
    ),
    ("packages/crane?limit=1", 400, "unknown-parameter", "fields"),
    ("packages/crane/icon?a=b", 400, "unknown-parameter", "none"),
    ("packages?limit=%zz", 400, "invalid-parameter", "escapes"),
    ("packages/%ff", 400, "invalid-path", "UTF-8"),
];

#[test]
fn a_question_that_makes_no_sense_is_told_what_to_change() {
    let served = served();
    for &(path, status, kind, says) in SENSELESS {
        let problem = refused(&served, &format!("{API}/{path}"), status);
        let wanted = format!("urn:almanac:problem:{kind}");
        assert_eq!(problem["type"], wanted, "{path}");
        let detail = text(&problem["detail"]);
        assert!(detail.contains(says), "{path}: {detail}");
    }
    for (path, status, kind) in [
        ("/catalogs/harbour/api/v1/packages", 404, "unknown-catalog"),
        (
            "/catalogs/No_Such/api/v1/packages",
            400,
            "invalid-catalog-name",
        ),
        // The question is looked at before the catalog.
        (
            "/catalogs/nope/api/v1/packages?x=1",
            400,
            "unknown-parameter",
        ),
    ] {
        let problem = refused(&served, path, status);
        assert_eq!(problem["type"], format!("urn:almanac:problem:{kind}"));
    }
    let problem = refused(&served, &format!("{API}/packages/crone"), 404);
    assert_eq!(problem["suggestions"], json!(["crane"]));
    for method in ["POST", "DELETE", "OPTIONS"] {
        let reply = served.ask(method, &format!("{API}/packages"), &[]);
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, Some("GET, HEAD"))
        );
    }
}

#[test]
fn a_catalog_that_was_never_loaded_asks_to_come_again() {
    let mut served = Served::begin(with(start(), ["harbor=file:/nowhere/at/all"]));
    served.program.wait_until_ready();
    let path = format!("{API}/search?q=a");
    let problem = refused(&served, &path, 503);
    assert_eq!(problem["type"], "urn:almanac:problem:not-loaded");
    assert_eq!(served.get(&path).header("retry-after"), Some("5"));
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

fn description(served: &Served) -> Value {
    serde_json::from_slice(&served.get("/openapi.json").body).unwrap()
}

/// The routes of the API, with `{}` for what is variable: the first argument of `api!`,
/// a literal or a constant. Pages for people are no part of the API.
fn routes() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/http");
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap();
    let text = read("routes.rs");
    let (api, _) = text.split_once("/// Pages for people.").unwrap();
    let constants = ["catalogd/content.rs", "catalogd/graphql/mod.rs"].map(read);
    let constants = constants.concat();
    let behind = |sign: &'static str| api.split(sign).skip(1);
    let found = behind("        api!(").chain(behind("            path: "));
    let routes = found.filter(|rest| !rest.starts_with('$')).map(|rest| {
        let name = rest.split(',').next().unwrap();
        let constant = format!("const {name}: &str = ");
        let value = constants.split_once(&constant);
        let value = value.map_or(rest, |(_, value)| value);
        anonymous(value.split('"').nth(1).unwrap())
    });
    routes.collect()
}

fn anonymous(path: &str) -> String {
    let part = |part: &str| {
        if part.starts_with('{') {
            "{}".into()
        } else {
            part.to_owned()
        }
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[test]
fn every_route_is_described_and_every_description_has_a_route() {
    let served = served();
    let description = description(&served);
    let described = description["paths"].as_object().unwrap().keys();
    let described: BTreeSet<String> = described.map(|path| anonymous(path)).collect();
    let routed = routes();
    assert!(routed.len() > 30, "{routed:?}");
    let undescribed: Vec<_> = routed.difference(&described).collect();
    assert!(undescribed.is_empty(), "{undescribed:?}");
    let missing: Vec<_> = described.difference(&routed).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The document is made from operations and types, so a change of one of them shows here.
#[test]
fn a_change_of_the_description_is_seen() {
    let reply = served().get("/openapi.json");
    let text = String::from_utf8(reply.body).unwrap();
    insta::assert_snapshot!("openapi", text);
}

/// Holds an answer against what the description says of its path and status.
fn held(served: &Served, description: &Value, template: &str, path: &str) {
    let reply = served.get(path);
    let operation = &description["paths"][template]["get"];
    let mut response = &operation["responses"][reply.status.to_string()];
    if let Some(target) = response["$ref"].as_str() {
        response = description.pointer(target.trim_start_matches('#')).unwrap();
    }
    assert!(
        response.is_object(),
        "{path}: {} is not described",
        reply.status
    );
    let kind = reply.header("content-type").unwrap();
    let content = &response["content"][kind];
    assert!(content.is_object(), "{path}: {kind} is not described");
    let value: Value = serde_json::from_slice(&reply.body).unwrap();
    let whole = !path.contains("fields=");
    let found = schema::check(description, &content["schema"], &value, whole);
    assert!(found.is_empty(), "{path}: {found:#?}\n{value:#}");
}

#[test]
fn answers_are_as_they_are_described() {
    let folders = Folders::of("harbor", &harbor());
    let sample = format!("sample=file:{}/deploy/catalog", env!("CARGO_MANIFEST_DIR"));
    let served = Served::start(folders.sources().into_iter().chain([sample]));
    let description = description(&served);
    let base = "/catalogs/{catalog}/api/v1";
    for catalog in ["harbor", "sample"] {
        let packages = served.get(&format!("/catalogs/{catalog}/api/v1/packages"));
        let packages: Value = serde_json::from_slice(&packages.body).unwrap();
        let held = |template: &str, path: &str| {
            let path = format!("/catalogs/{catalog}/api/v1{path}");
            held(&served, &description, &format!("{base}{template}"), &path);
        };
        for query in ["", "?limit=1", "?fields=icon", "?limit=x"] {
            held("/packages", &format!("/packages{query}"));
        }
        held("/search", "/search?q=e");
        held("/search", "/search?q=crana");
        held("/search", "/search");
        held("/providers", "/providers?kind=CraneCluster&by=package");
        held("/providers", "/providers?kind=cranecluster");
        held("/updates", "/updates?package=crane&from=1.1.5");
        held("/plan", "/plan?package=crane&from=1.1.5");
        held("/plan", "/plan?package=ferry-operator&from=2.0.0&rules=v1");
        held("/plan", "/plan?package=ferry-operator");
        for package in ["crane", "ferry-operator", "nope"] {
            for tab in ["dependencies", "examples", "install", "lifecycle"] {
                let template = format!("/packages/{{package}}/{tab}");
                held(&template, &format!("/packages/{package}/{tab}"));
                held(&template, &format!("/packages/{package}/{tab}?version=x"));
                held(&template, &format!("/packages/{package}/{tab}?bogus=1"));
            }
        }
        held("/dependents", "/dependents?package=ferry-operator");
        held("/dependents", "/dependents?package=crane&limit=1");
        held("/dependents", "/dependents");
        held("/providers", "/providers?kind=CraneCluster");
        held(
            "/providers",
            "/providers?group=ferry.example.com&fields=api",
        );
        held("/bundles/{bundle}", "/bundles/nope");
        held("/images", "/images");
        held("/images", "/images?heads=true&dependencies=true");
        held("/images", "/images?package=nope");
        held("/images", "/images?min=x");
        for package in packages["items"].as_array().unwrap() {
            let name = text(&package["name"]);
            held("/packages/{package}", &format!("/packages/{name}"));
            held(
                "/packages/{package}",
                &format!("/packages/{name}?fields=problems"),
            );
            held("/updates", &format!("/updates?package={name}"));
            for query in ["", "?limit=1", "?fields=name,head", "?channel=nope"] {
                let path = format!("/packages/{name}/channels{query}");
                held("/packages/{package}/channels", &path);
            }
            for channel in package["channels"].as_array().unwrap() {
                let channel = text(&channel["name"]);
                let path = format!("/packages/{name}/channels/{channel}");
                held("/packages/{package}/channels/{channel}", &path);
                let entries = served.get(&format!("/catalogs/{catalog}/api/v1{path}"));
                let entries: Value = serde_json::from_slice(&entries.body).unwrap();
                for entry in entries["entries"].as_array().unwrap() {
                    let entry = text(&entry["name"]);
                    held("/bundles/{bundle}", &format!("/bundles/{entry}"));
                    held("/updates", &format!("/updates?package={name}&from={entry}"));
                }
            }
        }
    }
}

#[test]
fn answers_over_all_catalogs_are_as_they_are_described() {
    let folders = Folders::of("harbor", &harbor());
    let sample = format!("sample=file:{}/deploy/catalog", env!("CARGO_MANIFEST_DIR"));
    let later = "later=file:/nowhere/at/all".to_owned();
    let served = Served::start(folders.sources().into_iter().chain([sample, later]));
    let description = description(&served);
    for (template, query) in [
        ("/", ""),
        ("/catalogs", ""),
        ("/api/v1/catalogs", ""),
        ("/catalogs", "?limit=1"),
        ("/catalogs", "?fields=state"),
        ("/catalogs", "?x"),
        ("/catalogs/{catalog}", "/harbor"),
        ("/catalogs/{catalog}", "/later"),
        ("/catalogs/{catalog}", "/nope"),
        ("/api/v1/facets", ""),
        (
            "/api/v1/facets",
            "?q=e&mode=AllNamespaces&mode=OwnNamespace",
        ),
        ("/api/v1/facets", "?fields=total"),
        ("/api/v1/facets", "?sort=name"),
        (
            "/api/v1/plan",
            "?package=crane&from=1.1.5&catalog=harbor&catalog=sample",
        ),
        ("/api/v1/plan", "?package=crane&from=1.1.5"),
        (
            "/api/v1/packages/{package}",
            "/crane?installed=1.1.5&min=1.0.0",
        ),
        ("/api/v1/packages/{package}", "/crane?installed=abc"),
        ("/api/v1/packages/{package}", "/crane?min=abc"),
        (
            "/api/v1/packages/{package}",
            "/crane?installed=1.0.0&fields=installed",
        ),
        ("/api/v1/kinds", "?q=cranecluser"),
        ("/api/v1/compare", ""),
        ("/api/v1/problems", ""),
        ("/api/v1/problems", "?severity=error&catalog=harbor"),
        ("/api/v1/problems", "?severity=bad"),
        ("/api/v1/problems", "?catalog=nope"),
        ("/api/v1/kinds", ""),
        ("/api/v1/kinds", "?q=crane&limit=1"),
        ("/api/v1/compare", "?show=all&catalog=harbor&catalog=sample"),
        ("/api/v1/compare", "?catalog=nope"),
        ("/api/v1/compare", "?format=xml"),
        ("/api/v1/diff", "?from=harbor&to=later"),
        ("/api/v1/diff", "?from=harbor"),
        ("/api/v1/mirror", "?pick=sample/ferry-operator"),
        (
            "/api/v1/mirror",
            "?pick=sample/ferry-operator/v2@2.0.0..&dependencies=true",
        ),
        ("/api/v1/mirror", "?pick=nonsense"),
        ("/api/v1/mirror", "?pick=harbor/nope"),
        ("/api/v1/mirror", ""),
        ("/api/v1/plan", "?package=nope&from=1.1.5&catalog=harbor"),
        ("/api/v1/search", "?q=e"),
        ("/api/v1/search", "?q=crana"),
        ("/api/v1/search", "?q=e&fields=catalog,name"),
        ("/api/v1/search", ""),
        ("/api/v1/providers", "?kind=CraneCluster"),
        ("/api/v1/providers", "?kind=CraneCluster&by=package"),
        ("/api/v1/providers", "?kind=Crane"),
        ("/api/v1/providers", ""),
        ("/api/v1/packages/{package}", "/crane"),
        ("/api/v1/packages/{package}", "/crane?fields=channels"),
        ("/api/v1/packages/{package}", "/nope"),
    ] {
        let path = template.split("/{").next().unwrap();
        held(&served, &description, template, &format!("{path}{query}"));
    }
}

/// schemathesis makes up questions from the description, good ones and bad
/// ones, and holds the answers against it.
#[test]
fn schemathesis_finds_nothing() {
    if skip_without("schemathesis") {
        return;
    }
    let sample = format!(
        "community=file:{}/deploy/catalog",
        env!("CARGO_MANIFEST_DIR")
    );
    let served = Served::start([sample]);
    // A text of the right type may still be no range and no token, and is
    // refused then all the same.
    let queries = "positive_data_acceptance";
    // These answer other methods as their peer does: without `Allow`.
    let of_peer = "positive_data_acceptance,unsupported_method,allow_header_conformance";
    // A query of GraphQL's that makes no sense is answered with 200.
    let graphql = &format!("{of_peer},negative_data_rejection");
    for (which, paths, left_out) in [
        ("--exclude-path-regex", "/(all|metas|graphql)$", queries),
        ("--include-path-regex", "/(all|metas)$", of_peer),
        ("--include-path-regex", "/graphql$", graphql),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new("schemathesis")
            .current_dir(folder.path())
            .args(["run", "--url", &format!("http://{}", served.http)])
            .args([
                "--phases",
                "examples,coverage,fuzzing",
                "--max-examples",
                "25",
            ])
            .args(["--checks", "all", "--exclude-checks", left_out])
            .args([which, paths, "--seed", "1", "--no-color"])
            .args(["--continue-on-failure", "--suppress-health-check", "all"])
            .args(["--request-timeout", "20"])
            .arg(format!("http://{}/openapi.json", served.http))
            .env("NO_PROXY", "*")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{complained}");
    }
}
