//! Where images lie below a mirror: the one rule of mappings, which bring them
//! there, and of the manifests that send a cluster there.
//!
//! An image keeps the path that it has in its registry. By digest two images of
//! one path are one image; by tag those of two registries are two. So where
//! several registries have images by tag under one path, the registry comes
//! before the path for these.

use std::collections::{BTreeMap, BTreeSet};

use crate::answers::images::FormError;
use fbc::image_list::{Image, ImageList, ImageVersion};

/// Where the images of one list lie.
pub struct Places<'a> {
    /// Repositories of which more than one registry has images by tag.
    shared: BTreeSet<&'a str>,
}

/// What lies where, to find out that two would lie in one place.
#[derive(Default)]
pub struct Taken(BTreeMap<String, String>);

impl<'a> Places<'a> {
    /// The places of the images of a list.
    pub fn of(list: &'a ImageList) -> Self {
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
    pub fn is_apart(&self, image: &Image) -> bool {
        matches!(image.version, ImageVersion::Tag(_))
            && self.shared.contains(image.repository.as_str())
    }

    /// The path of an image.
    pub fn path(&self, image: &Image) -> String {
        if self.is_apart(image) {
            return format!("{}/{}", component(&image.registry), image.repository);
        }
        image.repository.clone()
    }
}

impl Taken {
    /// Takes the place of an image.
    ///
    /// # Errors
    /// When another one lies there already.
    pub fn take(&mut self, path: &str, image: &Image) -> Result<(), FormError> {
        if let Some(place) = self.place(path, image)? {
            self.0.insert(place, image.pull_spec());
        }
        Ok(())
    }

    /// Sees to it that whoever looks for an image in a place does not find
    /// another one there.
    ///
    /// # Errors
    /// When another one lies there.
    pub fn check(&self, path: &str, image: &Image) -> Result<(), FormError> {
        self.place(path, image).map(drop)
    }

    /// The place of an image by tag, where none but itself lies; by digest
    /// there is nothing to tell apart, since that is in the place.
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

/// A registry as a part of a path, in which there are no colons.
fn component(registry: &str) -> String {
    let lower = registry.to_ascii_lowercase();
    let parts = lower.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '.');
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::images::Form;

    fn image(registry: &str, repository: &str, version: ImageVersion) -> Image {
        Image {
            registry: registry.into(),
            repository: repository.into(),
            version,
            uses: Vec::new(),
        }
    }

    fn list(images: Vec<Image>) -> ImageList {
        ImageList {
            images,
            refused: Vec::new(),
        }
    }

    fn tag(text: &str) -> ImageVersion {
        ImageVersion::Tag(text.into())
    }

    #[test]
    fn images_of_one_path_in_two_registries_lie_apart() {
        let digest = ImageVersion::Digest(format!("sha256:{}", "0".repeat(64)));
        let list = list(vec![
            image("docker.io", "lib/x", tag("1")),
            image("docker.io", "lib/y", tag("1")),
            image("localhost:5000", "lib/x", tag("2")),
            image("quay.io", "lib/x", tag("1")),
            image("quay.io", "lib/x", digest),
        ]);
        let bytes = Form::Mapping.write(&list, Some("m.example.com/ops"));
        let text = String::from_utf8(bytes.unwrap()).unwrap();
        let digits = "0".repeat(64);
        assert_eq!(
            text,
            format!(
                "docker.io/lib/x:1=m.example.com/ops/docker.io/lib/x:1\n\
                 docker.io/lib/y:1=m.example.com/ops/lib/y:1\n\
                 localhost:5000/lib/x:2=m.example.com/ops/localhost-5000/lib/x:2\n\
                 quay.io/lib/x:1=m.example.com/ops/quay.io/lib/x:1\n\
                 quay.io/lib/x@sha256:{digits}=m.example.com/ops/lib/x:{digits}\n"
            )
        );
    }

    #[test]
    fn what_would_still_lie_in_one_place_is_refused_with_both_names() {
        let list = list(vec![
            image("docker.io", "lib/x", tag("1")),
            image("proxy.example.com", "quay.io/lib/x", tag("1")),
            image("quay.io", "lib/x", tag("1")),
        ]);
        let error = Form::Mapping.write(&list, Some("m.example.com"));
        let error = error.unwrap_err().to_string();
        for name in ["proxy.example.com/quay.io/lib/x:1", " quay.io/lib/x:1"] {
            assert!(error.contains(name), "{error}");
        }
    }
}
