//! The `ClusterServiceVersion` made for a bundle from its `olm.csv.metadata`
//! property.
//!
//! Most of its text already stands in the bundle's canonical line. The text is
//! therefore joined from pieces of that line, fixed pieces, and the few texts
//! that are written for the bundle. The install strategy must be present, though
//! empty: without one, OLM's packageserver crashes on related images.

#[cfg(test)]
mod tests;

use crate::answers::grpc::bundle_message::{CsvPart, CsvParts, Manifests};
use crate::answers::span::Span;
use fbc::csv;
use fbc::csv::{CsvField, CsvMetadata};
use fbc::text::json::write::write_string;
use fbc::visit::IconParts;

/// Pieces that all made texts share. A [`CsvPart::Fixed`] refers to one by its
/// index here. New ones go to the end; a change of old ones needs another
/// [`FORMAT`](crate::answers::index::FORMAT).
pub const FIXED: [&str; 17] = [
    r#"{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","status":{"cleanup":{}},"metadata":{"name":"#,
    r#","annotations":"#,
    r#","labels":"#,
    r#"},"spec":{"install":{"strategy":"deployment","spec":{"deployments":null}},"cleanup":{"enabled":false},"version":"#,
    r#","apiservicedefinitions":"#,
    r#","customresourcedefinitions":"#,
    r#","description":"#,
    r#","displayName":"#,
    r#","installModes":"#,
    r#","keywords":"#,
    r#","links":"#,
    r#","maintainers":"#,
    r#","maturity":"#,
    r#","minKubeVersion":"#,
    r#","nativeAPIs":"#,
    r#","provider":"#,
    r#","relatedImages":"#,
];
const HEAD: u8 = 0;
const ANNOTATIONS: u8 = 1;
const LABELS: u8 = 2;
const SPEC: u8 = 3;
const RELATED_IMAGES: u8 = 16;

/// The fields of `spec` in the order of their keys in the property: the name
/// there, the fixed piece with the name in `spec`, and whether both names are
/// equal. Neighbours with equal names can form one piece.
const SPEC_FIELDS: [(&str, u8, bool); 12] = [
    ("apiServiceDefinitions", 4, false),
    ("crdDescriptions", 5, false),
    ("description", 6, true),
    ("displayName", 7, true),
    ("installModes", 8, true),
    ("keywords", 9, true),
    ("links", 10, true),
    ("maintainers", 11, true),
    ("maturity", 12, true),
    ("minKubeVersion", 13, true),
    ("nativeAPIs", 14, true),
    ("provider", 15, true),
];

/// Makes the text for a bundle, without the end that the package adds (see
/// [`put_end`]). Texts that are not in the bundle's line are
/// appended to `messages`.
pub(super) fn make(
    name: &str,
    version: &str,
    metadata: &CsvMetadata<'_>,
    related_images: Option<&CsvField<'_>>,
    messages: &mut Vec<u8>,
) -> Manifests {
    let mut maker = Maker {
        parts: Vec::with_capacity(24),
        messages,
    };
    maker.parts.push(CsvPart::Fixed(HEAD));
    maker.text(name);
    for (key, fixed) in [("annotations", ANNOTATIONS), ("labels", LABELS)] {
        if let Some(field) = metadata.get(key) {
            maker.field(fixed, field, true, None);
        }
    }
    maker.parts.push(CsvPart::Fixed(SPEC));
    maker.text(version);
    let mut described = false;
    // The end of the last field, when another may follow it in the same piece.
    let mut last = None;
    for (key, fixed, same_name) in SPEC_FIELDS {
        // Go omits these in the property when they are empty, but not here.
        let kept = matches!(
            key,
            "apiServiceDefinitions" | "crdDescriptions" | "displayName" | "provider"
        );
        let taken = match metadata.get(key) {
            Some(field) => {
                let joined = last.filter(|_| same_name).zip(Some(key));
                maker.field(fixed, field, !kept, joined)
            }
            None if kept => {
                maker.parts.push(CsvPart::Fixed(fixed));
                maker.own(|messages| csv::write_zero(key, messages));
                None
            }
            None => None,
        };
        described |= key == "description" && taken.is_some();
        if let Some(taken) = taken {
            last = taken.end.filter(|_| same_name);
        }
    }
    if let Some(images) = related_images {
        maker.field(RELATED_IMAGES, images, true, None);
    }
    let Maker { parts, messages } = maker;
    let length = parts.iter().map(CsvPart::length).sum();
    Manifests::Made {
        parts: CsvParts::put(&parts, length, messages),
        described,
    }
}

impl CsvPart {
    /// Its bytes.
    fn length(&self) -> u64 {
        match self {
            Self::Fixed(number) => {
                FIXED.get(usize::from(*number)).map_or(0, |text| text.len()) as u64
            }
            Self::Metas(span) | Self::Messages(span) => u64::from(span.length),
        }
    }
}

struct Maker<'a> {
    parts: Vec<CsvPart>,
    messages: &'a mut Vec<u8>,
}

/// A field that was added.
#[derive(Clone, Copy)]
struct Taken {
    /// Its end in the lines, if it was taken from there.
    end: Option<u64>,
}

impl Maker<'_> {
    /// Adds a string that is written for the bundle.
    fn text(&mut self, text: &str) {
        self.own(|messages| write_string(messages, text));
    }

    /// Adds a piece that is written for the bundle.
    fn own(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.messages.len();
        write(self.messages);
        let span = Span::since(self.messages, start);
        self.parts.push(CsvPart::Messages(span));
    }

    /// Adds a field. `joined` is the end of the field before it, and this one's
    /// key: when only a comma and the key separate them, both form one piece.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a field lies in one line, which stems from a document of at most 1 GiB"
    )]
    fn field(
        &mut self,
        fixed: u8,
        field: &CsvField<'_>,
        omitted: bool,
        joined: Option<(u64, &str)>,
    ) -> Option<Taken> {
        if field.is_empty() && omitted {
            return None;
        }
        let Some(range) = field.unchanged() else {
            self.parts.push(CsvPart::Fixed(fixed));
            self.own(|messages| field.write(messages));
            return Some(Taken { end: None });
        };
        let span = Span {
            start: range.start as u64,
            length: range.len() as u32,
        };
        match (joined, self.parts.last_mut()) {
            (Some((end, key)), Some(CsvPart::Metas(last)))
                // ,"key":
                if last.end() == end && span.start == end + key.len() as u64 + 4 =>
            {
                last.length = (span.end() - last.start) as u32;
            }
            _ => {
                self.parts.push(CsvPart::Fixed(fixed));
                self.parts.push(CsvPart::Metas(span));
            }
        }
        Some(Taken {
            end: Some(span.end()),
        })
    }
}

/// Appends the part that a package adds, and the end of the text.
pub(super) fn put_end(out: &mut Vec<u8>, icon: Option<&IconParts<'_>>, description: Option<&str>) {
    if let Some(icon) = icon {
        out.extend_from_slice(br#","icon":[{"base64data":"#);
        write_string(out, icon.data);
        out.extend_from_slice(br#","mediatype":"#);
        write_string(out, icon.media_type);
        out.extend_from_slice(b"}]");
    }
    if let Some(description) = description.filter(|text| !text.is_empty()) {
        out.extend_from_slice(br#","description":"#);
        write_string(out, description);
    }
    out.extend_from_slice(b"}}");
}
