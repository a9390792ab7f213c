//! The images that a selection needs: its bundles and their related images.
//!
//! Each image is listed once, with all its uses. The image of the catalog itself is
//! not in the list.

use std::collections::BTreeMap;

use crate::presentation::RelatedImage;
use crate::pullspec;
use crate::pullspec::PullSpec;
use crate::select::{Reason, Selected};
use crate::text::json::typed::{fields, from_json};

/// The images of a selection.
#[derive(Debug, Default)]
pub struct ImageList {
    /// The images, sorted by name.
    pub images: Vec<Image>,
    /// Texts that are not images: the bundle, the text and the reason.
    pub refused: Vec<String>,
}

/// An image and its uses.
#[derive(Debug)]
pub struct Image {
    /// Its registry.
    pub registry: String,
    /// Its repository there.
    pub repository: String,
    /// The tag or the digest.
    pub version: ImageVersion,
    /// Its uses, sorted.
    pub uses: Vec<Use>,
}

/// The version of an image in its repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageVersion {
    /// A digest, which always names the same image.
    Digest(String),
    /// A tag, which may move. `latest` if the pull spec has none.
    Tag(String),
}

/// A use of an image by a bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// The bundle's package.
    pub package: String,
    /// The bundle.
    pub bundle: String,
    /// The bundle's version, or empty.
    pub version: String,
    /// The name of a related image. `None` for the image of the bundle itself.
    pub related: Option<String>,
    /// The channels that the bundle was selected for, and why.
    pub channels: Vec<(String, Reason)>,
}

#[derive(Default)]
struct BundleLine {
    image: String,
    related: Vec<RelatedImage>,
}

fields!(BundleLine { image = "image", related = "relatedImages" });

impl ImageList {
    /// The images of all these selections.
    pub fn from_selections<'s>(selections: impl IntoIterator<Item = &'s Selected>) -> Self {
        let mut refused = Vec::new();
        let mut images: BTreeMap<(String, String, ImageVersion), Vec<Use>> = BTreeMap::new();
        let packages = selections
            .into_iter()
            .flat_map(|selected| &selected.packages);
        let bundles = packages.flat_map(|package| {
            let bundles = package.bundles.iter();
            bundles.map(|bundle| (package.name.as_str(), bundle))
        });
        for (package, bundle) in bundles {
            // Packages with malformed bundles are not selected.
            let line: BundleLine = from_json(&bundle.line).unwrap_or_default();
            let own = (None, line.image);
            let related = line.related.into_iter();
            let related = related.map(|related| (Some(related.name), related.image));
            for (related, spec) in std::iter::once(own).chain(related) {
                if spec.is_empty() {
                    continue;
                }
                match pullspec::read(&spec) {
                    Ok(spec) => images.entry(key(&spec)).or_default().push(Use {
                        package: package.to_owned(),
                        bundle: bundle.name.clone(),
                        version: bundle.version.clone(),
                        related,
                        channels: bundle.channels.clone(),
                    }),
                    Err(error) => refused.push(format!(
                        "{} of {package}: the image {spec:?}: {error}",
                        bundle.name
                    )),
                }
            }
        }
        let images = images.into_iter().map(|(key, mut uses)| {
            let (registry, repository, version) = key;
            uses.sort();
            // Some bundles name an image twice, or themselves, and two catalogs
            // may have one bundle.
            uses.dedup_by(|next, one| {
                let same = (&next.package, &next.bundle) == (&one.package, &one.bundle)
                    && (next.related == one.related || one.related.is_none());
                if same {
                    one.channels.append(&mut next.channels);
                }
                same
            });
            for one in &mut uses {
                one.channels.sort();
                one.channels.dedup();
            }
            Image {
                registry,
                repository,
                version,
                uses,
            }
        });
        Self {
            images: images.collect(),
            refused,
        }
    }
}

impl Image {
    /// The repository with its registry.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The whole pull spec.
    pub fn pull_spec(&self) -> String {
        match &self.version {
            ImageVersion::Digest(digest) => format!("{}@{digest}", self.name()),
            ImageVersion::Tag(tag) => format!("{}:{tag}", self.name()),
        }
    }
}

/// The common form of two ways to write one image. Beside a digest a tag says
/// nothing.
fn key(spec: &PullSpec<'_>) -> (String, String, ImageVersion) {
    let version = match (spec.digest, spec.tag) {
        (Some(digest), _) => ImageVersion::Digest(digest.to_owned()),
        (None, tag) => ImageVersion::Tag(tag.unwrap_or("latest").to_owned()),
    };
    (
        spec.registry.to_owned(),
        spec.repository.to_string(),
        version,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::{SelectedBundle, SelectedPackage};

    fn bundle(name: &str, line: &str) -> SelectedBundle {
        SelectedBundle {
            name: name.into(),
            version: "1.0.0".into(),
            line: line.to_owned().into(),
            channels: vec![("stable".into(), Reason::Head)],
        }
    }

    fn list() -> ImageList {
        let digest = "0".repeat(64);
        let one = format!(
            r#"{{"image":"quay.io/a/bundle@sha256:{digest}","relatedImages":[{{"image":"busybox","name":"box"}},
            {{"image":"docker.io/library/busybox:latest","name":""}},{{"image":"quay.io/a/b:v1","name":"b"}},
            {{"image":"quay.io/A","name":"bad"}},{{"image":"","name":"none"}},
            {{"image":"quay.io/a/bundle:v1@sha256:{digest}","name":"self"}}]}}"#
        )
        .replace("\n            ", "");
        let two = r#"{"image":"quay.io/a/bundle:v2","relatedImages":[{"image":"quay.io/a/b:v1","name":"b"}]}"#;
        let selected = |bundles| Selected {
            packages: vec![SelectedPackage {
                name: "a".into(),
                catalog: "c".into(),
                lines: Vec::new(),
                bundles,
            }],
            ..Selected::default()
        };
        // The second one has a bundle of the first for another channel.
        let mut again = bundle("a.v2", two);
        again.channels = vec![("edge".into(), Reason::InRange)];
        ImageList::from_selections([
            &selected(vec![bundle("a.v1", &one), bundle("a.v2", two)]),
            &selected(vec![again]),
        ])
    }

    #[test]
    fn an_image_stands_once_whoever_needs_it_and_however_it_is_written() {
        let list = list();
        let specs: Vec<_> = list.images.iter().map(Image::pull_spec).collect();
        let digest = format!("quay.io/a/bundle@sha256:{}", "0".repeat(64));
        assert_eq!(
            specs,
            [
                "docker.io/library/busybox:latest",
                "quay.io/a/b:v1",
                &digest,
                "quay.io/a/bundle:v2",
            ]
        );
        let users = |at: usize| {
            let uses = list.images[at].uses.iter();
            uses.map(|one| (one.bundle.as_str(), one.related.as_deref()))
                .collect::<Vec<_>>()
        };
        assert_eq!(users(1), [("a.v1", Some("b")), ("a.v2", Some("b"))]);
        assert_eq!(users(2), [("a.v1", None)]);
        let channels = &list.images[3].uses[0].channels;
        let channels: Vec<&str> = channels.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(channels, ["edge", "stable"]);
        let [refused] = &list.refused[..] else {
            panic!("{:?}", list.refused)
        };
        assert!(
            refused.contains("a.v1 of a") && refused.contains("quay.io/A"),
            "{refused}"
        );
    }
}
