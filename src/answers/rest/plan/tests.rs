//! Tests of plans.

use super::*;

fn entry<'a>(
    name: &'a str,
    replaces: &'a str,
    skips: &[&'a str],
    range: &'a str,
) -> EntryRecord<'a> {
    EntryRecord {
        name: name.into(),
        version: name.trim_start_matches('v').into(),
        replaces: replaces.into(),
        skips: skips.iter().map(|skip| (*skip).into()).collect(),
        skip_range: range.into(),
        ..EntryRecord::default()
    }
}

fn channel<'a>(name: &'a str, head: &'a str, entries: Vec<EntryRecord<'a>>) -> ChannelRecord<'a> {
    ChannelRecord {
        name: name.into(),
        head: Some(head.into()),
        entries,
        ..ChannelRecord::default()
    }
}

/// Two channels: `slow` ends at 1.2.0, `fast` goes on with a range.
fn channels() -> Vec<ChannelRecord<'static>> {
    vec![
        channel(
            "slow",
            "v1.2.0",
            vec![
                entry("v1.2.0", "v1.0.0", &["v1.1.0"], ""),
                entry("v1.0.0", "", &[], ""),
                entry("v1.1.0", "v1.0.0", &[], ""),
            ],
        ),
        channel(
            "fast",
            "v2.1.0",
            vec![
                entry("v2.1.0", "v2.0.0", &[], ""),
                entry("v2.0.0", "", &[], ">=1.2.0 <2.0.0"),
            ],
        ),
    ]
}

fn installed(name: &str) -> Installed<'_> {
    Installed {
        name,
        version: Version::parse(name.trim_start_matches('v')).ok(),
    }
}

fn steps(from: &'static str, to: Option<&str>, rules: Rules) -> (Vec<String>, bool) {
    let channels = channels();
    let plan = plan(&channels, &installed(from), to, rules);
    let steps = plan.steps.iter().map(|step| {
        let change = if step.changes_channel { "+" } else { "" };
        format!("{change}{} {} {:?}", step.channel, step.to, step.edge)
    });
    (steps.collect(), plan.reached)
}

#[test]
fn olm_v0_stays_in_its_channel_without_a_target() {
    assert_eq!(
        steps("v1.0.0", None, Rules::V0),
        (vec!["slow v1.2.0 Replaces".to_owned()], true)
    );
}

#[test]
fn a_version_does_not_follow_itself_by_its_own_range() {
    let channels = [channel(
        "stable",
        "v1.1.0",
        vec![entry("v1.1.0", "", &[], ">=1.0.0 <=1.1.0")],
    )];
    let named = installed("v1.1.0");
    let of_version = Installed {
        name: "",
        ..named.clone()
    };
    for start in [named, of_version] {
        assert_eq!(successors(&channels, &start), []);
    }
    assert_eq!(successors(&channels, &installed("v1.0.0")).len(), 1);
}

#[test]
fn a_change_of_the_channel_is_told() {
    assert_eq!(
        steps("v1.0.0", Some("v2.1.0"), Rules::V0),
        (
            vec![
                "slow v1.2.0 Replaces".to_owned(),
                "+fast v2.0.0 SkipRange".to_owned(),
                "fast v2.1.0 Replaces".to_owned(),
            ],
            true
        )
    );
}

#[test]
fn olm_v1_takes_any_edge_and_the_best_successor() {
    assert_eq!(
        steps("v1.0.0", Some("v1.1.0"), Rules::V1),
        (vec!["slow v1.1.0 Replaces".to_owned()], true)
    );
    let (way, reached) = steps("v1.0.0", None, Rules::V1);
    assert_eq!(
        way,
        [
            "slow v1.2.0 Replaces",
            "fast v2.0.0 SkipRange",
            "fast v2.1.0 Replaces"
        ]
    );
    assert!(reached);
}

#[test]
fn a_version_that_olm_v0_never_installs_is_not_reached() {
    assert_eq!(
        steps("v1.0.0", Some("v1.1.0"), Rules::V0),
        (Vec::new(), false)
    );
    assert_eq!(
        steps("v2.1.0", Some("v1.0.0"), Rules::V1),
        (Vec::new(), false)
    );
}

#[test]
fn a_step_passes_over_nothing_that_a_later_one_reaches() {
    let channels = vec![channel(
        "stable",
        "v1.0.1-1",
        vec![
            entry("v1.0.1-1", "v1.0.1", &[], ""),
            entry("v1.0.1", "v1.0.0", &[], ""),
            entry("v1.0.0", "", &[], ""),
        ],
    )];
    let plan = plan(&channels, &installed("v1.0.0"), None, Rules::V0);
    let steps: Vec<(&str, usize)> = (plan.steps.iter())
        .map(|step| (step.to, step.passed_over.len()))
        .collect();
    assert_eq!(steps, [("v1.0.1", 0), ("v1.0.1-1", 0)]);
}

#[test]
fn a_step_names_what_it_passes_over_and_why() {
    let channels = channels();
    let plan = plan(&channels, &installed("v1.0.0"), None, Rules::V0);
    let passed = &plan.steps[0].passed_over;
    assert_eq!(passed.len(), 1);
    assert_eq!(
        (passed[0].name, passed[0].edge),
        ("v1.1.0", Some(Edge::Skips))
    );
}

#[test]
fn a_hostile_package_is_planned_with_one_look_at_each_bundle() {
    const ENTRIES: usize = 500;
    const CHANNELS: usize = 20;
    let name = |at: usize| format!("v{at}.0.0");
    // Each entry replaces the one before it, and has the ten before it in its range.
    let one = |at: usize| EntryRecord {
        name: name(at).into(),
        version: format!("{at}.0.0").into(),
        replaces: at.checked_sub(1).map_or_else(String::new, name).into(),
        skip_range: format!(">={}.0.0 <{at}.0.0", at.saturating_sub(10)).into(),
        ..EntryRecord::default()
    };
    let texts: Vec<String> = (0..CHANNELS).map(|at| format!("c{at}")).collect();
    let channels: Vec<ChannelRecord<'_>> = texts
        .iter()
        .map(|text| ChannelRecord {
            name: text.as_str().into(),
            head: Some(name(ENTRIES - 1).into()),
            entries: (0..ENTRIES).rev().map(one).collect(),
            ..ChannelRecord::default()
        })
        .collect();
    let start = installed("v0.0.0");
    let lines: Vec<v0::ChannelChain<'_>> = channels.iter().map(v0::ChannelChain::of).collect();
    let (mut asked, mut examined) = (0, 0);
    let found = shortest::shortest(&channels, &start, "v499.0.0", |channel, current| {
        let steps = v0::neighbours(&lines, channel, current);
        asked += 1;
        examined += steps.len();
        steps
    });
    // The farthest entry in range comes first: 499 is 49 times 10 and once 9.
    assert_eq!(found.map(|(moves, _)| moves.len()), Some(50));
    assert!(
        asked <= ENTRIES && examined <= ENTRIES * CHANNELS,
        "{asked} {examined}"
    );
    for rules in [Rules::V0, Rules::V1] {
        let to = plan(&channels, &start, Some("v499.0.0"), rules);
        let without = plan(&channels, &start, None, rules);
        assert_eq!((to.steps.len(), to.reached), (50, true), "{rules:?}");
        assert_eq!(
            (without.steps.len(), without.reached),
            (50, true),
            "{rules:?}"
        );
    }
}
