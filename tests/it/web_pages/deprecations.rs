//! Deprecations of packages, channels and versions, wherever they are listed.

use serde_json::{Value, json};

use super::site::text_of;
use crate::support::catalog::{Catalog, entry};
use crate::support::served::{Folders, Served};

#[test]
fn a_deprecated_channel_and_version_are_told_in_every_list() {
    let catalog = Catalog::new()
        .package("crane", |package| {
            package
                .channel(
                    "stable",
                    [
                        entry("crane.v1.0.0"),
                        entry("crane.v1.1.0").replaces("crane.v1.0.0"),
                    ],
                )
                .deprecate_channel("stable", "use fast")
                .deprecate_bundle("crane.v1.1.0", "rust on the hook")
        })
        .package("hook", |package| {
            package.channel("stable", [entry("hook.v1.0.0")])
        });
    let served = Served::catalogs(&Folders::of("harbor", &catalog));
    let base = "/catalogs/harbor/packages/crane";
    for (path, parts) in [
        ("/catalogs/harbor", vec!["default channel deprecated"]),
        ("/search", vec!["default channel deprecated"]),
        (
            base,
            vec!["use fast", "deprecated version", "rust on the hook"],
        ),
        (
            &format!("{base}/updates"),
            vec![
                ">1.1.0 (deprecated)</option>",
                ">stable (deprecated)</option>",
            ],
        ),
        (
            &format!("{base}/install"),
            vec![
                "This channel is deprecated: use fast",
                "This version is deprecated: rust on the hook",
            ],
        ),
        (
            &format!("{base}/install?version=1.0.0"),
            vec!["This channel is deprecated: use fast"],
        ),
    ] {
        let text = text_of(&served, path);
        for part in parts {
            assert!(text.contains(part), "{path}: {part}: {text}");
        }
    }
    let older = text_of(&served, &format!("{base}/install?version=1.0.0"));
    assert!(!older.contains("This version is deprecated"), "{older}");
    for (package, wanted) in [("crane", true), ("hook", false)] {
        let path = format!("/catalogs/harbor/api/v1/packages/{package}/install");
        let found: Value = serde_json::from_slice(&served.get(&path).body).unwrap();
        let warnings = found["warnings"].as_array().unwrap();
        assert_eq!(warnings.contains(&json!("deprecated")), wanted, "{found}");
        let text = text_of(
            &served,
            &format!("/catalogs/harbor/packages/{package}/install"),
        );
        assert_eq!(text.contains("is deprecated"), wanted, "{text}");
    }
    assert_eq!(
        text_of(&served, "/search")
            .matches("default channel deprecated")
            .count(),
        1
    );
}
