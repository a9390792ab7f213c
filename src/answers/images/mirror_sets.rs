//! The objects by which a cluster finds images in a mirror.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::answers::images::mirror_paths::{FormError, MirrorPaths, TakenPaths};
use fbc::image_list::{Image, ImageList, ImageVersion};

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorSet {
    /// `ImageDigestMirrorSet`.
    Digests,
    /// `ImageTagMirrorSet`.
    Tags,
    /// `ImageContentSourcePolicy`, the predecessor of the first, for OpenShift up to 4.12.
    OlderDigests,
}

/// The mirrors of images.
#[derive(Debug, Default)]
pub struct Mirrors {
    /// The sources of images by digest, with their mirrors.
    digests: BTreeMap<String, BTreeSet<String>>,
    /// The sources of images by tag, with their mirrors.
    tags: BTreeMap<String, BTreeSet<String>>,
}

impl Mirrors {
    /// The mirrors of image lists below a host and path. Images keep their path
    /// there, so one source can cover a whole namespace. A repository without a
    /// namespace, or apart from the others, is a source of its own.
    ///
    /// A cluster merges all kinds of mirrors and applies the longest matching
    /// source alone. So each image belongs to the longest source that covers it,
    /// from any list and kind. A source with images in several places has several
    /// mirrors.
    ///
    /// # Errors
    /// If two images have the same place in the mirror, or one is searched in the
    /// place of another.
    pub fn of<'a>(
        lists: impl IntoIterator<Item = &'a ImageList>,
        to: &str,
    ) -> Result<Self, FormError> {
        let to = to.trim_end_matches('/');
        let (mut sources, mut taken) = (BTreeSet::new(), TakenPaths::default());
        let mut images = Vec::new();
        for list in lists {
            let places = MirrorPaths::of(list);
            for image in &list.images {
                let (name, path) = (image.name(), places.path(image));
                taken.take(&path, image)?;
                let namespace = name.rsplit_once('/').map(|(namespace, _)| namespace);
                let namespace = namespace.filter(|namespace| {
                    // Not the whole registry.
                    *namespace != image.registry && !places.is_apart(image)
                });
                sources.insert(namespace.unwrap_or(&name).to_owned());
                images.push((image, name, path));
            }
        }
        let mut mirrors = Self::default();
        for (image, name, path) in &images {
            let source = longest(&sources, name);
            // A path ends as the name does.
            let rest = name.strip_prefix(source).unwrap_or_default();
            let mirror = path.strip_suffix(rest).unwrap_or(path);
            let mirrors = mirrors.of_kind(image).entry(source.to_owned()).or_default();
            mirrors.insert(format!("{to}/{mirror}"));
        }
        for (image, name, _) in &images {
            let source = longest(&sources, name);
            let rest = name.strip_prefix(source).unwrap_or_default();
            for mirror in mirrors.of_kind(image).get(source).into_iter().flatten() {
                let mirror = mirror.strip_prefix(to).unwrap_or_default();
                let path = format!("{}{rest}", mirror.trim_start_matches('/'));
                taken.check(&path, image)?;
            }
        }
        Ok(mirrors)
    }

    /// The mirrors for images of this kind of reference.
    fn of_kind(&mut self, image: &Image) -> &mut BTreeMap<String, BTreeSet<String>> {
        match image.version {
            ImageVersion::Tag(_) => &mut self.tags,
            ImageVersion::Digest(_) => &mut self.digests,
        }
    }

    /// The object of this kind; `None` if it would be empty.
    pub fn manifest(&self, kind: MirrorSet, name: &str) -> Option<Value> {
        let (api, kind, key, mirrors) = match kind {
            MirrorSet::Digests => (
                "config.openshift.io/v1",
                "ImageDigestMirrorSet",
                "imageDigestMirrors",
                &self.digests,
            ),
            MirrorSet::Tags => (
                "config.openshift.io/v1",
                "ImageTagMirrorSet",
                "imageTagMirrors",
                &self.tags,
            ),
            MirrorSet::OlderDigests => (
                "operator.openshift.io/v1alpha1",
                "ImageContentSourcePolicy",
                "repositoryDigestMirrors",
                &self.digests,
            ),
        };
        let mirrors: Vec<Value> = (mirrors.iter())
            .map(|(source, mirrors)| json!({ "mirrors": mirrors, "source": source }))
            .collect();
        (!mirrors.is_empty()).then(|| {
            json!({
                "apiVersion": api,
                "kind": kind,
                "metadata": { "name": name },
                "spec": { key: mirrors },
            })
        })
    }
}

/// The longest source that covers a name; clusters apply this one.
fn longest<'n>(sources: &BTreeSet<String>, name: &'n str) -> &'n str {
    let mut source = name;
    while !sources.contains(source) {
        match source.rsplit_once('/') {
            Some((shorter, _)) => source = shorter,
            None => return name,
        }
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::images::Form;

    fn list(specs: &[(&str, &str, bool)]) -> ImageList {
        let images = specs.iter().map(|(registry, repository, by_tag)| Image {
            registry: (*registry).to_owned(),
            repository: (*repository).to_owned(),
            version: if *by_tag {
                ImageVersion::Tag("v1".into())
            } else {
                ImageVersion::Digest("sha256:0".into())
            },
            uses: Vec::new(),
        });
        ImageList {
            images: images.collect(),
            refused: Vec::new(),
        }
    }

    #[test]
    fn mirrors_are_named_by_namespace_and_apart_for_tags_and_digests() {
        let lists = [
            list(&[("quay.io", "org/a", false), ("quay.io", "org/b", false)]),
            list(&[
                ("registry.k8s.io", "pause", true),
                ("quay.io", "org/c", true),
            ]),
        ];
        let mirrors = Mirrors::of(&lists, "mirror.example.com:5000/ops/").unwrap();
        let by_digest = mirrors.manifest(MirrorSet::Digests, "almanac").unwrap();
        assert_eq!(
            by_digest["spec"]["imageDigestMirrors"],
            json!([{ "mirrors": ["mirror.example.com:5000/ops/org"], "source": "quay.io/org" }])
        );
        let by_tag = mirrors.manifest(MirrorSet::Tags, "almanac").unwrap();
        assert_eq!(
            by_tag["spec"]["imageTagMirrors"],
            json!([
                { "mirrors": ["mirror.example.com:5000/ops/org"], "source": "quay.io/org" },
                { "mirrors": ["mirror.example.com:5000/ops/pause"], "source": "registry.k8s.io/pause" },
            ])
        );
        let icsp = mirrors
            .manifest(MirrorSet::OlderDigests, "almanac")
            .unwrap();
        assert_eq!(
            icsp["spec"]["repositoryDigestMirrors"],
            by_digest["spec"]["imageDigestMirrors"]
        );
        let none = Mirrors::of(&[], "m.example.com").unwrap();
        assert!(none.manifest(MirrorSet::Digests, "almanac").is_none());
    }

    /// Where a cluster searches an image: in the mirrors of the right kind of the
    /// longest source of all kinds.
    fn pulled_from(mirrors: &Mirrors, name: &str, by_tag: bool) -> Vec<String> {
        let fits =
            |scope: &&String| name == scope.as_str() || name.starts_with(&format!("{scope}/"));
        let scopes = mirrors.digests.keys().chain(mirrors.tags.keys());
        let scope = scopes.filter(fits).max_by_key(|scope| scope.len()).unwrap();
        let of_kind = if by_tag {
            &mirrors.tags
        } else {
            &mirrors.digests
        };
        let found = of_kind.get(scope).into_iter().flatten();
        found
            .map(|to| format!("{to}{}", &name[scope.len()..]))
            .collect()
    }

    #[test]
    fn a_mapping_brings_images_where_the_manifests_send_to() {
        let lists = [
            list(&[
                ("docker.io", "lib/x", true),
                ("docker.io", "lib/y", true),
                ("quay.io", "lib/x", true),
                ("quay.io", "lib/x", false),
                ("quay.io", "pause", true),
            ]),
            // A tag's source within one of digests.
            list(&[
                ("docker.io", "ops", false),
                ("docker.io", "ops/a", false),
                ("docker.io", "ops/a/b", true),
                ("docker.io", "ops/a/b", false),
            ]),
            // The other way round.
            list(&[
                ("docker.io", "ops/a", true),
                ("docker.io", "ops/a/b", false),
                ("docker.io", "ops/a/b/c", true),
            ]),
        ];
        for list in &lists {
            let mapping = Form::Mapping.write(list, Some("m.example.com/ops"));
            let mapping = String::from_utf8(mapping.unwrap()).unwrap();
            let mirrors = Mirrors::of([list], "m.example.com/ops").unwrap();
            let mut places = BTreeSet::new();
            for line in mapping.lines() {
                let (source, destination) = line.split_once('=').unwrap();
                let (by_tag, name) = match source.split_once('@') {
                    Some((name, _)) => (false, name),
                    None => (true, source.rsplit_once(':').unwrap().0),
                };
                let sent = pulled_from(&mirrors, name, by_tag);
                assert_eq!(sent, [destination.rsplit_once(':').unwrap().0], "{line}");
                assert!(places.insert(destination.to_owned()), "{destination}");
            }
        }
    }

    #[test]
    fn a_source_whose_images_lie_in_two_places_has_both_mirrors() {
        let mut second = list(&[("docker.io", "lib/x", true)]);
        second.images[0].version = ImageVersion::Tag("v2".into());
        let lists = [
            list(&[("docker.io", "lib/x", true), ("quay.io", "lib/x", true)]),
            second,
        ];
        let mirrors = Mirrors::of(&lists, "m.example.com").unwrap();
        assert_eq!(
            pulled_from(&mirrors, "docker.io/lib/x", true),
            ["m.example.com/docker.io/lib/x", "m.example.com/lib/x"]
        );
        assert_eq!(
            pulled_from(&mirrors, "quay.io/lib/x", true),
            ["m.example.com/quay.io/lib/x"]
        );
    }

    #[test]
    fn no_image_is_looked_for_where_another_lies() {
        let mut third = list(&[("docker.io", "lib/x", true)]);
        third.images[0].version = ImageVersion::Tag("v2".into());
        // The second brings to lib/x:v1 another image than docker.io's of that tag.
        let lists = [
            list(&[("docker.io", "lib/x", true), ("quay.io", "lib/x", true)]),
            list(&[("quay.io", "lib/x", true)]),
            third,
        ];
        assert!(Mirrors::of(&lists[..2], "m.example.com").is_ok());
        let error = Mirrors::of(&lists, "m.example.com").unwrap_err();
        assert!(error.to_string().contains("quay.io/lib/x:v1"), "{error}");
    }

    #[test]
    fn two_catalogs_with_two_images_for_one_place_are_refused() {
        let lists = [
            list(&[("docker.io", "lib/x", true)]),
            list(&[("quay.io", "lib/x", true)]),
        ];
        let error = Mirrors::of(&lists, "m.example.com")
            .unwrap_err()
            .to_string();
        for name in ["docker.io/lib/x:v1", "quay.io/lib/x:v1"] {
            assert!(error.contains(name), "{error}");
        }
    }
}
