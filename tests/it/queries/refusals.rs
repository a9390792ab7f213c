//! Questions that make no sense.

use serde_json::json;

use super::{API, refused, served, text};
use crate::support::served::{Served, start, with};

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
