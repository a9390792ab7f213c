use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::select::*;

/// A bundle: its name ends in its version.
fn bundle(package: &str, name: &str, properties: &[Value]) -> Value {
    let version = name.rsplit_once(".v").map_or("", |(_, version)| version);
    let own = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
    let properties: Vec<&Value> = std::iter::once(&own).chain(properties).collect();
    json!({"schema": "olm.bundle", "package": package, "name": name, "properties": properties})
}

fn package(name: &str, default: &str) -> Value {
    json!({"schema": "olm.package", "name": name, "defaultChannel": default})
}

fn channel(package: &str, name: &str, entries: &Value) -> Value {
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

fn catalog(name: &str, blobs: &[Value]) -> Catalog {
    let text = |blob: &Value, key: &str| blob[key].as_str().unwrap_or_default().into();
    let lines = blobs.iter().map(|blob| Line {
        schema: text(blob, "schema"),
        package: text(blob, "package"),
        name: text(blob, "name"),
        json: blob.to_string().into(),
    });
    Catalog {
        name: name.to_owned(),
        lines: lines.collect(),
        quarantined: BTreeSet::new(),
    }
}

/// A package of three versions in `stable`, of which the last is alone in
/// `edge`, deprecated here and there, with a blob of its own.
fn etcd() -> Catalog {
    catalog(
        "community",
        &[
            package("etcd", "stable"),
            channel(
                "etcd",
                "stable",
                &json!([
                    {"name": "etcd.v1.0.0", "replaces": "etcd.v0.9.0"},
                    {"name": "etcd.v1.1.0", "replaces": "etcd.v1.0.0"},
                    {"name": "etcd.v2.0.0", "replaces": "etcd.v1.1.0", "skipRange": ">=1.0.0 <2.0.0"},
                ]),
            ),
            channel("etcd", "edge", &json!([{"name": "etcd.v2.0.0"}])),
            bundle("etcd", "etcd.v1.0.0", &[]),
            bundle("etcd", "etcd.v1.1.0", &[]),
            bundle("etcd", "etcd.v2.0.0", &[]),
            json!({"schema": "olm.deprecations", "package": "etcd", "entries": [
                {"reference": {"schema": "olm.bundle", "name": "etcd.v1.0.0"}, "message": "old"},
                {"reference": {"schema": "olm.channel", "name": "edge"}, "message": "edgy"},
            ]}),
            json!({"schema": "example.com.notes", "package": "etcd", "big": 12_345_678_901_234_567_u64}),
            json!({"schema": "example.com.loose", "text": "of no package"}),
        ],
    )
}

fn wanted(name: &str) -> PackageSelection {
    PackageSelection::named(name)
}

fn ranged(name: &str, min: &str, max: &str) -> PackageSelection {
    PackageSelection {
        range: VersionRange::new(min, max).unwrap(),
        ..wanted(name)
    }
}

fn in_channels(name: &str, channels: &[&str], default: &str) -> PackageSelection {
    PackageSelection {
        channels: (channels.iter())
            .map(|name| ChannelSelection {
                name: (*name).to_owned(),
                range: VersionRange::default(),
            })
            .collect(),
        default_channel: default.to_owned(),
        ..wanted(name)
    }
}

fn request(packages: Vec<PackageSelection>, from: usize) -> Request {
    Request {
        selections: vec![Selection {
            from: (0..from).collect(),
            full: false,
            packages,
        }],
        ..Request::default()
    }
}

fn take(catalogs: &[Catalog], packages: Vec<PackageSelection>) -> Result<Selected, String> {
    select(catalogs, &request(packages, catalogs.len())).map_err(|error| error.to_string())
}

/// The blobs of a schema in a result.
fn blobs(selected: &Selected, schema: &str) -> Vec<Value> {
    let lines = selected.packages.iter().flat_map(|package| &package.lines);
    let blobs = lines.map(|line| serde_json::from_slice(line).unwrap());
    blobs
        .filter(|blob: &Value| blob["schema"] == schema)
        .collect()
}

/// Channels with the names of their entries.
fn channels(selected: &Selected) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let channels = blobs(selected, "olm.channel");
    let channels = channels.iter().map(|channel| {
        let entries = channel["entries"].as_array().unwrap().iter();
        let entries = entries.map(|entry| text(&entry["name"])).collect();
        (text(&channel["name"]), entries)
    });
    channels.collect()
}

fn shown(channels: &[(String, Vec<String>)]) -> String {
    let shown = channels.iter();
    let shown: Vec<String> = shown
        .map(|(channel, entries)| format!("{channel}: {}", entries.join(" ")))
        .collect();
    shown.join("; ")
}

#[test]
fn without_a_range_the_head_of_every_channel_is_taken() {
    let selected = take(&[etcd()], vec![wanted("etcd")]).unwrap();
    assert_eq!(
        shown(&channels(&selected)),
        "stable: etcd.v2.0.0; edge: etcd.v2.0.0"
    );
    // What an entry replaces stays written, also when it is gone.
    let stable = &blobs(&selected, "olm.channel")[0]["entries"][0];
    assert_eq!(stable["replaces"], "etcd.v1.1.0");
    assert_eq!(stable["skipRange"], ">=1.0.0 <2.0.0");
    let bundles = blobs(&selected, "olm.bundle");
    assert_eq!(bundles.len(), 1);
    // The deprecation of a bundle went with it, that of a channel stays.
    let deprecations = &blobs(&selected, "olm.deprecations")[0]["entries"];
    assert_eq!(deprecations.as_array().unwrap().len(), 1);
    assert_eq!(deprecations[0]["message"], "edgy");
    // What belongs to the package comes along, and what belongs to none.
    assert_eq!(blobs(&selected, "example.com.notes").len(), 1);
    assert_eq!(selected.others.len(), 1);
    let [bundle] = &selected.packages[0].bundles[..] else {
        panic!()
    };
    assert_eq!(bundle.version, "2.0.0");
    assert_eq!(bundle.channels[1], ("stable".to_owned(), Reason::Head));
}

#[test]
fn a_range_makes_a_new_head_and_a_new_tail() {
    let selected = take(&[etcd()], vec![ranged("etcd", "1.0.0", "1.9.0")]).unwrap();
    assert_eq!(
        shown(&channels(&selected)),
        "stable: etcd.v1.0.0 etcd.v1.1.0"
    );
    assert!(selected.notes.is_empty(), "{:?}", selected.notes);
    // The deprecation of the channel went with it.
    let deprecations = &blobs(&selected, "olm.deprecations")[0]["entries"];
    assert_eq!(deprecations[0]["message"], "old");
}

#[test]
fn a_channel_that_was_named_and_is_empty_is_told() {
    let mut wanted = in_channels("etcd", &["stable", "edge"], "");
    wanted.range = VersionRange::new("1.0.0", "1.9.0").unwrap();
    let selected = take(&[etcd()], vec![wanted]).unwrap();
    assert_eq!(
        shown(&channels(&selected)),
        "stable: etcd.v1.0.0 etcd.v1.1.0"
    );
    let [note] = &selected.notes[..] else {
        panic!("{:?}", selected.notes)
    };
    assert!(
        note.contains("\"edge\"") && note.contains("left out"),
        "{note}"
    );
}

#[test]
fn what_is_between_versions_in_the_range_stays_and_what_is_skipped_only_in_it() {
    let catalog = catalog(
        "c",
        &[
            package("a", "s"),
            channel(
                "a",
                "s",
                &json!([
                    {"name": "a.v1.0.0"},
                    {"name": "a.v1.1.0-rc.1", "replaces": "a.v1.0.0"},
                    {"name": "a.v1.0.5"},
                    {"name": "a.v0.5.0"},
                    {"name": "a.v1.2.0", "replaces": "a.v1.1.0-rc.1", "skips": ["a.v1.0.5", "a.v0.5.0"]},
                    {"name": "a.v2.0.0", "replaces": "a.v1.2.0"},
                ]),
            ),
            bundle("a", "a.v1.0.0", &[]),
            bundle("a", "a.v1.1.0-rc.1", &[]),
            bundle("a", "a.v1.0.5", &[]),
            bundle("a", "a.v0.5.0", &[]),
            bundle("a", "a.v1.2.0", &[]),
            bundle("a", "a.v2.0.0", &[]),
        ],
    );
    let selected = take(&[catalog], vec![ranged("a", "1.0.0", "1.9.0")]).unwrap();
    assert_eq!(
        shown(&channels(&selected)),
        "s: a.v1.0.0 a.v1.1.0-rc.1 a.v1.0.5 a.v1.2.0"
    );
    let between = selected.packages[0].bundles.iter();
    let mut between = between.filter(|bundle| bundle.channels[0].1 == Reason::OnTheWay);
    assert_eq!(between.next().unwrap().name, "a.v1.1.0-rc.1");
    assert!(between.next().is_none());
    // Nobody asked for it, so it is told.
    let [note] = &selected.notes[..] else {
        panic!("{:?}", selected.notes)
    };
    for part in [
        "channel \"s\"",
        "package \"a\"",
        ">=1.0.0 <=1.9.0",
        "1.1.0-rc.1",
    ] {
        assert!(note.contains(part), "{note}");
    }
    assert!(!note.contains("its head"), "{note}");
}

#[test]
fn a_head_that_is_not_in_the_range_is_told() {
    let catalog = catalog(
        "c",
        &[
            package("a", "s"),
            channel(
                "a",
                "s",
                &json!([
                    {"name": "a.v1.0.0"},
                    {"name": "a.v2.0.0", "skips": ["a.v1.0.0"]},
                    {"name": "a.v3.0.0", "replaces": "a.v2.0.0"},
                ]),
            ),
            bundle("a", "a.v1.0.0", &[]),
            bundle("a", "a.v2.0.0", &[]),
            bundle("a", "a.v3.0.0", &[]),
        ],
    );
    let selected = take(&[catalog], vec![ranged("a", "1.0.0", "1.9.0")]).unwrap();
    assert_eq!(shown(&channels(&selected)), "s: a.v1.0.0 a.v2.0.0");
    let [note] = &selected.notes[..] else {
        panic!("{:?}", selected.notes)
    };
    assert!(note.contains("its head is 2.0.0"), "{note}");
}

#[test]
fn a_selection_that_cannot_be_valid_says_which_channel_and_why() {
    // d is only reached because a skips it: without a it is stranded.
    let catalog = catalog(
        "c",
        &[
            package("a", "s"),
            channel(
                "a",
                "s",
                &json!([
                    {"name": "a.v4.0.0", "replaces": "a.v3.0.0", "skips": ["a.v1.0.0"]},
                    {"name": "a.v3.0.0", "replaces": "a.v2.0.0", "skips": ["a.v2.0.0"]},
                    {"name": "a.v2.0.0", "replaces": "a.v1.0.0"},
                    {"name": "a.v1.0.0"},
                ]),
            ),
            bundle("a", "a.v1.0.0", &[]),
            bundle("a", "a.v2.0.0", &[]),
            bundle("a", "a.v3.0.0", &[]),
            bundle("a", "a.v4.0.0", &[]),
        ],
    );
    let error = take(&[catalog], vec![ranged("a", "1.0.0", "3.0.0")]).unwrap_err();
    for part in [
        "channel \"s\"",
        "package \"a\"",
        "\"a.v1.0.0\"",
        "upper end",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_default_channel_is_kept_or_given() {
    let catalogs = [etcd()];
    let error = take(&catalogs, vec![in_channels("etcd", &["edge"], "")]).unwrap_err();
    assert!(
        error.contains("\"stable\"") && error.contains("\"edge\""),
        "{error}"
    );
    let selected = take(&catalogs, vec![in_channels("etcd", &["edge"], "edge")]).unwrap();
    assert_eq!(blobs(&selected, "olm.package")[0]["defaultChannel"], "edge");
    assert_eq!(shown(&channels(&selected)), "edge: etcd.v2.0.0");
    let error = take(&catalogs, vec![in_channels("etcd", &["edge"], "stable")]).unwrap_err();
    assert!(error.contains("not among"), "{error}");
    let mut lenient = request(vec![in_channels("etcd", &["edge"], "")], 1);
    lenient.any_default = true;
    let selected = select(&catalogs, &lenient).unwrap();
    assert_eq!(blobs(&selected, "olm.package")[0]["defaultChannel"], "edge");
}

#[test]
fn what_is_not_there_is_named_with_what_is_near() {
    let mut broken = etcd();
    broken.quarantined.insert("etcd".to_owned());
    for (catalogs, packages, parts) in [
        (
            [etcd()],
            wanted("etdc"),
            ["\"etdc\" in community", "did you mean \"etcd\""],
        ),
        (
            [etcd()],
            in_channels("etcd", &["stabel"], ""),
            ["\"stabel\"", "\"stable\""],
        ),
        (
            [etcd()],
            ranged("etcd", "3.0.0", ""),
            [">=3.0.0", "1.0.0 to 2.0.0"],
        ),
        (
            [broken],
            wanted("etcd"),
            ["has errors in community", "almanac check"],
        ),
    ] {
        let error = take(&catalogs, vec![packages]).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[test]
fn a_name_that_is_near_none_gets_those_there_are() {
    for (packages, said) in [
        (wanted("velero"), "; there are \"etcd\""),
        (
            in_channels("etcd", &["nightly"], ""),
            "; there are \"edge\", \"stable\"",
        ),
    ] {
        let error = take(&[etcd()], vec![packages]).unwrap_err();
        assert!(error.ends_with(said), "{error}");
    }
    let mut broken = etcd();
    broken.quarantined.insert("etcd".to_owned());
    let error = take(&[broken], Vec::new()).unwrap_err();
    assert!(error.contains("almanac check"), "{error}");
}

#[test]
fn the_first_catalog_that_has_a_package_counts() {
    let mut other = catalog(
        "other",
        &[
            package("etcd", "own"),
            channel("etcd", "own", &json!([{"name": "etcd.v9.0.0"}])),
            bundle("etcd", "etcd.v9.0.0", &[]),
            package("kafka", "own"),
            channel("kafka", "own", &json!([{"name": "kafka.v1.0.0"}])),
            bundle("kafka", "kafka.v1.0.0", &[]),
        ],
    );
    let selected = take(&[other.clone(), etcd()], Vec::new()).unwrap();
    let names: Vec<_> = (selected.packages.iter())
        .map(|package| (package.name.as_str(), package.catalog.as_str()))
        .collect();
    assert_eq!(names, [("etcd", "other"), ("kafka", "other")]);
    let [note] = &selected.notes[..] else {
        panic!("{:?}", selected.notes)
    };
    for part in ["stand before community", "left out: etcd"] {
        assert!(note.contains(part), "{note}");
    }
    // A package with errors is no package of it.
    other.quarantined.insert("etcd".to_owned());
    let selected = take(&[other, etcd()], Vec::new()).unwrap();
    assert_eq!(selected.packages[0].catalog, "community");
    assert_eq!(
        shown(&channels(&selected)),
        "stable: etcd.v2.0.0; edge: etcd.v2.0.0; own: kafka.v1.0.0"
    );
}

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
                    // What is needed needs something too.
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

#[test]
fn all_of_one_catalog_is_all_of_it() {
    let catalog = etcd();
    let selected = select(std::slice::from_ref(&catalog), &Request::whole()).unwrap();
    let lines = selected.packages.iter().flat_map(|package| &package.lines);
    let lines: Vec<_> = lines.chain(&selected.others).collect();
    let wanted: Vec<_> = catalog.lines.iter().map(|line| &line.json).collect();
    assert_eq!(lines, wanted);
    assert_eq!(selected.packages[0].bundles[0].channels[0].1, Reason::Full);
}
