//! The calls of the Operator Registry API, answered with stored bytes.
//!
//! Where opm's answer follows the random order of a Go map, ours is sorted by
//! package, channel and bundle.

use std::ops::Range;

use bytes::Bytes;

use crate::answers::grpc::bundle_message::{CsvPart, Manifests};
use crate::answers::grpc::csv::FIXED;
use crate::answers::grpc::framing::framed;
use crate::answers::grpc::message::{CSV_JSON, OBJECT};
use crate::answers::index::{BundleIndex, ChannelIndex, EntryIndex, PackageIndex};
use crate::answers::span::Region;
use crate::snapshot::entry_lookup::EntryAt;
use crate::snapshot::slices::{bytes, slice};
use crate::snapshot::stream::{Pieces, Stream};
use crate::snapshot::{Message, NotFound, Snapshot};
use fbc::document::Gvk;

/// An entry, with the package and the channel that it is in.
type Entry<'a> = (&'a PackageIndex, &'a ChannelIndex, &'a EntryIndex);

impl Snapshot {
    /// How many packages the API has.
    pub fn package_count(&self) -> usize {
        self.index.packages.len()
    }

    /// All package names.
    pub fn list_packages(&self) -> Stream {
        self.stream(self.index.package_names)
    }

    /// All bundles, once for each of their channels, sorted by channel, package
    /// and bundle.
    pub fn list_bundles(&self) -> Stream {
        self.stream(self.index.bundle_list)
    }

    /// A package.
    pub fn get_package(&self, name: &str) -> Result<Message, NotFound> {
        let package = self.package(name)?;
        let mut message = Message::default();
        message.push(self.message(package.message));
        Ok(message)
    }

    /// A bundle of a channel.
    pub fn get_bundle(
        &self,
        package: &str,
        channel: &str,
        bundle: &str,
    ) -> Result<Message, NotFound> {
        let (package, channel) = self.channel(package, channel)?;
        match self.entry(channel, bundle.as_bytes()) {
            Some(entry) => Ok(self.bundle_message(package, entry)),
            None => Err(NotFound::Bundle(
                package.name.to_string(),
                channel.name.to_string(),
                bundle.to_owned(),
            )),
        }
    }

    /// The head of a channel.
    pub fn get_bundle_for_channel(
        &self,
        package: &str,
        channel: &str,
    ) -> Result<Message, NotFound> {
        let (package, channel) = self.channel(package, channel)?;
        match channel.entries.get(channel.head as usize) {
            Some(head) => Ok(self.bundle_message(package, head)),
            None => Err(NotFound::Channel(
                package.name.to_string(),
                channel.name.to_string(),
            )),
        }
    }

    /// The first bundle of a channel that replaces or skips the given one.
    pub fn get_bundle_that_replaces(
        &self,
        bundle: &str,
        package: &str,
        channel: &str,
    ) -> Result<Message, NotFound> {
        let (package, channel) = self
            .channel(package, channel)
            .map_err(|error| match error {
                NotFound::Package(name) => NotFound::PackageUnquoted(name),
                error => error,
            })?;
        let replaces = |entry: &&EntryIndex| {
            let mut targets = [&entry.replaces].into_iter().chain(&entry.skips);
            targets.any(|target| target.as_bytes() == bundle.as_bytes())
        };
        match channel.entries.iter().find(replaces) {
            Some(entry) => Ok(self.bundle_message(package, entry)),
            None => Err(NotFound::Replacement(
                package.name.to_string(),
                channel.name.to_string(),
            )),
        }
    }

    /// All entries that replace or skip the given bundle, each with what it
    /// replaces.
    pub fn entries_that_replace(&self, bundle: &str) -> Result<Stream, NotFound> {
        let mut pieces = Pieces::default();
        let replacing = self.entry_lookup.replacing(&self.index, bundle);
        let entries = replacing.filter_map(|at| self.at(at));
        for frame in entries.filter_map(|(.., entry)| self.frames(entry).next()) {
            pieces.push(frame);
        }
        if pieces.is_empty() {
            return Err(NotFound::Replacements(bundle.to_owned()));
        }
        Ok(pieces.of(&self.messages))
    }

    /// All entries whose bundle provides an API: each with what it replaces,
    /// and again with each bundle that it skips.
    pub fn entries_that_provide(&self, api: &Gvk) -> Result<Stream, NotFound> {
        let mut pieces = Pieces::default();
        for (.., entry) in self.providing(api, |_, _| true)? {
            pieces.push(entry.frames.start..entry.frames.end());
        }
        Ok(pieces.of(&self.messages))
    }

    /// The heads of channels whose bundle provides an API, in the same way;
    /// only bundles of the channel count as skipped.
    pub fn latest_entries_that_provide(&self, api: &Gvk) -> Result<Stream, NotFound> {
        let mut pieces = Pieces::default();
        for (_, channel, head) in self.heads_that_provide(api)? {
            let mut targets = head.targets().zip(self.frames(head));
            let replaces = targets.next();
            let skips = targets.filter(|(skip, _)| self.entry(channel, skip.as_bytes()).is_some());
            for (_, frame) in replaces.into_iter().chain(skips) {
                pieces.push(frame);
            }
        }
        Ok(pieces.of(&self.messages))
    }

    /// The head of the default channel of the first package by name that has
    /// it provide an API.
    pub fn get_default_bundle_that_provides(&self, api: &Gvk) -> Result<Message, NotFound> {
        let heads = self.heads_that_provide(api)?;
        let of_default = heads.into_iter().find(|(package, channel, _)| {
            let default = package.channels.get(package.default_channel as usize);
            default.is_some_and(|default| default.name == channel.name)
        });
        match of_default {
            Some((package, _, head)) => Ok(self.bundle_message(package, head)),
            None => Err(NotFound::DefaultProvider(api.clone())),
        }
    }

    /// The metas of a schema of a package (of none when `package` is empty):
    /// whole blobs, in catalog order. Schemas that the API has calls for are
    /// not listed.
    pub fn custom_schemas(&self, schema: &str, package: &str) -> Stream {
        let number = |text| self.meta_lookup.number(text);
        let (Some(schema), Some(package)) = (number(schema), number(package)) else {
            return Stream::default();
        };
        let all = &self.index.custom_schemas;
        match all.binary_search_by_key(&(schema, package), |it| (it.schema, it.package)) {
            Ok(at) => self.stream(all[at].answer),
            Err(_) => Stream::default(),
        }
    }

    fn stream(&self, region: Region) -> Stream {
        let mut pieces = Pieces::default();
        pieces.push(region.start..region.start.saturating_add(region.length));
        pieces.of(&self.messages)
    }

    fn package(&self, name: &str) -> Result<&PackageIndex, NotFound> {
        let packages = &self.index.packages;
        match packages.binary_search_by(|package| (*package.name).cmp(name)) {
            Ok(at) => Ok(&packages[at]),
            Err(_) => Err(NotFound::Package(name.to_owned())),
        }
    }

    fn channel(
        &self,
        package: &str,
        channel: &str,
    ) -> Result<(&PackageIndex, &ChannelIndex), NotFound> {
        let package = self.package(package)?;
        let channels = &package.channels;
        match channels.binary_search_by(|c| (*c.name).cmp(channel)) {
            Ok(at) => Ok((package, &channels[at])),
            Err(_) => Err(NotFound::Channel(
                package.name.to_string(),
                channel.to_owned(),
            )),
        }
    }

    fn at(&self, at: EntryAt) -> Option<Entry<'_>> {
        let package = self.index.packages.get(at.package as usize)?;
        let channel = package.channels.get(at.channel as usize)?;
        let entry = channel.entries.get(at.entry as usize)?;
        Some((package, channel, entry))
    }

    /// The name of an entry's bundle.
    fn bundle(&self, entry: &EntryIndex) -> &[u8] {
        let bundle = self.bundle_index(entry);
        bundle.map_or(&[], |bundle| bundle.name.as_bytes())
    }

    fn bundle_index(&self, entry: &EntryIndex) -> Option<&BundleIndex> {
        self.index.bundles.get(entry.bundle as usize)
    }

    /// The entry of a channel that has this name.
    fn entry<'a>(&self, channel: &'a ChannelIndex, name: &[u8]) -> Option<&'a EntryIndex> {
        let entries = &channel.entries;
        let at = entries.binary_search_by(|entry| self.bundle(entry).cmp(name));
        Some(&entries[at.ok()?])
    }

    /// The spans of an entry's messages, one for each of its targets.
    fn frames(&self, entry: &EntryIndex) -> impl Iterator<Item = Range<u64>> {
        let start = entry.frames.start;
        framed(bytes(&self.messages, entry.frames))
            .map(move |frame| start + frame.start as u64..start + frame.end as u64)
    }

    /// The heads of channels whose bundle provides an API.
    fn heads_that_provide(&self, api: &Gvk) -> Result<Vec<Entry<'_>>, NotFound> {
        self.providing(api, |channel, at| channel.head == at.entry)
    }

    /// The entries whose bundle provides an API, in the order of the index.
    fn providing(
        &self,
        api: &Gvk,
        kept: impl Fn(&ChannelIndex, EntryAt) -> bool,
    ) -> Result<Vec<Entry<'_>>, NotFound> {
        let providers = &self.index.providers;
        let bundles = match providers.binary_search_by(|provider| provider.api.cmp(api)) {
            Ok(at) => &providers[at].bundles[..],
            Err(_) => &[],
        };
        let entries = bundles
            .iter()
            .flat_map(|bundle| self.entry_lookup.entries_of(*bundle));
        let found = entries.filter_map(|at| {
            let entry = self.at(*at)?;
            kept(entry.1, *at).then_some((*at, entry))
        });
        // Few of them are heads, so they are sorted last.
        let mut found: Vec<_> = found.collect();
        if found.is_empty() {
            return Err(NotFound::Providers(api.clone()));
        }
        found.sort_unstable_by_key(|(at, _)| *at);
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    /// A part of a made `ClusterServiceVersion`.
    fn part(&self, part: CsvPart) -> Bytes {
        match part {
            CsvPart::Fixed(number) => FIXED
                .get(usize::from(number))
                .map_or_else(Bytes::new, |text| Bytes::from_static(text.as_bytes())),
            CsvPart::Metas(span) => slice(&self.metas, span),
            CsvPart::Messages(span) => self.message(span),
        }
    }

    /// The answer of unary calls for a bundle: with its manifests, without its
    /// edges.
    fn bundle_message(&self, package: &PackageIndex, entry: &EntryIndex) -> Message {
        let mut message = Message::default();
        let Some(bundle) = self.bundle_index(entry) else {
            return message;
        };
        message.push(self.message(bundle.message.common));
        message.push(self.message(entry.membership));
        match &bundle.message.manifests {
            Manifests::None => {}
            Manifests::Made { parts, described } => {
                let end = self.message(package.ends.of(*described));
                // Places of parts count from the start of the file.
                let is_whole = !bytes(&self.messages, parts.list()).is_empty();
                let messages: &[u8] = if is_whole {
                    self.messages.unchecked()
                } else {
                    &[]
                };
                let text = parts.decode(messages).map(|part| self.part(part));
                // With both headers and the prefix that comes before all.
                message.parts.reserve(2 * (parts.estimate() + 2) + 1);
                message.push_twice([CSV_JSON, OBJECT], text.chain([end]));
            }
            Manifests::Objects { objects, csv } => {
                if let Some(csv) = csv {
                    let csv = self.message(*csv);
                    message.push_field_header(CSV_JSON, csv.len());
                    message.push(csv);
                }
                message.push(self.message(*objects));
            }
        }
        message
    }
}
