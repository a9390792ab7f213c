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
                parts.list.shift(messages);
                parts.lines += lines;
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

/// Where the parts of a made text are listed, in some five bytes each: a catalog has
/// hundreds of thousands of them, and a call needs those of one bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C, packed(4))]
pub struct CsvParts {
    /// The list, in the message file.
    list: Span,
    /// Where the lines start that the pieces count from.
    lines: u64,
    /// Bytes of the text.
    pub length: u64,
}

impl CsvParts {
    /// Appends the list of parts to the messages. Pieces of messages lie before it.
    pub fn put(parts: &[CsvPart], length: u64, messages: &mut Vec<u8>) -> Self {
        let start = messages.len();
        for part in parts {
            let mut part = *part;
            if let CsvPart::Messages(span) = &mut part {
                // Counted back from the list, wherever that will lie.
                span.start = start as u64 - span.start;
            }
            // Parts are numbers, which can always be encoded.
            if let Ok(bytes) = postcard::to_extend(&part, std::mem::take(messages)) {
                *messages = bytes;
            }
        }
        let list = Span::since(messages, start);
        Self {
            list,
            lines: 0,
            length,
        }
    }

    /// The place of the list in the message file.
    pub fn list(&self) -> Span {
        self.list
    }

    /// About how many parts there are.
    pub fn estimate(&self) -> usize {
        self.list.length as usize / 4
    }

    /// The parts, in order. `messages` is the message file.
    pub fn decode<'a>(&self, messages: &'a [u8]) -> impl Iterator<Item = CsvPart> + use<'a> {
        let mut rest = self.list.of(messages).unwrap_or(&[]);
        let Self { list, lines, .. } = *self;
        std::iter::from_fn(move || {
            // Only what was encoded here is decoded, so that an error is the end.
            let (mut part, after) = postcard::take_from_bytes(rest).ok()?;
            rest = after;
            match &mut part {
                CsvPart::Fixed(_) => {}
                CsvPart::Metas(span) => span.start = span.start.checked_add(lines)?,
                CsvPart::Messages(span) => span.start = list.start.checked_sub(span.start)?,
            }
            Some(part)
        })
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
        let parts = [
            CsvPart::Fixed(200),
            CsvPart::Metas(span(1 << 40, u32::MAX)),
            CsvPart::Messages(span(2, 3)),
            CsvPart::Fixed(0),
        ];
        let mut messages = b"a text".to_vec();
        let listed = CsvParts::put(&parts, 70, &mut messages);
        assert!(messages.starts_with(b"a text"));
        assert!(listed.decode(&messages).eq(parts));
        let none = CsvParts::put(&[], 0, &mut messages);
        assert_eq!(none.decode(&messages).count(), 0);

        let mut message = BundleMessage {
            common: span(1, 1),
            manifests: Manifests::Made {
                parts: listed,
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
            CsvPart::Messages(span(9, 3)),
            parts[3],
        ];
        let messages = [b"before.", &messages[..]].concat();
        assert!(moved.decode(&messages).eq(expected));
        assert_eq!({ moved.length }, 70);
        // Damage ends the list, and nothing worse.
        assert_eq!(moved.decode(&messages[..10]).count(), 0);
        assert!(moved.decode(&[255; 100]).count() < 100);
    }
}
