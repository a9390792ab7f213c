use proptest::prelude::*;

use crate::answers::rest::updates::*;

/// An entry `a.v<version>`: version, what it replaces, what it skips, its
/// skip range.
fn entry(
    version: &'static str,
    replaces: &'static str,
    skips: &[&'static str],
    range: &'static str,
) -> EntryRecord<'static> {
    let name = |version: &str| {
        if version.is_empty() {
            String::new()
        } else {
            format!("a.v{version}")
        }
    };
    EntryRecord {
        name: name(version).into(),
        version: version.into(),
        replaces: name(replaces).into(),
        skips: skips.iter().map(|skip| name(skip).into()).collect(),
        skip_range: range.into(),
        ..EntryRecord::default()
    }
}

fn deprecated(mut entry: EntryRecord<'static>) -> EntryRecord<'static> {
    entry.deprecation = Some("old".into());
    entry
}

/// A channel whose first entry is its head.
fn channel(name: &'static str, entries: Vec<EntryRecord<'static>>) -> ChannelRecord<'static> {
    ChannelRecord {
        package: "a".into(),
        name: name.into(),
        head: entries.first().map(|entry| entry.name.clone()),
        entries,
        ..ChannelRecord::default()
    }
}

fn stable() -> ChannelRecord<'static> {
    channel(
        "stable",
        vec![
            entry("2.0.0", "1.2.0", &[], ""),
            entry("1.2.0", "1.1.0", &["1.1.1"], ">=1.0.5 <1.2.0"),
            entry("1.1.0", "1.0.0", &[], ""),
            entry("1.0.0", "", &[], ""),
            entry("1.1.1", "1.1.0", &[], ""),
        ],
    )
}

fn installed(name: &'static str, version: &str) -> Installed<'static> {
    Installed {
        name,
        version: Version::parse(version).ok(),
    }
}

fn names(candidates: &[Candidate<'_>]) -> Vec<String> {
    candidates
        .iter()
        .map(|candidate| format!("{} {:?}", candidate.version, candidate.edges))
        .collect()
}

#[test]
fn olm_v1_takes_successors_and_what_is_installed_the_highest_first() {
    let channels = [stable()];
    for (from, range, wanted) in [
        (
            installed("a.v1.0.0", "1.0.0"),
            None,
            &["1.1.0 [Replaces]", "1.0.0 [Installed]"][..],
        ),
        (
            installed("a.v1.1.0", "1.1.0"),
            None,
            &[
                "1.2.0 [Replaces, SkipRange]",
                "1.1.1 [Replaces]",
                "1.1.0 [Installed]",
            ],
        ),
        (
            installed("a.v1.1.1", "1.1.1"),
            None,
            &["1.2.0 [Skips, SkipRange]", "1.1.1 [Installed]"],
        ),
        // A version that the catalog lacks is only known by range.
        (installed("", "1.0.7"), None, &["1.2.0 [SkipRange]"]),
        (
            installed("a.v1.2.0", "1.2.0"),
            None,
            &["2.0.0 [Replaces]", "1.2.0 [Installed]"],
        ),
        (
            installed("a.v1.2.0", "1.2.0"),
            Some("<2"),
            &["1.2.0 [Installed]"],
        ),
        (installed("a.v1.2.0", "1.2.0"), Some(">=3"), &[]),
        (installed("a.v2.0.0", "2.0.0"), None, &["2.0.0 [Installed]"]),
        // A name that only edges know.
        (installed("a.v0.9.0", ""), None, &[]),
        (installed("a.v9.0.0", "9.0.0"), None, &[]),
        // Another build is another release.
        (installed("", "2.0.0+1"), None, &[]),
    ] {
        let range = range.map(|range| Constraint::parse(range).unwrap());
        let found = candidates(&channels, Some(&from), range.as_ref());
        assert_eq!(names(&found), wanted, "{from:?} {range:?}");
    }
}

#[test]
fn without_anything_installed_all_may_be() {
    let channels = [
        stable(),
        channel("fast", vec![entry("3.0.0-rc.1", "2.0.0", &[], "")]),
    ];
    let found = candidates(&channels, None, None);
    let versions: Vec<_> = found.iter().map(|candidate| candidate.version).collect();
    assert_eq!(
        versions,
        ["3.0.0-rc.1", "2.0.0", "1.2.0", "1.1.1", "1.1.0", "1.0.0"]
    );
    let range = Constraint::parse("~1.1").unwrap();
    assert_eq!(
        names(&candidates(&channels, None, Some(&range))),
        ["1.1.1 []", "1.1.0 []"]
    );
}

#[test]
fn channels_are_looked_at_together_and_deprecated_bundles_come_last() {
    let channels = [
        channel(
            "fast",
            vec![
                deprecated(entry("1.3.0", "1.0.0", &[], "")),
                entry("1.0.0", "", &[], ""),
            ],
        ),
        channel(
            "stable",
            vec![
                entry("1.2.0", "", &[], "<1.2.0"),
                deprecated(entry("1.3.0", "", &["1.0.0"], "")),
            ],
        ),
    ];
    let from = installed("a.v1.0.0", "1.0.0");
    let found = candidates(&channels, Some(&from), None);
    assert_eq!(
        names(&found),
        [
            "1.2.0 [SkipRange]",
            "1.0.0 [Installed]",
            "1.3.0 [Replaces, Skips]"
        ]
    );
    assert_eq!(found[2].channels, ["fast", "stable"]);
    assert_eq!(found[2].deprecation, Some("old"));
}

#[test]
fn releases_sort_behind_versions() {
    let of = |name: &'static str, version: &'static str| EntryRecord {
        name: name.into(),
        version: version.into(),
        ..EntryRecord::default()
    };
    let channels = [channel(
        "stable",
        vec![
            of("b", "1.0.0+2"),
            of("c", "1.0.0+10"),
            of("d", "1.0.0"),
            of("e", "no version"),
            of("f", "1.0.1-rc.1"),
        ],
    )];
    let found = candidates(&channels, None, None);
    let names: Vec<_> = found.iter().map(|candidate| candidate.name).collect();
    assert_eq!(names, ["f", "c", "b", "d", "e"]);
}

/// The steps of a path, and whether it reaches the head.
fn walked(channel: &ChannelRecord<'_>, from: Option<&Installed<'static>>) -> (Vec<String>, bool) {
    let path = path(channel, from);
    let steps = path.steps.iter();
    let steps = steps.map(|step| match step.edge {
        Some(edge) => format!("{} {edge:?}", step.version),
        None => step.version.to_owned(),
    });
    (steps.collect(), path.reaches_head)
}

#[test]
fn olm_v0_goes_step_by_step_to_the_head() {
    let stable = stable();
    for (from, steps, reaches) in [
        (None, &["2.0.0"][..], true),
        (
            Some(installed("a.v1.0.0", "1.0.0")),
            &["1.1.0 Replaces", "1.2.0 Replaces", "2.0.0 Replaces"],
            true,
        ),
        (
            Some(installed("a.v1.1.1", "1.1.1")),
            &["1.2.0 Skips", "2.0.0 Replaces"],
            true,
        ),
        (
            Some(installed("", "1.0.7")),
            &["1.2.0 SkipRange", "2.0.0 Replaces"],
            true,
        ),
        (Some(installed("a.v2.0.0", "2.0.0")), &[], true),
        (Some(installed("a.v0.1.0", "0.1.0")), &[], false),
    ] {
        let (found, reached) = walked(&stable, from.as_ref());
        assert_eq!(
            (found, reached),
            (steps.iter().map(ToString::to_string).collect(), reaches),
            "{from:?}"
        );
    }
}

#[test]
fn olm_v0_takes_what_is_nearest_to_the_head() {
    let jumping = channel(
        "stable",
        vec![
            entry("3.0.0", "2.0.0", &[], ">=1.0.0 <3.0.0"),
            entry("2.0.0", "1.0.0", &[], ""),
            entry("1.0.0", "", &[], ""),
        ],
    );
    assert_eq!(
        walked(&jumping, Some(&installed("a.v1.0.0", "1.0.0"))),
        (vec!["3.0.0 SkipRange".to_owned()], true)
    );
    // By name alone, the range is not known to hold it.
    assert_eq!(
        walked(&jumping, Some(&installed("a.v1.0.0", ""))).0,
        ["2.0.0 Replaces", "3.0.0 Replaces"]
    );
}

#[test]
fn olm_v0_never_installs_what_its_tools_deprecated() {
    let mut channel = stable();
    channel.entries[0].prohibited = true;
    let at = |name, version| Some(installed(name, version));
    let steps = |from: Option<Installed<'static>>| walked(&channel, from.as_ref());
    let way = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect();
    assert_eq!(
        steps(at("a.v1.1.0", "1.1.0")),
        (way(&["1.2.0 Replaces"]), false)
    );
    assert_eq!(steps(at("a.v1.2.0", "1.2.0")), (way(&[]), false));
    // Its next version is installed first.
    assert_eq!(steps(None), (way(&["1.2.0"]), false));
    for entry in &mut channel.entries {
        entry.prohibited = true;
    }
    assert_eq!(walked(&channel, None), (way(&[]), false));
}

#[test]
fn a_broken_channel_does_not_send_anyone_in_circles() {
    // The rest of a channel with a cycle, and of one without a head.
    let cycle = channel(
        "stable",
        vec![
            entry("3.0.0", "2.0.0", &[], ""),
            entry("2.0.0", "1.0.0", &[], ""),
            entry("1.0.0", "2.0.0", &[], "<9.0.0"),
        ],
    );
    assert_eq!(
        walked(&cycle, Some(&installed("a.v1.0.0", "1.0.0"))),
        (
            vec!["2.0.0 Replaces".to_owned(), "3.0.0 Replaces".to_owned()],
            true
        )
    );
    let mut skipped = cycle.clone();
    skipped.entries[2].skips.push("a.v3.0.0".into());
    assert_eq!(
        walked(&skipped, Some(&installed("a.v1.0.0", "1.0.0"))),
        (vec![], false)
    );
    let mut headless = cycle;
    headless.head = None;
    assert_eq!(
        walked(&headless, Some(&installed("a.v1.0.0", "1.0.0"))),
        (vec![], false)
    );
    assert_eq!(walked(&headless, None), (vec![], false));
}

#[test]
fn olm_v0_never_installs_an_entry_that_another_one_skips() {
    let fast = channel(
        "fast",
        vec![
            entry("0.3.0", "0.2.3", &["0.2.3"], ""),
            entry("0.2.3", "0.2.2", &[], ""),
            entry("0.2.2", "", &[], ""),
        ],
    );
    let steps = |name, version| walked(&fast, Some(&installed(name, version)));
    assert_eq!(steps("a.v0.2.2", "0.2.2"), (vec![], false));
    let head = vec!["0.3.0 Replaces".to_owned()];
    assert_eq!(steps("a.v0.2.3", "0.2.3"), (head, true));
    // An entry beside the chain skips as well.
    let mut beside = stable();
    beside.entries[4].skips.push("a.v1.1.0".into());
    let steps = walked(&beside, Some(&installed("a.v1.0.0", "1.0.0")));
    assert_eq!(steps, (vec![], false));
}

/// Entries `a.v<n>.0.0`, the highest being the head: for each the number that it
/// replaces, the numbers that it skips, the lowest number of its skip range, and
/// whether it has the property `olm.deprecated`.
fn channels() -> impl Strategy<Value = ChannelRecord<'static>> {
    let numbers = proptest::collection::vec(0..8_usize, 0..3);
    let entry = (0..8_usize, numbers, 0..16_usize, 0..8_u8);
    proptest::collection::vec(entry, 1..9).prop_map(|entries| {
        let name = |number: usize| format!("a.v{number}.0.0");
        let records = entries.into_iter().enumerate();
        let records = records.map(|(own, (replaces, skips, lowest, prohibited))| {
            let below = |number: &usize| *number < own;
            let skips = skips.into_iter().filter(below);
            EntryRecord {
                name: name(own).into(),
                version: format!("{own}.0.0").into(),
                replaces: Some(replaces)
                    .filter(below)
                    .map_or(String::new(), name)
                    .into(),
                skips: skips.map(|number| name(number).into()).collect(),
                skip_range: Some(lowest)
                    .filter(below)
                    .map_or(String::new(), |lowest| format!(">={lowest}.0.0 <{own}.0.0"))
                    .into(),
                prohibited: prohibited == 0,
                ..EntryRecord::default()
            }
        });
        let mut records: Vec<EntryRecord<'_>> = records.collect();
        records.reverse();
        // The chain of the head first, as in a stored record.
        let mut order = Vec::new();
        let mut next = Some(0);
        while let Some(at) = next {
            order.push(records[at].name.clone());
            next = (records.iter()).position(|entry| entry.name == records[at].replaces);
        }
        records.sort_by_key(|entry| {
            let place = order.iter().position(|name| *name == entry.name);
            place.unwrap_or(usize::MAX)
        });
        channel("stable", records)
    })
}

/// The rules of OLM v0, one after the other, for one step: the bundle that is
/// installed next.
fn next_by_the_rules<'a>(
    channel: &'a ChannelRecord<'a>,
    name: &str,
    version: &Version,
) -> Option<&'a EntryRecord<'a>> {
    let of_name = |name: &str| channel.entries.iter().find(|entry| entry.name == name);
    let mut at = of_name(channel.head.as_deref()?);
    while let Some(entry) = at {
        if entry.name == name {
            return None;
        }
        let mut all = channel.entries.iter();
        let is_skipped = all.any(|other| other.skips.contains(&entry.name));
        let follows = entry.replaces == name
            || entry.skips.iter().any(|skip| skip == name)
            || Range::parse(&entry.skip_range).is_ok_and(|range| range.contains(version));
        if follows && !is_skipped && !entry.prohibited {
            return Some(entry);
        }
        at = of_name(&entry.replaces);
    }
    None
}

proptest! {
    #[test]
    fn a_path_of_olm_v0_follows_its_rules_step_by_step(channel in channels(), from in 0..9_usize) {
        let name = format!("a.v{from}.0.0");
        let version = Version::parse(&format!("{from}.0.0")).unwrap();
        let found = Installed { name: &name, version: Some(version.clone()) };
        let path = path(&channel, Some(&found));
        let (mut name, mut version) = (name.clone(), version);
        let mut wanted = Vec::new();
        while let Some(entry) = next_by_the_rules(&channel, &name, &version) {
            wanted.push(&*entry.name);
            name = entry.name.to_string();
            version = Version::parse(&entry.version).unwrap();
        }
        let steps: Vec<&str> = path.steps.iter().map(|step| step.name).collect();
        prop_assert_eq!(steps, wanted);
        prop_assert_eq!(path.reaches_head, channel.head.as_deref() == Some(&*name));
    }
}
