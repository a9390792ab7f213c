//! The manifests, as objects. They have no dates and no versions: what changes
//! in them is what changed in the catalogs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::fbc::images::{ImageList, ImageVersion};
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
    digests: BTreeMap<String, String>,
    /// The same of images by tag.
    tags: BTreeMap<String, String>,
}

impl Mirrors {
    /// The mirrors of lists below a host and path, where images keep the path
    /// that they have. So whole namespaces can be named; a repository without
    /// one is named itself.
    pub(super) fn of<'a>(lists: impl IntoIterator<Item = &'a ImageList>, to: &str) -> Self {
        let to = to.trim_end_matches('/');
        let mut mirrors = Self::default();
        let images: BTreeSet<_> = lists
            .into_iter()
            .flat_map(|list| &list.images)
            .map(|image| {
                let by_tag = matches!(image.version, ImageVersion::Tag(_));
                (&image.registry, &image.repository, by_tag)
            })
            .collect();
        for (registry, repository, by_tag) in images {
            let scope = repository
                .rsplit_once('/')
                .map_or(repository.as_str(), |(namespace, _)| namespace);
            let set = if by_tag {
                &mut mirrors.tags
            } else {
                &mut mirrors.digests
            };
            set.insert(format!("{registry}/{scope}"), format!("{to}/{scope}"));
        }
        mirrors
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
    mirrors: &BTreeMap<String, String>,
) -> Option<Value> {
    let mirrors: Vec<Value> = (mirrors.iter())
        .map(|(source, mirror)| json!({ "mirrors": [mirror], "source": source }))
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
    use crate::fbc::images::Image;

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
        let mirrors = Mirrors::of(&lists, "mirror.example.com:5000/ops/");
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
        assert!(Mirrors::of(&[], "m.example.com").idms("almanac").is_none());
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
