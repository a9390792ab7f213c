//! Differences between two outlines, in the order of the packages.

mod atom;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::answers::outline::{BundleOutline, ChannelOutline, Outline, PackageOutline, shortened};

pub use atom::{FeedEntry, feed};
pub use text::{in_words, markdown, sentence, summary, text};

/// A change of a catalog. Fields without meaning for its kind are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Its kind.
    pub kind: Kind,
    /// The package; empty for a problem of the catalog.
    pub package: String,
    /// The channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// The version of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The value before: a head, a default channel, a digest, or a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The code of a problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// The kinds of changes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schema(as = ChangeKind)]
pub enum Kind {
    /// A package that the other catalog does not have. Its channels and bundles are
    /// not listed.
    PackageAdded,
    /// A package that the catalog lost.
    PackageRemoved,
    /// A package that has errors now, or came with errors.
    PackageQuarantined,
    /// A package that has no errors any more.
    PackageRestored,
    /// Another default channel.
    DefaultChannelChanged,
    /// A channel that the package did not have. Its entries are not listed.
    ChannelAdded,
    /// A channel that the package lost.
    ChannelRemoved,
    /// Another head of a channel.
    HeadMoved,
    /// A bundle is in a channel now.
    EntryAdded,
    /// A bundle is not in a channel any more.
    EntryRemoved,
    /// Entries that a channel had before replace or skip other ones.
    UpgradeEdgesChanged,
    /// A bundle that the package did not have.
    BundleAdded,
    /// A bundle that the package lost.
    BundleRemoved,
    /// A bundle of the same name with other content.
    BundleReplaced,
    /// A package, channel or bundle is deprecated now, or with another message.
    Deprecated,
    /// A deprecation was lifted.
    DeprecationLifted,
    /// A package has a problem that it did not have.
    ProblemFound,
    /// A package lost its problems with a code.
    ProblemSolved,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 18] = [
        Self::PackageAdded,
        Self::PackageRemoved,
        Self::PackageQuarantined,
        Self::PackageRestored,
        Self::DefaultChannelChanged,
        Self::ChannelAdded,
        Self::ChannelRemoved,
        Self::HeadMoved,
        Self::EntryAdded,
        Self::EntryRemoved,
        Self::UpgradeEdgesChanged,
        Self::BundleAdded,
        Self::BundleRemoved,
        Self::BundleReplaced,
        Self::Deprecated,
        Self::DeprecationLifted,
        Self::ProblemFound,
        Self::ProblemSolved,
    ];

    /// The name in JSON, metrics and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PackageAdded => "package-added",
            Self::PackageRemoved => "package-removed",
            Self::PackageQuarantined => "package-quarantined",
            Self::PackageRestored => "package-restored",
            Self::DefaultChannelChanged => "default-channel-changed",
            Self::ChannelAdded => "channel-added",
            Self::ChannelRemoved => "channel-removed",
            Self::HeadMoved => "head-moved",
            Self::EntryAdded => "entry-added",
            Self::EntryRemoved => "entry-removed",
            Self::UpgradeEdgesChanged => "upgrade-edges-changed",
            Self::BundleAdded => "bundle-added",
            Self::BundleRemoved => "bundle-removed",
            Self::BundleReplaced => "bundle-replaced",
            Self::Deprecated => "deprecated",
            Self::DeprecationLifted => "deprecation-lifted",
            Self::ProblemFound => "problem-found",
            Self::ProblemSolved => "problem-solved",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The changes from one outline to another, sorted by package, with those of one
/// package in the order of [`Kind`].
pub fn changes(from: &Outline, to: &Outline) -> Vec<Change> {
    let mut found = Changes(Vec::new());
    for (name, sides) in both(&from.packages, &to.packages) {
        let quarantined = |outline: &Outline| outline.quarantined.contains(name);
        match sides {
            (Some(before), Some(after)) => found.package(name, before, after),
            (Some(_), None) if quarantined(to) => found.add(Kind::PackageQuarantined, name),
            (Some(_), None) => found.add(Kind::PackageRemoved, name),
            (None, _) if quarantined(from) => found.add(Kind::PackageRestored, name),
            (None, _) => found.add(Kind::PackageAdded, name),
        }
    }
    let absent = |outline: &Outline, name: &String| {
        !outline.packages.contains_key(name) && !outline.quarantined.contains(name)
    };
    for name in to.quarantined.iter().filter(|name| absent(from, name)) {
        found.add(Kind::PackageQuarantined, name);
    }
    for name in from.quarantined.iter().filter(|name| absent(to, name)) {
        found.add(Kind::PackageRemoved, name);
    }
    let none = BTreeMap::new();
    for (package, (before, after)) in both(&from.problems, &to.problems) {
        if !absent(from, package) && absent(to, package) {
            // Its removal is told.
            continue;
        }
        for (code, sides) in both(before.unwrap_or(&none), after.unwrap_or(&none)) {
            let kind = match sides {
                (None, Some(_)) => Kind::ProblemFound,
                (Some(_), None) => Kind::ProblemSolved,
                _ => continue,
            };
            found.push(Change {
                code: Some(code.clone()),
                ..change(kind, package)
            });
        }
    }
    found
        .0
        .sort_by(|a, b| (&a.package, a.kind).cmp(&(&b.package, b.kind)));
    found.0
}

/// How many changes of each kind there are; kinds without any are left out.
pub fn counts(changes: &[Change]) -> BTreeMap<Kind, usize> {
    let mut counts = BTreeMap::new();
    for change in changes {
        *counts.entry(change.kind).or_default() += 1;
    }
    counts
}

struct Changes(Vec<Change>);

impl Changes {
    fn push(&mut self, change: Change) {
        self.0.push(change);
    }

    fn add(&mut self, kind: Kind, package: &str) {
        self.push(change(kind, package));
    }

    fn package(&mut self, name: &str, before: &PackageOutline, after: &PackageOutline) {
        if before.default_channel != after.default_channel {
            self.push(Change {
                from: Some(before.default_channel.clone()),
                to: Some(after.default_channel.clone()),
                ..change(Kind::DefaultChannelChanged, name)
            });
        }
        self.deprecation(
            &change(Kind::Deprecated, name),
            before.deprecation.as_ref(),
            after.deprecation.as_ref(),
        );
        for (channel, sides) in both(&before.channels, &after.channels) {
            match sides {
                (Some(before), Some(after)) => self.channel(name, channel, before, after),
                (_, Some(after)) => {
                    self.push(Change {
                        channel: Some(channel.clone()),
                        to: Some(after.head.clone()),
                        ..change(Kind::ChannelAdded, name)
                    });
                    let base = of_channel(Kind::Deprecated, name, channel);
                    self.deprecation(&base, None, after.deprecation.as_ref());
                }
                (before, None) => self.push(Change {
                    channel: Some(channel.clone()),
                    from: before.map(|before| before.head.clone()),
                    ..change(Kind::ChannelRemoved, name)
                }),
            }
        }
        for (bundle, sides) in both(&before.bundles, &after.bundles) {
            match sides {
                (Some(before), Some(after)) => self.bundle(name, bundle, before, after),
                (_, Some(after)) => {
                    self.push(of_bundle(Kind::BundleAdded, name, bundle, after));
                    let base = of_bundle(Kind::Deprecated, name, bundle, after);
                    self.deprecation(&base, None, after.deprecation.as_ref());
                }
                (Some(before), None) => {
                    self.push(of_bundle(Kind::BundleRemoved, name, bundle, before));
                }
                (None, None) => {}
            }
        }
    }

    fn channel(
        &mut self,
        package: &str,
        name: &str,
        before: &ChannelOutline,
        after: &ChannelOutline,
    ) {
        if before.head != after.head {
            self.push(Change {
                from: Some(before.head.clone()),
                to: Some(after.head.clone()),
                ..of_channel(Kind::HeadMoved, package, name)
            });
        }
        let entry = |kind, bundle: &String| Change {
            bundle: Some(bundle.clone()),
            ..of_channel(kind, package, name)
        };
        for bundle in after.entries.difference(&before.entries) {
            self.push(entry(Kind::EntryAdded, bundle));
        }
        for bundle in before.entries.difference(&after.entries) {
            self.push(entry(Kind::EntryRemoved, bundle));
        }
        if before.has_other_edges(after) {
            self.push(of_channel(Kind::UpgradeEdgesChanged, package, name));
        }
        self.deprecation(
            &of_channel(Kind::Deprecated, package, name),
            before.deprecation.as_ref(),
            after.deprecation.as_ref(),
        );
    }

    fn bundle(&mut self, package: &str, name: &str, before: &BundleOutline, after: &BundleOutline) {
        if before.digest != after.digest {
            self.push(Change {
                from: Some(before.digest.clone()),
                to: Some(after.digest.clone()),
                ..of_bundle(Kind::BundleReplaced, package, name, after)
            });
        }
        self.deprecation(
            &of_bundle(Kind::Deprecated, package, name, after),
            before.deprecation.as_ref(),
            after.deprecation.as_ref(),
        );
    }

    /// A deprecation that was set, changed or lifted. `base` names its object.
    fn deprecation(&mut self, base: &Change, before: Option<&String>, after: Option<&String>) {
        let is_same = before
            .zip(after)
            .is_some_and(|(before, after)| is_same(before, after));
        if before == after || is_same {
            return;
        }
        self.push(Change {
            kind: match after {
                Some(_) => Kind::Deprecated,
                None => Kind::DeprecationLifted,
            },
            from: before.cloned(),
            to: after.cloned(),
            ..base.clone()
        });
    }
}

/// Whether two messages are the same, as far as they tell. In outlines of an earlier version,
/// a long one has no digits at its end.
fn is_same(before: &str, after: &str) -> bool {
    match (shortened(before), shortened(after)) {
        (Some((one, rest)), Some((other, other_rest))) if (rest == "…") != (other_rest == "…") => {
            one == other
        }
        _ => before == after,
    }
}

fn change(kind: Kind, package: &str) -> Change {
    Change {
        kind,
        package: package.to_owned(),
        channel: None,
        bundle: None,
        version: None,
        from: None,
        to: None,
        code: None,
    }
}

fn of_channel(kind: Kind, package: &str, channel: &str) -> Change {
    Change {
        channel: Some(channel.to_owned()),
        ..change(kind, package)
    }
}

fn of_bundle(kind: Kind, package: &str, bundle: &str, outline: &BundleOutline) -> Change {
    Change {
        bundle: Some(bundle.to_owned()),
        version: Some(outline.version.clone()),
        ..change(kind, package)
    }
}

/// The values of two maps by key.
fn both<'a, T>(
    a: &'a BTreeMap<String, T>,
    b: &'a BTreeMap<String, T>,
) -> impl Iterator<Item = (&'a String, (Option<&'a T>, Option<&'a T>))> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter().map(|key| (key, (a.get(key), b.get(key))))
}
