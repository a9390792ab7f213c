//! Graph ─► the answers to queries over HTTP, and the words to search by: a
//! part of the stage `build`, done beside the answers of the registry API.
//!
//! Packages with errors have answers too, as far as their blobs go, since
//! their blobs are served over HTTP as well; each answer says so.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use serde::Serialize;

use crate::answers::rest::records::{
    ChannelRecord, ChannelSummary, EntryRecord, IconLink, PackageDetails, PackageSummary,
    percent_encoded,
};
use crate::ingest::read::Catalog;
use crate::name::CatalogName;
use crate::store::{
    Lines, PackageAnswers, QuarantinedApi, QueryIndex, QueryWriter, SearchRow, StoreError,
};
use fbc::document::{Blobs, EntryBlob};
use fbc::graph;
use fbc::message::{Manifests, Span};
use fbc::presentation::{PackageView, Presentation};
use fbc::problem::Problem;
use fbc::read::is_base64;
use fbc::text::semver::Version;

/// How much is collected before it is written, in bytes.
const CHUNK: usize = 128 << 10;
/// How much of a text is searched, in bytes: what it is about stands at its
/// beginning, and how it is set up and licensed further down.
const SEARCHED: usize = 1_000;

/// What queries find their answers by.
#[derive(Debug, Default)]
pub(super) struct Queries {
    pub(super) index: QueryIndex,
    pub(super) search: Vec<SearchRow>,
}

/// What the answers are made of.
pub(super) struct Source<'a> {
    pub(super) name: &'a CatalogName,
    pub(super) catalog: &'a Catalog,
    /// The canonical lines.
    pub(super) lines: &'a Lines,
    /// The message parts of bundles.
    pub(super) messages: &'a Bytes,
}

/// A package in the order of its answers.
struct Package<'a> {
    name: &'a str,
    meta: u32,
    default_channel: &'a str,
    /// Sorted by name.
    channels: Vec<Channel<'a>>,
    deprecation: Option<&'a str>,
    quarantined: bool,
}

struct Channel<'a> {
    name: &'a str,
    /// Whether the first entry is the head; else there is none.
    has_head: bool,
    entries: Vec<Entry<'a>>,
    deprecation: Option<&'a str>,
}

struct Entry<'a> {
    name: &'a str,
    /// Its bundle, as an index in [`Blobs::bundles`].
    bundle: Option<usize>,
    replaces: &'a str,
    skips: &'a [String],
    skip_range: &'a str,
    deprecation: Option<&'a str>,
}

/// Writes the answers.
pub(super) fn build(source: &Source<'_>, writer: QueryWriter) -> Result<Queries, StoreError> {
    let Catalog {
        blobs,
        graph,
        problems,
        ..
    } = source.catalog;
    let mut of_package: HashMap<&str, Vec<&Problem>> = HashMap::new();
    for problem in problems {
        let package = problem.subject.package.as_str();
        of_package.entry(package).or_default().push(problem);
    }
    let mut packages: Vec<Package<'_>> = (graph.packages.iter())
        .map(|package| in_order(package, blobs))
        .collect();
    packages.extend(quarantined(blobs, &graph.quarantined));
    packages.sort_unstable_by_key(|package| package.name);

    let mut out = Answers {
        writer,
        buffer: Vec::with_capacity(CHUNK),
        start: 0,
    };
    let mut queries = Queries::default();
    for (number, package) in (0_u32..).zip(&packages) {
        let problems = of_package.remove(package.name).unwrap_or_default();
        let (answers, row) = put_package(source, package, problems, &mut out)?;
        queries.index.packages.push(answers);
        queries.search.push(SearchRow {
            package: number,
            ..row
        });
    }
    out.flush()?;
    out.writer.sync()?;
    queries.index.quarantined_apis = quarantined_apis(blobs, &queries.index.packages);
    Ok(queries)
}

/// The file of answers, written in chunks.
struct Answers {
    writer: QueryWriter,
    buffer: Vec<u8>,
    /// Where the buffer's first byte comes to lie.
    start: u64,
}

impl Answers {
    /// Appends an answer as a line, and returns where it lies without its end.
    fn put(&mut self, answer: &impl Serialize) -> Result<Span, StoreError> {
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        let before = self.buffer.len();
        // Records hold texts and numbers only, and writing to memory works.
        let _ = serde_json::to_writer(&mut self.buffer, answer);
        let mut span = Span::since(&self.buffer, before);
        span.shift(self.start);
        self.buffer.push(b'\n');
        Ok(span)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.writer.append(&self.buffer)?;
        self.start += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

fn put_package(
    source: &Source<'_>,
    package: &Package<'_>,
    problems: Vec<&Problem>,
    out: &mut Answers,
) -> Result<(PackageAnswers, SearchRow), StoreError> {
    let blobs = &source.catalog.blobs;
    let view = PackageView::of(source.lines.get(package.meta));
    let default = package
        .channels
        .iter()
        .find(|channel| channel.name == package.default_channel);
    let head = default.and_then(Channel::head);
    let bundle = head.and_then(|head| head.bundle);
    let mut presentation =
        bundle.map_or_else(Presentation::default, |bundle| presentation(source, bundle));
    if presentation.description.is_empty() {
        presentation.description = view.description;
    }
    let short = presentation.summary(&presentation.description);
    let href = format!(
        "/catalogs/{}/api/v1/packages/{}/icon",
        source.name,
        percent_encoded(package.name)
    );
    // No link leads to a picture that cannot be sent.
    let icon = view.icon.as_ref().filter(|(data, _)| is_base64(data));
    let icon = icon.map(|(_, media_type)| IconLink {
        href: &href,
        media_type,
    });
    let summary = |versions: bool| PackageSummary {
        name: package.name,
        display_name: &presentation.display_name,
        summary: &short,
        default_channel: package.default_channel,
        head: head.map(|head| head.name),
        version: head.map_or("", |head| head.version(blobs)),
        channels: (package.channels.iter())
            .map(|channel| channel.summary(blobs, versions))
            .collect(),
        deprecation: package.deprecation,
        quarantined: package.quarantined,
        icon: icon.clone(),
    };
    let in_list = out.put(&summary(false))?;
    let details = out.put(&PackageDetails {
        summary: summary(true),
        presentation: &presentation,
        provided_apis: bundle.map_or(&[], |bundle| &blobs.bundles[bundle].blob.provides),
        problems,
    })?;
    let mut channels: Vec<(Box<str>, Span)> = Vec::with_capacity(package.channels.len());
    for channel in &package.channels {
        let span = out.put(&channel.record(package, blobs))?;
        channels.push((channel.name.into(), span));
    }
    let answers = PackageAnswers {
        name: package.name.into(),
        meta: package.meta,
        quarantined: package.quarantined,
        summary: in_list,
        details,
        channels,
    };
    let row = SearchRow {
        package: 0,
        name: package.name.to_owned(),
        display_name: searched(&presentation.display_name),
        keywords: searched(&presentation.keywords.join(" ")),
        kinds: searched(&kinds(package, blobs)),
        provider: searched(&presentation.provider.name),
        description: searched(&format!("{short} {}", presentation.description)),
    };
    Ok((answers, row))
}

fn presentation(source: &Source<'_>, bundle: usize) -> Presentation {
    let located = &source.catalog.blobs.bundles[bundle];
    let csv = match &located.blob.message.manifests {
        Manifests::Objects {
            csv: Some(span), ..
        } => source
            .messages
            .get(span.start as usize..span.end() as usize),
        _ => None,
    };
    Presentation::of_bundle(source.lines.get(located.meta), csv)
}

/// The kinds that heads provide, each also in the words it is made of.
fn kinds(package: &Package<'_>, blobs: &Blobs) -> String {
    let heads = package.channels.iter().filter_map(Channel::head);
    let kinds: BTreeSet<&str> = heads
        .filter_map(|head| head.bundle)
        .flat_map(|bundle| &*blobs.bundles[bundle].blob.provides)
        .map(|api| api.kind.as_str())
        .collect();
    let mut text = String::new();
    for kind in kinds {
        text.push(' ');
        text.push_str(kind);
        let mut before = ' ';
        for sign in kind.chars() {
            if sign.is_uppercase() && !before.is_uppercase() {
                text.push(' ');
            }
            text.push(sign);
            before = sign;
        }
        if text.len() > SEARCHED {
            break;
        }
    }
    text
}

/// A text cut to what is searched of it.
fn searched(text: &str) -> String {
    text[..text.floor_char_boundary(SEARCHED)].to_owned()
}

impl<'a> Channel<'a> {
    /// Puts the entries in order: the chain from the head, then the others,
    /// the highest version first.
    fn new(
        name: &'a str,
        entries: Vec<Entry<'a>>,
        head: Option<usize>,
        deprecation: Option<&'a str>,
        blobs: &Blobs,
    ) -> Self {
        let by_name: HashMap<&str, usize> = (entries.iter().enumerate().rev())
            .map(|(place, entry)| (entry.name, place))
            .collect();
        // First those on the chain by how far they are from the head.
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

    fn head(&self) -> Option<&Entry<'a>> {
        self.entries.first().filter(|_| self.has_head)
    }

    fn summary<'b>(&'b self, blobs: &'b Blobs, versions: bool) -> ChannelSummary<'b> {
        let versions = versions.then(|| {
            let versions = self.entries.iter().map(|entry| entry.version(blobs));
            versions.filter(|version| !version.is_empty()).collect()
        });
        ChannelSummary {
            name: self.name,
            head: self.head().map(|head| head.name),
            version: self.head().map_or("", |head| head.version(blobs)),
            entries: self.entries.len(),
            deprecation: self.deprecation,
            versions: versions.unwrap_or_default(),
        }
    }

    fn record<'b>(&'b self, package: &'b Package<'_>, blobs: &'b Blobs) -> ChannelRecord<'b> {
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
                    release: entry.release(blobs).into(),
                    replaces: entry.replaces.into(),
                    skips: entry.skips.iter().map(Into::into).collect(),
                    skip_range: entry.skip_range.into(),
                    deprecation: entry.deprecation.map(Cow::Borrowed),
                    prohibited: entry.is_prohibited(blobs),
                })
                .collect(),
        }
    }
}

impl Entry<'_> {
    fn version<'b>(&self, blobs: &'b Blobs) -> &'b str {
        self.bundle
            .map_or("", |bundle| &blobs.bundles[bundle].blob.version)
    }

    fn is_prohibited(&self, blobs: &Blobs) -> bool {
        self.bundle
            .is_some_and(|bundle| blobs.bundles[bundle].blob.prohibited)
    }

    fn release<'b>(&self, blobs: &'b Blobs) -> &'b str {
        self.bundle
            .map_or("", |bundle| &blobs.bundles[bundle].blob.release)
    }
}

/// A package that is in order.
fn in_order<'a>(package: &'a graph::Package, blobs: &Blobs) -> Package<'a> {
    let channels = package.channels.iter().map(|channel| {
        let entries = channel.entries.iter().map(|entry| Entry {
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
        Channel::new(
            &channel.name,
            entries.collect(),
            Some(channel.head),
            channel.deprecation.as_deref(),
            blobs,
        )
    });
    let default = package.channels.get(package.default_channel);
    Package {
        name: &package.name,
        meta: package.meta,
        default_channel: default.map_or("", |channel| &channel.name),
        channels: channels.collect(),
        deprecation: package.deprecation.as_deref(),
        quarantined: false,
    }
}

/// The packages with errors, as their blobs have them: of what stands twice
/// the first counts. Some have no `olm.package` blob.
fn quarantined<'a>(blobs: &'a Blobs, names: &'a [String]) -> Vec<Package<'a>> {
    if names.is_empty() {
        return Vec::new();
    }
    let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut packages: HashMap<&str, Package<'_>> = HashMap::new();
    for located in &blobs.packages {
        let name = located.blob.name.as_str();
        if wanted.contains(name) {
            packages.entry(name).or_insert_with(|| Package {
                name,
                meta: located.meta,
                default_channel: &located.blob.default_channel,
                channels: Vec::new(),
                deprecation: None,
                quarantined: true,
            });
        }
    }
    let others = (blobs
        .channels
        .iter()
        .map(|one| (&one.blob.package, one.meta)))
    .chain(
        blobs
            .bundles
            .iter()
            .map(|one| (&one.blob.package, one.meta)),
    )
    .chain((blobs.deprecations.iter()).map(|one| (&one.blob.package, one.meta)));
    for (name, meta) in others.filter(|(name, _)| wanted.contains(name.as_str())) {
        packages.entry(name).or_insert_with(|| Package {
            name,
            meta,
            default_channel: "",
            channels: Vec::new(),
            deprecation: None,
            quarantined: true,
        });
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
        let entries = blob.entries.iter().map(|entry| Entry {
            name: &entry.name,
            bundle: bundles.get(&(name, &*entry.name)).copied(),
            replaces: &entry.replaces,
            skips: &entry.skips,
            skip_range: &entry.skip_range,
            deprecation: reason(name, "olm.bundle", &entry.name),
        });
        package.channels.push(Channel::new(
            &blob.name,
            entries.collect(),
            only_head(&blob.entries),
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

/// The entry that nothing replaces or skips, when it is a single one.
fn only_head(entries: &[EntryBlob]) -> Option<usize> {
    let behind: HashSet<&str> = entries
        .iter()
        .flat_map(|entry| entry.skips.iter().chain([&entry.replaces]))
        .map(String::as_str)
        .collect();
    let mut heads = (0..entries.len()).filter(|entry| !behind.contains(&*entries[*entry].name));
    heads.next().filter(|_| heads.next().is_none())
}

/// The APIs that bundles of quarantined packages provide.
fn quarantined_apis(blobs: &Blobs, packages: &[PackageAnswers]) -> Vec<QuarantinedApi> {
    let numbers: HashMap<&str, u32> = (packages.iter().zip(0..))
        .filter(|(package, _)| package.quarantined)
        .map(|(package, number)| (&*package.name, number))
        .collect();
    let mut apis = Vec::new();
    for located in blobs.bundles.iter().filter(|_| !numbers.is_empty()) {
        let blob = &located.blob;
        let Some(package) = numbers.get(blob.package.as_str()) else {
            continue;
        };
        apis.extend(blob.provides.iter().map(|api| QuarantinedApi {
            api: api.clone(),
            package: *package,
            bundle: blob.name.as_str().into(),
        }));
    }
    apis.sort_unstable();
    apis
}
