//! Choosing an image from an index.

use std::collections::BTreeMap;

use crate::manifest::descriptor::Descriptor;
use crate::manifest::error::ManifestError;
use crate::manifest::json::cut;
use crate::platform::Platform;

/// The annotation with the name of an image in a layout: its tag, or a
/// reference (image-spec, annotations).
pub const REFERENCE_NAME: &str = "org.opencontainers.image.ref.name";
/// The annotation that marks attestations in the indexes of `buildkit`.
pub(super) const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// A list of manifests, usually one for each platform; at most
/// [`MAX_ENTRIES`](crate::manifest::MAX_ENTRIES).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The entries, in the order of the document.
    pub entries: Vec<IndexEntry>,
}

/// One manifest of an [`Index`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The manifest.
    pub descriptor: Descriptor,
    /// The platform of the image, if the index names it.
    pub platform: Option<Platform>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Index {
    /// The entry for `platform`, in any notation: the first with the same operating
    /// system, architecture and variant; else the first without a variant, or (if none
    /// is requested) with any. Attestations are skipped. The only image of an
    /// index needs no platform.
    pub fn select(&self, platform: &Platform) -> Result<&Descriptor, ManifestError> {
        let images = || self.entries.iter().filter(|entry| !entry.is_attestation());
        let wanted = platform.normalized();
        let fit = |entry: &&IndexEntry| {
            let offered = entry.platform.as_ref()?.normalized();
            if offered.os != wanted.os || offered.architecture != wanted.architecture {
                return None;
            }
            match (offered.specific_variant(), wanted.specific_variant()) {
                (offered, wanted) if offered == wanted => Some(0),
                (None, Some(_)) => Some(1),
                (Some(_), None) => Some(2),
                _ => None,
            }
        };
        let best = images()
            .filter_map(|entry| fit(&entry).map(|fit| (fit, entry)))
            .min_by_key(|(fit, _)| *fit);
        if let Some((_, entry)) = best {
            return Ok(&entry.descriptor);
        }
        let mut all = images();
        match (all.next(), all.next()) {
            (Some(only), None) if only.platform.is_none() => Ok(&only.descriptor),
            _ => Err(ManifestError::NoPlatform {
                wanted: Box::new(platform.clone()),
                available: self.platforms(),
            }),
        }
    }

    fn platforms(&self) -> String {
        let platforms = self
            .entries
            .iter()
            .filter(|entry| !entry.is_attestation())
            .filter_map(|entry| entry.platform.as_ref())
            .take(50)
            .map(|platform| cut(&platform.to_string()))
            .collect::<Vec<_>>();
        if platforms.is_empty() {
            "none".into()
        } else {
            platforms.join(", ")
        }
    }
}

impl IndexEntry {
    /// Whether the entry is an attestation of another entry (provenance, bill of
    /// materials) and not an image.
    pub fn is_attestation(&self) -> bool {
        let unknown = self
            .platform
            .as_ref()
            .is_some_and(|platform| platform.os == "unknown" && platform.architecture == "unknown");
        unknown
            || self
                .annotations
                .get(REFERENCE_TYPE)
                .is_some_and(|kind| kind == "attestation-manifest")
    }
}
