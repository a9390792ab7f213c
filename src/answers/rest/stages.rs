//! The way of an installed bundle over several catalogs, such as those of the cluster
//! versions that an upgrade passes through.
//!
//! A catalog takes an installed bundle if it has the bundle, or an edge that leaves it. If
//! the next catalog does neither, the bundle is updated first, in the catalog that the
//! cluster has.

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::rest::plan::{Plan, PlanStep, Rules, plan};
use crate::answers::rest::records::ChannelRecord;
use crate::answers::rest::updates::Installed;
use fbc::text::semver::Version;

/// A catalog on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Stage<'a> {
    /// The catalog.
    pub catalog: &'a str,
    /// How it takes the bundle that comes to it.
    pub taken: Taken,
    /// The bundle that comes to it; empty when only its version is known.
    pub from: &'a str,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The updates in this catalog before the next one: the fewest that the next one takes.
    /// In the last catalog, all to the newest version.
    pub steps: Vec<PlanStep<'a>>,
}

/// How a catalog takes an installed bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Taken {
    /// It has the bundle.
    Entry,
    /// It has an edge that leaves the bundle.
    Edge,
    /// Neither.
    No,
    /// It does not have the package; under OLM v0, a quarantined one counts as absent.
    NoPackage,
}

impl Taken {
    /// Whether the way goes on.
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Entry | Self::Edge)
    }
}

/// The way over catalogs: a stage for each up to the first that takes nothing. Under OLM
/// v0, the first of the channels of each catalog is that of the subscription.
pub fn stages<'a>(
    catalogs: &[(&'a str, &'a [ChannelRecord<'a>])],
    installed: &Installed<'a>,
    rules: Rules,
) -> Vec<Stage<'a>> {
    let mut current = installed.clone();
    let mut found: Vec<Stage<'a>> = Vec::new();
    for (at, (catalog, channels)) in catalogs.iter().enumerate() {
        let taken = taken(channels, &current, rules);
        let mut stage = Stage {
            catalog,
            taken,
            from: current.name,
            version: current.version.as_ref().map(ToString::to_string),
            steps: Vec::new(),
        };
        if !taken.is_taken() {
            found.push(stage);
            break;
        }
        let Plan { steps, .. } = plan(channels, &current, None, rules);
        stage.steps = match catalogs.get(at + 1) {
            None => steps,
            Some((_, next)) => before(next, &current, steps, rules),
        };
        if let Some(last) = stage.steps.last() {
            current = reached(last);
        }
        found.push(stage);
    }
    found
}

/// The fewest steps after which the next catalog takes the bundle; none if it takes it at
/// once, and all if it never does.
fn before<'a>(
    next: &'a [ChannelRecord<'a>],
    current: &Installed<'a>,
    mut steps: Vec<PlanStep<'a>>,
    rules: Rules,
) -> Vec<PlanStep<'a>> {
    if taken(next, current, rules).is_taken() {
        return Vec::new();
    }
    let enough = steps
        .iter()
        .position(|step| taken(next, &reached(step), rules).is_taken());
    if let Some(at) = enough {
        steps.truncate(at + 1);
    }
    steps
}

fn taken(channels: &[ChannelRecord<'_>], current: &Installed<'_>, rules: Rules) -> Taken {
    let unseen = rules == Rules::V0 && channels.iter().any(|channel| channel.quarantined);
    if channels.is_empty() || unseen {
        return Taken::NoPackage;
    }
    let version = current.version.as_ref().map(ToString::to_string);
    let mut entries = channels.iter().flat_map(|channel| &channel.entries);
    let is_entry = entries.any(|entry| match current.name {
        "" => version
            .as_ref()
            .is_some_and(|version| *version == entry.version),
        name => entry.name == name,
    });
    if is_entry {
        return Taken::Entry;
    }
    let has_edge = !plan(channels, current, None, rules).steps.is_empty();
    if has_edge { Taken::Edge } else { Taken::No }
}

fn reached<'a>(step: &PlanStep<'a>) -> Installed<'a> {
    Installed {
        name: step.to,
        version: Version::parse(step.version).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::rest::records::EntryRecord;

    /// A channel whose versions each replace the one before; the first replaces `tail`.
    fn channel(versions: &[&'static str], tail: &'static str) -> Vec<ChannelRecord<'static>> {
        let mut before = tail;
        let mut entries = Vec::new();
        for version in versions {
            entries.push(EntryRecord {
                name: (*version).into(),
                version: (*version).into(),
                replaces: before.into(),
                ..EntryRecord::default()
            });
            before = version;
        }
        entries.reverse();
        vec![ChannelRecord {
            name: "stable".into(),
            default: true,
            head: versions.last().map(|head| (*head).into()),
            entries,
            ..ChannelRecord::default()
        }]
    }

    fn way(
        from: &'static str,
        catalogs: &[(&'static str, Vec<ChannelRecord<'static>>)],
        rules: Rules,
    ) -> Vec<(String, Taken, Vec<String>)> {
        let installed = Installed {
            name: from,
            version: Version::parse(from).ok(),
        };
        let catalogs: Vec<_> = catalogs
            .iter()
            .map(|(name, channels)| (*name, channels.as_slice()))
            .collect();
        let found = stages(&catalogs, &installed, rules);
        let steps = |stage: &Stage<'_>| stage.steps.iter().map(|step| step.to.to_owned()).collect();
        found
            .iter()
            .map(|stage| (stage.catalog.to_owned(), stage.taken, steps(stage)))
            .collect()
    }

    #[test]
    fn a_bundle_is_updated_until_the_next_catalog_takes_it() {
        let catalogs = [
            ("v1", channel(&["1.0.0", "1.1.0", "1.2.0", "1.3.0"], "")),
            ("v2", channel(&["1.3.0", "2.0.0"], "1.2.0")),
            ("v3", channel(&["2.0.0", "3.0.0"], "")),
        ];
        for rules in [Rules::V0, Rules::V1] {
            assert_eq!(
                way("1.0.0", &catalogs, rules),
                [
                    (
                        "v1".into(),
                        Taken::Entry,
                        vec!["1.1.0".into(), "1.2.0".into()]
                    ),
                    (
                        "v2".into(),
                        Taken::Edge,
                        vec!["1.3.0".into(), "2.0.0".into()]
                    ),
                    ("v3".into(), Taken::Entry, vec!["3.0.0".into()]),
                ],
                "{rules:?}"
            );
        }
    }

    #[test]
    fn the_way_ends_at_a_catalog_that_takes_nothing() {
        let catalogs = [
            ("v1", channel(&["1.0.0", "1.1.0"], "")),
            ("v2", channel(&["5.0.0", "6.0.0"], "")),
            ("v3", channel(&["1.1.0"], "")),
        ];
        let found = way("1.0.0", &catalogs, Rules::V0);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].1, Taken::No);
        let without = [("v1", channel(&["1.0.0"], "")), ("v2", Vec::new())];
        assert_eq!(way("1.0.0", &without, Rules::V1)[1].1, Taken::NoPackage);
    }
}
