//! The serving index of a revision: where the answers lie in its files. It is
//! one checksummed file that is read whole when a revision is opened, where
//! thousands of rows would be too slow.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::answers::grpc::bundle_message::{BundleMessage, CsvEnds};
use crate::answers::shared_text::{SharedText, decode_in};
use crate::answers::span::{Region, Span};
use fbc::document::Gvk;
use fbc::fields::SchemaFields;

/// The layout of a revision's files. A revision of another format is not
/// opened; its catalog is read again.
pub const FORMAT: u32 = 7;

const MAGIC: &[u8; 8] = b"almanac\n";

/// Where the answers lie in a revision's files. Spans are in `messages.pb`
/// unless noted otherwise.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Schemas and package names of the metas, each once.
    pub texts: Vec<Box<str>>,
    /// The metas in catalog order.
    pub metas: Vec<MetaIndex>,
    /// The fields of the metas of each schema, in catalog order.
    pub fields: Vec<SchemaFields>,
    /// The packages that are served over gRPC, sorted by name.
    pub packages: Vec<PackageIndex>,
    /// Their bundles.
    pub bundles: Vec<BundleIndex>,
    /// The APIs and their providers, sorted by API.
    pub providers: Vec<Provider>,
    /// The answer to `ListPackages`.
    pub package_names: Region,
    /// The answer to `ListBundles`.
    pub bundle_list: Region,
    /// The answers about metas of schemas without calls of their own in the
    /// registry API, sorted by the numbers of schema and package.
    pub custom_schemas: Vec<CustomSchemas>,
    /// Where the answers to queries over HTTP lie.
    pub queries: QueryIndex,
}

/// Where the answers to queries lie. Spans are in `queries.jsonl`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryIndex {
    /// All packages, sorted by name, including those that the registry API
    /// omits for their errors.
    pub packages: Vec<PackageAnswers>,
    /// The APIs of the latter's bundles, sorted. Those of the others are in the
    /// index's `providers`.
    pub quarantined_apis: Vec<QuarantinedApi>,
}

/// Where the answers about a package lie.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageAnswers {
    /// Its name.
    pub name: Box<str>,
    /// The meta of its `olm.package` blob; without one, of another blob.
    pub meta: u32,
    /// Whether the registry API omits it for its errors.
    pub quarantined: bool,
    /// Its record in lists.
    pub summary: Span,
    /// Its full record.
    pub details: Span,
    /// Its channels with their names, sorted.
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

/// The searched texts of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchRow {
    /// Its number in the index's `queries`.
    pub package: u32,
    /// Its name.
    pub name: String,
    /// Its display name.
    pub display_name: String,
    /// Its keywords.
    pub keywords: String,
    /// The kinds it provides.
    pub kinds: String,
    /// The name of its provider.
    pub provider: String,
    /// Its description.
    pub description: String,
}

/// A meta. Lines follow each other without gaps, so lengths are enough to find them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaIndex {
    /// Its schema, in `texts`.
    pub schema: u32,
    /// Its package, in `texts`; the empty text when it has none.
    pub package: u32,
    /// Its name, or empty.
    pub name: SharedText,
    /// Bytes of its line in `metas.jsonl`.
    pub length: u32,
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
    /// The ends of the `ClusterServiceVersion`s made for its bundles.
    pub ends: CsvEnds,
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
    /// The entry's part of its bundle's message.
    pub membership: Span,
    /// The entry it replaces, or empty.
    pub replaces: SharedText,
    /// The entries it skips.
    pub skips: Box<[SharedText]>,
    /// Its framed `ChannelEntry` messages, one for each of its
    /// [`targets`](Self::targets).
    pub frames: Span,
}

impl EntryIndex {
    /// The entry it replaces (or the empty text), then the others it skips. As in
    /// opm, an entry that is both replaced and skipped counts once, and one that
    /// is skipped twice counts twice.
    pub fn targets(&self) -> impl Iterator<Item = &SharedText> {
        let skips = self.skips.iter().filter(|skip| **skip != self.replaces);
        [&self.replaces].into_iter().chain(skips)
    }
}

/// A bundle.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleIndex {
    /// Its name.
    pub name: SharedText,
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

/// An index into a list of a catalog, as it is stored.
#[expect(
    clippy::cast_possible_truncation,
    reason = "every element of such a list has some bytes of text, and a catalog a few GiB"
)]
pub fn number(index: usize) -> u32 {
    index as u32
}

impl Index {
    /// The file's bytes: magic, format, CRC-32 of the rest, then the index.
    ///
    /// # Errors
    /// None is known: the index has only types that the encoding supports.
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        let body = postcard::to_stdvec(self)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(crc32fast::hash(&body).to_le_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// Reads the file's bytes. Names stay there.
    ///
    /// # Errors
    /// A sentence about the file: bytes that [`encode`](Self::encode) did not
    /// write in this format.
    pub fn decode(bytes: &Bytes) -> Result<Self, String> {
        let (head, body) = bytes.split_at_checked(16).ok_or("it is too short")?;
        if !head.starts_with(MAGIC) {
            return Err("it is not an index".into());
        }
        if head[8..12] != FORMAT.to_le_bytes() {
            return Err("it has another format".into());
        }
        if head[12..16] != crc32fast::hash(body).to_le_bytes() {
            return Err("its checksum does not match".into());
        }
        decode_in(bytes, head.len()).map_err(|error| format!("it cannot be decoded: {error}"))
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
            entry
                .targets()
                .map(|target| target.to_string())
                .collect::<Vec<_>>()
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
                crc: 7,
            }],
            ..Index::default()
        };
        let bytes = Bytes::from(index.encode().unwrap());
        assert_eq!(Index::decode(&bytes), Ok(index));
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1;
            assert!(Index::decode(&damaged.into()).is_err(), "byte {at}");
            assert!(Index::decode(&bytes.slice(..at)).is_err(), "cut at {at}");
        }
    }
}
