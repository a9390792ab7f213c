//! Signatures of the images that almanac makes.
//!
//! A signature differs each time it is made. So it is stored with the image, and
//! made again only when the image, the key or a name changes.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use crate::ingest::error::Cause;
use crate::ingest::images::slim::write_document;
use crate::store::{BlobPin, Image, ImageBlob, ImageManifest, ImageSigner, Store};
use ::images::manifest::OCI_MANIFEST;
use ::images::signing::{SignatureDocuments, SigningKey, signature_tag};

/// The signing key, and the name of an image outside of almanac.
#[derive(Clone)]
pub(crate) struct ImageSigning {
    pub(super) key: Arc<SigningKey>,
    /// `HOST/REPOSITORY`.
    pub(super) name: String,
}

impl ImageSigning {
    /// The record of the signatures that an image with these tags gets.
    pub(super) fn signer<'a>(&self, tags: impl IntoIterator<Item = &'a String>) -> ImageSigner {
        let name = |tag: &String| format!("{}:{tag}", self.name);
        ImageSigner {
            key: self.key.public_key_digest(),
            names: tags.into_iter().map(name).collect(),
        }
    }

    /// Signs all manifests of an image under its name with each of its tags. It
    /// blocks.
    pub(super) fn sign(
        &self,
        store: &Store,
        image: &mut Image,
        pins: &mut Vec<BlobPin>,
    ) -> Result<(), Cause> {
        let signer = self.signer(image.tags.keys());
        let subjects: Vec<_> = image.manifests.iter().map(|one| one.digest).collect();
        let mut stored: BTreeSet<_> = image.blobs.iter().map(|blob| blob.digest).collect();
        for subject in subjects {
            let documents = SignatureDocuments::sign(&self.key, &subject, &signer.names)
                .map_err(|problem| Cause::WriteImage(io::Error::other(problem)))?;
            for blob in &documents.blobs {
                let (pin, size) = write_document(store, blob)?;
                let digest = pin.digest();
                if stored.insert(digest) {
                    image.blobs.push(ImageBlob { digest, size });
                }
                pins.push(pin);
            }
            let (pin, size) = write_document(store, &documents.manifest)?;
            image.tags.insert(signature_tag(&subject), pin.digest());
            image.manifests.push(ImageManifest {
                digest: pin.digest(),
                media_type: OCI_MANIFEST.into(),
                size,
                referrer: None,
                attached: true,
            });
            pins.push(pin);
        }
        image.signed = Some(signer);
        Ok(())
    }
}
