//! One package, channel or bundle, and what is found of them.

use serde_json::{Value, json};

use super::descriptions::description;
use super::{API, ask, each, refused, served, text};

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
