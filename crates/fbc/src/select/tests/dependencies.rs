//! Bundles that other bundles require.

use super::*;

/// Packages that need one another: `app` a version of `base`, an API of
/// `lamp`, and one of two others.
fn needing() -> Catalog {
    let api = |kind: &str| json!({"group": "example.com", "version": "v1", "kind": kind});
    let provides = |kind: &str| json!({"type": "olm.gvk", "value": api(kind)});
    let any = json!({"type": "olm.constraint", "value": {"failureMessage": "x", "any": {"constraints": [
        {"failureMessage": "y", "gvk": api("Nobody")},
        {"failureMessage": "z", "all": {"constraints": [
            {"package": {"packageName": "second", "versionRange": ">=1.0.0"}},
        ]}},
    ]}}});
    catalog(
        "c",
        &[
            package("app", "s"),
            channel("app", "s", &json!([{"name": "app.v1.0.0"}])),
            bundle(
                "app",
                "app.v1.0.0",
                &[
                    json!({"type": "olm.package.required", "value":
                        {"packageName": "base", "versionRange": ">=1.0.0 <2.0.0"}}),
                    json!({"type": "olm.gvk.required", "value": api("Lamp")}),
                    any,
                    json!({"type": "olm.package.required", "value":
                        {"packageName": "missing", "versionRange": ">=1.0.0"}}),
                ],
            ),
            package("base", "s"),
            channel(
                "base",
                "s",
                &json!([
                    {"name": "base.v1.0.0"},
                    {"name": "base.v1.5.0", "replaces": "base.v1.0.0"},
                    {"name": "base.v1.9.0", "replaces": "base.v1.5.0"},
                    {"name": "base.v2.0.0", "replaces": "base.v1.9.0"},
                ]),
            ),
            bundle("base", "base.v1.0.0", &[]),
            bundle("base", "base.v1.5.0", &[]),
            bundle("base", "base.v1.9.0", &[]),
            bundle("base", "base.v2.0.0", &[]),
            package("lamp", "s"),
            channel("lamp", "s", &json!([{"name": "lamp.v1.0.0"}])),
            channel("lamp", "t", &json!([{"name": "lamp.v1.0.0"}])),
            bundle(
                "lamp",
                "lamp.v1.0.0",
                &[
                    provides("Lamp"),
                    // The required package requires another one.
                    json!({"type": "olm.package.required", "value":
                        {"packageName": "third", "versionRange": "1.0.0"}}),
                ],
            ),
            package("second", "s"),
            channel("second", "s", &json!([{"name": "second.v1.0.0"}])),
            bundle("second", "second.v1.0.0", &[]),
            package("third", "s"),
            channel("third", "s", &json!([{"name": "third.v1.0.0"}])),
            bundle("third", "third.v1.0.0", &[]),
            package("unneeded", "s"),
            channel("unneeded", "s", &json!([{"name": "unneeded.v1.0.0"}])),
            bundle("unneeded", "unneeded.v1.0.0", &[]),
        ],
    )
}

#[test]
fn what_bundles_need_is_added_and_what_that_needs() {
    let mut request = request(vec![wanted("app")], 1);
    request.dependencies = true;
    let selected = select(&[needing()], &request).unwrap();
    assert_eq!(
        shown(&channels(&selected)),
        "s: app.v1.0.0; s: base.v1.9.0; s: lamp.v1.0.0; s: second.v1.0.0; s: third.v1.0.0"
    );
    let [note] = &selected.notes[..] else {
        panic!("{:?}", selected.notes)
    };
    assert!(
        note.contains("app.v1.0.0 of app needs the package missing"),
        "{note}"
    );
    let base = &selected.packages[1].bundles[0].channels[0].1;
    let wanted = Reason::Dependency {
        of: "app.v1.0.0 of app".to_owned(),
        requirement: "the package base >=1.0.0 <2.0.0".to_owned(),
    };
    assert_eq!(*base, wanted);
}

#[test]
fn nothing_is_added_for_an_alternative_that_is_not_met() {
    let required =
        |name: &str| json!({"package": {"packageName": name, "versionRange": ">=1.0.0"}});
    let any = |constraints: &Value| json!({"type": "olm.constraint", "value": {"any": {"constraints": constraints}}});
    let rule = json!({"cel": {"rule": "true"}});
    let catalog = catalog(
        "c",
        &[
            package("app", "s"),
            channel("app", "s", &json!([{"name": "app.v1.0.0"}])),
            bundle(
                "app",
                "app.v1.0.0",
                &[
                    any(&json!([
                        {"all": {"constraints": [required("part"), required("missing")]}},
                        required("other"),
                    ])),
                    any(&json!([required("missing"), rule])),
                    json!({"type": "olm.constraint", "value": rule}),
                ],
            ),
            package("other", "s"),
            channel("other", "s", &json!([{"name": "other.v1.0.0"}])),
            bundle("other", "other.v1.0.0", &[]),
            package("part", "s"),
            channel("part", "s", &json!([{"name": "part.v1.0.0"}])),
            bundle("part", "part.v1.0.0", &[]),
        ],
    );
    let mut request = request(vec![wanted("app")], 1);
    request.dependencies = true;
    let selected = select(&[catalog], &request).unwrap();
    assert_eq!(
        shown(&channels(&selected)),
        "s: app.v1.0.0; s: other.v1.0.0"
    );
    let [either, rule] = &selected.notes[..] else {
        panic!("{:?}", selected.notes)
    };
    assert!(
        either.ends_with("do not have; a rule in CEL is not looked into"),
        "{either}"
    );
    assert_eq!(
        rule,
        "app.v1.0.0 of app has a rule in CEL, which is not looked into"
    );
}

#[test]
fn what_is_selected_already_is_extended_down_to_what_is_needed() {
    let mut request = request(vec![wanted("app"), wanted("base")], 1);
    request.dependencies = true;
    let selected = select(&[needing()], &request).unwrap();
    let channels = channels(&selected);
    assert_eq!(
        shown(&channels[1..2]),
        "s: base.v1.9.0 base.v2.0.0",
        "the head stays, and one chain leads to what is needed"
    );
}
