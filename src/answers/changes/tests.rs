use super::*;

fn bundle(version: &str, digest: &str) -> BundleOutline {
    BundleOutline {
        version: version.into(),
        digest: digest.into(),
        deprecation: None,
    }
}

fn outline() -> Outline {
    let channel = ChannelOutline {
        head: "a.v1".into(),
        entries: BTreeSet::from(["a.v1".into()]),
        edges: "e1".into(),
        entry_edges: "0123456789ab".into(),
        deprecation: None,
    };
    let package = PackageOutline {
        default_channel: "stable".into(),
        channels: BTreeMap::from([("stable".into(), channel.clone()), ("old".into(), channel)]),
        bundles: BTreeMap::from([("a.v1".into(), bundle("1.0.0", "d1"))]),
        deprecation: None,
    };
    Outline {
        packages: ["a", "b", "c"]
            .map(|name| (name.into(), package.clone()))
            .into(),
        quarantined: ["q".into(), "r".into()].into(),
        problems: BTreeMap::from([("a".into(), BTreeMap::from([("x".into(), 1)]))]),
    }
}

#[test]
fn equal_outlines_have_no_changes() {
    assert!(changes(&outline(), &outline()).is_empty());
}

#[test]
fn each_change_is_reported_once_with_its_kind() {
    let from = outline();
    let mut to = outline();
    let a = to.packages.get_mut("a").unwrap();
    a.default_channel = "fast".into();
    let mut fast = a.channels["stable"].clone();
    fast.edges = "e9".into();
    a.channels.insert("fast".into(), fast);
    a.channels.remove("old");
    let stable = a.channels.get_mut("stable").unwrap();
    stable.head = "a.v2".into();
    stable.entries = BTreeSet::from(["a.v1".into(), "a.v2".into()]);
    stable.deprecation = Some("use fast".into());
    a.bundles.insert("a.v2".into(), bundle("2.0.0", "d2"));
    a.bundles.insert("a.v1".into(), bundle("1.0.0", "other"));
    to.packages
        .get_mut("c")
        .unwrap()
        .channels
        .get_mut("old")
        .unwrap()
        .edges = "e2".into();
    let b = to.packages.remove("b").unwrap();
    to.quarantined.insert("b".into());
    to.quarantined.remove("q");
    to.packages.insert("q".into(), b.clone());
    to.packages.insert("new".into(), b);
    to.quarantined.remove("r");
    to.problems = BTreeMap::from([("a".into(), BTreeMap::from([("y".into(), 2)]))]);
    let found = changes(&from, &to);
    let short = |one: &Change| {
        let parts = [&one.channel, &one.bundle, &one.code, &one.from, &one.to];
        let parts: Vec<&str> = parts.iter().filter_map(|part| part.as_deref()).collect();
        format!("{} {} {}", one.package, one.kind, parts.join(" "))
    };
    assert_eq!(
        found.iter().map(short).collect::<Vec<_>>(),
        [
            "a default-channel-changed stable fast",
            "a channel-added fast a.v1",
            "a channel-removed old a.v1",
            "a head-moved stable a.v1 a.v2",
            "a entry-added stable a.v2",
            "a bundle-added a.v2",
            "a bundle-replaced a.v1 d1 other",
            "a deprecated stable use fast",
            "a problem-found y",
            "a problem-solved x",
            "b package-quarantined ",
            "c upgrade-edges-changed old",
            "new package-added ",
            "q package-restored ",
            "r package-removed ",
        ]
    );
    let back = changes(&to, &from);
    assert_eq!(back.len(), found.len());
    assert_eq!(counts(&back)[&Kind::BundleRemoved], 1);
    assert_eq!(counts(&back)[&Kind::EntryRemoved], 1);
    assert_eq!(counts(&back)[&Kind::DeprecationLifted], 1);
}

#[test]
fn edges_of_entries_that_stay_are_compared_also_beside_other_entries() {
    let channel = |entries: &[(&str, &str)]| {
        let mut outline = outline();
        let a = outline.packages.get_mut("a").unwrap();
        let stable = a.channels.get_mut("stable").unwrap();
        stable.entries = entries.iter().map(|(name, _)| (*name).to_owned()).collect();
        stable.entry_edges = entries.iter().map(|(_, edges)| *edges).collect();
        stable.edges.clone_from(&stable.entry_edges);
        outline
    };
    let before = channel(&[("a.v1", "111111111111"), ("a.v2", "222222222222")]);
    for (entries, expected) in [
        (&[("a.v1", "111111111111")][..], 0),
        (&[("a.v1", "11111111111f")], 1),
        (&[("a.v2", "222222222222"), ("a.v3", "111111111111")], 0),
        (&[("a.v2", "111111111111"), ("a.v3", "222222222222")], 1),
        (&[("a.v1", "111111111111"), ("a.v2", "22222222222f")], 1),
        // An outline of an earlier version.
        (&[("a.v1", "")], 0),
    ] {
        for (from, to) in [(&before, &channel(entries)), (&channel(entries), &before)] {
            let counts = counts(&changes(from, to));
            let found = counts.get(&Kind::UpgradeEdgesChanged).copied();
            assert_eq!(found.unwrap_or(0), expected, "{entries:?}");
        }
    }
}

#[test]
fn problems_of_a_removed_package_are_not_solved() {
    let from = outline();
    let mut to = outline();
    to.packages.remove("a");
    to.problems = BTreeMap::new();
    let found = changes(&from, &to);
    assert_eq!(found, [change(Kind::PackageRemoved, "a")]);
}

#[test]
fn the_names_of_kinds_are_those_of_json() {
    for kind in Kind::ALL {
        let json = serde_json::to_string(&kind).unwrap();
        assert_eq!(json, format!("{:?}", kind.as_str()));
    }
}

#[test]
fn a_long_message_of_an_earlier_version_is_the_same_without_digits() {
    let long = |rest: &str| "é".repeat(1_000) + rest;
    for (before, after, expected) in [
        (long("…"), long("… (0123456789ab)"), true),
        (long("… (0123456789ab)"), long("…"), true),
        (long("… (0123456789ab)"), long("… (0123456789ac)"), false),
        (format!("a{}", long("…")), long("… (0123456789ab)"), false),
        ("beta…".to_owned(), "beta… (gone)".to_owned(), false),
        ("beta…".to_owned(), "beta… (0123456789ab)".to_owned(), false),
        ("a".to_owned(), "b".to_owned(), false),
        ("a".to_owned(), "a".to_owned(), true),
    ] {
        assert_eq!(is_same(&before, &after), expected, "{before} {after}");
    }
}
