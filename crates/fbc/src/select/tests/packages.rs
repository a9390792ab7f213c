//! Packages by name, and the catalogs they come from.

use super::*;

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
            ["has errors in community", "check of the catalog"],
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
    assert!(error.contains("check of the catalog"), "{error}");
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
