//! Queries over HTTP, as clients use them: what is answered, how it is paged
//! and kept, and what is said of a question that makes no sense.

mod descriptions;
mod details;
mod lists;
mod refusals;

use serde_json::{Value, json};

use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::served::{Folders, Served};

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

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
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
