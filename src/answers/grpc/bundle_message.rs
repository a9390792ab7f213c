//! Where the parts of a bundle's message lie.
//!
//! Protobuf messages concatenate, so an answer consists of parts that are
//! encoded once, when the catalog is read. The part that all channels share
//! (`common`) is stored once per bundle; the parts of each channel entry lie
//! beside it. The large texts (`manifests`) are apart, since most answers omit
//! them. A `ClusterServiceVersion` made from `olm.csv.metadata` ends with its
//! package's icon, so its end is stored once per package.

use serde::{Deserialize, Serialize};

use crate::answers::span::Span;

/// Where the parts of a bundle's message lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleMessage {
    /// Everything but the manifests and the parts of channel entries.
    pub common: Span,
    /// The manifests.
    pub manifests: Manifests,
}

impl BundleMessage {
    /// Moves all parts towards the end: those in the message file by `messages`
    /// bytes, those in the lines of metas by `lines`.
    pub fn shift(&mut self, messages: u64, lines: u64) {
        self.common.shift(messages);
        match &mut self.manifests {
            Manifests::None => {}
            Manifests::Made { parts, .. } => {
                for part in parts {
                    match part {
                        CsvPart::Fixed(_) => {}
                        CsvPart::Metas(span) => span.shift(lines),
                        CsvPart::Messages(span) => span.shift(messages),
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

/// The source of a bundle's `csvJson` and `object` fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manifests {
    /// There are none.
    #[default]
    None,
    /// A text made from `olm.csv.metadata`, without the end that its package
    /// adds. It is `csvJson` and the only `object`.
    Made {
        /// The JSON text, in parts.
        parts: Box<[CsvPart]>,
        /// Whether it has a description; if not, the package's end adds one.
        described: bool,
    },
    /// Encoded `object` fields from `olm.bundle.object`, and the text of the
    /// `ClusterServiceVersion` among them.
    Objects {
        /// Encoded fields.
        objects: Span,
        /// JSON text.
        csv: Option<Span>,
    },
}

/// A part of the text of a made `ClusterServiceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CsvPart {
    /// A fixed piece, by its index in [`FIXED`](crate::answers::grpc::csv::FIXED).
    Fixed(u8),
    /// A piece of the metas' canonical lines.
    Metas(Span),
    /// A piece of the message file.
    Messages(Span),
}

/// The ends that a package adds to the `ClusterServiceVersion`s made for its
/// bundles: JSON texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvEnds {
    /// For bundles with a description.
    pub plain: Span,
    /// For bundles without one.
    pub described: Span,
}

impl CsvEnds {
    /// The end of a text that has a description (`described`) or lacks one.
    pub fn of(&self, described: bool) -> Span {
        if described {
            self.plain
        } else {
            self.described
        }
    }

    /// Moves both `by` bytes towards the end.
    pub fn shift(&mut self, by: u64) {
        self.plain.shift(by);
        self.described.shift(by);
    }
}
