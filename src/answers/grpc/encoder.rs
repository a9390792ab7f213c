//! Encodes the messages of packages and bundles while a catalog is read.

use crate::answers::grpc::bundle_message::{BundleMessage, CsvEnds, Manifests};
use crate::answers::grpc::message::OBJECT;
use crate::answers::grpc::{csv, message};
use crate::answers::span::Span;
use fbc::visit::{BundleParts, ManifestParts, PackageParts, Visitor};

/// The encoded messages of the packages and bundles it visited.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Parts of messages. The spans below count from here.
    pub messages: Vec<u8>,
    /// One for each bundle.
    pub bundles: Vec<BundleMessage>,
    /// One for each package.
    pub ends: Vec<CsvEnds>,
    scratch: Vec<u8>,
}

impl Encoder {
    /// Forgets all messages and keeps the memory.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.bundles.clear();
        self.ends.clear();
    }
}

impl Visitor for Encoder {
    fn package(&mut self, package: &PackageParts<'_>) {
        let mut end = |description| {
            let start = self.messages.len();
            csv::put_end(&mut self.messages, package.icon.as_ref(), description);
            Span::since(&self.messages, start)
        };
        let plain = end(None);
        let described = end(Some(package.description));
        self.ends.push(CsvEnds { plain, described });
    }

    fn bundle(&mut self, bundle: &BundleParts<'_>) {
        let messages = &mut self.messages;
        let start = messages.len();
        message::put_common(messages, bundle, &mut self.scratch);
        let common = Span::since(messages, start);
        let manifests = match &bundle.manifests {
            ManifestParts::None => Manifests::None,
            ManifestParts::Metadata {
                metadata,
                related_images,
            } => {
                let images = related_images.as_ref();
                csv::make(bundle.name, bundle.version, metadata, images, messages)
            }
            ManifestParts::Objects { objects, csv } => put_objects(messages, objects, *csv),
        };
        self.bundles.push(BundleMessage { common, manifests });
    }
}

/// Appends the objects as fields of the message.
fn put_objects(messages: &mut Vec<u8>, objects: &[Vec<u8>], csv: Option<usize>) -> Manifests {
    let start = messages.len();
    let mut span_of_csv = None;
    for (index, object) in objects.iter().enumerate() {
        message::put_field(messages, OBJECT, object);
        if csv == Some(index) {
            span_of_csv = Some(Span::since(messages, messages.len() - object.len()));
        }
    }
    Manifests::Objects {
        objects: Span::since(messages, start),
        csv: span_of_csv,
    }
}
