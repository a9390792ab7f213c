//! The manifests, as objects. They have no dates and versions, so that they change
//! only with the catalogs.

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::name::CatalogName;

/// The port of a catalog's gRPC API in a cluster; the console expects it.
pub(super) const PORT: u16 = 50051;

/// A kind of manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// For OLM v0
    CatalogSource,
    /// Of each CatalogSource with an address
    Service,
    /// For almanac and for pods that unpack bundles
    NetworkPolicy,
    /// For OLM v1; needs --catalog-host
    ClusterCatalog,
    /// Mirrors of images by digest; needs --mirror
    Idms,
    /// Mirrors of images by tag; needs --mirror
    Itms,
    /// The predecessor of idms, for OpenShift up to 4.12; needs --mirror
    Icsp,
}

/// How a `CatalogSource` reaches its catalog.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// Through the Service of almanac with the same name.
    Address,
    /// Through a pod that runs the image.
    Image {
        /// The host and path above the image.
        host: &'a str,
        /// Whether the pod extracts the catalog folder, which every slim image
        /// has in one place. Other images serve themselves.
        extract: bool,
    },
}

/// The image of a catalog below a host and path.
fn image(host: &str, name: &CatalogName) -> String {
    format!("{}/{name}:latest", host.trim_end_matches('/'))
}

/// Fields of a `CatalogSource` for people.
#[derive(Clone, Copy, Default)]
pub(super) struct Presentation<'a> {
    /// The name of the catalog, unless this is there.
    pub(super) display_name: Option<&'a str>,
    pub(super) publisher: Option<&'a str>,
}

/// OLM v0's object for a catalog.
pub(super) fn catalog_source(
    name: &CatalogName,
    namespace: &str,
    way: Way<'_>,
    shown: Presentation<'_>,
) -> Value {
    let label = name.service_name();
    let display_name = shown.display_name.unwrap_or(name.as_str());
    let mut spec = match way {
        Way::Address => json!({
            "address": format!("{label}.{namespace}.svc:{PORT}"),
            "displayName": display_name,
            "sourceType": "grpc",
        }),
        Way::Image { host, extract } => {
            let mut pod = json!({ "securityContextConfig": "restricted" });
            if extract {
                pod["extractContent"] = json!({ "catalogDir": "/configs" });
            }
            json!({
                "displayName": display_name,
                "grpcPodConfig": pod,
                "image": image(host, name),
                "sourceType": "grpc",
                "updateStrategy": { "registryPoll": { "interval": "15m" } },
            })
        }
    };
    if let Some(publisher) = shown.publisher {
        spec["publisher"] = publisher.into();
    }
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
        "metadata": { "name": name.cluster_catalog_name() },
        "spec": {
            "priority": 0,
            "source": {
                "image": { "pollIntervalMinutes": 10, "ref": image(host, name) },
                "type": "Image",
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_catalog_and_never_of_its_tag() {
        let name: CatalogName = "community-v4.20".parse().unwrap();
        let shown = Presentation::default();
        let source = catalog_source(&name, "olm", Way::Address, shown);
        assert_eq!(source["metadata"]["name"], "community-v4-20");
        assert_eq!(source["spec"]["address"], "community-v4-20.olm.svc:50051");
        let way = |extract| Way::Image {
            host: "almanac.example.com/",
            extract,
        };
        let source = catalog_source(&name, "olm", way(false), shown);
        assert!(source["spec"]["grpcPodConfig"]["extractContent"].is_null());
        let source = catalog_source(&name, "olm", way(true), shown);
        assert_eq!(
            source["spec"]["grpcPodConfig"]["extractContent"]["catalogDir"],
            "/configs"
        );
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
