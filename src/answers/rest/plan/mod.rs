//! The way from an installed bundle to another, step by step, by the rules of either
//! version of Operator Lifecycle Manager.
//!
//! With a target, the shortest way counts; under OLM v0 a change of the channel is a
//! step of its own. Without one, OLM v0 goes to the head of its channel, and OLM v1 to
//! the best successor until there is none.
//!
//! `v0` and `v1` have the rules, `shortest` finds the way to a target, `moves` has what
//! they share. Authors decide how many entries and ranges there are, so none is read
//! again for each step.

mod moves;
mod shortest;
mod v0;
mod v1;

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use utoipa::ToSchema;

use crate::answers::rest::plan::moves::{installed_as, versions_of};
use crate::answers::rest::records::{ChannelRecord, EntryRecord};
use crate::answers::rest::updates::{Candidate, Edge, Installed, candidates};
use fbc::text::semver::{Range, Version};

/// How many versions that a step passes over are listed.
const MAX_PASSED: usize = 100;

/// The rules of a version of Operator Lifecycle Manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rules {
    /// One channel, towards its head.
    #[default]
    V0,
    /// Any edge of any channel.
    V1,
}

impl Rules {
    /// The name in addresses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0 => "v0",
            Self::V1 => "v1",
        }
    }
}

/// A way of updates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan<'a> {
    /// The rules that it follows.
    pub rules: Rules,
    /// Its steps in order.
    pub steps: Vec<PlanStep<'a>>,
    /// Whether it reaches the target; without one, a head of a channel.
    pub reached: bool,
}

/// A step of a way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep<'a> {
    /// The channel that has the edge.
    pub channel: &'a str,
    /// Whether the channel has to be changed before.
    pub changes_channel: bool,
    /// The bundle before; empty when only its version is known.
    pub from: &'a str,
    /// The bundle after.
    pub to: &'a str,
    /// Its version, as it was written.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// The edge.
    pub edge: Edge,
    /// The entries of the channel between both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<Passed<'a>>,
    /// The reason of the deprecation of the bundle after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<&'a str>,
}

/// A version that a step passes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PassedOver)]
pub struct Passed<'a> {
    /// Its bundle.
    pub name: &'a str,
    /// Its version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'a str,
    /// How the bundle after names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<Edge>,
}

/// The way from an installed bundle. `to` is the name of a bundle. Under OLM v0, the
/// first of `channels` is that of the subscription.
pub fn plan<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: &Installed<'a>,
    to: Option<&str>,
    rules: Rules,
) -> Plan<'a> {
    let found = match (rules, to) {
        (Rules::V0, None) => v0::to_head(channels, installed),
        (Rules::V1, None) => Some(v1::to_best(channels, installed)),
        (Rules::V0, Some(to)) => v0::shortest(channels, installed, to),
        (Rules::V1, Some(to)) => v1::shortest(channels, installed, to),
    };
    let (moves, reached) = found.unwrap_or_default();
    let mut steps = Vec::with_capacity(moves.len());
    let mut before = installed.clone();
    let mut channel = match rules {
        Rules::V0 => 0,
        Rules::V1 => usize::MAX,
    };
    let mut versions = HashMap::new();
    for step in moves {
        let record = &channels[step.channel];
        let entry = &record.entries[step.entry];
        let versions = versions
            .entry(step.channel)
            .or_insert_with(|| versions_of(record));
        steps.push(PlanStep {
            channel: &record.name,
            changes_channel: rules == Rules::V0 && step.channel != channel,
            from: before.name,
            to: &entry.name,
            version: &entry.version,
            edge: step.edge,
            passed_over: passed_over(record, versions, &before, (entry, step.entry)),
            deprecation: entry.deprecation.as_deref(),
        });
        channel = step.channel;
        before = installed_as(entry);
    }
    // A step leads to some of what the steps before seem to pass over.
    let reached_by: HashSet<&str> = steps.iter().map(|step| step.to).collect();
    for step in &mut steps {
        step.passed_over
            .retain(|passed| !reached_by.contains(passed.name));
    }
    Plan {
        rules,
        steps,
        reached,
    }
}

/// The entries of a channel between two bundles. `versions` has those of the channel.
fn passed_over<'a>(
    channel: &'a ChannelRecord<'a>,
    versions: &[Option<Version>],
    before: &Installed<'_>,
    (after, at): (&'a EntryRecord<'a>, usize),
) -> Vec<Passed<'a>> {
    let (Some(low), Some(high)) = (&before.version, &versions[at]) else {
        return Vec::new();
    };
    let range = Range::parse(&after.skip_range).ok();
    let skips: HashSet<&str> = after.skips.iter().map(|skip| &**skip).collect();
    let entries = channel.entries.iter().zip(versions);
    let entries = entries.filter_map(|(entry, version)| {
        let version = version.as_ref()?;
        if version <= low || version >= high || entry.name == before.name {
            return None;
        }
        let edge = if skips.contains(&*entry.name) {
            Some(Edge::Skips)
        } else if after.replaces == entry.name {
            Some(Edge::Replaces)
        } else {
            let in_range = range.as_ref().is_some_and(|range| range.contains(version));
            in_range.then_some(Edge::SkipRange)
        };
        Some(Passed {
            name: &entry.name,
            version: &entry.version,
            edge,
        })
    });
    entries.take(MAX_PASSED).collect()
}

/// The successors of a bundle by the rules of OLM v1, the best first, without itself.
pub fn successors<'a>(
    channels: &'a [ChannelRecord<'a>],
    installed: &Installed<'_>,
) -> Vec<Candidate<'a>> {
    let mut found = candidates(channels, Some(installed), None);
    // Its own range may hold its version.
    found.retain(|one| {
        let is_itself = match installed.name {
            "" => one.edges.contains(&Edge::Installed),
            name => one.name == name || one.edges == [Edge::Installed],
        };
        !is_itself
    });
    found
}

#[cfg(test)]
mod tests;
