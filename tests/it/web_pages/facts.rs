//! Facts of packages, on pages and as JSON: permissions, support
//! phases, examples, icons, how to install them.

use serde_json::{Value, json};

use super::site::{attributes, json_of, text_of};
use crate::support::catalog::{Bundle, Catalog, bundle, entry};
use crate::support::served::{Folders, Served};

const LIFECYCLE: &str = "io.openshift.operators.lifecycles.v1alpha1";

/// A package whose manifests are in the catalog, and one whose manifests are not.
fn harbor() -> Catalog {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "crane.v1.2.0"},
        "spec": {
            "displayName": "Crane",
            "install": {"strategy": "deployment", "spec": {"clusterPermissions": [{
                "serviceAccountName": "crane-account",
                "rules": [{"apiGroups": ["", "apps"], "resources": ["deployments"], "verbs": ["get", "watch"]}],
            }]}},
        },
    });
    let examples = json!([
        {"apiVersion": "hook.example.com/v1", "kind": "Hook", "spec": {"size": 3, "text": "yes"}},
    ]);
    let hook = json!({
        "displayName": "Hook",
        "annotations": {
            "alm-examples": examples.to_string(),
            "operatorframework.io/suggested-namespace": "plain",
            "operatorframework.io/suggested-namespace-template": json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "hooks", "labels": {"example.com/ring": "inner"}},
            }).to_string(),
            "features.operators.openshift.io/cnf": "\u{201c}true\u{201d}",
            "features.operators.openshift.io/csi": "true",
        },
        "installModes": [
            {"type": "AllNamespaces", "supported": false},
            {"type": "OwnNamespace", "supported": true},
        ],
    });
    let phases = json!([
        {"name": "Full support", "startDate": "2026-01-01", "endDate": "2026-06-30"},
        {"name": "Maintenance", "startDate": "2026-07-01", "endDate": "2026-12-31"},
    ]);
    let role = json!({"kind": "ClusterRole", "metadata": {"name": "lift"},
        "rules": [{"apiGroups": ["lift.example.com"], "resources": ["lifts"], "verbs": ["patch"]}]});
    let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "lift"},
        "roleRef": {"kind": "ClusterRole", "name": "lift"},
        "subjects": [{"kind": "ServiceAccount", "name": "lift-account"}]});
    let viewer = json!({"kind": "ClusterRole", "metadata": {"name": "lift-viewer"},
        "rules": [{"resources": ["lifts"], "verbs": ["list"]}]});
    let crane = [&csv, &role, &binding, &viewer];
    let crane = crane
        .into_iter()
        .fold(bundle("crane.v1.2.0"), Bundle::object);
    Catalog::new()
        .package("crane", |package| {
            package
                .channel("stable", [entry("crane.v1.2.0")])
                .bundle(crane)
        })
        .package("hook", |package| {
            package
                .icon("image/jpeg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>")
                .channel("stable", [entry("hook.v1.0.0")])
                .bundle(
                    bundle("hook.v1.0.0")
                        .image("quay.io/harbor/hook:1.0.0")
                        .provides("hook.example.com", "v1", "Hook")
                        .csv_metadata(hook),
                )
        })
        .blob(json!({
            "schema": LIFECYCLE,
            "package": "hook",
            "versions": [{"name": "1.0", "phases": phases}],
        }))
        .blob(json!({
            "schema": LIFECYCLE,
            "package": "crane",
            "versions": [{"name": "1.2.0", "phases": [{"name": "a", "startDate": "2026-02-30"}]}],
        }))
}

fn served() -> Served {
    Served::catalogs(&Folders::of("harbor", &harbor()))
}

#[test]
fn permissions_are_told_where_the_catalog_has_the_manifests() {
    let served = served();
    let text = text_of(&served, "/catalogs/harbor/packages/crane/dependencies");
    for part in [
        "crane-account",
        "<td>get, watch</td>",
        "<td>core, apps</td>",
        "<code>lift-account</code> · role <code>lift</code>",
        "<td>patch</td>",
        "For users, or given by others · role <code>lift-viewer</code>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let found = json_of(&served, "/catalogs/harbor/api/v1/bundles/crane.v1.2.0");
    let permissions = &found["items"][0]["permissions"];
    let rules = &permissions["cluster"][0]["rules"];
    assert_eq!(rules[0]["resources"], json!(["deployments"]), "{found}");
    let bound = &permissions["cluster"][1];
    assert_eq!(
        (&bound["account"], &bound["role"]),
        (&json!("lift-account"), &json!("lift"))
    );
    assert_eq!(permissions["unbound"][0]["role"], "lift-viewer", "{found}");
    let text = text_of(&served, "/catalogs/harbor/packages/hook/dependencies");
    assert!(text.contains("Not in this catalog"), "{text}");
    assert!(text.contains("quay.io/harbor/hook:1.0.0"), "{text}");
    let found = json_of(&served, "/catalogs/harbor/api/v1/bundles/hook.v1.0.0");
    assert_eq!(found["items"][0].get("permissions"), None, "{found}");
}

#[test]
fn a_phase_is_told_on_its_first_and_on_its_last_day() {
    let served = served();
    for (day, state, phase, shown) in [
        ("2025-12-31", "self-support", None, "self-support"),
        (
            "2026-01-01",
            "phase",
            Some("Full support"),
            "until 2026-06-30",
        ),
        (
            "2026-06-30",
            "phase",
            Some("Full support"),
            "until 2026-06-30",
        ),
        (
            "2026-07-01",
            "phase",
            Some("Maintenance"),
            "until 2026-12-31",
        ),
        (
            "2026-12-31",
            "phase",
            Some("Maintenance"),
            "until 2026-12-31",
        ),
        ("2027-01-01", "self-support", None, "self-support"),
    ] {
        let text = text_of(
            &served,
            &format!("/catalogs/harbor/packages/hook?date={day}"),
        );
        assert!(text.contains(shown), "{day}: {text}");
        let route = format!("/catalogs/harbor/api/v1/packages/hook/lifecycle?date={day}");
        let found = json_of(&served, &route);
        assert_eq!(found["state"], state, "{found}");
        assert_eq!(found.get("phase").and_then(Value::as_str), phase, "{found}");
    }
    let bad = served.get("/catalogs/harbor/api/v1/packages/hook/lifecycle?date=2026-02-29");
    assert_eq!(bad.status, 400);
}

#[test]
fn a_lifecycle_that_contradicts_its_schema_is_a_problem_and_takes_nothing_away() {
    let served = served();
    let found = json_of(&served, "/catalogs/harbor/api/v1/packages/crane");
    let codes: Vec<&str> = found["problems"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|problem| problem["code"].as_str())
        .filter(|code| code.starts_with("lifecycle"))
        .collect();
    assert_eq!(codes, ["lifecycle-invalid", "lifecycle-invalid"], "{found}");
    assert_eq!(found["quarantined"], false);
    let text = text_of(&served, "/catalogs/harbor/packages/crane/problems");
    assert!(text.contains("write it as MAJOR.MINOR"), "{text}");
}

#[test]
fn an_example_is_the_same_on_the_page_as_yaml_and_as_json() {
    let served = served();
    let route = "/catalogs/harbor/api/v1/packages/hook/examples";
    let found = json_of(&served, route);
    let example = &found["apis"][0]["examples"][0];
    assert_eq!(
        example["spec"],
        json!({"size": 3, "text": "yes"}),
        "{found}"
    );
    let yaml = served.get(&format!("{route}?kind=Hook&format=yaml"));
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    let mut read = Vec::new();
    fbc::text::yaml::to_json(&yaml.body, &fbc::text::yaml::Limits::default(), &mut read).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&read).unwrap(), *example);
    let text = text_of(&served, "/catalogs/harbor/packages/hook/apis");
    assert!(text.contains("size: 3"), "{text}");
    assert!(text.contains("download=\"hook.yaml\""), "{text}");
}

#[test]
fn the_objects_of_an_installation_are_the_same_on_the_page_and_as_json() {
    let served = served();
    let route = "/catalogs/harbor/api/v1/packages/hook/install?sourceNamespace=marketplace";
    let found = json_of(&served, route);
    assert_eq!(found["namespace"], "hooks");
    assert_eq!(found["mode"], "OwnNamespace");
    let warnings = json!(["v1NeedsAllNamespaces", "v1AccountIsClusterAdmin"]);
    assert_eq!(found["warnings"], warnings);
    assert_eq!(found["v1"][2]["roleRef"]["name"], "cluster-admin");
    assert_eq!(found["v0"][1]["spec"]["targetNamespaces"], json!(["hooks"]));
    assert_eq!(found["v0"][2]["spec"]["sourceNamespace"], "marketplace");
    let labels = &found["v0"][0]["metadata"]["labels"];
    assert_eq!(*labels, json!({"example.com/ring": "inner"}));
    let account = &found["v1"][3]["spec"]["serviceAccount"]["name"];
    assert_eq!(*account, found["v1"][1]["metadata"]["name"]);
    let without = &found["v1WithoutAccount"][1]["spec"];
    assert!(
        without.is_object() && without.get("serviceAccount").is_none(),
        "{found}"
    );
    let page = "/catalogs/harbor/packages/hook/install?sourceNamespace=marketplace";
    let text = text_of(&served, page);
    for part in [
        "sourceNamespace: marketplace",
        "OLM v1 needs the mode",
        "bound to the role cluster-admin",
        "hook-installer",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The labels belong to the namespace that is suggested.
    let other = "/catalogs/harbor/packages/hook/install?namespace=other";
    assert!(text.contains("example.com/ring: inner"), "{text}");
    assert!(!text_of(&served, other).contains("example.com/ring"));
    let route = "/catalogs/harbor/api/v1/packages/hook/install";
    for bad in [
        "mode=Anywhere",
        "mode=OwnNamespace&mode=AllNamespaces",
        "channel=stable&channel=stable",
    ] {
        assert_eq!(served.get(&format!("{route}?{bad}")).status, 400, "{bad}");
    }
}

#[test]
fn an_icon_keeps_its_address_as_long_as_its_bytes() {
    let served = served();
    let text = text_of(&served, "/catalogs/harbor/packages/hook");
    let links = attributes(&text, "src");
    let icon = links.iter().find(|link| link.contains("/icons/")).unwrap();
    assert_eq!(icon.rsplit('/').next().unwrap().len(), 64, "{icon}");
    let reply = served.get(icon);
    // It was declared as another type.
    assert_eq!(reply.header("content-type"), Some("image/svg+xml"));
    assert_eq!(
        reply.header("cache-control"),
        Some("private, max-age=31536000, immutable")
    );
    let etag = reply.header("etag").unwrap();
    let again = served.ask("GET", icon, &[("If-None-Match", etag)]);
    assert_eq!(again.status, 304);
    for name in ["cache-control", "content-security-policy"] {
        assert_eq!(again.header(name), reply.header(name), "{name}");
    }
    let drawing = "/catalogs/harbor/packages/hook/graph.svg";
    let etag = served.get(drawing).header("etag").unwrap().to_owned();
    let again = served.ask("GET", drawing, &[("If-None-Match", &etag)]);
    let policy = again.header("content-security-policy").unwrap_or_default();
    assert!(policy.ends_with("sandbox"), "{policy}");
    for bad in ["hook".to_owned(), "0".repeat(64)] {
        let path = format!("/catalogs/harbor/icons/{bad}");
        assert_eq!(served.get(&path).status, 404, "{path}");
    }
}

#[test]
fn a_feature_that_is_neither_true_nor_false_is_unclear() {
    let served = served();
    let text = text_of(&served, "/catalogs/harbor/packages/hook");
    assert!(text.contains("unclear</span></dt><dd>cnf<"), "{text}");
    let found = json_of(&served, "/catalogs/harbor/api/v1/packages/hook");
    assert_eq!(found["infrastructureFeatures"], json!(["csi"]));
    assert_eq!(found["unclearFeatures"], json!(["cnf"]));
}

#[test]
fn a_found_package_tells_the_matched_kinds_and_goes_to_the_plan() {
    let served = served();
    let text = text_of(&served, "/search?q=hook");
    assert!(
        text.contains("href=\"/apis/hook.example.com/Hook\""),
        "{text}"
    );
    assert!(text.contains("data-pick=\"harbor/hook\""), "{text}");
    assert!(text.contains("1–1 of 1"), "{text}");
}
