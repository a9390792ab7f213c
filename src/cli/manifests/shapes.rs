//! The manifests, as objects. They have no dates and no versions: what changes
//! in them is what changed in the catalogs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::fbc::images::{FormError, ImageList, ImageVersion, Places, Taken};
use crate::name::CatalogName;

/// The port that the gRPC API of a catalog has in a cluster; the console knows
/// no other.
const PORT: u16 = 50051;

/// How a `CatalogSource` gets at its catalog.
pub(super) enum Way<'a> {
    /// It asks almanac, by the Service of the same name.
    Address,
    /// It runs the image, which is below this host and path.
    Image(&'a str),
}

/// The name of a catalog in Services and `CatalogSource`s, which have no dots.
pub(super) fn label(name: &CatalogName) -> String {
    name.as_str().replace('.', "-")
}

/// The image of a catalog below a host and path.
fn image(host: &str, name: &CatalogName) -> String {
    format!("{}/{name}:latest", host.trim_end_matches('/'))
}

/// OLM v0's object for a catalog.
pub(super) fn catalog_source(name: &CatalogName, namespace: &str, way: &Way<'_>) -> Value {
    let label = label(name);
    let spec = match way {
        Way::Address => json!({
            "address": format!("{label}.{namespace}.svc:{PORT}"),
            "displayName": name.as_str(),
            "sourceType": "grpc",
        }),
        Way::Image(host) => json!({
            "displayName": name.as_str(),
            "grpcPodConfig": {
                "extractContent": { "catalogDir": "/configs" },
                "securityContextConfig": "restricted",
            },
            "image": image(host, name),
            "sourceType": "grpc",
            "updateStrategy": { "registryPoll": { "interval": "15m" } },
        }),
    };
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": { "name": label, "namespace": namespace },
        "spec": spec,
    })
}

/// OLM v1's object for a catalog.
pub(super) fn cluster_catalog(name: &CatalogName, host: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": { "name": name.as_str() },
        "spec": {
            "priority": 0,
            "source": {
                "image": { "pollIntervalMinutes": 15, "ref": image(host, name) },
                "type": "Image",
            },
        },
    })
}

/// Where images are to be looked for that came from elsewhere.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    /// Sources of images by digest, and where their mirror is.
    digests: BTreeMap<String, BTreeSet<String>>,
    /// The same of images by tag.
    tags: BTreeMap<String, BTreeSet<String>>,
}

impl Mirrors {
    /// The mirrors of lists below a host and path, where images keep the path
    /// that they have. So whole namespaces can be named; a repository without
    /// one is named itself, and one that lies apart from the others too, which
    /// counts more, being longer.
    ///
    /// # Errors
    /// When an image of one list lies where another one of another list does.
    pub(super) fn of<'a>(
        lists: impl IntoIterator<Item = &'a ImageList>,
        to: &str,
    ) -> Result<Self, FormError> {
        let to = to.trim_end_matches('/');
        let (mut mirrors, mut taken) = (Self::default(), Taken::default());
        for list in lists {
            let places = Places::of(list);
            for image in &list.images {
                let path = places.path(image);
                taken.take(&path, image)?;
                let repository = image.repository.as_str();
                let (source, mirror) = if places.is_apart(image) {
                    (repository, path.as_str())
                } else {
                    let namespace = repository.rsplit_once('/');
                    let scope = namespace.map_or(repository, |(namespace, _)| namespace);
                    (scope, scope)
                };
                let set = match image.version {
                    ImageVersion::Tag(_) => &mut mirrors.tags,
                    ImageVersion::Digest(_) => &mut mirrors.digests,
                };
                set.entry(format!("{}/{source}", image.registry))
                    .or_default()
                    .insert(format!("{to}/{mirror}"));
            }
        }
        Ok(mirrors)
    }

    /// An `ImageDigestMirrorSet`; none when there is nothing in it.
    pub(super) fn idms(&self, name: &str) -> Option<Value> {
        set(
            "config.openshift.io/v1",
            "ImageDigestMirrorSet",
            "imageDigestMirrors",
            name,
            &self.digests,
        )
    }

    /// An `ImageTagMirrorSet`; none when there is nothing in it.
    pub(super) fn itms(&self, name: &str) -> Option<Value> {
        set(
            "config.openshift.io/v1",
            "ImageTagMirrorSet",
            "imageTagMirrors",
            name,
            &self.tags,
        )
    }

    /// An `ImageContentSourcePolicy`, which came before those two and knows
    /// digests only.
    pub(super) fn icsp(&self, name: &str) -> Option<Value> {
        set(
            "operator.openshift.io/v1alpha1",
            "ImageContentSourcePolicy",
            "repositoryDigestMirrors",
            name,
            &self.digests,
        )
    }
}

fn set(
    version: &str,
    kind: &str,
    key: &str,
    name: &str,
    mirrors: &BTreeMap<String, BTreeSet<String>>,
) -> Option<Value> {
    let mirrors: Vec<Value> = (mirrors.iter())
        .map(|(source, mirrors)| json!({ "mirrors": mirrors, "source": source }))
        .collect();
    (!mirrors.is_empty()).then(|| {
        json!({
            "apiVersion": version,
            "kind": kind,
            "metadata": { "name": name },
            "spec": { key: mirrors },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fbc::images::{Form, Image};

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
        let by_digest = mirrors.idms("almanac").unwrap();
        assert_eq!(
            by_digest["spec"]["imageDigestMirrors"],
            json!([{ "mirrors": ["mirror.example.com:5000/ops/org"], "source": "quay.io/org" }])
        );
        let by_tag = mirrors.itms("almanac").unwrap();
        assert_eq!(
            by_tag["spec"]["imageTagMirrors"],
            json!([
                { "mirrors": ["mirror.example.com:5000/ops/org"], "source": "quay.io/org" },
                { "mirrors": ["mirror.example.com:5000/ops/pause"], "source": "registry.k8s.io/pause" },
            ])
        );
        let icsp = mirrors.icsp("almanac").unwrap();
        assert_eq!(
            icsp["spec"]["repositoryDigestMirrors"],
            by_digest["spec"]["imageDigestMirrors"]
        );
        let none = Mirrors::of(&[], "m.example.com").unwrap();
        assert!(none.idms("almanac").is_none());
    }

    #[test]
    fn a_mapping_brings_images_where_the_manifests_send_to() {
        let list = list(&[
            ("docker.io", "lib/x", true),
            ("docker.io", "lib/y", true),
            ("quay.io", "lib/x", true),
            ("quay.io", "lib/x", false),
            ("quay.io", "pause", true),
        ]);
        let mapping = Form::Mapping
            .write(&list, Some("m.example.com/ops"))
            .unwrap();
        let mirrors = Mirrors::of([&list], "m.example.com/ops").unwrap();
        let mut places = BTreeSet::new();
        for line in String::from_utf8(mapping).unwrap().lines() {
            let (source, destination) = line.split_once('=').unwrap();
            let (scopes, name) = match source.split_once('@') {
                Some((name, _)) => (&mirrors.digests, name),
                None => (&mirrors.tags, source.rsplit_once(':').unwrap().0),
            };
            // As clusters do: the longest source counts.
            let fits =
                |scope: &&String| name == scope.as_str() || name.starts_with(&format!("{scope}/"));
            let scope = scopes
                .keys()
                .filter(fits)
                .max_by_key(|scope| scope.len())
                .unwrap();
            let sent = &name[scope.len()..];
            let sent: Vec<_> = scopes[scope]
                .iter()
                .map(|to| format!("{to}{sent}"))
                .collect();
            assert_eq!(sent, [destination.rsplit_once(':').unwrap().0]);
            assert!(places.insert(destination.to_owned()), "{destination}");
        }
        assert_eq!(mirrors.tags["docker.io/lib/x"].len(), 1);
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

    #[test]
    fn names_are_those_of_the_catalog_and_never_of_its_tag() {
        let name: CatalogName = "community-v4.20".parse().unwrap();
        let source = catalog_source(&name, "olm", &Way::Address);
        assert_eq!(source["metadata"]["name"], "community-v4-20");
        assert_eq!(source["spec"]["address"], "community-v4-20.olm.svc:50051");
        let source = catalog_source(&name, "olm", &Way::Image("almanac.example.com/"));
        assert_eq!(
            source["spec"]["image"],
            "almanac.example.com/community-v4.20:latest"
        );
        assert!(source["spec"]["address"].is_null());
        let catalog = cluster_catalog(&name, "almanac.example.com");
        assert_eq!(catalog["metadata"]["name"], "community-v4.20");
        assert_eq!(
            catalog["spec"]["source"]["image"]["ref"],
            "almanac.example.com/community-v4.20:latest"
        );
    }
}
