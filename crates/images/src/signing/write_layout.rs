//! Writing signatures into an image layout, to copy them into a registry.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::digest::Digest;
use crate::document::{self, DocumentError};
use crate::manifest::{Descriptor, Index, IndexEntry, OCI_MANIFEST, REFERENCE_NAME};
use crate::signing::documents::SignatureDocuments;

/// Writes signatures as images of a new layout, each under its tag. The folder is
/// created; it must be missing or empty. It blocks.
pub fn write_layout(
    folder: &Path,
    signatures: &BTreeMap<String, SignatureDocuments>,
) -> io::Result<()> {
    let blobs = folder.join("blobs/sha256");
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(io::Error::other("the folder is not empty"));
    }
    fs::create_dir_all(&blobs)?;
    let mut entries = Vec::new();
    for (tag, documents) in signatures {
        for bytes in documents.blobs.iter().chain([&documents.manifest]) {
            fs::write(blobs.join(Digest::of(bytes).hex()), bytes)?;
        }
        entries.push(IndexEntry {
            descriptor: Descriptor::new(OCI_MANIFEST, &documents.manifest),
            platform: None,
            annotations: [(REFERENCE_NAME.to_owned(), tag.clone())].into(),
        });
    }
    let failed = |error: DocumentError| io::Error::other(error);
    let index = document::image_index(&Index { entries }).map_err(failed)?;
    fs::write(folder.join("index.json"), index)?;
    let marker = document::layout_marker().map_err(failed)?;
    fs::write(folder.join("oci-layout"), marker)
}
