//! Packages, channels and entries in the order of their answers.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::answers::rest::records::{ChannelRecord, ChannelSummary, EntryRecord};
use fbc::document::{Blobs, BundleBlob};
use fbc::graph::{Chains, Package};
use fbc::text::semver::Version;

/// A package with its channels and entries in the order of its answers.
pub(crate) struct OrderedPackage<'a> {
    pub(super) name: &'a str,
    pub(super) meta: u32,
    pub(super) default_channel: &'a str,
    /// Sorted by name.
    pub(super) channels: Vec<OrderedChannel<'a>>,
    pub(crate) deprecation: Option<&'a str>,
    pub(super) quarantined: bool,
}

impl<'a> OrderedPackage<'a> {
    /// A package as its blobs describe it, whether it has errors or not; `None` if no
    /// blob names it.
    pub(crate) fn of(blobs: &'a Blobs, name: &'a String) -> Option<Self> {
        quarantined(blobs, std::slice::from_ref(name)).pop()
    }

    /// The records of its channels.
    pub(crate) fn records<'b>(&'b self, blobs: &'b Blobs) -> Vec<ChannelRecord<'b>> {
        let channels = self.channels.iter();
        channels
            .map(|channel| channel.record(self, blobs))
            .collect()
    }
}

pub(super) struct OrderedChannel<'a> {
    pub(super) name: &'a str,
    /// Whether the first entry is the head; otherwise there is no head.
    pub(super) has_head: bool,
    pub(super) entries: Vec<OrderedEntry<'a>>,
    pub(super) deprecation: Option<&'a str>,
}

pub(super) struct OrderedEntry<'a> {
    pub(super) name: &'a str,
    /// Its bundle, as an index in [`Blobs::bundles`].
    pub(super) bundle: Option<usize>,
    pub(super) replaces: &'a str,
    pub(super) skips: &'a [String],
    pub(super) skip_range: &'a str,
    pub(super) deprecation: Option<&'a str>,
}

impl<'a> OrderedChannel<'a> {
    /// Sorts the entries: the chain from the head, then the others, the highest
    /// version first.
    fn new(
        name: &'a str,
        entries: Vec<OrderedEntry<'a>>,
        head: Option<usize>,
        deprecation: Option<&'a str>,
        blobs: &Blobs,
    ) -> Self {
        let by_name: HashMap<&str, usize> = (entries.iter().enumerate().rev())
            .map(|(place, entry)| (entry.name, place))
            .collect();
        // Entries on the chain come first, by their distance from the head.
        let mut distance = vec![usize::MAX; entries.len()];
        let mut next = head;
        let mut steps = 0;
        while let Some(place) = next.filter(|place| distance[*place] == usize::MAX) {
            distance[place] = steps;
            steps += 1;
            let replaces = entries[place].replaces;
            next = by_name.get(replaces).copied();
        }
        let mut keyed: Vec<_> = (distance.into_iter().zip(entries))
            .map(|(distance, entry)| {
                let version = Version::parse(entry.version(blobs)).ok();
                (distance, Reverse(version), entry)
            })
            .collect();
        keyed.sort_by(|one, other| {
            (one.0, &one.1, one.2.name).cmp(&(other.0, &other.1, other.2.name))
        });
        Self {
            name,
            has_head: head.is_some(),
            entries: keyed.into_iter().map(|(_, _, entry)| entry).collect(),
            deprecation,
        }
    }

    pub(super) fn head(&self) -> Option<&OrderedEntry<'a>> {
        self.entries.first().filter(|_| self.has_head)
    }

    pub(super) fn summary<'b>(&'b self, blobs: &'b Blobs, versions: bool) -> ChannelSummary<'b> {
        let versions = versions.then(|| {
            let versions = self.entries.iter().map(|entry| entry.version(blobs));
            let versions = versions.filter(|version| !version.is_empty());
            versions.map(Cow::Borrowed).collect()
        });
        ChannelSummary {
            name: self.name.into(),
            head: self.head().map(|head| head.name.into()),
            version: self.head().map_or("", |head| head.version(blobs)).into(),
            entries: self.entries.len(),
            deprecation: self.deprecation.map(Cow::Borrowed),
            versions: versions.unwrap_or_default(),
        }
    }

    pub(super) fn record<'b>(
        &'b self,
        package: &'b OrderedPackage<'_>,
        blobs: &'b Blobs,
    ) -> ChannelRecord<'b> {
        let head = self.head();
        ChannelRecord {
            package: package.name.into(),
            name: self.name.into(),
            default: self.name == package.default_channel,
            head: head.map(|head| head.name.into()),
            version: head.map_or("", |head| head.version(blobs)).into(),
            deprecation: self.deprecation.map(Cow::Borrowed),
            quarantined: package.quarantined,
            entries: (self.entries.iter())
                .map(|entry| EntryRecord {
                    name: entry.name.into(),
                    version: entry.version(blobs).into(),
                    release: entry.blob(blobs).map_or("", |blob| &blob.release).into(),
                    replaces: entry.replaces.into(),
                    skips: entry.skips.iter().map(Into::into).collect(),
                    skip_range: entry.skip_range.into(),
                    deprecation: entry.deprecation.map(Cow::Borrowed),
                    prohibited: entry.blob(blobs).is_some_and(|blob| blob.prohibited),
                })
                .collect(),
        }
    }
}

impl OrderedEntry<'_> {
    fn blob<'b>(&self, blobs: &'b Blobs) -> Option<&'b BundleBlob> {
        self.bundle.map(|bundle| &blobs.bundles[bundle].blob)
    }

    pub(super) fn version<'b>(&self, blobs: &'b Blobs) -> &'b str {
        self.blob(blobs).map_or("", |blob| &blob.version)
    }
}

/// A valid package.
pub(super) fn valid<'a>(package: &'a Package, blobs: &Blobs) -> OrderedPackage<'a> {
    let channels = package.channels.iter().map(|channel| {
        let entries = channel.entries.iter().map(|entry| OrderedEntry {
            name: &entry.name,
            bundle: Some(entry.bundle),
            replaces: &entry.replaces,
            skips: &entry.skips,
            skip_range: &entry.skip_range,
            deprecation: package
                .deprecated_bundles
                .get(&entry.bundle)
                .map(String::as_str),
        });
        OrderedChannel::new(
            &channel.name,
            entries.collect(),
            Some(channel.head),
            channel.deprecation.as_deref(),
            blobs,
        )
    });
    let default = package.channels.get(package.default_channel);
    OrderedPackage {
        name: &package.name,
        meta: package.meta,
        default_channel: default.map_or("", |channel| &channel.name),
        channels: channels.collect(),
        deprecation: package.deprecation.as_deref(),
        quarantined: false,
    }
}

/// The packages with errors, as their blobs describe them. Of blobs with the same
/// name the first counts. A package may lack its `olm.package` blob.
pub(super) fn quarantined<'a>(blobs: &'a Blobs, names: &'a [String]) -> Vec<OrderedPackage<'a>> {
    if names.is_empty() {
        return Vec::new();
    }
    let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut packages: HashMap<&str, OrderedPackage<'_>> = HashMap::new();
    let own = (blobs.packages.iter()).map(|one| {
        let default_channel = one.blob.default_channel.as_str();
        (one.blob.name.as_str(), one.meta, default_channel)
    });
    let channels = (blobs.channels.iter()).map(|one| (one.blob.package.as_str(), one.meta, ""));
    let bundles = (blobs.bundles.iter()).map(|one| (one.blob.package.as_str(), one.meta, ""));
    let deprecations = blobs.deprecations.iter();
    let deprecations = deprecations.map(|one| (one.blob.package.as_str(), one.meta, ""));
    for (name, meta, default_channel) in own.chain(channels).chain(bundles).chain(deprecations) {
        if wanted.contains(name) {
            packages.entry(name).or_insert_with(|| OrderedPackage {
                name,
                meta,
                default_channel,
                channels: Vec::new(),
                deprecation: None,
                quarantined: true,
            });
        }
    }
    let mut bundles: HashMap<(&str, &str), usize> = HashMap::new();
    for (number, located) in blobs.bundles.iter().enumerate() {
        let blob = &located.blob;
        if wanted.contains(blob.package.as_str()) {
            bundles.entry((&blob.package, &blob.name)).or_insert(number);
        }
    }
    let mut reasons: HashMap<(&str, &str, &str), &str> = HashMap::new();
    for located in &blobs.deprecations {
        let package = located.blob.package.as_str();
        for entry in located
            .blob
            .entries
            .iter()
            .filter(|_| wanted.contains(package))
        {
            let about = (package, &*entry.schema, &*entry.name);
            reasons.entry(about).or_insert(&entry.message);
        }
    }
    let reason = |package, schema, name| reasons.get(&(package, schema, name)).copied();
    let mut seen = HashSet::new();
    for located in &blobs.channels {
        let (blob, name) = (&located.blob, located.blob.package.as_str());
        let Some(package) = packages.get_mut(name) else {
            continue;
        };
        if !seen.insert((name, blob.name.as_str())) {
            continue;
        }
        let entries = blob.entries.iter().map(|entry| OrderedEntry {
            name: &entry.name,
            bundle: bundles.get(&(name, &*entry.name)).copied(),
            replaces: &entry.replaces,
            skips: &entry.skips,
            skip_range: &entry.skip_range,
            deprecation: reason(name, "olm.bundle", &entry.name),
        });
        package.channels.push(OrderedChannel::new(
            &blob.name,
            entries.collect(),
            Chains::new(&blob.entries).head(),
            reason(name, "olm.channel", &blob.name),
            blobs,
        ));
    }
    let mut packages: Vec<_> = packages.into_values().collect();
    for package in &mut packages {
        package
            .channels
            .sort_unstable_by_key(|channel| channel.name);
        package.deprecation = reason(package.name, "olm.package", "");
    }
    packages
}
