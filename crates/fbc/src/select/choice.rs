//! The selected part of a package.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::select::channel::Kept;
use crate::select::error::SelectError;
use crate::select::index::Package;
use crate::select::model::Reason;
use crate::select::request::{PackageSelection, VersionRange};
use crate::text::display::{MAX_NAMES, first_of};

/// A package and the selected entries of its channels.
pub(crate) struct Choice<'a> {
    pub(crate) package: Rc<Package<'a>>,
    /// By the channels' numbers; none is empty.
    pub(crate) channels: BTreeMap<usize, Kept>,
    pub(crate) default_channel: String,
}

impl<'a> Choice<'a> {
    /// The part of a package that a request selects.
    pub(crate) fn new(
        package: Rc<Package<'a>>,
        wanted: &PackageSelection,
        full: bool,
        any_default: bool,
        notes: &mut Vec<String>,
    ) -> Result<Self, SelectError> {
        let mut choice = Self::empty(package);
        let mut emptied = BTreeMap::new();
        for (number, range) in choice.wanted_channels(wanted)? {
            let kept = choice.take(number, range, full);
            if kept.is_empty() {
                emptied.insert(number, range);
            } else {
                notes.extend(choice.outside(number, &kept, range));
                choice.channels.insert(number, kept);
            }
        }
        choice.set_default(&wanted.default_channel, any_default, &emptied)?;
        // A range of the package is meant to leave channels out; one of a
        // channel is not.
        let named = !wanted.channels.is_empty();
        for (number, range) in emptied.into_iter().filter(|_| named) {
            notes.push(format!(
                "the channel {:?} of the package {:?} has no version in the range {range} and is \
                 left out",
                choice.package.channels[number].name, choice.package.name
            ));
        }
        Ok(choice)
    }

    /// No part of a package.
    pub(crate) fn empty(package: Rc<Package<'a>>) -> Self {
        Self {
            default_channel: package.default_channel.clone(),
            package,
            channels: BTreeMap::new(),
        }
    }

    /// The names of the bundles that are kept, some more than once.
    pub(crate) fn bundles(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().flat_map(|(channel, kept)| {
            let entries = &self.package.channels[*channel].entries;
            kept.keys().map(|number| entries[*number].name.as_str())
        })
    }

    /// Makes sure that what is kept makes a package: each channel a channel,
    /// and the default one of them. A package that is only here because it is
    /// needed may be without its default channel.
    pub(crate) fn complete(&mut self) -> Result<(), SelectError> {
        if !self.keeps(&self.default_channel)
            && let Some(first) = self.channels.keys().next()
        {
            self.default_channel = self.package.channels[*first].name.to_owned();
        }
        for (number, kept) in &self.channels {
            let channel = &self.package.channels[*number];
            if kept.len() < channel.entries.len()
                && let Some(why) = channel.defect(kept)
            {
                return Err(SelectError::Channel {
                    package: self.package.name.to_owned(),
                    channel: channel.name.to_owned(),
                    why,
                });
            }
        }
        Ok(())
    }

    /// The channels that are wanted, each with its range.
    fn wanted_channels<'w>(
        &self,
        wanted: &'w PackageSelection,
    ) -> Result<Vec<(usize, &'w VersionRange)>, SelectError> {
        if wanted.channels.is_empty() {
            let all = 0..self.package.channels.len();
            return Ok(all.map(|number| (number, &wanted.range)).collect());
        }
        let mut channels = Vec::with_capacity(wanted.channels.len());
        for channel in &wanted.channels {
            let number = self.package.channel(&channel.name).ok_or_else(|| {
                let names = self.package.channels.iter().map(|channel| channel.name);
                SelectError::UnknownChannel {
                    package: self.package.name.to_owned(),
                    channel: channel.name.clone(),
                    proposal: crate::text::suggest::proposal_or_all(&channel.name, names),
                }
            })?;
            let own = !channel.range.is_open();
            channels.push((number, if own { &channel.range } else { &wanted.range }));
        }
        Ok(channels)
    }

    fn take(&self, number: usize, range: &VersionRange, full: bool) -> Kept {
        let channel = &self.package.channels[number];
        if full {
            let all = 0..channel.entries.len();
            return all.map(|entry| (entry, Reason::Full)).collect();
        }
        let Some(constraint) = range.constraint() else {
            return Kept::from([(channel.head(), Reason::Head)]);
        };
        channel.cut(|entry| {
            let version = self.package.version(&channel.entries[entry].name);
            version.is_some_and(|version| constraint.contains(version))
        })
    }

    /// A note about entries that are kept although they are not in the range.
    fn outside(&self, number: usize, kept: &Kept, range: &VersionRange) -> Option<String> {
        let channel = &self.package.channels[number];
        let shown = |entry: usize| {
            let name = &channel.entries[entry].name;
            let version = self.package.version(name);
            version.map_or_else(|| name.clone(), ToString::to_string)
        };
        let outside = kept.iter().filter(|(_, why)| **why == Reason::OnTheWay);
        // The newest first.
        let mut outside: Vec<usize> = outside.map(|(entry, _)| *entry).collect();
        outside.sort_by_key(|entry| channel.place(*entry));
        let first = kept.keys().filter_map(|entry| channel.place(*entry)).min();
        let head = outside.first().copied();
        let head = head.filter(|entry| channel.place(*entry) == first);
        let versions: Vec<String> = outside.iter().map(|entry| shown(*entry)).collect();
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        let head = head.map(|entry| format!("; its head is {} then", shown(entry)));
        (!versions.is_empty()).then(|| {
            format!(
                "the channel {:?} of the package {:?} keeps versions that are not in the range \
                 {range}, since the way to others leads over them: {}{}",
                channel.name,
                self.package.name,
                first_of(versions.iter(), MAX_NAMES, ", "),
                head.unwrap_or_default()
            )
        })
    }

    fn set_default(
        &mut self,
        wanted: &str,
        any: bool,
        emptied: &BTreeMap<usize, &VersionRange>,
    ) -> Result<(), SelectError> {
        let package = self.package.name.to_owned();
        if self.channels.is_empty() {
            let mut ranges: Vec<String> = emptied.values().map(ToString::to_string).collect();
            ranges.dedup();
            let channels: Vec<String> = emptied.keys().map(|number| self.span(*number)).collect();
            return Err(SelectError::NothingInRange {
                package,
                range: ranges.join(" or "),
                where_: channels.join("; "),
            });
        }
        let kept = self.kept_names();
        if !wanted.is_empty() {
            if !self.keeps(wanted) {
                return Err(SelectError::DefaultUnknown {
                    package,
                    channel: wanted.to_owned(),
                    kept,
                });
            }
            wanted.clone_into(&mut self.default_channel);
        } else if let (true, false, Some(last)) = (
            any,
            self.keeps(&self.default_channel),
            self.channels.keys().last(),
        ) {
            self.default_channel = self.package.channels[*last].name.to_owned();
        } else if !self.keeps(&self.default_channel) {
            let channel = self.default_channel.clone();
            let number = self.package.channel(&channel);
            return Err(match number.and_then(|it| emptied.get_key_value(&it)) {
                Some((number, range)) => SelectError::DefaultEmpty {
                    package,
                    channel,
                    range: range.to_string(),
                    where_: self.span(*number),
                    kept,
                },
                None => SelectError::DefaultDropped {
                    package,
                    channel,
                    kept,
                },
            });
        }
        Ok(())
    }

    fn keeps(&self, channel: &str) -> bool {
        let number = self.package.channel(channel);
        number.is_some_and(|number| self.channels.contains_key(&number))
    }

    /// The names of the channels that are kept, to be shown.
    fn kept_names(&self) -> String {
        let names = self.channels.keys();
        let names: Vec<String> = names
            .map(|number| format!("{:?}", self.package.channels[*number].name))
            .collect();
        names.join(", ")
    }

    /// A channel and the versions that it ends at, to be shown.
    fn span(&self, number: usize) -> String {
        let channel = &self.package.channels[number];
        let entries = channel.entries.iter();
        let versions = || {
            entries
                .clone()
                .filter_map(|entry| self.package.version(&entry.name))
        };
        match (versions().min(), versions().max()) {
            (Some(low), Some(high)) => format!("{:?} has {low} to {high}", channel.name),
            _ => format!("{:?} has no versions", channel.name),
        }
    }
}
