//! A page and its JSON have the same content, refuse the same, and propose the same.

use serde_json::{Value, json};

use super::assert_sound;
use super::site::{attributes, json_of, page, served, text_of};
use crate::support::catalog::{Catalog, entry};
use crate::support::served::{Folders, Served, source};

/// The address behind "as JSON".
fn twin(text: &str) -> String {
    let before = text.split("\">as JSON</a>").next().unwrap();
    let link = before.rsplit("href=\"").next().unwrap();
    link.replace("&amp;", "&")
}

fn names(list: &Value) -> Vec<&str> {
    let items = list.as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn the_json_of_a_package_in_all_catalogs_has_its_installed_version_and_its_heads() {
    let served = served();
    let text = text_of(
        &served,
        "/packages/ferry-operator?installed=2.0.0&min=2.0.0",
    );
    let path = twin(&text);
    assert_eq!(
        path,
        "/api/v1/packages/ferry-operator?installed=2.0.0&min=2.0.0"
    );
    let found = json_of(&served, &path);
    let item = &found["items"][0];
    assert_eq!(names(&item["channels"]), ["v2"], "{found}");
    assert_eq!(item["installed"]["here"], true, "{found}");
    let next = item["installed"]["update"]["version"].as_str().unwrap();
    assert!(text.contains(&format!(">{next}</a>")), "{next}: {text}");
    assert_eq!(found["hint"], Value::Null);
    // Without either, the record is as it was stored.
    let whole = json_of(&served, "/api/v1/packages/ferry-operator");
    assert_eq!(names(&whole["items"][0]["channels"]), ["v1", "v2"]);
    assert_eq!(whole["items"][0]["installed"], Value::Null);
    let chosen = "/api/v1/packages/ferry-operator?installed=2.1.0&fields=catalog,installed";
    let chosen = json_of(&served, chosen);
    assert_eq!(
        chosen["items"],
        json!([{"catalog": "sample", "installed": {"here": true}}])
    );
}

#[test]
fn an_installed_version_that_no_catalog_has_is_told_with_the_nearest() {
    let served = served();
    let path = "/packages/ferry-operator?installed=9.9.9";
    let text = text_of(&served, path);
    assert!(text.contains("the nearest versions are "), "{text}");
    let found = json_of(&served, &twin(&text));
    let hint = found["hint"].as_str().unwrap();
    for version in found["suggestions"].as_array().unwrap() {
        assert!(hint.contains(version.as_str().unwrap()), "{hint}");
    }
    assert!(!found["suggestions"].as_array().unwrap().is_empty());
    assert_eq!(found["items"][0]["installed"], json!({"here": false}));
    // A name that neither an entry nor an edge has is an error, as for a plan.
    let reply = page(
        &served,
        "/packages/ferry-operator?installed=ferry-operator.v2.0.1",
    );
    assert_eq!(reply.status, 404);
    let links = attributes(&reply.text(), "href");
    let near = "/packages/ferry-operator?installed=ferry-operator.v2.0.0".to_owned();
    assert!(links.contains(&near), "{links:?}");
    let reply = served.get("/api/v1/packages/ferry-operator?installed=abc");
    assert_eq!(reply.status, 404);
    assert!(reply.text().contains("there are "), "{}", reply.text());
}

#[test]
fn the_json_of_versions_has_the_shown_channels() {
    let served = served();
    let base = "/catalogs/sample/packages/ferry-operator/versions";
    for (query, wanted) in [
        ("", vec!["v1", "v2"]),
        ("?channel=v1", vec!["v1"]),
        ("?channel=v2&channel=v1", vec!["v1", "v2"]),
    ] {
        let text = text_of(&served, &format!("{base}{query}"));
        let found = json_of(&served, &twin(&text));
        assert_eq!(names(&found["items"]), wanted, "{query}");
        for channel in found["items"].as_array().unwrap() {
            for entry in channel["entries"].as_array().unwrap() {
                let version = entry["version"].as_str().unwrap();
                assert!(
                    text.contains(&format!(">{version}</a>")),
                    "{query}: {version}"
                );
            }
        }
    }
    let way = format!("{base}?from=ferry-operator.v2.0.0&to=ferry-operator.v2.1.0");
    let text = text_of(&served, &way);
    let links = attributes(&text, "href");
    let plan = links.iter().find(|link| link.contains("/api/v1/plan?"));
    let plan = json_of(&served, plan.unwrap());
    assert_eq!(plan["reached"], true, "{plan}");
    assert_eq!(plan["to"], "ferry-operator.v2.1.0");
    let reply = served.get("/catalogs/sample/api/v1/packages/ferry-operator/channels?channel=v3");
    assert_eq!(reply.status, 404);
    assert!(reply.text().contains("unknown-channel"), "{}", reply.text());
}

#[test]
fn an_unknown_page_of_a_package_has_its_tabs_and_proposals() {
    let served = served();
    let base = "/catalogs/sample/packages/ferry-operator";
    let path = format!("{base}/verions?a=b");
    let reply = page(&served, &path);
    assert_eq!(reply.status, 404);
    let text = reply.text();
    assert_sound(&path, &text);
    assert!(text.contains("There is no page "), "{text}");
    assert!(text.contains("<nav class=\"tabs\""), "{text}");
    let near = text.split("Similar names").nth(1).unwrap();
    let near = &attributes(near, "href")[0];
    assert_eq!(*near, format!("{base}/versions"));
    // A package that is none has neither.
    let reply = page(&served, "/catalogs/sample/packages/nope/verions");
    assert_eq!(reply.status, 404);
    assert!(!reply.text().contains("class=\"tabs\""), "{}", reply.text());
}

#[test]
fn an_address_with_an_item_to_add_still_has_it_in_the_basket() {
    let served = served();
    let text = text_of(
        &served,
        "/mirror?pick=sample/ferry-operator&add=hostile/hostile&to=",
    );
    assert_eq!(
        attributes(&text, "data-plan"),
        ["?pick=sample%2Fferry-operator&pick=hostile%2Fhostile"]
    );
    let reply = page(&served, "/mirror?add=sample/fery-operator");
    assert_eq!(reply.status, 404);
    let text = reply.text();
    assert!(
        text.contains("take sample/ferry-operator instead"),
        "{text}"
    );
}

#[test]
fn a_comparison_refuses_the_same_as_a_page_and_as_json() {
    let served = served();
    for path in ["/compare?show=zzz", "/api/v1/compare?show=zzz"] {
        let reply = page(&served, path);
        assert_eq!(reply.status, 400, "{path}");
        assert!(
            reply.text().contains("differences or all"),
            "{}",
            reply.text()
        );
    }
    assert_eq!(page(&served, "/compare?show=differences").status, 200);
}

#[test]
fn the_json_of_problems_is_that_of_the_package_whatever_its_name_is() {
    let odd = "a b#c";
    let content = Catalog::new().package(odd, |package| {
        let [one, two] = ["a.v1.0.0", "a.v2.0.0"];
        package.channel(
            "stable",
            [entry(one).replaces(two), entry(two).replaces(one)],
        )
    });
    let served = Served::catalogs(&Folders::of("harbor", &content));
    let base = "/catalogs/harbor/packages/a%20b%23c";
    let text = text_of(&served, &format!("{base}/problems"));
    let found = json_of(&served, &twin(&text));
    assert!(!found["problems"].as_array().unwrap().is_empty(), "{found}");
    let several = "/problems?catalog=harbor&catalog=harbor&severity=error";
    let path = twin(&text_of(&served, several));
    assert_eq!(
        path,
        "/api/v1/problems?catalog=harbor&catalog=harbor&severity=error"
    );
}

#[test]
fn a_kind_with_a_typing_error_is_proposed() {
    let served = served();
    let text = text_of(&served, "/apis?q=crosing");
    let links = attributes(&text, "href");
    assert!(links.contains(&"/apis?q=Crossing".to_owned()), "{links:?}");
    let found = json_of(&served, "/api/v1/kinds?q=crosing");
    assert_eq!(found["suggestions"], json!(["Crossing"]));
    assert!(
        found["hint"].as_str().unwrap().contains("crosing"),
        "{found}"
    );
    assert_eq!(found["notLoaded"], json!(["later"]));
}

#[test]
fn an_installation_warns_of_a_package_that_olm_v0_does_not_see() {
    let served = served();
    for (catalog, package, warns) in [
        ("hostile", "broken", true),
        ("sample", "ferry-operator", false),
    ] {
        let path = format!("/catalogs/{catalog}/api/v1/packages/{package}/install");
        let warnings = &json_of(&served, &path)["warnings"];
        let has = warnings.as_array().unwrap().contains(&json!("v0LeavesOut"));
        assert_eq!(has, warns, "{path}: {warnings}");
        let path = format!("/catalogs/{catalog}/packages/{package}/install");
        let text = text_of(&served, &path);
        let has = text.contains("OLM v0 does not see this package");
        assert_eq!(has, warns, "{path}");
    }
}

#[test]
fn pages_of_errors_and_of_graphql_count_the_problems_too() {
    let served = served();
    let counted = |text: &str| {
        let rest = text.split(">Problems (").nth(1).unwrap_or_default();
        rest.split(')').next().unwrap().to_owned()
    };
    let home = counted(&text_of(&served, "/"));
    assert!(home.parse::<usize>().unwrap() > 0, "{home}");
    for (path, status) in [
        ("/nowhere", 404),
        ("/search?sort=colour", 400),
        ("/catalogs/sample/packages/nope", 404),
        ("/catalogs/sample/api/v1/graphql", 200),
    ] {
        let reply = page(&served, path);
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(counted(&reply.text()), home, "{path}");
    }
}

#[test]
fn the_json_of_dependencies_tells_what_fits_and_who_needs_the_package() {
    let served = served();
    for path in [
        "/catalogs/sample/packages/ferry-operator/dependencies",
        "/catalogs/hostile/packages/needy/dependencies",
    ] {
        let text = text_of(&served, path);
        let found = json_of(&served, &twin(&text));
        let needs = found["needs"].as_array().unwrap();
        assert!(!needs.is_empty(), "{path}: {found}");
        for need in needs {
            let name = match need["type"].as_str().unwrap() {
                "package" => &need["package"],
                "api" => &need["api"]["group"],
                other => panic!("{other}"),
            };
            assert!(text.contains(name.as_str().unwrap()), "{path}: {need}");
            for one in need["catalogs"].as_array().unwrap() {
                for word in [&one["version"], &one["reason"]] {
                    let word = word.as_str().unwrap_or_default();
                    assert!(text.contains(word), "{path}: {one}");
                }
            }
        }
    }
    let path = "/catalogs/sample/packages/lantern-operator/dependencies";
    let text = text_of(&served, path);
    let found = json_of(&served, &twin(&text));
    let of_sample = &found["neededBy"][0];
    assert_eq!(of_sample["catalog"], "sample", "{found}");
    assert_eq!(of_sample["packages"][0]["package"], "ferry-operator");
    assert!(text.contains("In sample:"), "{text}");
}

#[test]
fn a_catalog_whose_first_content_was_refused_leads_to_the_reasons() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "x: [\n").unwrap();
    let served = Served::start([source("broken", folder.path())]);
    let text = text_of(&served, "/catalogs/broken");
    assert!(text.contains("its content was refused for "), "{text}");
    let links = attributes(&text, "href");
    assert!(links.contains(&"/catalogs/broken/problems".to_owned()));
    let home = text_of(&served, "/");
    assert!(home.contains("refused for 1 problem</a>"), "{home}");
    let text = text_of(&served, "/problems");
    assert!(text.contains("bad.yaml"), "{text}");
    assert!(!text.contains("its log has the reason"), "{text}");
    let reply = served.get("/catalogs/broken/api/v1/packages");
    assert_eq!(reply.status, 503);
    let text = reply.text();
    let path = "/api/v1/problems?catalog=broken";
    assert!(text.contains(path), "{text}");
    let found = json_of(&served, path);
    assert_eq!(found["items"][0]["file"], "bad.yaml", "{found}");
}
