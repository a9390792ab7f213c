//! Answers are as `OpenAPI` describes them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{harbor, served, text};
use crate::support::needs::skip_without;
use crate::support::schema;
use crate::support::served::{Folders, Served};

pub(super) fn description(served: &Served) -> Value {
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
