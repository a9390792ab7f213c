//! The registry messages of a catalog, encoded once, in parts.
//!
//! Protobuf messages concatenate: an answer is made of parts that were encoded
//! when the catalog was read. What all channels share of a bundle lies there
//! once (`common`), what an entry adds lies beside it (`membership`, `edges`),
//! and the large texts (`manifests`) are kept apart, for most answers do not
//! carry them. A `ClusterServiceVersion` that is made from `olm.csv.metadata`
//! ends with its package's icon, so that end is kept once a package.
//!
//! Field numbers: `proto/registry.proto`.

use serde::{Deserialize, Serialize};

use crate::document::Gvk;

/// A piece of the catalog's message file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Bytes from the start of the file.
    pub start: u64,
    /// Its length in bytes.
    pub length: u32,
}

impl Span {
    /// What was appended to `out` since it was `start` bytes long.
    pub fn since(out: &[u8], start: usize) -> Self {
        Self {
            start: start as u64,
            length: (out.len() - start) as u32,
        }
    }

    /// Moves the piece `by` bytes towards the end.
    pub fn shift(&mut self, by: u64) {
        self.start += by;
    }

    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(u64::from(self.length))
    }
}

/// Where the parts of a bundle's message lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleMessage {
    /// Everything but the manifests and what a channel entry adds.
    pub common: Span,
    /// The manifests.
    pub manifests: Manifests,
}

impl BundleMessage {
    /// Moves all parts towards the end: those in the message file by `messages`
    /// bytes, those in the metas' lines by `lines`.
    pub fn shift(&mut self, messages: u64, lines: u64) {
        self.common.shift(messages);
        match &mut self.manifests {
            Manifests::None => {}
            Manifests::Made { parts, .. } => {
                for part in parts {
                    match part {
                        Part::Fixed(_) => {}
                        Part::Metas(span) => span.shift(lines),
                        Part::Messages(span) => span.shift(messages),
                    }
                }
            }
            Manifests::Objects { objects, csv } => {
                objects.shift(messages);
                if let Some(csv) = csv {
                    csv.shift(messages);
                }
            }
        }
    }
}

/// Where `csvJson` and `object` of a bundle come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manifests {
    /// There are none.
    #[default]
    None,
    /// Made from `olm.csv.metadata`: the text without the end that its
    /// package brings; it is `csvJson` and the only `object`.
    Made {
        /// The JSON text, in parts.
        parts: Box<[Part]>,
        /// Whether it has a description; else the package's end brings one.
        described: bool,
    },
    /// From `olm.bundle.object`: encoded `object` fields, and the text among
    /// them that is the `ClusterServiceVersion`.
    Objects {
        /// Encoded fields.
        objects: Span,
        /// JSON text.
        csv: Option<Span>,
    },
}

/// A part of a made `ClusterServiceVersion`'s text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A fixed piece, by its place in [`FIXED`](crate::csv::FIXED).
    Fixed(u8),
    /// A piece of the metas' canonical lines.
    Metas(Span),
    /// A piece of the message file.
    Messages(Span),
}

/// The ends that a package brings to the `ClusterServiceVersion`s made for its
/// bundles: JSON texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// For bundles with a description.
    pub plain: Span,
    /// For bundles without one.
    pub described: Span,
}

impl Ends {
    /// Moves both `by` bytes towards the end.
    pub fn shift(&mut self, by: u64) {
        self.plain.shift(by);
        self.described.shift(by);
    }
}

/// `csvJson` of a Bundle.
pub const CSV_JSON: u32 = 4;
/// `object` of a Bundle.
pub const OBJECT: u32 = 5;

/// Appends a string or message field; empty ones too.
pub fn put_field(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_field_header(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends what stands before the `length` bytes of a string or message field.
pub fn put_field_header(out: &mut Vec<u8>, number: u32, length: usize) {
    // Wire type 2: length-delimited.
    put_varint(out, u64::from(number << 3 | 2));
    put_varint(out, length as u64);
}

/// Appends a string field unless it is empty, as proto3 has it.
fn put_text(out: &mut Vec<u8>, number: u32, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    if !text.is_empty() {
        put_field(out, number, text);
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The bytes that a varint takes.
pub fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn text_length(text: impl AsRef<[u8]>) -> usize {
    // All fields that are measured have numbers below 16: a key of one byte.
    match text.as_ref().len() {
        0 => 0,
        length => 1 + varint_length(length as u64) + length,
    }
}

/// Appends a message field that holds two texts, numbered 1 and 2.
fn put_pair(out: &mut Vec<u8>, number: u32, first: &str, second: &[u8]) {
    put_field_header(out, number, text_length(first) + text_length(second));
    put_text(out, 1, first);
    put_text(out, 2, second);
}

/// What `common` is made of.
#[derive(Debug, Default)]
pub struct Common<'a> {
    /// The bundle.
    pub name: &'a str,
    /// Its package.
    pub package: &'a str,
    /// Its image.
    pub image: &'a str,
    /// Its version, as it was written.
    pub version: &'a str,
    /// `olm.gvk`.
    pub provides: &'a [Gvk],
    /// `olm.gvk.required`.
    pub requires: &'a [Gvk],
    /// Type and JSON value.
    pub dependencies: &'a [(&'a str, std::borrow::Cow<'a, str>)],
    /// Type and JSON value.
    pub properties: &'a [(&'a str, &'a [u8])],
}

/// Appends the `common` part of a Bundle.
pub fn put_common(out: &mut Vec<u8>, common: &Common<'_>) {
    put_text(out, 1, common.name);
    put_text(out, 2, common.package);
    put_text(out, 6, common.image);
    for (number, apis) in [(7, common.provides), (8, common.requires)] {
        for api in apis {
            let (group, version, kind) = (&api.group, &api.version, &api.kind);
            let length = text_length(group) + text_length(version) + text_length(kind);
            put_field_header(out, number, length);
            put_text(out, 1, group);
            put_text(out, 2, version);
            put_text(out, 3, kind);
        }
    }
    put_text(out, 9, common.version);
    for (kind, value) in common.dependencies {
        put_pair(out, 11, kind, value.as_bytes());
    }
    for (kind, value) in common.properties {
        put_pair(out, 12, kind, value);
    }
}

/// Appends the part of a Bundle that every answer about an entry has.
pub fn put_membership(
    out: &mut Vec<u8>,
    channel: &str,
    skip_range: &str,
    deprecation: Option<&str>,
) {
    put_text(out, 3, channel);
    put_text(out, 10, skip_range);
    put_deprecation(out, 15, deprecation);
}

/// Appends the part of a Bundle that only `ListBundles` has.
pub fn put_edges(out: &mut Vec<u8>, replaces: &str, skips: &[String]) {
    put_text(out, 13, replaces);
    for skip in skips {
        put_field(out, 14, skip.as_bytes());
    }
}

/// Appends a Package without its channels, which follow by
/// [`put_package_channel`].
pub fn put_package(
    out: &mut Vec<u8>,
    name: &str,
    default_channel: &str,
    deprecation: Option<&str>,
) {
    put_text(out, 1, name);
    put_text(out, 3, default_channel);
    put_deprecation(out, 4, deprecation);
}

/// Appends a channel to a Package.
pub fn put_package_channel(
    out: &mut Vec<u8>,
    name: &str,
    head: &str,
    deprecation: Option<&str>,
    scratch: &mut Vec<u8>,
) {
    scratch.clear();
    put_text(scratch, 1, name);
    put_text(scratch, 2, head);
    put_deprecation(scratch, 3, deprecation);
    put_field(out, 2, scratch);
}

/// Appends a `PackageName`.
pub fn put_package_name(out: &mut Vec<u8>, name: &str) {
    put_text(out, 1, name);
}

/// Appends a `ChannelEntry`: `replaces` is what the bundle replaces or skips.
pub fn put_channel_entry(
    out: &mut Vec<u8>,
    package: &str,
    channel: &str,
    bundle: &str,
    replaces: &str,
) {
    put_text(out, 1, package);
    put_text(out, 2, channel);
    put_text(out, 3, bundle);
    put_text(out, 4, replaces);
}

fn put_deprecation(out: &mut Vec<u8>, number: u32, message: Option<&str>) {
    if let Some(message) = message {
        put_field_header(out, number, text_length(message));
        put_text(out, 1, message);
    }
}
