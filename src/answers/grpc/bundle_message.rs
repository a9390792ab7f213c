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
                let mut moved: Vec<CsvPart> = parts.decode().collect();
                for part in &mut moved {
                    match part {
                        CsvPart::Fixed(_) => {}
                        CsvPart::Metas(span) => span.shift(lines),
                        CsvPart::Messages(span) => span.shift(messages),
                    }
                }
                *parts = moved.into();
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
        parts: CsvParts,
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

/// The parts of a made text in some five bytes each: a catalog has hundreds of
/// thousands of them, and a call needs those of one bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<CsvPart>", into = "Vec<CsvPart>")]
pub struct CsvParts(Box<[u8]>);

impl CsvParts {
    /// The parts, in order.
    pub fn decode(&self) -> impl Iterator<Item = CsvPart> + '_ {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            // Only what was encoded here is decoded, so that an error is the end.
            let (part, after) = postcard::take_from_bytes(rest).ok()?;
            rest = after;
            Some(part)
        })
    }
}

impl From<Vec<CsvPart>> for CsvParts {
    fn from(parts: Vec<CsvPart>) -> Self {
        let encode = |bytes: Vec<u8>, part: &CsvPart| postcard::to_extend(part, bytes);
        // Parts are numbers, which can always be encoded.
        let bytes = parts.iter().try_fold(Vec::new(), encode);
        Self(bytes.unwrap_or_default().into())
    }
}

impl From<CsvParts> for Vec<CsvPart> {
    fn from(parts: CsvParts) -> Self {
        parts.decode().collect()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_they_were_written_and_moved() {
        let span = |start, length| Span { start, length };
        let parts = vec![
            CsvPart::Fixed(200),
            CsvPart::Metas(span(1 << 40, u32::MAX)),
            CsvPart::Messages(span(0, 0)),
            CsvPart::Fixed(0),
        ];
        let encoded = CsvParts::from(parts.clone());
        assert_eq!(encoded.decode().collect::<Vec<_>>(), parts);
        assert_eq!(CsvParts::from(Vec::new()).decode().count(), 0);
        // On disk, they are a list as before.
        let stored = postcard::to_stdvec(&encoded).unwrap();
        assert_eq!(stored, postcard::to_stdvec(&parts).unwrap());
        assert_eq!(
            postcard::from_bytes::<CsvParts>(&stored),
            Ok(encoded.clone())
        );

        let mut message = BundleMessage {
            common: span(1, 1),
            manifests: Manifests::Made {
                parts: encoded,
                described: true,
            },
        };
        message.shift(7, 9);
        let Manifests::Made { parts: moved, .. } = message.manifests else {
            panic!("{message:?}");
        };
        let expected = [
            parts[0],
            CsvPart::Metas(span((1 << 40) + 9, u32::MAX)),
            CsvPart::Messages(span(7, 0)),
            parts[3],
        ];
        assert_eq!(moved.decode().collect::<Vec<_>>(), expected);
    }
}
