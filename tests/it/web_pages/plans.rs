//! Plans over several catalogs.

use serde_json::{Value, json};

use super::site::text_of;
use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::served::{Folders, Served};

/// A package whose versions each replace the one before; the first replaces `tail`.
fn crane(versions: &[&str], tail: &str) -> Catalog {
    Catalog::new().package("crane", |mut package| {
        let mut before = tail.to_owned();
        let mut entries = Vec::new();
        for version in versions {
            let name = format!("crane.v{version}");
            let own = entry(&name);
            entries.push(if before.is_empty() {
                own
            } else {
                own.replaces(&before)
            });
            package = package.bundle(bundle(&name));
            before = name;
        }
        package.channel("stable", entries)
    })
}

fn served() -> Served {
    let folders = Folders::of("v1", &crane(&["1.0.0", "1.1.0", "1.2.0", "1.3.0"], ""))
        .catalog("v2", &crane(&["1.3.0", "2.0.0"], "crane.v1.2.0"))
        .catalog("v3", &crane(&["5.0.0"], ""));
    Served::catalogs(&folders)
}

#[test]
fn a_plan_over_catalogs_tells_what_to_be_at_before_each() {
    let served = served();
    let route = "/api/v1/plan?package=crane&from=1.0.0";
    let reply = served.get(&format!("{route}&catalog=v1&catalog=v2"));
    let found: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(found["reached"], true, "{found}");
    let stages = found["stages"].as_array().unwrap();
    let to = |at: usize| -> Vec<&str> {
        let steps = stages[at]["steps"].as_array().unwrap();
        steps
            .iter()
            .filter_map(|step| step["to"].as_str())
            .collect()
    };
    assert_eq!(to(0), ["crane.v1.1.0", "crane.v1.2.0"], "{found}");
    assert_eq!(stages[1]["taken"], "edge");
    assert_eq!(to(1), ["crane.v1.3.0", "crane.v2.0.0"], "{found}");
    let page = "/catalogs/v1/packages/crane/updates?from=1.0.0&via=v2";
    let text = text_of(&served, page);
    for part in [
        "Over catalogs: v1 → v2",
        "be at ≥ <a href=\"/catalogs/v1/packages/crane/bundles/crane.v1.2.0\">1.2.0</a> before v2",
        "takes it by an edge",
        "catalog=v1&amp;catalog=v2",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_catalog_that_takes_an_installed_version_tells_by_which_edge() {
    let served = served();
    let path = "/packages/crane?installed=crane.v1.2.0";
    let text = text_of(&served, path);
    assert!(text.contains(">takes it by replaces<"), "{text}");
    let reply = served.get(&format!("/api/v1{path}"));
    let found: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(
        found["items"][1]["installed"]["update"],
        json!({"name": "crane.v1.3.0", "version": "1.3.0", "edges": ["replaces"]}),
        "{found}"
    );
}

#[test]
fn a_shorter_way_through_another_channel_is_named() {
    let long = ["1.0.0", "1.1.0", "1.2.0", "1.3.0"].map(|version| format!("crane.v{version}"));
    let catalog = Catalog::new().package("crane", |mut package| {
        let mut entries = vec![entry(&long[0])];
        entries.extend(
            long.windows(2)
                .map(|pair| entry(&pair[1]).replaces(&pair[0])),
        );
        for name in &long {
            package = package.bundle(bundle(name));
        }
        package
            .default_channel("stable")
            .channel("stable", entries)
            .channel(
                "fast",
                [entry(&long[0]), entry(&long[2]).replaces(&long[0])],
            )
    });
    let served = Served::catalogs(&Folders::of("harbor", &catalog));
    let page = "/catalogs/harbor/packages/crane/updates?from=1.0.0";
    let text = text_of(&served, page);
    assert!(text.contains("stable: 3 steps, reaches the head"), "{text}");
    assert!(text.contains("Another way: "), "{text}");
    assert!(
        text.contains("to=crane.v1.3.0&amp;channel=stable\">2 steps</a>"),
        "{text}"
    );
    let from_last = text_of(
        &served,
        "/catalogs/harbor/packages/crane/updates?from=1.2.0",
    );
    assert!(!from_last.contains("Another way"), "{from_last}");
}

#[test]
fn a_plan_over_catalogs_ends_where_no_edge_goes_on() {
    let served = served();
    let path = "/api/v1/plan?package=crane&from=1.3.0&catalog=v2&catalog=v3&rules=v1";
    let found: Value = serde_json::from_slice(&served.get(path).body).unwrap();
    assert_eq!(found["reached"], false, "{found}");
    assert_eq!(found["stages"][1]["taken"], json!("no"));
    let text = text_of(
        &served,
        "/catalogs/v2/packages/crane/updates?from=1.3.0&via=v3",
    );
    assert!(
        text.contains("The way ends before the last catalog"),
        "{text}"
    );
    for (path, status) in [
        ("/api/v1/plan?package=crane&from=1.3.0", 400),
        ("/api/v1/plan?package=crane&from=1.3.0&catalog=nope", 404),
        ("/api/v1/plan?package=nope&from=1.3.0&catalog=v1", 404),
        ("/api/v1/plan?package=crane&from=9.9.x&catalog=v1", 404),
        (
            "/api/v1/plan?package=crane&from=1.3.0&catalog=v1&channel=nope",
            404,
        ),
    ] {
        assert_eq!(served.get(path).status, status, "{path}");
    }
}

#[test]
fn a_plan_begins_in_a_channel_that_has_the_version_and_names_the_default_one() {
    let served = super::site::served();
    let page = "/catalogs/sample/packages/ferry-operator/updates?from=1.4.0";
    let text = text_of(&served, page);
    for part in [
        "v1: 1 step, reaches the head",
        "<code>ferry-operator.v2.1.0</code>, the head of the default channel: ",
        "to=ferry-operator.v2.1.0&amp;channel=v1\">2 steps</a>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The way is drawn across both channels, too.
    let page = "/catalogs/sample/packages/ferry-operator/versions?from=ferry-operator.v1.4.0&to=ferry-operator.v2.1.0";
    let text = text_of(&served, page);
    for part in ["class=\"change way\"", "class=\"jump way\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let svg = text_of(&served, &page.replace("/versions?", "/graph.svg?"));
    assert!(svg.contains("class=\"change way\""), "{svg}");
    let mermaid = text_of(&served, &page.replace("/versions?", "/graph.mmd?"));
    assert!(mermaid.contains("== skipRange ==>"), "{mermaid}");
}

#[test]
fn no_way_of_olm_v0_leads_through_a_package_that_is_left_out() {
    let [one, two] = ["crane.v1.0.0", "crane.v2.0.0"];
    let broken = Catalog::new().package("crane", |package| {
        package
            .default_channel("beta")
            .channel("beta", [entry(one), entry(two).replaces(one)])
            .channel(
                "cycle",
                [entry(one).replaces(two), entry(two).replaces(one)],
            )
    });
    let folders = Folders::of("old", &crane(&["1.0.0"], "")).catalog("new", &broken);
    let served = Served::catalogs(&folders);
    let found = |path: &str| -> Value { serde_json::from_slice(&served.get(path).body).unwrap() };
    for (query, steps) in [("", 0), ("&to=2.0.0", 0), ("&rules=v1", 1)] {
        let path = format!("/catalogs/new/api/v1/plan?package=crane&from=1.0.0{query}");
        let plan = found(&path);
        assert_eq!(plan["quarantined"], true, "{plan}");
        assert_eq!(plan["reached"], steps == 1, "{query}: {plan}");
        assert_eq!(plan["steps"].as_array().unwrap().len(), steps, "{plan}");
    }
    let text = text_of(&served, "/catalogs/new/packages/crane/updates?from=1.0.0");
    assert!(text.contains("No way under OLM v0"), "{text}");
    assert!(!text.contains("reaches the head"), "{text}");
    let over = "/api/v1/plan?package=crane&from=1.0.0&catalog=old&catalog=new";
    assert_eq!(found(over)["stages"][1]["taken"], "noPackage");
    let over = format!("{over}&rules=v1");
    assert_eq!(found(&over)["stages"][1]["taken"], "entry");
}
