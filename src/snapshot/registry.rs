//! The questions of the Operator Registry API, answered with stored bytes.
//!
//! Orders: where the peer's answer follows the random order of a Go map, ours
//! is sorted by package, channel and bundle.

use bytes::Bytes;

use super::lookup::EntryAt;
use super::{Snapshot, slice};
use crate::fbc::blob::Gvk;
use crate::fbc::csv::FIXED;
use crate::fbc::message::{CSV_JSON, Manifests, OBJECT, Part, put_channel_entry, put_field_header};
use crate::quoted::Quoted;
use crate::store::{BundleIndex, ChannelIndex, EntryIndex, PackageIndex, Region};

/// One encoded message, in parts.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The parts, in order.
    pub parts: Vec<Bytes>,
    /// Their length together, in bytes.
    pub length: usize,
}

/// Encoded messages with gRPC's framing, ready to send.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The bytes.
    pub frames: Bytes,
    /// How many messages they are.
    pub messages: u32,
}

/// An entry in the answers about who replaces or provides something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelEntry<'a> {
    /// The package.
    pub package: &'a str,
    /// The channel.
    pub channel: &'a str,
    /// The bundle.
    pub bundle: &'a str,
    /// What it replaces.
    pub replaces: &'a str,
}

/// What was asked for is not there. The texts are the peers', to the letter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// No such package.
    #[error("package {} not found", Quoted(.0))]
    Package(String),
    /// No such package, as `GetBundleThatReplaces` says it.
    #[error("package {0} not found")]
    PackageUnquoted(String),
    /// No such channel.
    #[error("package {}, channel {} not found", Quoted(.0), Quoted(.1))]
    Channel(String, String),
    /// No such bundle.
    #[error("package {}, channel {}, bundle {} not found", Quoted(.0), Quoted(.1), Quoted(.2))]
    Bundle(String, String, String),
    /// Nothing in the channel replaces it.
    #[error("no entry found for package {}, channel {}", Quoted(.0), Quoted(.1))]
    Replacement(String, String),
    /// Nothing at all replaces it.
    #[error("no channel entries found that replace {0}")]
    Replacements(String),
    /// Nothing provides it.
    #[error("no channel entries found that provide group:{} version:{} kind:{}", Quoted(.0), Quoted(.1), Quoted(.2))]
    Providers(String, String, String),
    /// No head of a default channel provides it.
    #[error("no entry found that provides group:{} version:{} kind:{}", Quoted(.0), Quoted(.1), Quoted(.2))]
    DefaultProvider(String, String, String),
}

impl Snapshot {
    /// How many packages there are to ask for.
    pub fn package_count(&self) -> usize {
        self.index.packages.len()
    }

    /// All package names.
    pub fn list_packages(&self) -> Stream {
        self.stream(self.index.package_names)
    }

    /// All bundles, once for each channel they are in, sorted by channel,
    /// package and bundle.
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
        let at = channel
            .entries
            .binary_search_by(|entry| self.bundle(entry).cmp(bundle))
            .map_err(|_| {
                NotFound::Bundle(
                    package.name.to_string(),
                    channel.name.to_string(),
                    bundle.to_owned(),
                )
            })?;
        Ok(self.bundle_message(package, &channel.entries[at]))
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
            *entry.replaces == *bundle || entry.skips.iter().any(|skip| **skip == *bundle)
        };
        match channel.entries.iter().find(replaces) {
            Some(entry) => Ok(self.bundle_message(package, entry)),
            None => Err(NotFound::Replacement(
                package.name.to_string(),
                channel.name.to_string(),
            )),
        }
    }

    /// All entries that replace or skip the given bundle.
    pub fn entries_that_replace(&self, bundle: &str) -> Result<Vec<ChannelEntry<'_>>, NotFound> {
        let entries: Vec<_> = self
            .registry_lookup
            .replacing(bundle)
            .iter()
            .filter_map(|at| {
                let (package, channel, entry) = self.at(*at)?;
                Some(self.entry(package, channel, entry, &entry.replaces))
            })
            .collect();
        if entries.is_empty() {
            return Err(NotFound::Replacements(bundle.to_owned()));
        }
        Ok(entries)
    }

    /// All entries whose bundle provides an API: each with what it replaces,
    /// and again with each bundle that it skips.
    pub fn entries_that_provide(&self, api: &Gvk) -> Result<Vec<ChannelEntry<'_>>, NotFound> {
        self.providers(api, |_, _, _| true)
    }

    /// The heads of channels whose bundle provides an API, in the same way;
    /// only bundles of the channel count as skipped.
    pub fn latest_entries_that_provide(
        &self,
        api: &Gvk,
    ) -> Result<Vec<ChannelEntry<'_>>, NotFound> {
        self.providers(api, |channel, at, skip| {
            channel.head == at.entry
                && skip.is_none_or(|skip| {
                    channel
                        .entries
                        .binary_search_by(|entry| self.bundle(entry).cmp(skip))
                        .is_ok()
                })
        })
    }

    /// The head of the default channel of the first package by name that has
    /// it provide an API.
    pub fn get_default_bundle_that_provides(&self, api: &Gvk) -> Result<Message, NotFound> {
        for entry in self.latest_entries_that_provide(api)? {
            let (package, channel) = self.channel(entry.package, entry.channel)?;
            let default = package.channels.get(package.default_channel as usize);
            if default.is_some_and(|default| default.name == channel.name) {
                return self.get_bundle(entry.package, entry.channel, entry.bundle);
            }
        }
        Err(NotFound::DefaultProvider(
            api.group.clone(),
            api.version.clone(),
            api.kind.clone(),
        ))
    }

    /// The metas of a schema of a package (of none when `package` is empty):
    /// whole blobs, in catalog order. Schemas that the API has calls for are
    /// not listed.
    pub fn custom_schemas(&self, schema: &str, package: &str) -> Vec<Bytes> {
        const KNOWN: [&str; 4] = [
            "olm.package",
            "olm.channel",
            "olm.bundle",
            "olm.deprecations",
        ];
        if KNOWN.contains(&schema) {
            return Vec::new();
        }
        let of_package = self.meta_lookup.package(package);
        self.meta_lookup
            .schema(schema)
            .iter()
            .filter(|meta| of_package.binary_search(meta).is_ok())
            .map(|meta| self.line(*meta))
            .collect()
    }

    fn stream(&self, region: Region) -> Stream {
        let range = region.start as usize..(region.start + region.length) as usize;
        let whole = range.end <= self.messages.len();
        Stream {
            frames: if whole {
                self.messages.slice(range)
            } else {
                Bytes::new()
            },
            messages: region.messages,
        }
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

    fn at(&self, at: EntryAt) -> Option<(&PackageIndex, &ChannelIndex, &EntryIndex)> {
        let package = self.index.packages.get(at.package as usize)?;
        let channel = package.channels.get(at.channel as usize)?;
        let entry = channel.entries.get(at.entry as usize)?;
        Some((package, channel, entry))
    }

    /// The name of an entry's bundle.
    fn bundle(&self, entry: &EntryIndex) -> &str {
        self.bundle_index(entry).map_or("", |bundle| &bundle.name)
    }

    fn bundle_index(&self, entry: &EntryIndex) -> Option<&BundleIndex> {
        self.index.bundles.get(entry.bundle as usize)
    }

    fn entry<'a>(
        &'a self,
        package: &'a PackageIndex,
        channel: &'a ChannelIndex,
        entry: &'a EntryIndex,
        replaces: &'a str,
    ) -> ChannelEntry<'a> {
        ChannelEntry {
            package: &package.name,
            channel: &channel.name,
            bundle: self.bundle(entry),
            replaces,
        }
    }

    /// `kept` decides for each entry with what it replaces (`None`) and with
    /// each bundle that it skips.
    fn providers<'a>(
        &'a self,
        api: &Gvk,
        kept: impl Fn(&ChannelIndex, EntryAt, Option<&str>) -> bool,
    ) -> Result<Vec<ChannelEntry<'a>>, NotFound> {
        let providers = &self.index.providers;
        let bundles = match providers.binary_search_by(|provider| provider.api.cmp(api)) {
            Ok(at) => &providers[at].bundles[..],
            Err(_) => &[],
        };
        let mut places: Vec<EntryAt> = bundles
            .iter()
            .flat_map(|bundle| self.registry_lookup.entries_of(*bundle))
            .copied()
            .collect();
        places.sort_unstable();
        let mut entries = Vec::new();
        for at in places {
            let Some((package, channel, entry)) = self.at(at) else {
                continue;
            };
            if kept(channel, at, None) {
                entries.push(self.entry(package, channel, entry, &entry.replaces));
            }
            for skip in entry.skips.iter().filter(|skip| **skip != entry.replaces) {
                if kept(channel, at, Some(skip)) {
                    entries.push(self.entry(package, channel, entry, skip));
                }
            }
        }
        if entries.is_empty() {
            return Err(NotFound::Providers(
                api.group.clone(),
                api.version.clone(),
                api.kind.clone(),
            ));
        }
        Ok(entries)
    }

    /// A part of a made `ClusterServiceVersion`.
    fn part(&self, part: Part) -> Bytes {
        match part {
            Part::Fixed(number) => FIXED
                .get(usize::from(number))
                .map_or_else(Bytes::new, |text| Bytes::from_static(text.as_bytes())),
            Part::Metas(span) => slice(&self.metas, span),
            Part::Messages(span) => self.message(span),
        }
    }

    /// A bundle as the unary calls answer it: with its manifests, without the
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
                let ends = package.ends;
                let end = if *described {
                    ends.plain
                } else {
                    ends.described
                };
                let text: Vec<Bytes> = parts
                    .iter()
                    .map(|part| self.part(*part))
                    .chain([self.message(end)])
                    .collect();
                let length = text.iter().map(Bytes::len).sum();
                message.parts.reserve(2 * text.len() + 2);
                message.push_field_header(CSV_JSON, length);
                for part in &text {
                    message.push(part.clone());
                }
                message.push_field_header(OBJECT, length);
                for part in text {
                    message.push(part);
                }
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

impl Message {
    fn push(&mut self, part: Bytes) {
        self.length += part.len();
        self.parts.push(part);
    }

    fn push_field_header(&mut self, number: u32, length: usize) {
        let mut header = Vec::with_capacity(8);
        put_field_header(&mut header, number, length);
        self.push(header.into());
    }
}

impl From<&ChannelEntry<'_>> for Message {
    fn from(entry: &ChannelEntry<'_>) -> Self {
        let mut bytes = Vec::new();
        put_channel_entry(
            &mut bytes,
            entry.package,
            entry.channel,
            entry.bundle,
            entry.replaces,
        );
        let mut message = Self::default();
        message.push(bytes.into());
        message
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Self {
        let mut message = Self::default();
        message.push(bytes);
        message
    }
}
