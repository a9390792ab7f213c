//! A site for the tests of pages: a catalog whose every text is hostile, the sample
//! catalog, and one without content.

use serde_json::{Value, json};

use crate::support::catalog::{Catalog, bundle, entry};
use crate::support::http::Reply;
use crate::support::served::{Folders, Served};

/// The `Accept` header of a browser.
pub(super) const BROWSER: [(&str, &str); 1] =
    [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
/// Text that would run, if any page let it.
pub(super) const SCRIPT: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>";
/// A picture that would run when it is opened.
pub(super) const PICTURE: &str =
    "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";

/// What follows the address of a package, of each of its tabs.
pub(super) const TABS: [&str; 9] = [
    "",
    "/versions",
    "/updates",
    "/apis",
    "/images",
    "/dependencies",
    "/install",
    "/problems",
    "/history",
];

/// A catalog whose every text is hostile.
pub(super) fn hostile() -> Catalog {
    let long = "w".repeat(60_000);
    let overrides = "abc\u{202e}def\u{0}";
    let csv = json!({
        "displayName": format!("{SCRIPT}{overrides}"),
        "description": format!("# {SCRIPT}\n\n[a](javascript:alert(1)) <namespace>\n\n{long}"),
        "keywords": [SCRIPT, long],
        "links": [{"name": SCRIPT, "url": "javascript:alert(1)"}, {"name": "b", "url": "data:text/html,x"}],
        "maintainers": [{"name": SCRIPT, "email": SCRIPT}],
        "provider": {"name": SCRIPT, "url": "javascript:alert(1)"},
        "maturity": SCRIPT,
        "minKubeVersion": SCRIPT,
        "annotations": {
            "description": SCRIPT,
            "categories": format!("{SCRIPT},Database"),
            "capabilities": SCRIPT,
            "repository": "javascript:alert(1)",
            "containerImage": SCRIPT,
            "createdAt": SCRIPT,
            "support": SCRIPT,
            "alm-examples": format!("no json {SCRIPT}"),
            "operatorframework.io/suggested-namespace": SCRIPT,
            "operators.openshift.io/valid-subscription": format!("[\"{}\"]", SCRIPT.replace('"', "\\\"")),
        },
        "crdDescriptions": {"owned": [{"name": "as.g", "kind": SCRIPT, "version": "v1", "description": SCRIPT}]},
    });
    let chain: Vec<_> = (0..500)
        .map(|at| {
            let own = entry(&format!("hostile.v1.{at}.0"));
            match at {
                0 => own,
                at => own.replaces(&format!("hostile.v1.{}.0", at - 1)),
            }
        })
        .collect();
    Catalog::new()
        .package("hostile", |package| {
            package
                .description(SCRIPT)
                .icon("image/png", PICTURE.as_bytes())
                .default_channel("stable")
                .channel("stable", chain)
                .channel("b\"><script>alert(1)</script>", [entry("hostile.v1.0.0")])
                .bundle(
                    bundle("hostile.v1.499.0")
                        .provides("g", "v1", SCRIPT)
                        .requires("g", "v1", "Missing<script>")
                        .requires_package("nowhere", "<1.0.0")
                        .related_image(SCRIPT, "example.com/a:latest")
                        .csv_metadata(csv),
                )
        })
        .blob(json!({
            "schema": "io.openshift.operators.lifecycles.v1alpha1",
            "package": "hostile",
            "versions": [{
                "name": "1.499",
                "phases": [
                    {"name": "Past", "startDate": "2000-01-01", "endDate": "2000-12-31"},
                    {"name": SCRIPT, "startDate": "2001-01-01", "endDate": "2999-12-31"},
                ],
                "platformCompatibility": [{"name": "OpenShift", "versions": ["4.20"]}],
            }],
        }))
        .package("needy", |package| {
            package.channel("stable", [entry("needy.v1.0.0")]).bundle(
                bundle("needy.v1.0.0")
                    .requires_package("hostile", ">=1.0.0")
                    .requires("g", "v1", SCRIPT),
            )
        })
        .package("broken", |package| {
            package.channel(
                "stable",
                [
                    entry("broken.v1.0.0").replaces("broken.v2.0.0"),
                    entry("broken.v2.0.0").replaces("broken.v1.0.0"),
                ],
            )
        })
}

pub(super) fn served() -> Served {
    let hostile = Folders::of("hostile", &hostile());
    let sample = format!("sample=file:{}/deploy/catalog", env!("CARGO_MANIFEST_DIR"));
    let later = "later=file:/nowhere/at/all".to_owned();
    Served::start(hostile.sources().into_iter().chain([sample, later])).keeping(&hostile)
}

pub(super) fn page(served: &Served, path: &str) -> Reply {
    served.ask("GET", path, &BROWSER)
}

pub(super) fn text_of(served: &Served, path: &str) -> String {
    let reply = page(served, path);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply.text()
}

/// Values of attributes of this name.
pub(super) fn attributes(text: &str, name: &str) -> Vec<String> {
    let start = format!(" {name}=\"");
    let parts: Vec<&str> = text.split(&start).skip(1).collect();
    let values = parts.iter().map(|part| part.split('"').next().unwrap());
    values.map(|value| value.replace("&amp;", "&")).collect()
}

/// The JSON of a path.
pub(super) fn json_of(served: &Served, path: &str) -> Value {
    let reply = served.get(path);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}
