//! The paths of images below a mirror. Mappings, which copy images there, and
//! manifests, which send a cluster there, follow the same rule.
//!
//! An image keeps the path that it has in its registry. Two images with the same
//! path and digest are equal, whatever their registries; with the same tag they
//! are not. If several registries have images by tag under the same path, the
//! registry is put before the path of these images.

use std::collections::{BTreeMap, BTreeSet};

use fbc::image_list::{Image, ImageList, ImageVersion};

/// An error of writing a list in a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// No such form.
    #[error(
        "{0:?} is not a format; the formats are list, json, yaml, jsonl, mapping, skopeo and image-set"
    )]
    Unknown(String),
    /// A mapping without a destination.
    #[error("a mapping needs a target registry (`to`), such as mirror.example.com:5000")]
    NoDestination,
    /// A destination that is not a registry.
    #[error("{text:?} is not a registry to map to; {remedy}")]
    Destination {
        /// Its beginning.
        text: String,
        /// What to write instead.
        remedy: String,
    },
    /// Two images that would have the same path in the mirror.
    #[error("{first} and {second} would both be {place} in a mirror; copy one of them elsewhere")]
    SamePlace {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// The common path.
        place: String,
    },
}

/// The paths of the images of one list.
pub(super) struct MirrorPaths<'a> {
    /// Repositories of which several registries have images by tag.
    shared: BTreeSet<&'a str>,
}

/// The paths that are taken, each with its image, to detect collisions.
#[derive(Default)]
pub(super) struct TakenPaths(BTreeMap<String, String>);

impl<'a> MirrorPaths<'a> {
    /// The paths of the images of a list.
    pub(super) fn of(list: &'a ImageList) -> Self {
        let mut registries: BTreeMap<&str, &str> = BTreeMap::new();
        let mut shared = BTreeSet::new();
        for image in &list.images {
            if let ImageVersion::Tag(_) = image.version {
                let first = registries
                    .entry(&image.repository)
                    .or_insert(&image.registry);
                if *first != image.registry {
                    shared.insert(image.repository.as_str());
                }
            }
        }
        Self { shared }
    }

    /// Whether the registry comes before the path of an image.
    pub(super) fn is_apart(&self, image: &Image) -> bool {
        matches!(image.version, ImageVersion::Tag(_))
            && self.shared.contains(image.repository.as_str())
    }

    /// The path of an image.
    pub(super) fn path(&self, image: &Image) -> String {
        if self.is_apart(image) {
            return format!("{}/{}", component(&image.registry), image.repository);
        }
        image.repository.clone()
    }
}

impl TakenPaths {
    /// Takes the path of an image.
    ///
    /// # Errors
    /// When another image has it.
    pub(super) fn take(&mut self, path: &str, image: &Image) -> Result<(), FormError> {
        if let Some(place) = self.place(path, image)? {
            self.0.insert(place, image.pull_spec());
        }
        Ok(())
    }

    /// Checks that no other image is found under the path of an image.
    ///
    /// # Errors
    /// When another image has it.
    pub(super) fn check(&self, path: &str, image: &Image) -> Result<(), FormError> {
        self.place(path, image).map(drop)
    }

    /// The path and tag of an image, if no other image has them. Images by digest
    /// cannot collide, since the digest is part of their name.
    fn place(&self, path: &str, image: &Image) -> Result<Option<String>, FormError> {
        let ImageVersion::Tag(tag) = &image.version else {
            return Ok(None);
        };
        let (place, source) = (format!("{path}:{tag}"), image.pull_spec());
        match self.0.get(&place) {
            Some(first) if *first != source => Err(FormError::SamePlace {
                first: first.clone(),
                second: source,
                place,
            }),
            _ => Ok(Some(place)),
        }
    }
}

/// A registry as a part of a path, which must not contain colons.
fn component(registry: &str) -> String {
    let lower = registry.to_ascii_lowercase();
    let parts = lower.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '.');
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("-")
}
