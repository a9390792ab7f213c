//! Outlines: the names and digests of a catalog, which tell what an update changed
//! after the bytes of the older revision are gone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use ::images::digest::{Digest, Hasher};
use fbc::document::Blobs;
use fbc::graph::{Channel, Graph, Package};
use fbc::problem::{Code, Problem};

/// The format of stored outlines. Those of another format are not read.
pub const OUTLINE_FORMAT: u32 = 1;
/// The longest deprecation message that is kept, in characters.
const MAX_MESSAGE: usize = 1_000;
/// How many digits of its digest a longer one has at its end.
const DIGEST_DIGITS: usize = 12;
/// How many hexadecimal digits of the digest of a channel's edges are kept.
const EDGES: usize = 16;
/// The same for the edges of one entry.
const ENTRY_EDGES: usize = 12;

/// The outline of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// The packages without errors, by name.
    pub packages: BTreeMap<String, PackageOutline>,
    /// The packages with errors.
    pub quarantined: BTreeSet<String>,
    /// How often each problem occurs, by package (empty for none) and code.
    pub problems: BTreeMap<String, BTreeMap<String, u32>>,
}

/// The outline of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageOutline {
    /// Its default channel.
    pub default_channel: String,
    /// Its channels by name.
    pub channels: BTreeMap<String, ChannelOutline>,
    /// Its bundles by name.
    pub bundles: BTreeMap<String, BundleOutline>,
    /// The message of its deprecation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
}

/// The outline of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelOutline {
    /// The name of its head.
    pub head: String,
    /// The names of its entries.
    pub entries: BTreeSet<String>,
    /// The start of a digest of its upgrade edges: each entry with what it replaces
    /// and skips.
    pub edges: String,
    /// The same of each entry alone, in the order of the entries, without separators. Empty
    /// in outlines of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entry_edges: String,
    /// The message of its deprecation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
}

/// The outline of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleOutline {
    /// Its version.
    pub version: String,
    /// The digest of its canonical line.
    pub digest: String,
    /// The message of its deprecation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
}

impl Outline {
    /// The outline of a catalog. `digest` returns the digest of the canonical line of
    /// a meta, by its number.
    pub fn of(
        graph: &Graph,
        blobs: &Blobs,
        problems: &[Problem],
        digest: impl Fn(u32) -> Option<Digest>,
    ) -> Self {
        let packages = graph.packages.iter();
        let mut outline = Self {
            packages: packages
                .map(|one| (one.name.clone(), package(one, blobs, &digest)))
                .collect(),
            quarantined: graph.quarantined.iter().cloned().collect(),
            problems: BTreeMap::new(),
        };
        for problem in problems {
            let package = problem.subject.package.clone();
            let codes = outline.problems.entry(package).or_default();
            *codes.entry(problem.code.as_str().to_owned()).or_default() += 1;
        }
        outline
    }
}

impl Outline {
    /// Whether it tells of problems that do not follow from the content.
    pub fn has_problems_of_files(&self) -> bool {
        let mut codes = self.problems.values().flat_map(BTreeMap::keys);
        codes.any(|code| is_of_file(code))
    }

    /// Takes the problems of files of another outline, as far as this one does not tell of them.
    pub fn take_problems_of_files(&mut self, other: &Self) {
        for (package, codes) in &other.problems {
            for (code, count) in codes {
                if is_of_file(code) {
                    let codes = self.problems.entry(package.clone()).or_default();
                    codes.entry(code.clone()).or_insert(*count);
                }
            }
        }
    }
}

fn is_of_file(code: &str) -> bool {
    let mut codes = Code::ALL.iter();
    codes.any(|one| one.is_of_file() && one.as_str() == code)
}

fn package(
    package: &Package,
    blobs: &Blobs,
    digest: &impl Fn(u32) -> Option<Digest>,
) -> PackageOutline {
    let default = package.channels.get(package.default_channel);
    let mut bundles = BTreeMap::new();
    let entries = package.channels.iter().flat_map(|channel| &channel.entries);
    for entry in entries {
        let Some(bundle) = blobs.bundles.get(entry.bundle) else {
            continue;
        };
        bundles
            .entry(entry.name.clone())
            .or_insert_with(|| BundleOutline {
                version: bundle.blob.version.clone(),
                digest: digest(bundle.meta).map_or_else(String::new, |digest| digest.to_string()),
                deprecation: package
                    .deprecated_bundles
                    .get(&entry.bundle)
                    .map(|message| cut(message)),
            });
    }
    PackageOutline {
        default_channel: default.map_or_else(String::new, |channel| channel.name.clone()),
        channels: package
            .channels
            .iter()
            .map(|one| (one.name.clone(), channel(one)))
            .collect(),
        bundles,
        deprecation: package.deprecation.as_ref().map(|message| cut(message)),
    }
}

fn channel(channel: &Channel) -> ChannelOutline {
    let mut edges = Hasher::default();
    let mut of_entries = BTreeMap::new();
    for entry in &channel.entries {
        let mut own = Vec::new();
        let mut add = |text: &str| {
            own.extend(text.len().to_le_bytes());
            own.extend(text.as_bytes());
        };
        // The order of skips has no meaning.
        let mut skips: Vec<&str> = entry.skips.iter().map(String::as_str).collect();
        skips.sort_unstable();
        skips.dedup();
        for text in [&entry.name, &entry.replaces, &entry.skip_range] {
            add(text);
        }
        for text in skips {
            add(text);
        }
        add("");
        edges.update(&own);
        of_entries.insert(entry.name.clone(), start(&Digest::of(&own), ENTRY_EDGES));
    }
    let head = channel.entries.get(channel.head);
    ChannelOutline {
        head: head.map_or_else(String::new, |head| head.name.clone()),
        edges: start(&edges.finish(), EDGES),
        entry_edges: of_entries.values().map(String::as_str).collect(),
        entries: of_entries.into_keys().collect(),
        deprecation: channel.deprecation.as_ref().map(|message| cut(message)),
    }
}

/// The first hexadecimal digits of a digest.
fn start(digest: &Digest, digits: usize) -> String {
    digest.hex().chars().take(digits).collect()
}

impl ChannelOutline {
    /// Whether entries that both channels have replace or skip other ones. Without the edges
    /// of each entry, channels with other entries are not compared.
    pub fn has_other_edges(&self, other: &Self) -> bool {
        if self.entries == other.entries {
            return self.edges != other.edges;
        }
        let (own, others) = (self.edges_by_entry(), other.edges_by_entry());
        own.iter()
            .any(|(entry, edges)| others.get(entry).is_some_and(|other| other != edges))
    }

    fn edges_by_entry(&self) -> BTreeMap<&str, &[u8]> {
        if self.entry_edges.len() != self.entries.len() * ENTRY_EDGES {
            return BTreeMap::new();
        }
        let edges = self.entry_edges.as_bytes().chunks_exact(ENTRY_EDGES);
        self.entries.iter().map(String::as_str).zip(edges).collect()
    }
}

/// The beginning of a kept message that was longer, and what tells of the rest.
pub(super) fn shortened(kept: &str) -> Option<(&str, &str)> {
    let (end, _) = kept.char_indices().nth(MAX_MESSAGE)?;
    Some(kept.split_at(end))
}

/// A message of bounded length. The digits at the end of a longer one tell of changes behind
/// its beginning.
fn cut(message: &str) -> String {
    let mut kept: String = message.chars().take(MAX_MESSAGE).collect();
    if kept.len() < message.len() {
        let digest = Digest::of(message.as_bytes()).hex();
        let digits = digest.get(..DIGEST_DIGITS).unwrap_or_default();
        kept.push_str("… (");
        kept.push_str(digits);
        kept.push(')');
    }
    kept
}
