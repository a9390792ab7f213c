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
