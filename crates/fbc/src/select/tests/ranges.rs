//! Ranges of versions: the entries of a channel that stay.

use super::*;

#[test]
fn without_a_range_the_head_of_every_channel_is_taken() {
    let selected = take(&[etcd()], vec![wanted("etcd")]).unwrap();
    assert_eq!(
        shown(&channels(&selected)),
        "stable: etcd.v2.0.0; edge: etcd.v2.0.0"
    );
    // The name that an entry replaces stays written, also when its entry is gone.
    let stable = &blobs(&selected, "olm.channel")[0]["entries"][0];
    assert_eq!(stable["replaces"], "etcd.v1.1.0");
    assert_eq!(stable["skipRange"], ">=1.0.0 <2.0.0");
    let bundles = blobs(&selected, "olm.bundle");
    assert_eq!(bundles.len(), 1);
    // The deprecation of a bundle went with it, that of a channel stays.
    let deprecations = &blobs(&selected, "olm.deprecations")[0]["entries"];
    assert_eq!(deprecations.as_array().unwrap().len(), 1);
    assert_eq!(deprecations[0]["message"], "edgy");
    // Documents of the package come along, and those of none.
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
