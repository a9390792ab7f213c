//! The serving index of a revision: one checksummed file that is read whole
//! when the revision is opened, where thousands of rows would be too slow.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::store::StoreError;
use fbc::document::Gvk;
use fbc::fields::SchemaFields;
use fbc::message::{BundleMessage, Ends, Span};

/// The layout of a revision's files. A revision of another format is not
/// opened; its catalog is read again.
pub(super) const FORMAT: u32 = 4;

const MAGIC: &[u8; 8] = b"almanac\n";

/// What serving needs to find its way in a revision's files. Spans are in
/// `messages.pb` where nothing else is said.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Schemas and package names of the metas, each once.
    pub texts: Vec<Box<str>>,
    /// The metas in catalog order.
    pub metas: Vec<MetaIndex>,
    /// What fields the metas of each schema have, schemas in catalog order.
    pub fields: Vec<SchemaFields>,
    /// The packages that are served over gRPC, sorted by name.
    pub packages: Vec<PackageIndex>,
    /// Their bundles.
    pub bundles: Vec<BundleIndex>,
    /// Who provides which API, sorted by API.
    pub providers: Vec<Provider>,
    /// The answer to `ListPackages`.
    pub package_names: Region,
    /// The answer to `ListBundles`.
    pub bundle_list: Region,
    /// The answers about metas of schemas that the registry API has no calls
    /// for, sorted by the numbers of schema and package.
    pub custom_schemas: Vec<CustomSchemas>,
    /// What queries over HTTP find their answers by.
    pub queries: QueryIndex,
}

/// Where the answers to queries lie. Spans are in `queries.jsonl`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryIndex {
    /// All packages, also those that are left out of the registry API for
    /// their errors, sorted by name.
    pub packages: Vec<PackageAnswers>,
    /// The APIs of bundles of the latter, sorted; those of the others are in
    /// the index's `providers`.
    pub quarantined_apis: Vec<QuarantinedApi>,
}

/// Where the answers about a package lie.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageAnswers {
    /// Its name.
    pub name: Box<str>,
    /// The meta of its `olm.package` blob, or of another one when there is none.
    pub meta: u32,
    /// Whether it is left out of the registry API for its errors.
    pub quarantined: bool,
    /// What lists have of it.
    pub summary: Span,
    /// The whole of it.
    pub details: Span,
    /// Its channels, each with its name, sorted.
    pub channels: Vec<(Box<str>, Span)>,
}

/// An API that a bundle of a quarantined package provides.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QuarantinedApi {
    /// The API.
    pub api: Gvk,
    /// Its package, in the index's `queries`.
    pub package: u32,
    /// The bundle's name.
    pub bundle: Box<str>,
}

/// A meta: lines and segments follow each other without gaps, so lengths are
/// enough to find them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaIndex {
    /// Its schema, in `texts`.
    pub schema: u32,
    /// Its package, in `texts`; the empty text when it has none.
    pub package: u32,
    /// Its name, or empty.
    pub name: Box<str>,
    /// Bytes of its line in `metas.jsonl`.
    pub length: u32,
    /// Bytes of its segment in `metas.deflate`.
    pub segment: u32,
    /// CRC-32 of its line.
    pub crc: u32,
}

/// A package.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageIndex {
    /// Its name.
    pub name: Box<str>,
    /// Its meta.
    pub meta: u32,
    /// The encoded `Package`.
    pub message: Span,
    /// Its default channel, in `channels`.
    pub default_channel: u32,
    /// How the `ClusterServiceVersion`s made for its bundles end.
    pub ends: Ends,
    /// Its channels, sorted by name.
    pub channels: Vec<ChannelIndex>,
}

/// A channel.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelIndex {
    /// Its name.
    pub name: Box<str>,
    /// Its head, in `entries`.
    pub head: u32,
    /// Its entries, sorted by name.
    pub entries: Vec<EntryIndex>,
}

/// An entry of a channel. Its name is its bundle's.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryIndex {
    /// Its bundle, in the index's `bundles`.
    pub bundle: u32,
    /// What the entry adds to its bundle's message.
    pub membership: Span,
    /// What it replaces, or empty.
    pub replaces: Box<str>,
    /// What it skips.
    pub skips: Box<[Box<str>]>,
    /// It as `ChannelEntry`, framed, once for each of its [`targets`](Self::targets).
    pub frames: Span,
}

impl EntryIndex {
    /// What it replaces, or the empty text, then what it skips besides. What is
    /// replaced and skipped counts once, what is skipped twice counts twice, as
    /// the peers have it.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        let skips = self.skips.iter().filter(|skip| **skip != self.replaces);
        [&self.replaces]
            .into_iter()
            .chain(skips)
            .map(|target| &**target)
    }
}

/// A bundle.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleIndex {
    /// Its name.
    pub name: Box<str>,
    /// Where the parts of its message lie.
    pub message: BundleMessage,
}

/// An API and the bundles that provide it, in the order of `bundles`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// The API.
    pub api: Gvk,
    /// Indexes in the index's `bundles`.
    pub bundles: Vec<u32>,
}

/// A stream of messages in gRPC's framing, ready to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Bytes from the start of the file.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// The metas of a schema of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomSchemas {
    /// The schema, in `texts`.
    pub schema: u32,
    /// The package, in `texts`; the empty text for those that have none.
    pub package: u32,
    /// The metas as `Struct`s, in catalog order.
    pub answer: Region,
}

/// Numbers texts, each once.
#[derive(Default)]
pub(super) struct Texts {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

impl Texts {
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    pub(super) fn get(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    pub(super) fn finish(self) -> Vec<Box<str>> {
        self.texts
    }
}

impl Index {
    /// The file's bytes: magic, format, CRC-32 of the rest, then the index.
    pub(super) fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        let body = postcard::to_stdvec(self)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(crc32fast::hash(&body).to_le_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self, StoreError> {
        let bytes = fs::read(path).map_err(StoreError::io("read", path))?;
        Self::decode(&bytes).map_err(|reason| StoreError::Damaged {
            path: path.to_owned(),
            reason,
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (head, body) = bytes.split_at_checked(16).ok_or("it is too short")?;
        if !head.starts_with(MAGIC) {
            return Err("it is no index".into());
        }
        if head[8..12] != FORMAT.to_le_bytes() {
            return Err("it has another format".into());
        }
        if head[12..16] != crc32fast::hash(body).to_le_bytes() {
            return Err("its checksum does not match".into());
        }
        postcard::from_bytes(body).map_err(|error| format!("it cannot be decoded: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stands_for_what_it_replaces_and_what_it_skips_besides() {
        let targets = |replaces: &str, skips: &[&str]| {
            let entry = EntryIndex {
                bundle: 0,
                membership: Span::default(),
                replaces: replaces.into(),
                skips: skips.iter().map(|skip| (*skip).into()).collect(),
                frames: Span::default(),
            };
            entry.targets().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(targets("", &[]), [""]);
        assert_eq!(targets("a", &["b", "a", "c", "b"]), ["a", "b", "c", "b"]);
        assert_eq!(targets("", &["b", ""]), ["", "b"]);
    }

    #[test]
    fn an_index_comes_back_as_it_was_written_and_damage_is_seen() {
        let index = Index {
            texts: vec!["".into(), "olm.package".into()],
            metas: vec![MetaIndex {
                schema: 1,
                package: 0,
                name: "a".into(),
                length: 10,
                segment: 5,
                crc: 7,
            }],
            ..Index::default()
        };
        let bytes = index.encode().unwrap();
        assert_eq!(Index::decode(&bytes), Ok(index));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Index::decode(&damaged).is_err(), "byte {at}");
            assert!(Index::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
}
